"""iALS on a log that is larger than a machine's memory: the half-steps of an epoch as jobs over shards.

The process that leads holds the vectors of people and items, never the log. In a half-step, the vectors of
the other side are shared by all jobs, each job reads its shard and improves the vectors of its rows, and
returns them with the products of its blocks; these are summed in the order of blocks. The model has the bytes
of `training.train` on the same rows without validation rows.
"""

import json
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from assent.lab.executor import Executor
from assent.lab.partitions import Shard, Shards, entries_of, rows_in_order
from assent.models import Draws, Sizes
from assent.models.checks import make_model
from assent.models.ials import CALIBRATING, IALS
from assent.models.layers import mean_row
from assent.support.arrays import Ints, Keys, hash_arrays, mix, string_keys
from assent.support.draws import Purpose
from assent.support.errors import AssentError
from assent.support.progress import SILENT, Advance, Progress
from assent.support.ridge import (
    Array,
    Entries,
    basis_of,
    gram_parts,
    improve_turned,
    in_blocks,
    solve_turned,
    summed,
)
from assent.support.runtime import flushed, one_thread
from assent.training import Settings, Trained
from assent.training.adam import Moments
from assent.training.trainer import Checkpoint

SAVE_EVERY = 60.0
"""Seconds between two checkpoints."""
_OF_SHARD = 6
"""Memory of a job for each byte of the file of its shard: the file, its arrays, vectors before and after."""


class _Half(NamedTuple):
    """What the jobs of a half-step share."""

    folder: Path
    table: Array
    """The vectors of the other side, in the basis: [columns, d]."""
    gram: Array
    """The eigenvalues of G: [d]."""
    basis: Array
    model: IALS
    """Without vectors: it knows the weights α and λ."""
    is_last: bool
    """Whether to solve exactly."""
    memory: int
    """Bytes that a job takes, besides libraries."""


class _Own(NamedTuple):
    """A job: a shard, and the vectors of its rows."""

    shard: Shard
    vectors: Array

    @property
    def label(self) -> str:
        return self.shard.label


class _Lots(NamedTuple):
    """Rows drawn by lot."""

    lots: Keys
    users: Ints
    items: Ints
    keys: Keys


def train_sharded(
    shards: Shards,
    settings: Settings,
    *,
    seed: int,
    executor: Executor,
    progress: Progress = SILENT,
    checkpoint: Path | None = None,
) -> Trained:
    """Train iALS for all its epochs on all rows of the shards.

    With `checkpoint`, the state is saved to that file about every minute, after an epoch; a later call with
    the same arguments continues from it.
    """
    how = settings.training
    if settings.model != IALS.name:
        raise AssentError(f"--model {settings.model}: shards are for {IALS.name} alone")
    sizes = Sizes(len(shards.user_ids), len(shards.item_ids), shards.rows, how.negatives)
    draws = Draws(seed, string_keys(shards.user_ids), string_keys(shards.item_ids), how.initialisation)
    content = hash_arrays(shards.user_ids, shards.item_ids, str(shards.rows).encode())
    key = json.dumps([content, settings.model_dump(mode="json"), seed], sort_keys=True)
    saved = Checkpoint(checkpoint, key, SAVE_EVERY)
    with torch.no_grad(), one_thread(), flushed():
        model = make_model(IALS, sizes, settings.model_settings, draws)
        assert isinstance(model, IALS)
        no_moments: Moments = defaultdict(dict)  # iALS has its own solver
        state = saved.load(model, no_moments)
        leader = _Leader(shards, model, executor)
        users, both = len(shards.user_shards), len(shards.user_shards) + len(shards.item_shards)
        with progress.task("training, shards of epochs", how.last_epoch * both + users) as advance:
            for _ in range(state.epoch * both):
                advance()
            while state.epoch < how.last_epoch:
                leader.improve_items(advance)
                leader.improve_users(advance)
                state.epoch += 1
                saved.keep(model, no_moments, state)
            leader.finish(draws, advance)
    saved.remove()
    about = shards.user_ids, shards.item_ids, seed, how.last_epoch, None
    return Trained(model.eval(), *about, seconds=saved.seconds)


class _Leader:
    """Holds the vectors, and sends the jobs of half-steps."""

    def __init__(self, shards: Shards, model: IALS, executor: Executor) -> None:
        self._shards, self._model, self._executor = shards, model, executor
        self._users, self._items = model.user_table[:-1].numpy(), model.item_table[:-1].numpy()
        every = (*shards.user_shards, *shards.item_shards)
        self._largest = max(shards.size_of(shard) for shard in every)
        self._of_users = gram_parts(self._users)
        self._of_items = gram_parts(self._items)
        empty = IALS(Sizes(0, 0, 0, 1), model.settings)
        empty.weigh(model.sizes)
        self._weights = empty

    def improve_items(self, advance: Advance) -> None:
        half = self._half(self._users, self._of_users)
        self._of_items = self._run(half, self._shards.item_shards, self._items, advance)

    def improve_users(self, advance: Advance) -> None:
        half = self._half(self._items, self._of_items)
        self._of_users = self._run(half, self._shards.user_shards, self._users, advance)

    def finish(self, draws: Draws, advance: Advance) -> None:
        """Solve for the users, calibrate, and give the unknown user the mean vector."""
        half = self._half(self._items, self._of_items, is_last=True)
        self._run(half, self._shards.user_shards, self._users, advance)
        self._calibrate(draws)
        self._model.user_table[-1] = mean_row(self._model.user_table[:-1])

    def _gram(self, parts: list[Array]) -> Array:
        inner = summed(parts, self._users.shape[1])
        return self._model.gram(inner).astype(self._users.dtype)

    def _half(self, table: Array, parts: list[Array], *, is_last: bool = False) -> _Half:
        gram, basis = basis_of(self._gram(parts), table.dtype)
        memory = table.nbytes + _OF_SHARD * self._largest
        return _Half(
            self._shards.folder, in_blocks(table, basis), gram, basis, self._weights, is_last, memory
        )

    def _run(self, half: _Half, shards: list[Shard], vectors: Array, advance: Advance) -> list[Array]:
        """Set the vectors of all shards; return the products of their blocks, in order."""
        jobs = [_Own(shard, vectors[shard.rows]) for shard in shards]
        parts: list[Array] = []
        for shard, (found, products) in zip(
            shards, self._executor.map(_improved, jobs, half, advance), strict=True
        ):
            vectors[shard.rows] = found
            parts += products
        return parts

    def _calibrate(self, draws: Draws) -> None:
        """Calibrate on the rows whose lots are the least of all shards'."""
        some, folder = self._shards.user_shards, self._shards.folder
        drawn = self._executor.map(_drawn, some, (folder, draws.user_keys, draws.item_keys), lambda: None)
        order = np.argsort(np.concatenate([each.lots for each in drawn]), kind="stable")[:CALIBRATING]
        bounds = np.cumsum([0, *(len(each.lots) for each in drawn)])
        chosen = [np.sort(order[(order >= low) & (order < high)]) - low for low, high in pairwise(bounds)]
        users, items, keys = (
            np.concatenate([getattr(each, name)[few] for each, few in zip(drawn, chosen, strict=True)])
            for name in ("users", "items", "keys")
        )
        entries = [
            entries_of(folder, shard).take(each.users[few] - shard.rows.start)
            for shard, each, few in zip(some, drawn, chosen, strict=True)
        ]
        together = _joined(entries)
        ridge = self._model.ridge(together, len(self._items))
        self._model.calibrate_on(users, items, keys, together, self._gram(self._of_items), ridge)


def _joined(parts: list[Entries]) -> Entries:
    """Return the entries of several, one after the other."""
    offsets = np.cumsum([0, *(each.starts[-1] for each in parts)])
    starts = [each.starts[1:] + offset for each, offset in zip(parts, offsets[:-1], strict=True)]
    arrays = (
        np.concatenate([getattr(each, name) for each in parts]) for name in ("columns", "weights", "order")
    )
    return Entries(np.concatenate([np.zeros(1, np.int64), *starts]), *arrays)


def _improved(half: _Half, own: _Own, tell: Advance) -> tuple[Array, list[Array]]:
    """Return the vectors of a shard after a half-step, and the products of their blocks."""
    entries, x = entries_of(half.folder, own.shard), own.vectors.copy()
    ridge = half.model.ridge(entries, len(half.table))
    there = entries.regressions(half.table, half.gram, ridge)
    with flushed():
        if half.is_last:
            solve_turned(there, half.basis, x)
        else:
            improve_turned(there, half.basis, x)
        products = gram_parts(x)
    tell()
    return x, products


def _drawn(shared: tuple[Path, Keys, Keys], shard: Shard, tell: Advance) -> _Lots:
    """Return the rows of a shard that may be among those of the least lots, in order of person and time."""
    folder, user_keys, item_keys = shared
    users, items = rows_in_order(entries_of(folder, shard))
    users += shard.rows.start
    keys = mix(user_keys[users], item_keys[items])
    lots = mix(0, Purpose.CALIBRATION, keys)
    few = np.arange(len(lots))
    if len(lots) > CALIBRATING:
        few = np.sort(np.argpartition(lots, CALIBRATING)[:CALIBRATING])
    tell()
    return _Lots(lots[few], users[few], items[few], keys[few])
