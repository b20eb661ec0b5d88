"""/v1/interactions: what people did, as the platform brings it."""

from typing import Annotated

from fastapi import Query
from fastapi.responses import Response

from assent.service import entries, interactions
from assent.service.access import Caller, KeyFor
from assent.service.interactions import NewInteraction
from assent.service.routes.repeat import Answering, Once, api_router, as_json
from assent.service.schemas import (
    AddedOut,
    DeletedOut,
    DeletionIn,
    InteractionIn,
    InteractionsIn,
    InteractionsOut,
)
from assent.service.texts import Texts
from assent.service.wire import Category, Cursor, ItemId, Limit, UserId, moment

router = api_router("interactions")
Platform = Annotated[Caller, KeyFor("interactions")]
_TEXTS = Texts()


@router.post("/interactions", status_code=201, response_model=AddedOut)
def add_one(caller: Platform, once: Answering, body: InteractionIn) -> Response:
    """Add an interaction.

    Of one that is known, what is given of its unwillingness and of its item's title and categories replaces
    what was there; its time stays. Other categories undo nobody's wish.
    """
    return _add(caller, once, [body], user=body.user)


@router.post("/interactions/bulk", status_code=201, response_model=AddedOut)
def add_many(caller: Platform, once: Answering, body: InteractionsIn) -> Response:
    """Add up to 10,000 interactions: all of them, or none if one is refused. Known ones: as one by one."""
    return _add(caller, once, body.interactions)


def _add(caller: Caller, once: Once, rows: list[InteractionIn], user: str | None = None) -> Response:
    new = [
        NewInteraction(
            user=row.user,
            item=row.item,
            at=row.time.timestamp(),
            title=row.title,
            categories=row.categories,
            unwillingness=row.unwillingness,
        )
        for row in rows
    ]
    with caller.service.database.writing() as session:
        found = interactions.add(session, new)
        return once.answer(session, found, user=user)


@router.get("/interactions", response_model=InteractionsOut)
def list_some(
    caller: Platform,
    user: Annotated[UserId, Query()],
    category: Annotated[Category | None, Query()] = None,
    cursor: Annotated[Cursor, Query()] = None,
    limit: Annotated[Limit, Query()] = 50,
) -> Response:
    """List a person's interactions, latest first."""
    settings = caller.service.settings
    with caller.service.database.reading() as session:
        found = entries.page(session, settings, user, category=category, cursor=cursor, limit=limit)
    rows = [
        {
            "item": row.item,
            "title": row.title,
            "categories": row.categories,
            "time": moment(row.at),
            "unwillingness": row.unwillingness,
            "because": {
                "source": row.source,
                "category": row.source_target,
                "said": moment(row.said),
                "explained": _TEXTS.source(row, settings.controller.name),
            },
            "state": row.state,
        }
        for row in found.rows
    ]
    return as_json({"interactions": rows, "next": found.next})


@router.delete("/interactions", status_code=204)
def delete_one(
    caller: Platform, once: Answering, user: Annotated[UserId, Query()], item: Annotated[ItemId, Query()]
) -> Response:
    """Delete an interaction: the next model is trained without it."""
    with caller.service.database.writing() as session:
        interactions.delete(session, user, item)
        return once.answer(session, user=user)


@router.post("/interactions/delete/bulk", response_model=DeletedOut)
def delete_many(caller: Platform, once: Answering, body: DeletionIn) -> Response:
    """Delete up to 10,000 interactions: the next model is trained without them."""
    pairs = [(each.user, each.item) for each in body.interactions]
    with caller.service.database.writing() as session:
        deleted = interactions.delete_many(session, pairs)
        return once.answer(session, DeletedOut(deleted=deleted, unknown=len(set(pairs)) - deleted))


@router.delete("/people", status_code=204)
def erase(caller: Platform, once: Answering, user: Annotated[UserId, Query()]) -> Response:
    """Delete all that is known of a person: interactions, wishes, decisions, receipts, kept answers."""
    with caller.service.database.writing() as session:
        interactions.erase(session, user)
        return once.answer(session)
