"""Adam on embedding tables, row by row: a step costs what the rows of its batch cost, not what the tables do.

Adam moves every row at every step, also one without a gradient: its moments decay and it drifts on. Here a
row makes the steps that it missed when a batch next reads it, and all rows do at the end of an epoch. The
results are those of torch's Adam up to rounding.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from assent.models.contract import Lookup, Recommender
from assent.support.arrays import Ints
from assent.support.compiled import kernel

Array = npt.NDArray[np.float32]
_ONE = np.zeros(1, dtype=np.int64)
_FORGOTTEN = 160
"""Steps after which a moment of 0.9ᵏ moves nothing in float32 any more."""
_DECAYS, _LEAST = (0.9, 0.999), 1e-8
"""The decays of both moments, and what is added to the root of the second."""

Moments = defaultdict[Tensor, dict[str, Tensor]]
"""Of each parameter: the steps made and both moments, as torch's Adam names them; empty before a step."""


class Adam:
    """The moments of some parameters, and torch's Adam on them, which is made when it is first asked for.

    The first optimizer of a process loads torch's compiler, which takes longer than a small training.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], rate: float) -> None:
        self._parameters, self._rate = list(parameters), rate
        self.moments: Moments = defaultdict(dict)

    @cached_property
    def of_torch(self) -> torch.optim.Adam:
        """It takes steps along the gradients that autograd found."""
        made = torch.optim.Adam(self._parameters, lr=self._rate, betas=_DECAYS, eps=_LEAST, fused=True)
        made.state = self.moments
        return made


class RowAdam:
    """Takes the steps of one epoch for a model that gives its `gradients` by hand.

    The `moments` of all parameters are what torch's Adam would have, had it made the steps itself. `rates`
    are the learning rates of the epoch's steps.
    """

    def __init__(self, model: Recommender, moments: Moments, rates: Sequence[float]) -> None:
        self._model, self._done = model, 0
        self._slots = {
            "users": np.full(model.n_users + 1, -1, dtype=np.int64),
            "items": np.full(model.n_items + 1, -1, dtype=np.int64),
        }
        tables = model.tables()
        self._tables = [(each.of, _Rows(each.values, moments, rates, whole=False)) for each in tables]
        in_tables = {each.values for each in tables}
        self._others = [
            (value, _Rows(value, moments, rates, whole=True))
            for value in model.parameters()
            if value not in in_tables
        ]

    def step(self, users: Ints, items: Ints) -> float:
        """Take a step along the gradient of `users[n]` with `items[n, m]`; return their mean loss.

        A loss that is not finite changes nothing.
        """
        read = {"users": _lookup(users, self._slots["users"]), "items": _lookup(items, self._slots["items"])}
        for of, table in self._tables:
            table.catch_up(read[of].rows, self._done)
        for value, _ in self._others:
            value.grad = None
        loss, gradients = self._model.gradients(read["users"], read["items"])
        if not math.isfinite(loss):
            return loss
        for (of, table), gradient in zip(self._tables, gradients, strict=True):
            table.move(read[of].rows, gradient, self._done)
        for value, whole in self._others:
            if value.grad is not None:
                whole.move(_ONE, value.grad.reshape(1, -1), self._done)
        self._done += 1
        return loss

    def settle(self) -> None:
        """Let every row make the steps that it missed."""
        for _, rows in (*self._tables, *self._others):
            rows.settle(self._done)


class _Rows:
    """A table, or another parameter as a table of one row; its moments; the steps that each row has made."""

    def __init__(
        self, parameter: nn.Parameter, moments: Moments, rates: Sequence[float], *, whole: bool
    ) -> None:
        state = moments[parameter]
        if not state:  # as torch's Adam starts
            state["step"] = torch.zeros(())
            state["exp_avg"], state["exp_avg_sq"] = (torch.zeros_like(parameter.detach()) for _ in range(2))
        self._step: Tensor = state["step"]
        values = parameter.detach(), state["exp_avg"], state["exp_avg_sq"]
        arrays = [(each.view(1, -1) if whole else each).numpy() for each in values]
        self._made = np.zeros(len(arrays[0]), dtype=np.int64)
        (first, second), missed = _DECAYS, np.arange(len(rates) + 1)
        steps = self._step.item() + 1 + missed[:-1]
        how = (
            rates / (1 - first**steps),
            1 / np.sqrt(1 - second**steps),
            first**missed,
            second ** (missed / 2),
            np.array([1 - first, second, 1 - second, _LEAST]),
        )
        self._arguments: tuple[Any, ...] = *arrays, self._made, *(each.astype(np.float32) for each in how)

    def catch_up(self, rows: Ints, until: int) -> None:
        _catch_up(rows, until, *self._arguments)

    def move(self, rows: Ints, gradient: Tensor, step: int) -> None:
        _move(rows, gradient.numpy(), step, *self._arguments)

    def settle(self, until: int) -> None:
        self.catch_up(np.arange(len(self._made)), until)
        self._step += until


def _lookup(ids: Ints, slots: Ints) -> Lookup:
    """Return the distinct ids in order, and where each of `ids` is among them; `slots` is memory to work in.

    In order they lie closer together: reading them takes half the time.
    """
    rows, places = np.empty(min(ids.size, len(slots)), dtype=np.int64), np.empty(ids.shape, dtype=np.int64)
    rows = np.sort(rows[: _mark(ids.reshape(-1), slots, rows)])
    _place(ids.reshape(-1), slots, rows, places.reshape(-1))
    return Lookup(rows, places)


@kernel
def _mark(ids: Ints, slots: Ints, rows: Ints) -> int:
    """Write the distinct ids to `rows`; return their number. Their slots become 0; all are −1 before."""
    count = 0
    for k in ids:
        if slots[k] < 0:
            slots[k] = 0
            rows[count] = k
            count += 1
    return count


@kernel
def _place(ids: Ints, slots: Ints, rows: Ints, places: Ints) -> None:
    """Write the place of each id in `rows` to `places`; slots are −1 afterwards."""
    for k in range(len(rows)):
        slots[rows[k]] = k
    for k in range(len(ids)):
        places[k] = slots[ids[k]]
    for k in rows:
        slots[k] = -1


@kernel
def _catch_up(
    rows: Ints,
    until: int,
    table: Array,
    mean: Array,
    square: Array,
    made: Ints,
    rates: Array,
    scales: Array,
    fades: Array,
    shrinks: Array,
    constants: Array,
) -> None:
    """Make the steps made[r] … until − 1 of the rows r, whose gradient there is 0."""
    eps, d = constants[3], table.shape[1]
    root, path = np.empty(d, table.dtype), np.empty(d, table.dtype)
    for r in rows:
        start, w, m, v = made[r], table[r], mean[r], square[r]
        made[r] = until
        if start >= until:
            continue
        for j in range(d):
            root[j], path[j] = np.sqrt(v[j]), 0
        for t in range(start, min(until, start + _FORGOTTEN)):
            a, b = rates[t] * fades[t + 1 - start], scales[t] * shrinks[t + 1 - start]
            for j in range(d):
                path[j] += a * m[j] / (root[j] * b + eps)
        fade, shrink = fades[until - start], shrinks[until - start]
        for j in range(d):
            w[j] -= path[j]
            m[j] *= fade
            v[j] *= shrink * shrink


@kernel
def _move(
    rows: Ints,
    gradient: Array,
    step: int,
    table: Array,
    mean: Array,
    square: Array,
    made: Ints,
    rates: Array,
    scales: Array,
    fades: Array,
    shrinks: Array,
    constants: Array,
) -> None:
    """Make one step of the rows along their gradients [len(rows), d]."""
    by_first, second, by_second, eps = constants
    rate, scale = rates[step], scales[step]
    for k in range(len(rows)):
        r = rows[k]
        w, m, v, g = table[r], mean[r], square[r], gradient[k]
        made[r] = step + 1
        for j in range(len(g)):
            m[j] += by_first * (g[j] - m[j])
            v[j] = second * v[j] + by_second * g[j] * g[j]
            w[j] -= rate * m[j] / (np.sqrt(v[j]) * scale + eps)
