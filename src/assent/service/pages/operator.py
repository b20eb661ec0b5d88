"""The operator's pages: counts and figures, no rows of people; start a training, publish, roll back."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Annotated, Any, Final

from fastapi import APIRouter
from fastapi.responses import Response
from markupsafe import Markup

from assent.results.words import MINUS
from assent.service import jobs, ledger, models, people, wishes
from assent.service.access import Door, VisitOf, text_of
from assent.service.database import ConflictError
from assent.service.models import ModelView
from assent.service.pages.drawing import Axis, Point, axis_of, chart
from assent.service.pages.render import address, draw, go, texts_of
from assent.service.routes.receipts import ledger_response
from assent.service.security import OPERATOR, Visitor
from assent.service.texts import Texts
from assent.support.errors import AssentError

router = APIRouter(prefix="/operator", include_in_schema=False)
Operator = Annotated[Door, VisitOf(OPERATOR)]
DAYS: Final = 30
_SHOWN: Final = 50
_COUNTS: Final = {
    "people": "people",
    "interactions": "interactions",
    "wishes": "wishes",
    "wishes_never": "wishes_never",
    "wishes_open": "open",
    "receipts": "receipts",
}
"""Counts of the database, with their texts."""
_MOST: Final = 2**53


@router.get("")
def overview(door: Operator) -> Response:
    """Counts, the model in service, the time to honour, the queue."""
    texts = texts_of(door.request)
    with door.reading() as (session, visitor):
        totals = people.totals(session)
        honoured = wishes.times_to_honour(session, days=DAYS)
        queue = jobs.counts(session)
        model = models.in_service(session)
    times = [
        {
            "state": texts({"trained": "operator.trained_for"}.get(each.state, f"operator.{each.state}")),
            "count": texts.number(each.count),
            "median": texts.duration(each.median),
            "worst": texts.duration(each.worst),
            "waiting": texts.number(each.waiting),
        }
        for each in honoured
    ]
    return draw(
        door.request,
        "operator.html",
        visitor=visitor,
        counts=[(texts(f"operator.{key}"), texts.number(totals[name])) for name, key in _COUNTS.items()],
        times=times,
        queue={state: texts.number(queue.get(state, 0)) for state in ("queued", "running", "done", "failed")},
        failed=queue.get("failed", 0),
        model=None if model is None else _model(texts, model),
    )


@router.get("/models")
def list_models(door: Operator) -> Response:
    """All models, with violation and quality over them."""
    return _models(door)


def _models(door: Door, refused: str | None = None) -> Response:
    """Return the page of all models; `refused` says why what was asked for was not done."""
    texts, cursor = texts_of(door.request), _number(door.request.query_params.get("cursor"))
    settings = door.service.settings
    with door.reading() as (session, visitor):
        found, after = models.page(session, cursor=cursor, limit=_SHOWN)
        before = models.previous(session)
        others = [each.id for each in found if not each.in_service]
        asked = others if before is None else {*others, before}
        why_not = {id: models.why_not(session, settings, id) for id in asked}
    over = list(reversed(found))
    violation = [Point(each.id, share * 100) for each in over if (share := _share(each)) is not None]
    quality = [
        Point(each.id, reached["mean"], reached.get("low"), reached.get("high"))
        for each in over
        if (reached := _reached(each)) is not None
    ]
    return draw(
        door.request,
        "models.html",
        visitor=visitor,
        status=200 if refused is None else 409,
        refused=refused,
        models=[{**_model(texts, each), "why_not": why_not.get(each.id)} for each in found],
        back=None if before is None else {"why_not": why_not[before]},
        violation=_over(texts("models.violation"), texts("models.id"), violation, percent=True),
        quality=_over(texts("models.quality"), texts("models.id"), quality),
        first=address(door.request, "/operator/models") if cursor is not None else None,
        next=address(door.request, "/operator/models", cursor=str(after)) if after is not None else None,
    )


@router.post("/models/publish")
def publish(door: Operator) -> Response:
    """Put a model into service."""
    model = _number(text_of(door.posted, "model"))
    if model is None:
        raise AssentError("model: accepted: the number of a model")
    try:
        with door.writing() as (session, visitor):
            models.publish(session, door.service.settings, model, by=_by(visitor))
    except ConflictError as refusal:
        return _models(door, str(refusal))
    return go(door.request, "/operator/models", said="published")


@router.post("/models/roll-back")
def roll_back(door: Operator) -> Response:
    """Put the model into service that was there before."""
    try:
        with door.writing() as (session, visitor):
            models.roll_back(session, door.service.settings, by=_by(visitor))
    except ConflictError as refusal:
        return _models(door, str(refusal))
    return go(door.request, "/operator/models", said="published")


@router.get("/frontier")
def frontier(door: Operator) -> Response:
    """Quality against violation as the run measured them, and what moving the operating point would do."""
    texts = texts_of(door.request)
    with door.reading() as (session, visitor):
        model = models.in_service(session)
    here = None if model is None else _operating_point(model)
    if model is None or here is None:
        return draw(door.request, "frontier.html", visitor=visitor, picture=None, rows=[])
    points = _frontier(model, here)
    lines = [point for _, point in points]
    x = axis_of(texts("frontier.axis.x"), [0.0, *(point.x for point in (*lines, here))], percent=True)
    highest = [point.high if point.high is not None else point.y for point in (*lines, here)]
    picture = chart(
        texts("frontier.picture"),
        [*lines, here],
        x,
        axis_of(texts("frontier.axis.y"), [0.0, *highest]),
        here=here,
        here_label=texts("frontier.here"),
    )
    rows = [_moving(texts, name, point, here) for name, point in points]
    return draw(door.request, "frontier.html", visitor=visitor, picture=picture, rows=rows)


@router.get("/jobs")
def list_jobs(door: Operator) -> Response:
    """The queue and what failed."""
    texts, cursor = texts_of(door.request), _number(door.request.query_params.get("cursor"))
    with door.reading() as (session, visitor):
        found, after = jobs.page(session, cursor=cursor, limit=_SHOWN)
    rows = [
        {
            "id": each.id,
            "kind": each.kind,
            "state": each.state,
            "state_word": texts(f"jobs.state.{each.state}"),
            "created": each.created,
            "took": texts.duration(each.finished - each.started if each.finished and each.started else None),
            "attempts": f"{each.attempts} / {each.most_attempts}",
            "happened": each.error or each.progress or "",
        }
        for each in found
    ]
    return draw(
        door.request,
        "jobs.html",
        visitor=visitor,
        rows=rows,
        first=address(door.request, "/operator/jobs") if cursor is not None else None,
        next=address(door.request, "/operator/jobs", cursor=str(after)) if after is not None else None,
    )


@router.post("/jobs")
def start(door: Operator) -> Response:
    """Ask for a training or an update."""
    with door.writing() as (session, visitor):
        kind = text_of(door.posted, "kind")
        if kind not in ("train", "update"):
            raise AssentError("kind: accepted: train, update")
        jobs.enqueue(session, "train" if kind == "train" else "update", by=_by(visitor))
    return go(door.request, "/operator/jobs", said="started")


@router.get("/audit")
def audit(door: Operator) -> Response:
    """The heads of the ledger, and its events."""
    query = door.request.query_params
    cursor, event = _number(query.get("cursor")), _number(query.get("event"))
    with door.reading() as (session, visitor):
        heads, after = ledger.heads(session, cursor=cursor, limit=10)
        events, after_event = ledger.entries(session, cursor=event, limit=20)
    shown = {
        "cursor": None if cursor is None else str(cursor),
        "event": None if event is None else str(event),
    }
    here = "/operator/audit"
    return draw(
        door.request,
        "audit.html",
        visitor=visitor,
        heads=[
            {"number": each.number, "count": each.count, "at": _second(each.at), "head": each.head}
            for each in heads
        ],
        events=[
            {
                "number": each.number,
                "at": _second(each.at),
                "event": each.event,
                "facts": ", ".join(f"{name}: {_short(value)}" for name, value in each.facts.items()),
            }
            for each in events
        ],
        first=address(door.request, here, event=shown["event"]) if cursor is not None else None,
        next=address(door.request, here, event=shown["event"], cursor=str(after))
        if after is not None
        else None,
        first_event=address(door.request, here, cursor=shown["cursor"]) if event is not None else None,
        next_event=address(door.request, here, cursor=shown["cursor"], event=str(after_event))
        if after_event is not None
        else None,
        download=address(door.request, f"{here}/ledger.jsonl"),
    )


@router.get("/audit/ledger.jsonl")
def whole_ledger(door: Operator) -> Response:
    """The whole ledger, for `assent verify`."""
    with door.reading():
        pass  # whoever asks is the operator
    return ledger_response(door.service)


def _by(visitor: Visitor) -> str:
    return f"operator with key {visitor.key_id}" if visitor.key_id else "operator of the demo"


def _number(text: str | None) -> int | None:
    """Return a whole number that a query or form has; None for all else."""
    if not text or not text.isascii() or not text.isdigit() or len(text) > 16 or int(text) > _MOST:
        return None
    return int(text)


def _short(value: object) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= 60 else f"{text[:16]}…"


def _second(at: str) -> str:
    """Return a time of the ledger to the second."""
    return f"{at[:10]} {at[11:19]}"


def _share(model: ModelView) -> float | None:
    share = model.facts.get("violation_share")
    return None if share is None else float(share)


def _reached(model: ModelView) -> Mapping[str, float] | None:
    quality = model.facts.get("quality") or {}
    found: Mapping[str, float] | None = quality.get("reached")
    return found


def _operating_point(model: ModelView) -> Point | None:
    share, reached = _share(model), _reached(model)
    if share is None or reached is None:
        return None
    return Point(share * 100, reached["mean"], reached.get("low"), reached.get("high"))


def _frontier(model: ModelView, here: Point) -> list[tuple[str, Point]]:
    """Return what the run measured beside the operating point, with its name, in the order of violation.

    Budgets of the run's own method: means over seeds, and how far seeds are apart. A model of nothing, and
    one of everything where the run measured it, are known by the differences that the run kept.
    """
    quality = model.facts["quality"]
    points = [("nothing", Point(0.0, max(0.0, here.y - quality["above_nothing"]["mean"])))]
    if quality.get("kept"):
        points.append(("all", Point(100.0, here.y / quality["kept"]["mean"])))
    measured: dict[float, list[Mapping[str, Any]]] = defaultdict(list)
    for record in model.facts.get("frontier") or ():
        if record.get("method") == model.facts.get("method") and record.get("point") is not None:
            measured[float(record["point"])].append(record)
    for records in measured.values():
        ndcg = [float(record["ndcg"]) for record in records]
        shares = [float(record["violation_share"]) for record in records]
        spread = (min(ndcg), max(ndcg)) if len(ndcg) > 1 else (None, None)
        points.append(("point", Point(fmean(shares) * 100, fmean(ndcg), *spread)))
    return sorted(points, key=lambda named: named[1].x)


def _moving(texts: Texts, name: str, point: Point, here: Point) -> dict[str, str]:
    moving = "–"
    if here.y > 0:
        moving = texts(
            "frontier.move",
            quality=f"{(point.y / here.y - 1) * 100:+.1f} %".replace("-", MINUS),
            violation=f"{point.x - here.x:+.1f}".replace("-", MINUS),
        )
    return {
        "what": texts(f"frontier.{name}"),
        "violation": f"{point.x:.1f} %",
        "quality": f"{point.y:.4f}",
        "moving": moving,
    }


def _over(title: str, label: str, points: Sequence[Point], *, percent: bool = False) -> Markup | None:
    """Return a chart over models; None if there is nothing to compare."""
    if len(points) < 2:
        return None
    ids = [point.x for point in points]
    highest = [point.high if point.high is not None else point.y for point in points]
    return chart(
        title,
        points,
        Axis(label, min(ids) - 0.5, max(ids) + 0.5, whole=True),
        axis_of("", [0.0, *highest], percent=percent),
    )


def _model(texts: Texts, model: ModelView) -> dict[str, Any]:
    facts, share, reached = model.facts, _share(model), _reached(model)
    interval = ""
    if reached is not None:
        length = f"@{facts['k']}" if "k" in facts else ""
        interval = f"NDCG{length} {reached['mean']:.4f}"
        if reached.get("low") is not None:
            low, high = (f"{reached[name]:.4f}" for name in ("low", "high"))
            interval += f", {texts('operator.quality.interval', low=low, high=high)}"
        if model.parent is not None:
            interval += f", {texts('models.measured', parent=model.parent)}"
    disclosed = "–"
    if facts.get("disclosed") is not None:
        disclosed = texts(
            "operator.disclosed.of",
            some=texts.number(facts["disclosed"]),
            all=texts.number(facts.get("interactions", 0)),
        )
    return {
        "id": model.id,
        "kind": texts("models.kind.train")
        if model.kind == "train"
        else texts(f"models.kind.update.{facts.get('vectors', 'kept')}", parent=model.parent),
        "created": model.created,
        "published": model.published,
        "in_service": model.in_service,
        "hash": model.model_hash[:16],
        "violation": "–" if share is None else f"{share * 100:.1f} %",
        "quality": interval or "–",
        "disclosed": disclosed,
        "never": texts.number(facts["never"]) if facts.get("never") is not None else "–",
    }
