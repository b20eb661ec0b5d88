"""Jobs: whoever is killed, each is done at most once, and none is lost."""

import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st
from sqlalchemy import update

from assent.service import jobs
from assent.service.database import Database, NotFoundError
from assent.service.jobs import LEASE, LostJobError, Taken
from assent.service.tables import Job


def asked(database: Database, number: int) -> list[int]:
    with database.writing() as session:
        return [jobs.enqueue(session, "update", {"number": n}, by="tests") for n in range(number)]


def moved(database: Database, taken: Taken, move: str, now: float) -> bool:
    """Whether the holder of a job could do something; not if it was killed, or another has the job."""
    try:
        with database.writing() as session:
            if move == "beat":
                jobs.heartbeat(session, taken, now=now)
            elif move == "fail":
                jobs.fail(session, taken, "it broke", now=now)
            elif move == "finish":
                jobs.hold(session, taken)
                jobs.finish(session, taken, {"by": taken.token}, now=now)
    except LostJobError:
        return False
    return move != "kill"


@examples(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10_000), workers=st.integers(1, 4), number=st.integers(1, 5))
def test_jobs_are_done_at_most_once_whoever_is_killed(
    database: Database, seed: int, workers: int, number: int
) -> None:
    """Workers take, beat, finish, fail, stall beyond their lease and come back, in any order."""
    lots, now = random.Random(seed), 1e9
    with database.writing() as session:  # what other examples left is no matter
        session.execute(update(Job).values(state="done").where(Job.state.in_(("queued", "running"))))
    ids = asked(database, number)
    with database.writing() as session:
        session.execute(update(Job).values(run_after=now, most_attempts=4).where(Job.id.in_(ids)))
    held: list[Taken] = []
    effects: Counter[int] = Counter()
    for _ in range(60):
        now += lots.choice([0.0, 1.0, LEASE / 2, LEASE * 1.1])
        move = lots.choice(["take", "take", "finish", "finish", "beat", "fail", "kill"])
        if move == "take":
            with database.writing() as session:
                taken = jobs.take(session, f"w{lots.randrange(workers)}", now=now)
            held += [] if taken is None else [taken]
        elif held:
            some = held.pop(lots.randrange(len(held)))
            if moved(database, some, move, now):
                effects[some.id] += move == "finish"
                held += [some] if move == "beat" else []
    assert max(effects.values(), default=0) <= 1
    while True:  # whoever is left does the rest
        now += 1e6
        with database.writing() as session:
            taken = jobs.take(session, "last", now=now)
            if taken is None:
                break
            jobs.finish(session, taken, {"by": taken.token}, now=now)
            effects[taken.id] += 1
    with database.reading() as session:
        ended = [jobs.get(session, id) for id in ids]
    assert {each.id: each.state for each in ended} == {id: "done" if effects[id] else "failed" for id in ids}
    assert all(each.attempts <= each.most_attempts for each in ended)
    assert all(each.error for each in ended if each.state == "failed")


def test_several_workers_share_the_jobs(database: Database) -> None:
    ids = asked(database, 24)

    def work(name: int) -> list[int]:
        done: list[int] = []
        while True:
            with database.writing() as session:
                taken = jobs.take(session, f"w{name}")
            if taken is None:
                return done
            with database.writing() as session:
                jobs.finish(session, taken, {})
            done.append(taken.id)

    with ThreadPoolExecutor(4) as pool:
        done = [id for each in pool.map(work, range(4)) for id in each]
    assert sorted(done) == ids


def test_a_job_that_somebody_takes_does_not_block_others(database: Database) -> None:
    if database.is_sqlite:
        pytest.skip("one writer at a time")
    first, second = asked(database, 2)
    with database.writing() as session, database.writing() as other:
        one, two = jobs.take(session, "a"), jobs.take(other, "b")
        assert one is not None
        assert two is not None
        assert (one.id, two.id) == (first, second)


def test_asking_again_finds_the_job_that_waits(database: Database) -> None:
    with database.writing() as session:
        one = jobs.enqueue(session, "train", by="ann")
        assert jobs.enqueue(session, "train", by="bob") == one
        assert jobs.enqueue(session, "train", {"why": "else"}, by="bob") != one
        taken = jobs.take(session, "w")
        assert taken is not None
        assert jobs.enqueue(session, "train", by="bob") != one  # what runs does not know what came since


def test_failures_are_kept_and_bounded(database: Database) -> None:
    with database.writing() as session:
        id = jobs.enqueue(session, "train", by="ann")
    now, waits = 1e10, []
    for attempt in range(jobs.MOST_ATTEMPTS):
        with database.writing() as session:
            taken = jobs.take(session, "w", now=now)
            assert taken is not None
            jobs.fail(session, taken, f"error {attempt}" + "x" * 1000, now=now)
        with database.writing() as session:
            assert jobs.take(session, "w", now=now + 1) is None
            job = session.get_one(Job, id)
            waits.append(job.run_after - now)
            now += 1000
    with database.reading() as session:
        found = jobs.get(session, id)
        assert (found.state, found.attempts, jobs.counts(session)["failed"]) == ("failed", 3, 1)
        assert found.error is not None
        assert found.error.startswith("error 2")
        assert len(found.error) < 600
    assert waits[1] > waits[0] > 0


def test_a_job_is_put_back(database: Database) -> None:
    with database.writing() as session:
        id = jobs.enqueue(session, "train", by="ann")
        taken = jobs.take(session, "w")
        assert taken is not None
        jobs.release(session, taken)
        again = jobs.take(session, "w")
        assert again is not None
        assert (again.id, again.token) == (id, taken.token + 1)
        assert jobs.get(session, id).attempts == 1
        with pytest.raises(LostJobError):
            jobs.finish(session, taken, {})


def test_pages_of_jobs(database: Database) -> None:
    ids = asked(database, 3)
    with database.reading() as session:
        page, cursor = jobs.page(session, limit=2)
        rest, end = jobs.page(session, limit=2, cursor=cursor)
        assert [each.id for each in page + rest] == ids[::-1]
        assert end is None
        assert jobs.page(session, state="done") == ([], None)
        with pytest.raises(NotFoundError):
            jobs.get(session, 999)
