"""Publishing, rolling back and pruning, also of several at once; what they may not undo."""

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import event, func, select, text

from assent.runs.folder import Run
from assent.runs.prompt import prompt_update
from assent.service import (
    entries,
    interactions,
    jobs,
    ledger,
    models,
    people,
    pruning,
    trainings,
    wishes,
    worker,
)
from assent.service.database import ConflictError
from assent.service.ledger_check import check_ledger
from assent.service.serving import Server
from assent.service.states import settle
from assent.service.tables import Decision, Item, Model, Person
from assent.service.wishes import Said
from tests.service.trained import Service, copied, say


def followed(service: Service, *names: str, by: int = 100) -> list[int]:
    """Models like the first one, that know `by` events more; the last one is put into service."""
    database, settings = service
    with database.writing() as session:
        first = session.get_one(Model, 1)
        for name in names:
            shutil.copytree(settings.runs / first.folder, settings.runs / name)
            session.add(
                copied(first, folder=name, upto=first.upto + by, trained_upto=first.trained_upto + by)
            )
            session.flush()
        made = list(session.scalars(select(Model.id).where(Model.folder.in_(names)).order_by(Model.id)))
        for model, decision in ((made_, each) for made_ in made for each in _decisions(session)):
            session.add(Decision(**{**decision, "model_id": model}))
        models.publish(session, settings, made[-1], by="ann")
    return made


def _decisions(session: Any) -> list[dict[str, Any]]:
    rows = session.execute(select(Decision.__table__).where(Decision.model_id == 1)).all()
    return [dict(each._mapping) for each in rows]


def a_used_one(service: Service) -> tuple[str, str]:
    """Somebody, and an item of theirs that the first model used."""
    with service[0].reading() as session:
        asked = (
            select(Person.user, Item.item)
            .join(Decision, Decision.person_id == Person.id)
            .join(Item, Item.id == Decision.item_id)
            .where(Decision.model_id == 1, Decision.state == "used")
        )
        row = session.execute(asked.order_by(Person.user, Item.item).limit(1)).one()
        return row.user, row.item


def test_nobody_rolls_back_to_a_model_of_somebody_who_was_erased(service: Service) -> None:
    database, settings = service
    [second] = followed(service, "second")
    with database.writing() as session:
        assert models.roll_back(session, settings, by="ann").id == 1
        models.publish(session, settings, second, by="ann")
        interactions.erase(session, a_used_one(service)[0])
    with database.writing() as session, pytest.raises(ConflictError, match="somebody was erased since"):
        models.roll_back(session, settings, by="ann")
    with database.reading() as session:
        assert models.in_service_id(session) == second


@contextmanager
def held(service: Service, statement: str) -> Iterator[tuple[Future[None], Callable[[], None]]]:
    """Hold back the first transaction that comes to a statement; yield its coming, and how to let it go."""
    came: Future[None] = Future()
    go: Future[None] = Future()

    def wait(*given: Any) -> None:
        if statement in given[2] and not came.done():
            came.set_result(None)
            go.result(30)

    event.listen(service[0].engine, "before_cursor_execute", wait)
    try:
        yield came, lambda: go.set_result(None)
    finally:
        event.remove(service[0].engine, "before_cursor_execute", wait)


def has_to_wait(service: Service, work: Future[Any]) -> bool:
    """Whether work waits for a lock of the database before it is done."""
    asked = text("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
    while not work.done():
        with service[0].reading() as session:
            if session.scalar(asked):
                return True
    return False


def test_never_comes_before_or_after_a_roll_back_and_not_between(service: Service) -> None:
    """A wish that is acknowledged while an older model is checked would be used against by it."""
    database, settings = service
    if database.is_sqlite:
        pytest.skip("one writer at a time")
    followed(service, "second")
    user, item = a_used_one(service)

    def back() -> None:
        with database.writing() as session:
            models.roll_back(session, settings, by="ann")

    with ThreadPoolExecutor(2) as pool, held(service, "INSERT INTO publication") as (came, go):
        rolling = pool.submit(back)
        came.result(30)
        saying = pool.submit(say, service, user, Said("item", item, 1.0))
        has_to = has_to_wait(service, saying)
        go()
        rolling.result(30)
        wish = saying.result(30)
    assert has_to
    with database.reading() as session:
        events = [each.event for each in ledger.entries(session, limit=2)[0]]
        assert events == ["wish requested", "model published"]
        assert ledger.last_number(session) == wish


@pytest.mark.parametrize("first", ["publish", "prune"])
def test_the_model_in_service_has_its_files_whoever_prunes_meanwhile(service: Service, first: str) -> None:
    database, settings = service
    if database.is_sqlite:
        pytest.skip("one writer at a time")
    followed(service, "second", "third", "fourth", "fifth")
    few = settings.model_copy(update={"keep_models": 1})
    with database.reading() as session:
        third = session.scalars(select(Model.id).where(Model.folder == "third")).one()

    def publish() -> None:
        with database.writing() as session:
            models.publish(session, settings, third, by="ann")

    def prune() -> None:
        pruning.prune(database, few)

    before, after = (publish, prune) if first == "publish" else (prune, publish)
    statement = {"publish": "INSERT INTO publication", "prune": "UPDATE model"}[first]
    with ThreadPoolExecutor(2) as pool, held(service, statement) as (came, go):
        one = pool.submit(before)
        came.result(30)
        other = pool.submit(after)
        if first == "publish":
            other.result(30)  # passes over what is being published
        else:
            has_to_wait(service, other)
        go()
        one.result(30)
        if first == "prune":
            with pytest.raises(ConflictError, match="its files were deleted"):
                other.result(30)
    with database.reading() as session:
        now = models.in_service(session)
        assert now is not None
        assert (now.pruned, (settings.runs / now.folder).is_dir()) == (None, True)
        assert now.folder == {"publish": "third", "prune": "fifth"}[first]
        assert Server(settings).recommend(session, "u00").model == now.id


def test_the_model_whose_vectors_a_kept_one_has_is_kept_too(service: Service) -> None:
    """Whether it may go back into service depends on what those were trained on."""
    database, settings = service
    few = settings.model_copy(update={"keep_models": 1})
    followed(service, "kept", "whole", "latest")
    with database.writing() as session:
        kept = session.scalars(select(Model).where(Model.folder == "kept")).one()
        kept.kind, kept.parent_id, kept.trained_upto = "update", 1, session.get_one(Model, 1).trained_upto
        session.scalars(select(Model).where(Model.folder == "whole")).one().pruned = 1.0
    pruning.prune(database, few)
    with database.reading() as session:
        found = {each.folder for each in models.page(session)[0] if each.pruned is None}
        assert found == {"latest", "kept", session.get_one(Model, 1).folder}


def test_a_roll_back_takes_wishes_back_until_a_model_knows_them_again(service: Service) -> None:
    database, settings = service
    user, item = a_used_one(service)
    wish = say(service, user, Said("item", item, 0.99))
    with database.writing() as session:
        jobs.enqueue(session, "update", by="ann")
    assert worker.work_once(database, settings, worker="w")

    def state() -> tuple[bool, int, str]:
        with database.reading() as session:
            [last, *_] = wishes.history(session, user).wishes
            assert last.wish == wish
            row = entries.one(session, settings, user, item)
            return last.served is not None, people.totals(session)["wishes_open"], row.state

    def asked(**changed: object) -> list[str]:
        worker.ask_for_work(database, settings.model_copy(update=changed))
        with database.reading() as session:
            return [each.kind for each in jobs.page(session, state="queued")[0]]

    assert state() == (True, 0, "withheld")
    assert asked(update_after=0.0) == []
    with database.writing() as session:
        assert models.roll_back(session, settings, by="ann").id == 1
    settle(database, settings)
    assert state() == (False, 1, "used")
    assert asked() == []
    assert asked(update_after=0.0, publish="by hand") == []  # whoever rolled back publishes, too
    assert asked(update_after=0.0, update_vectors="kept") == []
    assert asked(update_after=0.0) == ["update"]
    assert asked(train_after=0.0, update_vectors="kept") == ["train", "update"]
    assert worker.work_once(database, settings, worker="w")
    assert state() == (True, 0, "withheld")
    with database.snapshot() as session:
        now = models.in_service(session)
        assert now is not None
        receipts = wishes.history(session, user).wishes[0].receipts
        served = ledger.receipt(session, receipts["served"])
        assert served["proof"]["leaf"]["facts"]["model"] == now.id
        assert check_ledger(ledger.export_lines(session), "ledger", {"served": served})[1] == []


def test_a_job_that_ends_late_takes_no_newer_models_place(service: Service) -> None:
    """Such as a training that began before an update: what was said meanwhile would be served no more."""
    database, settings = service
    [newer] = followed(service, "second", by=1000)
    with database.writing() as session:
        job = jobs.enqueue(session, "update", by="ann")
    assert worker.work_once(database, settings, worker="w")
    with database.reading() as session:
        done = jobs.get(session, job)
        made = (done.result or {})["model"]
        assert (done.state, models.in_service_id(session)) == ("done", newer)
        assert models.get(session, made).published is None


def test_an_erasure_while_decisions_are_written_repeats_no_training(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    database, settings = service
    if database.is_sqlite:
        pytest.skip("one writer at a time")
    done_so_far: list[None] = []
    erased = ["u03", "u04"]

    def counted(*given: Any, **more: Any) -> Run:
        done_so_far.append(None)
        return prompt_update(*given, **more)

    def erase(*given: Any) -> None:
        if given[2].startswith("SELECT item.item, item.id") and erased:  # people were looked up before
            with database.writing() as session:
                interactions.erase(session, erased.pop())

    monkeypatch.setattr(trainings, "prompt_update", counted)
    with database.writing() as session:
        job = jobs.enqueue(session, "update", by="ann")
    event.listen(database.engine, "before_cursor_execute", erase)
    assert worker.work_once(database, settings, worker="w")
    event.remove(database.engine, "before_cursor_execute", erase)
    with database.reading() as session:
        done = jobs.get(session, job)
        assert (done.state, done.attempts, len(done_so_far), erased) == ("done", 1, 1, [])
        of_it = Decision.model_id == (done.result or {})["model"]
        assert session.scalar(select(func.count(Decision.person_id.distinct())).where(of_it)) == 24 - 2
