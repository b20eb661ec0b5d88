"""/health and /v1/metrics: whether the service answers, and how it fares. Counts, no people."""

from typing import Annotated

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse, PlainTextResponse

from assent.service import jobs, models, people, wishes
from assent.service.access import PUBLIC, Caller, Door, KeyFor
from assent.service.problems import described, operation_id
from assent.service.schemas_operation import HealthOut

router = APIRouter(tags=["status"], generate_unique_id_function=operation_id)


@router.get("/health/live")
async def live(door: Annotated[Door, PUBLIC]) -> HealthOut:
    """Answer, if the process does. Asks nobody else."""
    return HealthOut(status="ok")


@router.get("/health/ready", responses={503: {"model": HealthOut, "description": "Not ready"}})
def ready(door: Annotated[Door, PUBLIC]) -> Response:
    """Answer, if the database does, too, wishes are written, and the model in service can be read."""
    try:
        with door.service.database.reading() as session:
            door.service.server.warm(session)
        if not door.service.recorder.is_at_work:
            return JSONResponse({"status": "not ready"}, 503)
    except Exception:  # whatever keeps it from that: the load balancer asks again
        return JSONResponse({"status": "not ready"}, 503)
    return JSONResponse({"status": "ok"})


@router.get(
    "/v1/metrics",
    response_class=PlainTextResponse,
    responses={
        200: {"content": {"text/plain": {"schema": {"type": "string"}}}},
        **described(401, 403, 422, 429, 503),
    },
)
def metrics(caller: Annotated[Caller, KeyFor("metrics")]) -> PlainTextResponse:
    """Return figures in Prometheus' text format."""
    with caller.service.database.reading() as session:
        totals = people.totals(session)
        queue = jobs.counts(session)
        honoured = wishes.times_to_honour(session, days=30)
        model = models.in_service(session)
    lines = [f"# TYPE assent_{name} gauge\nassent_{name} {count}" for name, count in totals.items()]
    lines += ["# TYPE assent_jobs gauge"]
    lines += [f'assent_jobs{{state="{state}"}} {count}' for state, count in queue.items()]
    for measure in ("median", "worst"):
        lines += [f"# TYPE assent_honoured_seconds_{measure} gauge"]
        lines += [
            f'assent_honoured_seconds_{measure}{{state="{each.state}"}} {seconds:.3f}'
            for each in honoured
            if (seconds := getattr(each, measure)) is not None
        ]
    lines += ["# TYPE assent_honoured_waiting gauge"]
    lines += [f'assent_honoured_waiting{{state="{each.state}"}} {each.waiting}' for each in honoured]
    if model is not None:
        lines += [
            f"# TYPE assent_model_created_seconds gauge\nassent_model_created_seconds {model.created:.0f}"
        ]
    return PlainTextResponse("\n".join(lines) + "\n", media_type="text/plain; version=0.0.4")
