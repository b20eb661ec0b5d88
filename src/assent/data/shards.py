"""Shards: people dealt into groups by their ids alone, each group with a problem of its own.

A person's shard is a function of their id, the number of shards and the seed. The problem of a shard is built
from the rows of its people: its vocabulary, its candidates and its fingerprint know of nobody else. So a
change of one person's rows changes the problem of one shard.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from assent.data.live import undivided
from assent.data.problem import NEEDED, TEST, TRAIN, VALID, Problem, Protocol, build
from assent.data.wishes import Wishes
from assent.support.arrays import Bools, Ints, Keys, below, mix
from assent.support.draws import Purpose
from assent.support.errors import AssentError


@dataclass(frozen=True)
class Shard:
    """Some of the people, with their part of both problems of a live run."""

    split: Problem
    """The problem that quality is measured on."""
    live: Problem
    """The problem that decides on every row."""
    split_rows: Bools
    """Which training rows of the whole split are the shard's: in the same order there: [len(train)]"""
    live_rows: Bools
    """The same of the live problem."""


def dealt(user_keys: Keys, shards: int, seed: int = 0) -> Ints:
    """Return the shard of each person, from 0 to `shards` − 1, by a hash of their id: [n_users]."""
    return below(mix(seed, Purpose.SHARDS, user_keys), shards)


def shards_of(
    split: Problem, live: Problem, shards: int, seed: int = 0, *, least: int = 1
) -> Sequence[Shard]:
    """Deal the people of both problems of a live run into so many shards, or fewer.

    A shard needs `least` rows to train on, one to measure them by, and items that not all of its people have.
    People who are too few for that join those of the next number, the last ones those before them. So whoever
    withdraws, the others are still decided on.
    """
    problems = (split, live)
    owners = [dealt(problem.user_keys, shards, seed) for problem in problems]
    numbers = _joined(problems, owners, shards, least)
    if not numbers:
        few = f"fewer than {least} rows to train on, or nobody has {NEEDED} interactions or more"
        raise AssentError(f"shards={shards}: {few}; accepted: a larger log")
    found = []
    for together in numbers:
        here = [(problem, np.isin(of, together)) for problem, of in zip(problems, owners, strict=True)]
        on_split, on_all = (part_of(problem, people) for problem, people in here)
        assert on_split is not None
        assert on_all is not None
        rows = (people[problem.train.users] for problem, people in here)
        found.append(Shard(on_split, on_all, *rows))
    return found


def _joined(problems: Sequence[Problem], owners: Sequence[Ints], shards: int, least: int) -> list[list[int]]:
    """Join the numbers of shards, `owners[n_users]` per problem, until those of each suffice."""
    found, together = list[list[int]](), list[int]()
    for number in range(shards):
        together.append(number)
        here = ((problem, np.isin(of, together)) for problem, of in zip(problems, owners, strict=True))
        if all(_suffices(problem, people, least) for problem, people in here):
            found.append(together)
            together = []
    if found:
        found[-1] += together
    return found


def _suffices(problem: Problem, people: Bools, least: int) -> bool:
    """Whether `people[n_users]` have rows to train on, rows to measure by, and items that others lack."""
    parts = [rows[people[rows.users]] for rows in (problem.train, problem.valid, problem.test)]
    if people[problem.train.users[problem.measurable]].sum() < least or not len(parts[1]):
        return False
    parts = parts if problem.judges is None else parts[:1]
    users, items = (np.concatenate([getattr(each, name) for each in parts]) for name in ("users", "items"))
    return bool(np.bincount(users)[users].min() < len(np.unique(items)))


def part_of(problem: Problem, people: Bools) -> Problem | None:
    """Return the problem of some `people[n_users]` alone, with their rows in the same order.

    None if they have no row.
    """
    table = _table(problem, people)
    if table.is_empty():
        return None
    protocol = Protocol.FULL if problem.test_candidates is None else Protocol.PAPER_TABLES
    built = build(
        problem.name,
        table,
        protocol,
        label=problem.protocol,
        seed=problem.seed,
        negatives=problem.negatives,
    )
    if problem.judges is not None:
        built = undivided(built, table)
    return replace(built, wishes=_wishes(problem, people))


def _table(problem: Problem, people: Bools) -> pl.DataFrame:
    """The rows of the people as `build` takes them: sorted by user and, within a user, in their order."""
    train = np.full(len(problem.train), TRAIN)
    rows, parts = [problem.train, problem.valid, problem.test], [train]
    if problem.judges is not None:  # which are the validation rows
        train[problem.judges] = VALID
        rows = rows[:1]
    parts += [np.full(len(each), part) for each, part in zip(rows[1:], (VALID, TEST), strict=False)]
    unwillingness = [problem.unwillingness, *(np.zeros(len(each)) for each in rows[1:])]
    users, items = (np.concatenate([getattr(each, name) for each in rows]) for name in ("users", "items"))
    places = np.argsort(users, kind="stable")
    places = places[people[users[places]]]
    return pl.DataFrame(
        {
            "user": problem.user_ids[users[places]],
            "item": problem.item_ids[items[places]],
            "unwillingness": np.concatenate(unwillingness)[places],
            "part": np.concatenate(parts)[places],
        },
        schema_overrides={"user": pl.String, "item": pl.String},
    )


def _wishes(problem: Problem, people: Bools) -> Wishes:
    """What these people ask for; groups are numbered anew, so that they do not tell of others."""
    wishes, rows = problem.wishes, people[problem.train.users]
    groups = None if wishes.groups is None else np.unique(wishes.groups[rows], return_inverse=True)[1]
    return Wishes(
        groups=groups,
        budget=None if wishes.budget is None else wishes.budget[people],
        floor=None if wishes.floor is None else wishes.floor[people],
        prior=None if wishes.prior is None else wishes.prior[rows],
        power=wishes.power,
    )
