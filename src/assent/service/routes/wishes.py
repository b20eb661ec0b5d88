"""/v1/wishes: what people say of an item, of a category, of everything; what follows for each interaction."""

import asyncio
from typing import Annotated

from fastapi import Query
from fastapi.responses import Response
from sqlalchemy.orm import Session

from assent.service import entries, wishes
from assent.service.access import Caller, KeyFor
from assent.service.routes.repeat import Answering, Once, api_router
from assent.service.schemas import (
    EffectiveOut,
    HistoryOut,
    PastOut,
    PersonIn,
    RecordedAllOut,
    StandingOut,
    StandingsOut,
    WishesIn,
    source_of,
)
from assent.service.texts import Texts
from assent.service.wire import Cursor, ItemId, Limit, UserId
from assent.service.wishes import WITHDRAW_EVERYTHING, Recorded, Said

router = api_router("wishes")
Platform = Annotated[Caller, KeyFor("wishes")]
_TEXTS = Texts()


@router.put("/wishes", response_model=RecordedAllOut)
async def say(caller: Platform, once: Answering, body: WishesIn) -> Response:
    """Store what a person says, and answer with receipts once it is durable. All of it, or nothing."""
    said = [Said(each.scope, each.target, each.unwillingness) for each in body.wishes]
    return await _record(caller, once, body.user, said)


@router.post("/wishes/withdraw", response_model=RecordedAllOut)
async def withdraw(caller: Platform, once: Answering, body: PersonIn) -> Response:
    """Withdraw everything of a person: never, for all that is known and all that comes."""
    return await _record(caller, once, body.user, [WITHDRAW_EVERYTHING])


async def _record(caller: Caller, once: Once, user: str, said: list[Said]) -> Response:
    def keep(session: Session, recorded: list[Recorded]) -> None:
        once.answer(session, {"wishes": recorded}, user=user)

    done = caller.service.recorder.submit(user, said, None if once.claim is None else keep)
    return once.response({"wishes": await asyncio.wrap_future(done)})


@router.get("/wishes")
def list_standing(caller: Platform, user: Annotated[UserId, Query()]) -> StandingsOut:
    """List a person's wishes in force."""
    with caller.service.database.reading() as session:
        found = wishes.standing(session, user)
    return StandingsOut(wishes=[StandingOut.of(each) for each in found])


@router.get("/wishes/effective")
def explain(
    caller: Platform, user: Annotated[UserId, Query()], item: Annotated[ItemId, Query()]
) -> EffectiveOut:
    """Say what is in force for one interaction, and who said so."""
    settings = caller.service.settings
    with caller.service.database.reading() as session:
        row = entries.one(session, settings, user, item)
    because = source_of(row, _TEXTS.source(row, settings.controller.name))
    return EffectiveOut(user=user, item=item, unwillingness=row.unwillingness, because=because)


@router.get("/wishes/history")
def history(
    caller: Platform,
    user: Annotated[UserId, Query()],
    cursor: Annotated[Cursor, Query()] = None,
    limit: Annotated[Limit, Query()] = 50,
) -> HistoryOut:
    """List all that a person said, and when each wish was stored, decided, trained for and served."""
    with caller.service.database.reading() as session:
        found = wishes.history(session, user, cursor=cursor, limit=limit)
    return HistoryOut(wishes=[PastOut.of(each) for each in found.wishes], next=found.next)
