"""Shards: people dealt into groups by their ids alone, each group with a problem of its own.

A person's shard is a function of their id, the number of shards and the seed. The problem of a shard is built
from the rows of its people: its vocabulary, its candidates and its fingerprint know of nobody else. So a
change of one person's rows changes the problem of one shard. A fingerprint takes no time worth speaking of:
the problems of shards that have not changed are never built.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from assent.data.live import undivided
from assent.data.problem import NEEDED, TEST, TRAIN, VALID, Problem, Protocol, Rows, build
from assent.data.wishes import Wishes
from assent.support.arrays import Bools, Ints, Keys, below, hash_arrays, mix
from assent.support.draws import Purpose
from assent.support.errors import AssentError


@dataclass(frozen=True, eq=False)
class Part:
    """Some of the people, with their rows of a problem; their own problem is built when it is asked for."""

    whole: Problem
    people: Bools
    """[n_users], whose it is; at least one of them has a row."""

    @cached_property
    def rows(self) -> Bools:
        """Which training rows of the whole are theirs, in the same order there: [len(train)]."""
        return self.people[self.whole.train.users]

    @cached_property
    def fingerprint(self) -> str:
        """A short name for all that the problem is built from: it depends on no other people."""
        whole, said = self.whole, self._said
        named = [whole.protocol, whole.test_candidates is None, whole.seed, whole.negatives]
        columns = [said[name] for name in ("unwillingness", "part")]
        for name, ids in (("users", whole.user_ids), ("items", whole.item_ids)):
            known, places = np.unique(said[name], return_inverse=True)
            named.append(ids[known].tolist())
            columns.append(places)
        return hash_arrays(json.dumps(named).encode() + self._wishes.mark(), *columns)

    @cached_property
    def problem(self) -> Problem:
        """The problem of these people alone, with their rows in the same order."""
        whole, said = self.whole, self._said
        protocol = Protocol.FULL if whole.test_candidates is None else Protocol.PAPER_TABLES
        table = pl.DataFrame(
            {
                "user": whole.user_ids[said["users"]],
                "item": whole.item_ids[said["items"]],
                "unwillingness": said["unwillingness"],
                "part": said["part"],
            },
            schema_overrides={"user": pl.String, "item": pl.String},
        )
        built = build(
            whole.name,
            table,
            protocol,
            label=whole.protocol,
            seed=whole.seed,
            negatives=whole.negatives,
        )
        if whole.judges is not None:
            built = undivided(built, table)
        return replace(built, wishes=self._wishes)

    @cached_property
    def decided_on(self) -> Problem:
        """Their training rows alone, among the items of the whole: what decisions are told of."""
        whole, train = self.whole, self.whole.train[self.rows]
        places = np.cumsum(self.people) - 1
        return replace(
            whole,
            user_ids=whole.user_ids[self.people],
            train=Rows(places[train.users], train.items),
            valid=whole.valid[:0],
            test=whole.test[:0],
            unwillingness=whole.unwillingness[self.rows],
            valid_candidates=whole.valid_candidates[:0],
            test_candidates=None,
            wishes=self._wishes,
            judges=None,
        )

    @property
    def _said(self) -> dict[str, Any]:
        """The rows by column: sorted by user and, within a user, in their order."""
        whole = self.whole
        part = np.full(len(whole.train), TRAIN)
        rows, parts = [whole.train, whole.valid, whole.test], [part]
        if whole.judges is not None:  # which are the validation rows
            part[whole.judges] = VALID
            rows = rows[:1]
        parts += [np.full(len(each), kind) for each, kind in zip(rows[1:], (VALID, TEST), strict=False)]
        unwillingness = [whole.unwillingness, *(np.zeros(len(each)) for each in rows[1:])]
        users = np.concatenate([each.users for each in rows])
        here = np.flatnonzero(self.people[users])
        here = here[np.argsort(users[here], kind="stable")]
        return {
            "users": users[here],
            "items": np.concatenate([each.items for each in rows])[here],
            "unwillingness": np.concatenate(unwillingness)[here],
            "part": np.concatenate(parts)[here],
        }

    @cached_property
    def _wishes(self) -> Wishes:
        """What these people ask for; groups are numbered anew, so that they do not tell of others."""
        wishes = self.whole.wishes
        groups = (
            None if wishes.groups is None else np.unique(wishes.groups[self.rows], return_inverse=True)[1]
        )
        return Wishes(
            groups=groups,
            budget=None if wishes.budget is None else wishes.budget[self.people],
            floor=None if wishes.floor is None else wishes.floor[self.people],
            prior=None if wishes.prior is None else wishes.prior[self.rows],
            power=wishes.power,
        )


@dataclass(frozen=True)
class Shard:
    """Some of the people, with their part of both problems of a live run."""

    numbers: tuple[int, ...]
    """What `dealt` says of them; several where too few people had a number."""
    split: Part
    """Of the problem that quality is measured on."""
    live: Part
    """Of the problem that decides on every row."""


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
    return [
        Shard(
            tuple(together),
            *(Part(problem, np.isin(of, together)) for problem, of in zip(problems, owners, strict=True)),
        )
        for together in numbers
    ]


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
