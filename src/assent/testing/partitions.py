"""Logs in partitions for tests and benchmarks, and the same rows in memory."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl

from assent.data.problem import Rows
from assent.data.simulate import simulate_parts
from assent.support.arrays import mix, string_keys
from assent.training.disclosed import Disclosed


def mixed_partitions(folder: Path, count: int, *, users: int, items: int, rows: int) -> Path:
    """Write a simulated log whose rows are in no order, so that people are in several files.

    Rows of items that end in 0 are never used in the second file.
    """
    parts = simulate_parts(count, users=users, items=items, rows=rows)
    table = pl.concat([part.table for part in parts]).sample(fraction=1, shuffle=True, seed=1)
    for number, part in enumerate(table.iter_slices(-(-rows // count))):
        never = (number == 1) & part["item"].str.ends_with("0")
        minded = pl.when(never).then(1.0).otherwise("unwillingness")
        part.with_columns(unwillingness=minded).write_parquet(folder / f"{number}.parquet")
    return folder


def in_memory(tables: Sequence[pl.DataFrame]) -> Disclosed:
    """Return what a training on the rows of all tables may see, without validation rows."""
    table = pl.concat(tables).sort("user", "time", maintain_order=True)
    (user_ids, users), (item_ids, items) = (
        np.unique(table[name].to_numpy().astype(np.str_), return_inverse=True) for name in ("user", "item")
    )
    user_keys, item_keys = string_keys(user_ids), string_keys(item_ids)
    rows, none = Rows(users, items), Rows(users[:0], items[:0])
    keys = mix(user_keys[users], item_keys[items])
    return Disclosed(user_ids, item_ids, user_keys, item_keys, rows, keys, none, keys[:0])
