"""From wishes to a model in service: decisions, states with receipts, publishing, rolling back, backups."""

import json
import shutil
import warnings
from dataclasses import asdict
from pathlib import Path

import pytest
from sqlalchemy import select, update

from assent.data.live import live_problem
from assent.data.problem import make_problem
from assent.runs.folder import open_run
from assent.runs.verify import verify
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
from assent.service.backup import backup, restore
from assent.service.database import ConflictError, Database
from assent.service.interactions import NewInteraction
from assent.service.ledger_check import check_ledger
from assent.service.serving import Server
from assent.service.tables import Decision, Item, Job, Model, Person
from assent.service.wishes import WITHDRAW_EVERYTHING, Said
from assent.support.errors import AssentError
from tests.service.trained import Service, copied, restored, say
from tests.small import Recorded


def test_a_training_decides_on_all_and_every_wish_has_its_receipts(service: Service) -> None:
    database, settings = service
    with database.snapshot() as session:
        model = models.in_service(session)
        assert model is not None
        rows = entries.page(session, settings, "u00", limit=100).rows
        assert {row.state for row in rows} <= {"used", "withheld", "never"}
        assert all((row.unwillingness == 1) == (row.state == "never") for row in rows)
        assert all(row.reason for row in rows if row.state != "never")
        past = wishes.history(session, "u00").wishes
        receipts = {
            f"{each.wish} {state}": ledger.receipt(session, id, user="u00")
            for each in past
            for state, id in each.receipts.items()
        }
        assert len(receipts) == 4 * len(past) == 12
        assert check_ledger(ledger.export_lines(session), "ledger", receipts)[1] == []
        for each in past:
            assert each.decided is not None
            assert each.trained is not None
            assert each.served is not None
            assert each.requested <= each.decided <= each.trained <= each.served
    outcome = {
        name: each["dpv:hasRecordOfActivity"]["events"][0]["outcome"] for name, each in receipts.items()
    }
    health = next(each for each in past if each.scope == "category")
    mine = [row.state for row in rows if "health" in row.categories]
    told = outcome[f"{health.wish} decided"]
    assert {state: told[state] for state in set(mine)} == {state: mine.count(state) for state in set(mine)}
    assert outcome[f"{health.wish} served"]["model_hash"] == model.model_hash
    replaced = next(each for each in past if each.scope == "item" and not each.in_force)
    assert outcome[f"{replaced.wish} decided"]["superseded"] is True
    assert verify(settings.runs / model.folder) == []
    assert all(each.count == 4 and each.waiting == 0 for each in people_times(service))


def people_times(service: Service) -> list[wishes.Honoured]:
    with service[0].reading() as session:
        return wishes.times_to_honour(session)


def test_never_rows_and_silence_change_no_byte_of_the_log(service: Service) -> None:
    """What is never used is not in the log, whether it is there or not: promise 1 begins here."""
    database, settings = service
    with database.snapshot() as session:
        before, _ = trainings.read_log(session, settings)
    assert before.sealed.height > 0
    with database.writing() as session:
        for row in before.sealed.iter_rows(named=True):
            interactions.delete(session, row["user"], row["item"])
        interactions.add(session, [NewInteraction("stranger", "i00", 0.0, None, None, 1.0)])
        interactions.add(session, [NewInteraction("u03", "only theirs", 0.0, "Theirs", ["secret"], 1.0)])
    with database.snapshot() as session:
        after, _ = trainings.read_log(session, settings)
    assert after.table.equals(before.table)
    assert after.items.equals(before.items)
    assert set(after.sealed["item"]) == {"i00", "only theirs"}


def test_closed_rows_are_not_read(service: Service) -> None:
    database, settings = service
    with database.snapshot() as session:
        log, _ = trainings.read_log(session, settings.model_copy(update={"closed": 0.6}))
    assert log.table["unwillingness"].max() <= 0.6  # type: ignore[operator]
    assert set(log.sealed["reason"]) == {"never", "closed"}


def test_a_model_of_before_is_refused_if_it_used_what_may_not_be_used(service: Service) -> None:
    database, settings = service
    with database.writing() as session:
        first = models.in_service(session)
        assert first is not None
        with pytest.raises(ConflictError, match="no other model"):
            models.roll_back(session, settings, by="ann")
        old = session.get_one(Model, first.id)
        shutil.copytree(settings.runs / old.folder, settings.runs / "later")
        session.add(copied(old, folder="later", upto=old.upto + 100))
        session.flush()
        second = session.scalars(select(Model.id).where(Model.folder == "later")).one()
        assert models.publish(session, settings, second, by="ann").in_service
        assert models.roll_back(session, settings, by="ann").id == first.id
        models.publish(session, settings, second, by="ann")
        used = session.execute(
            select(Decision.person_id, Decision.item_id).where(Decision.state == "used").limit(1)
        ).one()
        user = session.get_one(Person, used.person_id).user
        item = session.get_one(Item, used.item_id).item
    say(service, user, Said("item", item, 1.0))
    with database.writing() as session:
        with pytest.raises(ConflictError, match="used 1 interaction that may no longer be used"):
            models.roll_back(session, settings, by="ann")
        assert models.in_service_id(session) == second
        events = [each.event for each in ledger.entries(session, events=("model published",))[0]]
    assert len(events) == 4


def test_a_lost_worker_is_replaced_after_the_model_was_written(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second worker goes on from the model: it does not train again."""
    database, settings = service
    with database.writing() as session:
        job = session.scalars(select(Job.id)).one()
        session.execute(update(Job).values(state="running", lease_until=0.0, result=None))
    wish = say(service, "u02", Said("everything", "", 0.25))
    with database.writing() as session:
        session.execute(update(Model).values(upto=wish, trained_upto=wish))

    def trained_again(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr(trainings, "fit", trained_again)
    assert worker.work_once(database, settings, worker="second")
    with database.reading() as session:
        assert jobs.get(session, job).state == "done"
        [last] = wishes.history(session, "u02").wishes
    assert None not in (last.decided, last.trained, last.served)


def test_a_failing_job_keeps_its_error(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    database, settings = service

    def broken(*_: object, **__: object) -> None:
        raise AssentError("the log is too small; accepted: a larger one")

    monkeypatch.setattr(trainings, "fit", broken)
    with database.writing() as session:
        id = jobs.enqueue(session, "train", by="ann")
    assert worker.work_once(database, settings, worker="w")
    with database.reading() as session:
        found = jobs.get(session, id)
        assert (found.state, found.error) == ("queued", "the log is too small; accepted: a larger one")
    assert not worker.work_once(database, settings, worker="w")  # not before its time


def test_updates_are_asked_for_once_wishes_have_waited(service: Service) -> None:
    database, settings = service
    worker.ask_for_work(database, settings)
    say(service, "u02", WITHDRAW_EVERYTHING)
    worker.ask_for_work(database, settings)
    with database.reading() as session:
        assert jobs.counts(session)["queued"] == 0
    for _ in range(2):
        worker.ask_for_work(database, settings.model_copy(update={"update_after": 0.0}))
    with database.reading() as session:
        assert [each.kind for each in jobs.page(session, state="queued")[0]] == ["update"]
    for _ in range(2):
        worker.ask_for_work(database, settings.model_copy(update={"train_after": 0.0}))
    with database.reading() as session:
        assert [each.kind for each in jobs.page(session, state="queued")[0]] == ["train", "update"]


@pytest.mark.parametrize("vectors", ["trained", "kept"])
def test_a_deletion_asks_for_a_model_without_it(service: Service, vectors: str) -> None:
    database, settings = service[0], service[1].model_copy(update={"update_vectors": vectors})
    with database.writing() as session:
        interactions.delete(session, "u02", entries.page(session, settings, "u02").rows[0].item)
    worker.ask_for_work(database, settings)
    worker.ask_for_work(database, settings.model_copy(update={"update_after": 0.0}))
    worker.ask_for_work(database, settings.model_copy(update={"train_after": 0.0}))
    asked = {"trained": ["train", "update"], "kept": ["train"]}[vectors]
    with database.reading() as session:
        assert [each.kind for each in jobs.page(session, state="queued")[0]] == asked


def updated(service: Service) -> tuple[int, models.ModelView]:
    """Let u00 say never to what is used, and a worker do an update; the wish and the model."""
    database, settings = service
    with database.writing() as session:
        [used, *_] = entries.page(session, settings, "u00", state="used").rows
        interactions.add(session, [NewInteraction("newcomer", "i01", 0.0, unwillingness=0.0)])
        jobs.enqueue(session, "update", by="ann")
    wish = say(service, "u00", Said("item", used.item, 1.0))
    assert worker.work_once(database, settings, worker="w")
    with database.reading() as session:
        assert jobs.page(session)[0][0].error is None
        model = models.in_service(session)
        assert model is not None
        assert (model.kind, model.parent) == ("update", 1)
        states = {row.item: row.state for row in entries.page(session, settings, "u00", limit=99).rows}
        assert states[used.item] == "never"
        assert [row.state for row in entries.page(session, settings, "newcomer").rows] == ["used"]
        lists = Server(settings).recommend(session, "u00")
        assert (lists.model, lists.basis) == (model.id, "own")
    assert verify(settings.runs / model.folder) == []
    return wish, model


def test_one_update_trains_without_what_is_withheld_and_receipts_say_so(service: Service) -> None:
    """Bytes: the model in service is that of a training on what is disclosed, and on nothing else."""
    database, settings = service
    wish, model = updated(service)
    with database.snapshot() as session:
        past = wishes.history(session, "u00").wishes[0]
        assert past.wish == wish
        assert None not in (past.decided, past.trained, past.served)
        receipts = {state: ledger.receipt(session, id) for state, id in past.receipts.items()}
        assert check_ledger(ledger.export_lines(session), "ledger", receipts)[1] == []
        whole = models.get(session, 1)
        log, _ = trainings.read_log(session, settings)
    outcome = receipts["trained"]["dpv:hasRecordOfActivity"]["events"][0]["outcome"]
    assert outcome["model_hash"] == model.model_hash != whole.model_hash
    assert (outcome["values_of_model"], outcome["values_of_model_hash"]) == (1, whole.model_hash)
    assert receipts["served"]["proof"]["leaf"]["facts"].items() <= outcome.items()
    run = open_run(settings.runs / model.folder)
    assert not run.selection.filter(disclosed=True).join(log.sealed, on=["user", "item"], how="semi").height
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the log is small
        split, live = make_problem(log, "paper-tables", seed=0), live_problem(log, seed=0)
    assert verify(run.folder, log, split, live=live, again=True) == []
    with database.writing() as session:  # nothing speaks against it, nor for the one before
        models.publish(session, settings, model.id, by="ann")
        with pytest.raises(ConflictError, match="may no longer be used"):
            models.publish(session, settings, 1, by="ann")


def test_an_update_that_keeps_vectors_trains_nothing(service: Service) -> None:
    """Nobody is told that items' vectors were trained without a row that they know."""
    kept = service[1].model_copy(update={"update_vectors": "kept"})
    database, settings = service = service[0], kept
    wish, model = updated(service)
    with database.reading() as session:
        past = wishes.history(session, "u00").wishes[0]
        assert (past.wish, past.decided is None, past.trained, past.served) == (wish, False, None, None)
    with database.writing() as session:
        jobs.enqueue(session, "train", by="ann")
    executor = Recorded()
    assert worker.work_once(database, settings, worker="w", executor=executor)
    assert executor.lists
    with database.writing() as session:
        past = wishes.history(session, "u00").wishes[0]
        assert None not in (past.trained, past.served)
        with pytest.raises(ConflictError, match="may no longer be used"):
            models.publish(session, settings, model.id, by="ann")


def test_a_backup_is_restored_on_either_database(service: Service, tmp_path: Path) -> None:
    database, settings = service
    rows = backup(database, settings, tmp_path / "backup")
    url = f"sqlite:///{tmp_path / 'other.db'}"
    other, there = Database(url), settings.model_copy(update={"database": url, "data": tmp_path / "other"})
    assert restore(other, there, tmp_path / "backup") == rows
    with database.snapshot() as one, other.snapshot() as two:
        (_, *then), (_, *now) = (list(ledger.export_lines(each)) for each in (one, two))
        assert now[: len(then)] == then
        assert check_ledger(ledger.export_lines(two), "ledger")[1] == []
        [last] = ledger.entries(two, limit=1)[0]
        assert (last.event, last.number) == ("restored", ledger.last_number(one) + 1)
        assert people.export(one, settings, "u00") == people.export(two, there, "u00")
        ledgers = ("leaves", "seals")
        counts = [{k: v for k, v in people.totals(each).items() if k not in ledgers} for each in (one, two)]
        assert counts[0] == counts[1]
        lists = [Server(s).recommend(session, "u00") for s, session in ((settings, one), (there, two))]
        assert asdict(lists[0]) == asdict(lists[1])
        model = models.in_service(two)
    assert model is not None
    open_run(there.runs / model.folder)
    with other.writing() as session:  # and life goes on
        interactions.add(session, [NewInteraction("new", "new", 0.0)])
        ledger.note(session, "later")
    with pytest.raises(ConflictError, match="not empty"):
        restore(other, there, tmp_path / "backup")
    other.close()


def test_a_backup_that_is_not_whole_is_refused_and_leaves_nothing(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database, settings = service
    folder = tmp_path / "backup"
    backup(database, settings, folder)
    fresh = Database(f"sqlite:///{tmp_path / 'third.db'}")
    there = settings.model_copy(update={"data": tmp_path / "third"})
    [run] = (folder / "runs").iterdir()
    for file, said in (
        (folder / "tables" / "wish.jsonl.gz", "not what the backup wrote"),
        (run / "model.safetensors", "model.safetensors: not what the run wrote"),
        (run / "manifest.json", "manifest.json: not what the run wrote"),
    ):
        content = file.read_bytes()
        file.write_bytes(content + b" ")
        with pytest.raises(AssentError, match=said):
            restore(fresh, there, folder)
        file.write_bytes(content)
    with monkeypatch.context() as broken:
        broken.setattr(shutil, "copytree", full_disk)
        with pytest.raises(OSError, match="no space"):
            restore(fresh, there, folder)
    with monkeypatch.context() as broken:
        broken.setattr(ledger, "insert_many", full_disk)
        with pytest.raises(OSError, match="no space"):
            restore(fresh, there, folder)
    assert not any(there.runs.glob("*"))
    restore(fresh, there, folder)  # the same again, once it can
    fresh.close()
    model = settings.runs / run.name / "model.safetensors"
    model.write_bytes(model.read_bytes()[:-1])
    with pytest.raises(AssentError, match="not what the run wrote"):
        backup(database, settings, tmp_path / "second")


def full_disk(*_: object, **__: object) -> None:
    raise OSError("no space")


def test_a_backup_of_the_first_release_is_brought_up_to_date(url: str, tmp_path: Path) -> None:
    database, settings = restored(f"sqlite:///{tmp_path / 'first.db'}", tmp_path / "data")
    backup(database, settings, tmp_path / "backup")
    about = json.loads((tmp_path / "backup" / "backup.json").read_text())
    (tmp_path / "backup" / "backup.json").write_text(json.dumps({**about, "revision": "0001"}))
    head = database.revision()
    other = Database(url)
    restore(other, settings.model_copy(update={"data": tmp_path / "other"}), tmp_path / "backup")
    assert other.revision() == head != "0001"
    with other.snapshot() as session:
        assert len(entries.page(session, settings, "u00").rows) == 9
    for each in (database, other):
        each.close()


def test_old_models_are_pruned(service: Service) -> None:
    database, settings = service
    few = settings.model_copy(update={"keep_models": 1})
    with database.writing() as session:
        first = session.scalars(select(Model)).one()
        own = first.folder
        for name in ("second", "third", "fourth"):
            shutil.copytree(settings.runs / own, settings.runs / name)
            session.add(copied(first, folder=name))
    pruning.prune(database, few)
    with database.writing() as session:
        found = {each.folder: each.pruned is None for each in models.page(session)[0]}
        assert found == {own: True, "second": False, "third": True, "fourth": True}
        second = session.scalars(select(Model.id).where(Model.folder == "second")).one()
        with pytest.raises(ConflictError, match="were deleted"):
            models.publish(session, settings, second, by="ann")
    assert not (settings.runs / "second").exists()
    assert (settings.runs / own).exists()
