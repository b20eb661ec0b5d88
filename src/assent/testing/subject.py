"""Small split logs, and changes of their withheld rows that may leave no trace in a model."""

from collections.abc import Callable, Iterable

import numpy as np
import polars as pl

from assent.data.interactions import NO_ITEMS, Interactions
from assent.data.problem import Problem, make_problem_from_parts, parts_of
from assent.data.simulate import simulate
from assent.support.arrays import Bools

Change = Callable[[pl.DataFrame, np.random.Generator], pl.DataFrame]
"""A change of a split log that keeps its disclosed, validation and test rows."""


def split_log(seed: int, share: float) -> pl.DataFrame:
    """Return a log with columns `split` and `disclosed`, True for about `share` of the training rows.

    Every fifth user discloses nothing.
    """
    log = simulate(preference="learnable", users=30, items=40, seed=seed).table.drop("source", "said")
    from_end = pl.len().over("user") - pl.int_range(pl.len()).over("user")
    split = pl.when(from_end == 1).then(pl.lit("test")).when(from_end == 2).then(pl.lit("valid"))
    lots = pl.Series(np.random.default_rng(seed).random(log.height) < share)
    secretive = pl.col("user").str.slice(1).cast(pl.Int64) % 5 == 0
    table = log.with_columns(split=split.otherwise(pl.lit("train")))
    return table.with_columns(disclosed=lots & ~secretive & (pl.col("split") == "train"))


def problem_of(table: pl.DataFrame) -> tuple[Problem, Bools]:
    """Return the problem of a split log, and the selection of its disclosed rows."""
    problem = make_problem_from_parts(*parts_of(Interactions("log", table, NO_ITEMS)), negatives=1)
    disclosed = set(table.filter("disclosed").select("user", "item").iter_rows())
    users, items = problem.user_ids[problem.train.users], problem.item_ids[problem.train.items]
    selection = [pair in disclosed for pair in zip(users.tolist(), items.tolist(), strict=True)]
    assert sum(selection) == len(disclosed)
    return problem, np.array(selection, dtype=np.bool_)


def is_withheld(table: pl.DataFrame) -> pl.Series:
    """Return which rows are training rows that are not disclosed: [rows]."""
    return (table["split"] == "train") & ~table["disclosed"]


def _with(table: pl.DataFrame, column: str, values: Iterable[object]) -> pl.DataFrame:
    """Return the table with other `values[rows]` in a column of the withheld rows."""
    changed = pl.when(is_withheld(table)).then(pl.Series(values)).otherwise(pl.col(column))
    return table.with_columns(changed.alias(column))


def drop_all(table: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """Drop all withheld rows."""
    return table.filter(~is_withheld(table))


def drop_some(table: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """Drop about half of the withheld rows."""
    return table.filter(~(is_withheld(table) & pl.Series(rng.random(table.height) < 0.5)))


def drop_one(table: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """Drop one withheld row, if there is one."""
    gone = rng.permutation(is_withheld(table).arg_true())[:1]
    return table.filter(~pl.int_range(pl.len()).is_in(gone.tolist()))


def drop_secretive_users(table: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """Drop the training rows of users who withhold all of them."""
    candid = table.filter("disclosed")["user"].unique().implode()
    return table.filter((pl.col("split") != "train") | pl.col("user").is_in(candid))


def swap_items(table: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """Replace the item of each withheld row by another item of the log that its user does not have."""
    every, items = sorted(set(table["item"])), table["item"].to_list()
    taken = set(table.select("user", "item").iter_rows())
    for place in is_withheld(table).arg_true():
        user = table["user"][place]
        items[place] = str(rng.choice([item for item in every if (user, item) not in taken]))
        taken.add((user, items[place]))
    return _with(table, "item", items)


def invent_items(table: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """Replace the item of each withheld row by a new one; some sort first, some last."""
    names = [f"{'!~'[int(rng.integers(2))]}new {rng.integers(10**9)}-{row}" for row in range(table.height)]
    return _with(table, "item", names)


def change_unwillingness(table: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """Change the unwillingness of withheld rows, also to "never", which drops the row at once."""
    return _with(table, "unwillingness", rng.choice([0.0, 0.2, 0.999, 1.0], table.height))


def change_times(table: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """Change the times of withheld rows, also to times after the validation and test rows."""
    return _with(table, "time", rng.choice([-1.0, 0.5, 1e9], table.height))


def shuffle(table: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """Change the order of the rows."""
    return table[rng.permutation(table.height)]


def add_rows(table: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """Add a withheld row for every user and for new users."""
    users = ["!new user", *sorted(set(table["user"])), "~new user"]
    numbers = {"time": rng.random(len(users)) * 10, "unwillingness": rng.random(len(users))}
    items = [f"added {rng.integers(10**9)}" for _ in users]
    added = pl.DataFrame({"user": users, "item": items, **numbers}).with_columns(
        split=pl.lit("train"), disclosed=pl.lit(value=False)
    )
    return pl.concat([added.select(table.columns), table])


CHANGES: list[Change] = [
    *(drop_all, drop_some, drop_one, drop_secretive_users, swap_items, invent_items),
    *(change_unwillingness, change_times, shuffle, add_rows),
]
