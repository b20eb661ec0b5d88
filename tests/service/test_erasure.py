"""Erasing somebody: what goes at once, what the next model ends, and what may not come back."""

import pytest
from sqlalchemy import select

from assent.service import entries, interactions, jobs, models, pruning, trainings, worker
from assent.service.database import Database
from assent.service.interactions import NewInteraction
from assent.service.serving import Server
from assent.service.settings import ServiceSettings
from assent.service.tables import Decision, Person, Reply
from assent.support.errors import AssentError
from tests.service.site import serve
from tests.service.test_models import followed
from tests.service.trained import Service


def test_who_comes_back_is_not_served_from_a_list_of_before(service: Service) -> None:
    """SQLite gives the largest id out again: the last person is the one whose id comes back."""
    database, settings = service
    server = Server(settings)
    with database.writing() as session:
        last = session.scalars(select(Person).order_by(Person.id.desc()).limit(1)).one()
        user = last.user
        assert server.recommend(session, user).basis == "own"
        had = entries.page(session, settings, user).rows[0].item
        version = last.version
        interactions.erase(session, user)
    with database.writing() as session:
        interactions.add(session, [NewInteraction(user, had, 0.0, unwillingness=1.0)])
    with database.writing() as session:
        again = session.scalars(select(Person).where(Person.user == user)).one()
        again.version = version
    with database.reading() as session:
        assert server.recommend(session, user).basis == "general"


def test_models_of_before_are_not_kept_and_those_that_are_needed_are(service: Service) -> None:
    """`keep_models` is for rolling back, which is refused to models that know who was erased."""
    database, settings = service
    followed(service, "second", "third", by=0)
    pruning.prune(database, settings)
    with database.writing() as session:
        assert {each.pruned for each in models.page(session)[0]} == {None}
        interactions.erase(session, "u00")
        jobs.enqueue(session, "update", by="ann")
    pruning.prune(database, settings)  # the model in service and its equals: nothing later is there to serve
    assert {each.name for each in settings.runs.iterdir()} >= {"second", "third"}
    assert worker.work_once(database, settings, worker="w")
    with database.reading() as session:
        now = models.in_service(session)
        assert now is not None
        left = {each.folder for each in models.page(session)[0] if each.pruned is None}
        assert left == {now.folder, "third"}
        asked = select(Decision.model_id).distinct().order_by(Decision.model_id)
        assert list(session.scalars(asked)) == [now.parent, now.id]
    assert {each.name for each in settings.runs.iterdir()} == {now.folder, "third"}


def test_what_failed_jobs_leave_is_deleted_and_what_others_write_is_not(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    database, settings = service

    def broken(*given: object, **_: object) -> None:
        folder = given[2]
        folder.mkdir(parents=True)  # type: ignore[attr-defined]
        raise AssentError("no")

    monkeypatch.setattr(trainings, "fit", broken)
    monkeypatch.setattr(jobs, "WAIT", 0.0)
    with database.writing() as session:
        job = jobs.enqueue(session, "train", by="ann")
    there = {each.name for each in settings.runs.iterdir()}
    for attempt in (1, 2, 3):
        pruning.prune(database, settings)
        assert worker.work_once(database, settings, worker="w")
        assert {each.name for each in settings.runs.iterdir()} - there == {f"job-{job}-{attempt}"}
    with database.reading() as session:
        assert jobs.get(session, job).state == "failed"
    (settings.runs / "job-99-1").mkdir()  # of a job that this database does not know
    (settings.runs / "notes").mkdir()
    pruning.prune(database, settings)
    assert {each.name for each in settings.runs.iterdir()} == there | {"job-99-1", "notes"}


def test_nothing_is_said_again_of_who_was_erased(database: Database, settings: ServiceSettings) -> None:
    """An answer that is kept for repeated requests has a receipt with its salt."""
    with serve(database, settings) as site:
        client = site.platform()
        for user in ("ann", "bob"):
            row = {"user": user, "item": "f31", "time": "2026-03-01T12:00:00Z"}
            client.post("/v1/interactions", json=row, headers={"idempotency-key": f"{user}-came"})
            wish = {"scope": "item", "target": "f31", "unwillingness": 0.5}
            said = {"user": user, "wishes": [wish]}
            assert client.put("/v1/wishes", json=said, headers={"idempotency-key": user}).status_code == 200
        gone = {"idempotency-key": "gone"}
        statuses = [
            client.delete("/v1/people", params={"user": "bob"}, headers=gone).status_code for _ in range(2)
        ]
        assert statuses == [204, 204]
        again = client.put("/v1/wishes", json=said, headers={"idempotency-key": "bob"})
        assert (again.status_code, "salt" in again.text) == (404, False)
        with database.reading() as session:
            left = session.scalars(select(Reply).order_by(Reply.idempotency_key)).all()
            assert [each.idempotency_key for each in left] == ["ann", "ann-came", "gone"]
            assert (left[-1].person, left[-1].body) == (None, None)
