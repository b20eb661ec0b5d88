"""Logs with withheld rows, and ways to change those rows that no model may notice."""

from collections.abc import Callable

import numpy as np
import polars as pl

from assent.arrays import Bools
from assent.data.interactions import NO_ITEMS, Interactions
from assent.data.problem import Problem
from assent.data.simulator import simulate
from assent.data.split import make_problem_from_parts, parts_of

Change = Callable[[pl.DataFrame, np.random.Generator], pl.DataFrame]
"""A change of a split log that leaves its disclosed, validation and test rows as they are."""


def split_log(seed: int, share: float) -> pl.DataFrame:
    """A log with columns for its split and for what is disclosed: about `share` of the training rows.

    Every fifth user discloses nothing at all.
    """
    log = simulate(preference="learnable", users=30, items=40, seed=seed).table
    from_end = pl.len().over("user") - pl.int_range(pl.len()).over("user")
    split = pl.when(from_end == 1).then(pl.lit("test")).when(from_end == 2).then(pl.lit("valid"))
    lots = pl.Series(np.random.default_rng(seed).random(log.height) < share)
    secretive = pl.col("user").str.slice(1).cast(pl.Int64) % 5 == 0
    table = log.with_columns(split=split.otherwise(pl.lit("train")))
    return table.with_columns(disclosed=lots & ~secretive & (pl.col("split") == "train"))


def is_withheld(table: pl.DataFrame) -> pl.Series:
    """Which rows are training rows that are not disclosed: [rows]."""
    return (table["split"] == "train") & ~table["disclosed"]


def problem_of(table: pl.DataFrame) -> tuple[Problem, Bools]:
    """The problem of a split log, and the selection of the rows that it marks as disclosed."""
    parts = parts_of(Interactions("log", table, NO_ITEMS))
    problem = make_problem_from_parts(*parts, negatives=1)
    disclosed = set(table.filter("disclosed").select("user", "item").iter_rows())
    users, items = problem.user_ids[problem.train.users], problem.item_ids[problem.train.items]
    selection = [pair in disclosed for pair in zip(users.tolist(), items.tolist(), strict=True)]
    assert sum(selection) == len(disclosed)
    return problem, np.array(selection, dtype=np.bool_)


def drop_all(table: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """No withheld row is left."""
    return table.filter(~is_withheld(table))


def drop_some(table: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """About half of the withheld rows are left."""
    return table.filter(~(is_withheld(table) & pl.Series(rng.random(table.height) < 0.5)))


def drop_one(table: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """All withheld rows but one are left."""
    places = is_withheld(table).arg_true()
    if not len(places):
        return table
    gone = places[int(rng.integers(len(places)))]
    return table.filter(pl.int_range(pl.len()) != gone)


def drop_secretive_users(table: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """Those who withhold all of their training rows leave the training rows altogether."""
    candid = table.filter("disclosed")["user"].unique().implode()
    return table.filter((pl.col("split") != "train") | pl.col("user").is_in(candid))


def swap_items(table: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """Each withheld row turns into one of another item of the log that its user does not have."""
    every = sorted(set(table["item"]))
    theirs = {user: set(rows["item"]) for (user,), rows in table.group_by("user")}
    items = table["item"].to_list()
    for place in is_withheld(table).arg_true():
        user = table["user"][place]
        items[place] = str(rng.choice([item for item in every if item not in theirs[user]]))
        theirs[user].add(items[place])
    return table.with_columns(item=pl.Series(items))


def invent_items(table: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """Each withheld row turns into one of an item that no other row has; some sort first, some last."""
    names = [f"{'!~'[int(rng.integers(2))]}new {rng.integers(10**9)}-{row}" for row in range(table.height)]
    return table.with_columns(
        item=pl.when(is_withheld(table)).then(pl.Series(names)).otherwise(pl.col("item"))
    )


def change_unwillingness(table: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """Also to "never", which drops the row before anything else."""
    drawn = pl.Series(rng.choice([0.0, 0.2, 0.999, 1.0], table.height))
    value = pl.when(is_withheld(table)).then(drawn).otherwise(pl.col("unwillingness"))
    return table.with_columns(unwillingness=value)


def change_times(table: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """Also to times after the validation and test rows."""
    drawn = pl.Series(rng.choice([-1.0, 0.5, 1e9], table.height))
    return table.with_columns(time=pl.when(is_withheld(table)).then(drawn).otherwise(pl.col("time")))


def shuffle(table: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """The rows of the file are in another order."""
    return table[rng.permutation(table.height)]


def add_rows(table: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """Everybody, and some new users, withhold a row more."""
    users = ["!new user", *sorted(set(table["user"])), "~new user"]
    added = pl.DataFrame(
        {
            "user": users,
            "item": [f"added {rng.integers(10**9)}" for _ in users],
            "time": rng.random(len(users)) * 10,
            "unwillingness": rng.random(len(users)),
            "split": ["train"] * len(users),
            "disclosed": [False] * len(users),
        }
    )
    return pl.concat([added.select(table.columns), table])


CHANGES: list[Change] = [
    drop_all,
    drop_some,
    drop_one,
    drop_secretive_users,
    swap_items,
    invent_items,
    change_unwillingness,
    change_times,
    shuffle,
    add_rows,
]
