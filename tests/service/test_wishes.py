"""What people say, and what follows from it for each interaction."""

import random
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import count

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st
from sqlalchemy import select, text
from sqlalchemy.orm import Session

from assent.service import entries, interactions, wishes
from assent.service.database import Database, NotFoundError
from assent.service.effective import deciding
from assent.service.interactions import NewInteraction
from assent.service.ledger import export_lines, note, verify_receipt
from assent.service.ledger_check import check_ledger
from assent.service.recorder import Recorder
from assent.service.settings import ServiceSettings
from assent.service.tables import Person
from assent.service.wishes import WITHDRAW_EVERYTHING, Said
from assent.support.errors import AssentError

CATEGORIES = {"i1": ["a"], "i2": ["a", "b"], "i3": ["b"], "i4": []}
BROUGHT = {"i1": 0.1, "i2": None, "i3": 0.3, "i4": None}
UNWILLINGNESS = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])
SAID = st.one_of(
    st.builds(Said, st.just("item"), st.sampled_from(list(CATEGORIES)), st.none() | UNWILLINGNESS),
    st.builds(Said, st.just("category"), st.sampled_from(["a", "b"]), st.none() | UNWILLINGNESS),
    st.builds(Said, st.just("everything"), st.just(""), st.none() | UNWILLINGNESS),
    st.just(WITHDRAW_EVERYTHING),
)
BATCHES = st.lists(st.lists(SAID, min_size=1, max_size=4), max_size=6)
"""What a person says, by transaction."""
_people = count(1)


def rows_of(user: str) -> list[NewInteraction]:
    return [
        NewInteraction(user, item, place, item.upper(), categories, BROUGHT[item])
        for place, (item, categories) in enumerate(CATEGORIES.items())
    ]


def oracle(said: Sequence[Said], item: str, unsaid: float) -> tuple[float, str]:
    """The unwillingness of an interaction and its source, by going through all that was said."""
    latest: dict[tuple[str, str], tuple[int, float | None]] = {}
    for number, each in enumerate(said):
        if each.withdrawal:
            latest.clear()
        latest[each.scope, each.target] = (number, each.unwillingness)
    groups = {
        "item": [("item", item)],
        "category": [("category", name) for name in CATEGORIES[item]],
        "everything": [("everything", "")],
    }
    for source, targets in groups.items():
        spoken = [latest[each] for each in targets if each in latest and latest[each][1] is not None]
        if spoken:
            return max(spoken)[1] or 0.0, source
    brought = BROUGHT[item]
    return (unsaid, "unsaid") if brought is None else (brought, "platform")


@examples(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches=BATCHES, unsaid=st.sampled_from([0.0, 0.4, 1.0]))
def test_what_is_in_force_is_what_was_said_last_most_specifically(
    database: Database, settings: ServiceSettings, batches: list[list[Said]], unsaid: float
) -> None:
    user, settings = f"person {next(_people)}", replace_unsaid(settings, unsaid)
    with database.writing() as session:
        interactions.add(session, rows_of(user))
    for batch in batches:
        with database.writing() as session:
            wishes.record(session, settings, [(user, [each]) for each in batch])
    said = [each for batch in batches for each in batch]
    with database.reading() as session:
        found = entries.page(session, settings, user).rows
        standing = wishes.standing(session, user)
    assert len(found) == len(CATEGORIES)
    for row in found:
        assert (row.unwillingness, row.source) == oracle(said, row.item, unsaid)
        found_again = deciding(standing, row.item, row.categories)
        assert (found_again.scope if found_again else None) == (row.source if row.said else None)


def replace_unsaid(settings: ServiceSettings, unsaid: float) -> ServiceSettings:
    return settings.model_copy(update={"unsaid": unsaid})


@pytest.fixture
def people(database: Database) -> list[str]:
    users = [f"u{number}" for number in range(8)]
    with database.writing() as session:
        interactions.add(session, [row for user in users for row in rows_of(user)])
    return users


def test_wishes_of_many_are_stored_together_and_each_has_a_receipt(
    database: Database, settings: ServiceSettings, people: list[str]
) -> None:
    recorder = Recorder(database, settings)
    asked = [(people[n % 8], Said("item", f"i{n % 4 + 1}", n % 5 / 4)) for n in range(120)]
    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(lambda each: recorder.submit(each[0], [each[1]]).result(30), asked))
    recorder.close()
    receipts = {str(n): each[0].receipt for n, each in enumerate(done)}
    with database.snapshot() as session:
        summary, findings = check_ledger(export_lines(session), "ledger", receipts)
        assert findings == []
        assert (summary.leaves, len({each[0].wish for each in done})) == (120, 120)
        assert summary.seals < 120  # several share a transaction
        assert all(verify_receipt(session, each) == [] for each in receipts.values())
        for user in people:
            latest = {row.target: row for row in reversed(wishes.history(session, user, limit=200).wishes)}
            standing = {each.target: each.unwillingness for each in wishes.standing(session, user)}
            assert standing == {target: each.unwillingness for target, each in latest.items()}


def test_what_is_refused_does_not_touch_others(
    database: Database, settings: ServiceSettings, people: list[str]
) -> None:
    asked = [
        ("u1", [Said("item", "i1", 0.5)]),
        ("nobody", [Said("everything", "", 0.5)]),
        ("u2", [Said("item", "i1", 0.5), Said("category", "mistyped", 0.5)]),
        ("u3", [Said("item", "i1", 1.5)]),
        ("u4", [Said("item", "", 0.5)]),
        ("u5", [Said("everything", "", None, withdrawal=True)]),
        ("u6", [Said("category", "a", 1.0)]),
    ]
    with database.writing() as session:
        found = wishes.record(session, settings, asked)
    assert [isinstance(each, AssentError) for each in found] == [False, True, True, True, True, True, False]
    assert isinstance(found[1], NotFoundError)
    with database.reading() as session:
        assert [len(wishes.standing(session, user)) for user in people] == [0, 1, 0, 0, 0, 0, 1, 0]


@contextmanager
def held(database: Database, recorder: Recorder) -> Iterator[Session]:
    """Hold the ledger, with a first request waiting for it, so that all that is submitted then gathers."""
    with database.writing() as session:
        note(session, "held")
        recorder.submit("u7", [Said("everything", "", 0.5)])
        wait_for_a_waiter(database)
        yield session


def wait_for_a_waiter(database: Database) -> None:
    """Wait until a transaction waits for the ledger; SQLite does not tell, and has one writer anyway."""
    asked = text("select count(*) from pg_locks where locktype = 'advisory' and not granted")
    while not database.is_sqlite:
        with database.reading() as session:
            if session.scalar(asked):
                return


def test_requests_that_name_very_much_are_stored_in_several_batches(
    database: Database, settings: ServiceSettings, people: list[str]
) -> None:
    recorder = Recorder(database, settings)
    much = [Said("item", f"none {number}", 0.5) for number in range(1000)]
    more = [[*much, Said("item", f"more {number}", 0.5)] for number in range(70)]
    with held(database, recorder):
        asked = [recorder.submit("u1", [Said(e.scope, f"{n} {e.target}", 0.5) for e in said])
                 for n, said in enumerate(more)]  # fmt: skip
        good = recorder.submit("u2", [Said("item", "i1", 0.5)])
    assert {type(each.exception(60)) for each in asked} == {AssentError}  # nobody has these items
    assert len(good.result(60)) == 1
    recorder.close()


def test_everybody_may_be_touched_at_once(
    database: Database, settings: ServiceSettings, people: list[str]
) -> None:
    with database.writing() as session:
        wishes.touch(session, range(70_000))
        assert set(session.scalars(select(Person.version))) == {2}


def test_one_request_that_cannot_be_written_does_not_keep_others_from_it(
    database: Database, settings: ServiceSettings, people: list[str]
) -> None:
    recorder = Recorder(database, settings)
    with held(database, recorder):
        wrong = recorder.submit("u\0", [Said("item", "i1", 0.5)])  # PostgreSQL takes no such text
        good = recorder.submit("u1", [Said("item", "i1", 0.5)])
    assert wrong.exception(30) is not None
    assert len(good.result(30)) == 1
    recorder.close()


def test_who_is_erased_meanwhile_is_unknown(
    database: Database, settings: ServiceSettings, people: list[str]
) -> None:
    recorder = Recorder(database, settings)
    with held(database, recorder):
        pass
    with database.writing() as session:
        interactions.erase(session, "u1")
        gone = recorder.submit("u1", [Said("item", "i1", 0.5)])
        wait_for_a_waiter(database)
    assert isinstance(gone.exception(30), NotFoundError)
    recorder.close()


def test_who_gives_up_waiting_leaves_others_their_wishes(
    database: Database, settings: ServiceSettings, people: list[str]
) -> None:
    recorder = Recorder(database, settings)
    with held(database, recorder):
        given_up = recorder.submit("u1", [Said("item", "i1", 0.5)])
        good = recorder.submit("u2", [Said("item", "i1", 0.5)])
        assert given_up.cancel()
    assert len(good.result(30)) == 1
    assert recorder.is_at_work
    with database.reading() as session:
        assert wishes.standing(session, "u1") == []
    recorder.close()
    assert not recorder.is_at_work


def test_history_tells_what_was_before_in_pages(
    database: Database, settings: ServiceSettings, people: list[str]
) -> None:
    for value in (0.25, 1.0, None):
        with database.writing() as session:
            wishes.record(session, settings, [("u1", [Said("item", "i1", value)])])
    with database.reading() as session:
        first = wishes.history(session, "u1", limit=2)
        second = wishes.history(session, "u1", limit=2, cursor=first.next)
    told = [(each.before, each.unwillingness, each.in_force) for each in first.wishes + second.wishes]
    assert told == [(1.0, None, False), (0.25, 1.0, False), (None, 0.25, False)]
    assert second.next is None
    for wrong in ("x", "9" * 23, "１", "-1"):
        with database.reading() as session, pytest.raises(AssentError, match="cursor"):
            wishes.history(session, "u1", cursor=wrong)


def test_what_was_replaced_or_withdrawn_has_ended(
    database: Database, settings: ServiceSettings, people: list[str]
) -> None:
    def said_now(*said: Said) -> None:
        with database.writing() as session:
            wishes.record(session, settings, [("u1", said)])

    def ended() -> list[bool]:
        with database.reading() as session:
            found = wishes.history(session, "u1").wishes
            present = wishes.history(session, "u1", ended=False).wishes
        assert present == [each for each in found if each.ended is None]
        return [each.ended is not None for each in reversed(found)]

    said_now(Said("item", "i1", 0.5), Said("category", "a", 1.0))
    assert ended() == [False, False]
    said_now(Said("item", "i1", None))
    assert ended() == [True, False, False]
    said_now(WITHDRAW_EVERYTHING)
    said_now(Said("item", "i1", 0.25))
    assert ended() == [True, True, True, False, False]


def test_times_to_honour_are_median_and_worst(
    database: Database, settings: ServiceSettings, people: list[str]
) -> None:
    from sqlalchemy import update

    from assent.service.tables import Wish

    for took in (1.0, 2.0, 4.0, 10.0, None):
        with database.writing() as session:
            [[recorded]] = wishes.record(session, settings, [("u1", [Said("item", "i1", 0.5)])])  # type: ignore[misc]
            if took is not None:
                session.execute(
                    update(Wish).values(served=Wish.requested + took).where(Wish.id == recorded.wish)
                )
    with database.reading() as session:
        decided, _, served = wishes.times_to_honour(session, days=1)
    assert (decided.count, decided.median, decided.waiting) == (0, None, 5)
    assert (served.count, served.waiting) == (4, 1)
    assert served.median == pytest.approx(3.0, abs=1e-5)
    assert served.worst == pytest.approx(10.0, abs=1e-5)


def test_pages_go_through_all_interactions(
    database: Database, settings: ServiceSettings, people: list[str]
) -> None:
    with database.reading() as session:
        seen, cursor = [], None
        while True:
            page = entries.page(session, settings, "u1", limit=3, cursor=cursor)
            seen += [row.item for row in page.rows]
            if (cursor := page.next) is None:
                break
        assert seen == ["i4", "i3", "i2", "i1"]
        assert [row.item for row in entries.page(session, settings, "u1", category="a").rows] == [
            "i2",
            "i1",
        ]
        assert [row.item for row in entries.page(session, settings, "u1", search="I3").rows] == ["i3"]
        assert entries.page(session, settings, "u1", search="%").rows == []
        assert entries.page(session, settings, "nobody").rows == []
        counted = [(each.category, each.count) for each in entries.categories(session, "u1")]
        assert counted == [("a", 2), ("b", 2)]
        for cursor in ("x", "nan~1", "1.0~-1"):
            with pytest.raises(AssentError, match="cursor"):
                entries.page(session, settings, "u1", cursor=cursor)


def test_of_what_is_known_already_the_time_stays(
    database: Database, settings: ServiceSettings, people: list[str]
) -> None:
    again = [replace(row, at=99.0, unwillingness=0.9, title="New title", categories=["b", "c", "b"])
             for row in rows_of("u1")[:1]]  # fmt: skip
    with database.writing() as session:
        assert interactions.add(session, [*again, *again, NewInteraction("u1", "i9", 5.0)]) == (
            interactions.Added(added=1, known=2, consents=1)
        )
        row = entries.one(session, settings, "u1", "i1")
    assert (row.at, row.unwillingness, row.title, row.categories) == (0.0, 0.9, "New title", ("b", "c"))


def test_deleting_and_erasing(database: Database, settings: ServiceSettings, people: list[str]) -> None:
    with database.writing() as session:
        wishes.record(session, settings, [("u1", [Said("item", "i1", 0.5)])])
        interactions.delete(session, "u1", "i1")
        with pytest.raises(NotFoundError):
            interactions.delete(session, "u1", "i1")
        interactions.erase(session, "u1")
        with pytest.raises(NotFoundError):
            interactions.erase(session, "u1")
    with database.snapshot() as session:
        assert not interactions.exists(session, "u1")
        assert wishes.history(session, "u1").wishes == []
        assert interactions.exists(session, "u2")
        lines = list(export_lines(session))
    assert check_ledger(lines, "ledger")[1] == []
    assert "wish requested" in "".join(lines)  # that something was said stays, but not by whom or of what
    assert not any(word in "".join(lines) for word in ("u1", "i1"))


def test_uploads_wishes_and_deletions_never_wait_in_a_circle(
    database: Database, settings: ServiceSettings, people: list[str]
) -> None:
    """Everybody changes the same few people, in other orders; a database that gave up would raise."""

    def upload(seed: int) -> None:
        lots = random.Random(seed)
        for number in range(6):
            users = lots.sample(people, 6)
            rows = [
                NewInteraction(user, f"new {lots.randrange(4)}", number, f"T{seed}", [lots.choice("ab")])
                for user in users
            ]
            with database.writing() as session:
                interactions.add(session, rows if seed % 2 else rows[:1])

    def say(seed: int) -> None:
        lots = random.Random(seed)
        for _ in range(6):
            asked = [(user, [Said("item", "i1", lots.random())]) for user in lots.sample(people, 6)]
            with database.writing() as session:
                wishes.record(session, settings, asked)

    def remove(seed: int) -> None:
        lots = random.Random(seed)
        for user in lots.sample(people, 6):
            with database.writing() as session, suppress(NotFoundError):
                interactions.delete(session, user, lots.choice(["i2", "i3", "i4"]))

    with ThreadPoolExecutor(9) as pool:
        done = [pool.submit(work, seed) for seed in range(3) for work in (upload, say, remove)]
        for each in done:
            each.result(60)
    with database.snapshot() as session:
        assert check_ledger(export_lines(session), "ledger")[1] == []


@pytest.mark.parametrize(("search", "found"), [("I2", 1), ("i", 4), ("%", 0), ("_", 0), ("/", 0), ("", 4)])
def test_a_search_finds_what_has_its_letters(
    database: Database, settings: ServiceSettings, search: str, found: int
) -> None:
    with database.writing() as session:
        interactions.add(session, rows_of("ann"))
    with database.reading() as session:
        assert len(entries.page(session, settings, "ann", search=search).rows) == found
        both = entries.page(session, settings, "ann", search=search, category="b", state="undecided")
    assert {each.item for each in both.rows} == ({"i2", "i3"} if found == 4 else {"i2"} if found else set())


def test_an_upload_of_any_size_is_added_once(database: Database, settings: ServiceSettings) -> None:
    rows = [
        NewInteraction(f"u{place // 3}", f"i{place % 7}", float(place), "Old", ["a"])
        for place in range(12_000)
    ]
    with database.writing() as session:
        assert interactions.add(session, rows) == interactions.Added(12_000, 0)
    with database.writing() as session:
        again = [NewInteraction("u0", "i0", 99.0, "New", ["b", "c", "b"]), NewInteraction("new", "i0", 1.0)]
        assert interactions.add(session, again) == interactions.Added(1, 1)
    with database.reading() as session:
        [first, *_] = entries.page(session, settings, "u0").rows[::-1]
    assert (first.item, first.at, first.title, first.categories) == ("i0", 0.0, "New", ("b", "c"))
