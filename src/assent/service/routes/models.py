"""/v1/runs and /v1/models: what workers do, what they made, what is in service."""

from typing import Annotated

from fastapi import Path, Query
from fastapi.responses import Response

from assent.service import jobs, models
from assent.service.access import Caller, KeyFor
from assent.service.routes.repeat import Answering, api_router
from assent.service.schemas_operation import ModelOut, ModelsOut, RunIn, RunOut, RunsOut
from assent.service.wire import Identifier, Limit

router = api_router("runs and models")
Platform = Annotated[Caller, KeyFor("models")]
Before = Annotated[Identifier | None, Query(alias="cursor", description="`next` of the page before.")]


@router.post("/runs", status_code=202, response_model=RunOut)
def start(caller: Platform, once: Answering, body: RunIn) -> Response:
    """Ask for a training or an update. Where an equal one waits already, that one is returned."""
    with caller.service.database.writing() as session:
        job = jobs.get(session, jobs.enqueue(session, body.kind, by=caller.by))
        return once.answer(session, RunOut.of(job))


@router.get("/runs")
def list_runs(caller: Platform, before: Before = None, limit: Annotated[Limit, Query()] = 50) -> RunsOut:
    """List jobs, latest first."""
    with caller.service.database.reading() as session:
        found, after = jobs.page(session, cursor=before, limit=limit)
    return RunsOut(runs=[RunOut.of(job) for job in found], next=_text(after))


@router.get("/runs/{run}")
def get_run(caller: Platform, run: Annotated[Identifier, Path()]) -> RunOut:
    """Return a job."""
    with caller.service.database.reading() as session:
        return RunOut.of(jobs.get(session, run))


@router.get("/models")
def list_models(caller: Platform, before: Before = None, limit: Annotated[Limit, Query()] = 50) -> ModelsOut:
    """List models, latest first."""
    with caller.service.database.reading() as session:
        found, after = models.page(session, cursor=before, limit=limit)
    return ModelsOut(models=[ModelOut.of(model) for model in found], next=_text(after))


@router.get("/models/{model}")
def get_model(caller: Platform, model: Annotated[Identifier, Path()]) -> ModelOut:
    """Return a model, with its figures."""
    with caller.service.database.reading() as session:
        return ModelOut.of(models.get(session, model))


@router.post("/models/{model}/publish", response_model=ModelOut)
def publish(caller: Platform, once: Answering, model: Annotated[Identifier, Path()]) -> Response:
    """Put a model into service.

    A step back to one that used what people have since said never to, or that knows somebody who was erased
    since, is refused (409).
    """
    with caller.service.database.writing() as session:
        found = models.publish(session, caller.service.settings, model, by=caller.by)
        return once.answer(session, ModelOut.of(found))


@router.post("/models/roll-back", response_model=ModelOut)
def roll_back(caller: Platform, once: Answering) -> Response:
    """Put the model into service that was there before, under the same condition."""
    with caller.service.database.writing() as session:
        found = models.roll_back(session, caller.service.settings, by=caller.by)
        return once.answer(session, ModelOut.of(found))


def _text(cursor: int | None) -> str | None:
    return None if cursor is None else str(cursor)
