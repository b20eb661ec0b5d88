"""/v1/decisions and /v1/recommendations: what the model in service did with what is known, and its lists."""

from typing import Annotated, Any

from fastapi import Query
from fastapi.responses import Response

from assent.service import entries, models
from assent.service.access import Caller, KeyFor
from assent.service.entries import Row
from assent.service.routes.repeat import api_router, as_json
from assent.service.schemas import (
    DecisionOut,
    DecisionsOut,
    ExplanationOut,
    PreviewIn,
    PreviewOut,
    RecommendationsOut,
)
from assent.service.texts import Texts
from assent.service.wire import Cursor, ItemId, Limit, UserId
from assent.service.wishes import Said

router = api_router("decisions and recommendations")
Deciding = Annotated[Caller, KeyFor("decisions")]
Recommending = Annotated[Caller, KeyFor("recommendations")]
_TEXTS = Texts()


@router.get("/decisions")
def list_some(
    caller: Deciding,
    user: Annotated[UserId, Query()],
    cursor: Annotated[Cursor, Query()] = None,
    limit: Annotated[Limit, Query()] = 50,
) -> DecisionsOut:
    """List what the model in service used of a person's interactions, what not, and why."""
    settings = caller.service.settings
    with caller.service.database.reading() as session:
        model = models.in_service(session)
        found = entries.page(session, settings, user, cursor=cursor, limit=limit)
    decisions = [DecisionOut(**_decision(row)) for row in found.rows]
    return DecisionsOut(model=model.id if model else None, decisions=decisions, next=found.next)


@router.get("/decisions/explain")
def explain(
    caller: Deciding, user: Annotated[UserId, Query()], item: Annotated[ItemId, Query()]
) -> ExplanationOut:
    """Say why one interaction is used or not, with the figures that decided."""
    with caller.service.database.reading() as session:
        row = entries.one(session, caller.service.settings, user, item)
        model = models.in_service(session)
    return ExplanationOut(
        **_decision(row),
        value=row.value,
        cost=row.cost,
        price=None if row.value is None or model is None else model.facts["price"],
        break_even=row.break_even,
        worth_owner=row.worth_owner,
        worth_everybody=row.worth_everybody,
        together=row.together,
    )


def _decision(row: Row) -> dict[str, Any]:
    return {
        "item": row.item,
        "title": row.title,
        "state": row.state,
        "unwillingness": row.decided_unwillingness,
        "reason": row.reason,
        "explained": _TEXTS.why(row),
    }


@router.get("/recommendations", response_model=RecommendationsOut)
def recommend(
    caller: Recommending,
    user: Annotated[UserId, Query()],
    k: Annotated[int, Query(ge=1, le=100)] = 10,
) -> Response:
    """Recommend items to a person, from what they disclose now. What they have had is not shown."""
    with caller.service.database.reading() as session:
        return as_json(caller.service.server.recommend(session, user, k))


@router.post("/recommendations/preview", response_model=PreviewOut)
def preview(caller: Recommending, body: PreviewIn) -> Response:
    """Say what a person's list would become if they said this. Nothing is stored."""
    said = Said(body.wish.scope, body.wish.target, body.wish.unwillingness)
    with caller.service.database.reading() as session:
        found = caller.service.server.preview(session, body.user, [said], body.k)
    return as_json({"now": found.now, "then": found.then, "untold": found.untold})
