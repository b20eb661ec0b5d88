"""Time of an epoch: of every model in epochs of MF, and against a training loop written by hand.

The loop by hand is the usual one: a Dataset that draws a negative in `__getitem__`, a DataLoader that
shuffles, nn.Embedding tables, Adam on binary cross-entropy, the same batch size, dimensions and layers. CPU
time counts. The loop and assent run in processes of their own with one thread: assent asks the C library to
keep freed memory, and a loop in the same process would gain from that.

Of NeuMF's step a roofline is printed: the bytes that it moves and the operations that it makes, how long they
take at this machine's bandwidth and speed, one thread, and what share of its time that is.
"""

import math
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from multiprocessing import get_context
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from assent import training
from assent.data.problem import Problem
from assent.lab import everything
from assent.models import MODELS
from assent.models.neumf import NeuMFSettings
from assent.support.runtime import one_thread
from assent.training import Settings, disclose
from common import REAL, Option, load, read_options, seconds, settings_of, train, verdict

T = TypeVar("T")
REPEATS = 4
"""Measurements, the shortest of which counts: when nothing else interferes."""
BATCH, SMALL = 2048, 32
"""Rows of a batch, and of one so small that its step is all fixed cost."""


class Pairs(Dataset[tuple[int, int, int]]):
    """User, item, and an item that the user does not have: as one would write it."""

    def __init__(self, problem: Problem) -> None:
        self.users, self.items = problem.train.users.tolist(), problem.train.items.tolist()
        self.n_items = problem.n_items
        self.seen = set(zip(self.users, self.items, strict=True))

    def __len__(self) -> int:
        return len(self.users)

    def __getitem__(self, k: int) -> tuple[int, int, int]:
        user = self.users[k]
        while (user, negative := np.random.randint(self.n_items)) in self.seen:  # noqa: NPY002
            pass
        return user, self.items[k], negative


class Plain(nn.Module):
    """MF, or with `layers` NeuMF, on nn.Embedding."""

    def __init__(self, problem: Problem, dimension: int, deep: int, layers: tuple[int, ...]) -> None:
        super().__init__()
        self.users = nn.Embedding(problem.n_users, dimension)
        self.items = nn.Embedding(problem.n_items, dimension)
        self.deep_users = nn.Embedding(problem.n_users, deep)
        self.deep_items = nn.Embedding(problem.n_items, deep)
        widths = (2 * deep, *layers)
        self.tower = nn.Sequential(
            *(part for a, b in pairwise(widths) for part in (nn.Linear(a, b), nn.ReLU()))
        )
        self.out = nn.Linear(dimension + widths[-1], 1) if layers else None

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        """Return logits."""
        product: Tensor = self.users(users) * self.items(items)
        if self.out is None:
            return product.sum(-1)
        deep = self.tower(torch.cat([self.deep_users(users), self.deep_items(items)], dim=-1))
        logits: Tensor = self.out(torch.cat([product, deep], dim=-1)).squeeze(-1)
        return logits


def by_hand(problem: Problem, dimension: int, deep: int, layers: tuple[int, ...]) -> float:
    """Return the CPU seconds of an epoch."""
    model = Plain(problem, dimension, deep, layers)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    loader = DataLoader(Pairs(problem), batch_size=BATCH, shuffle=True)

    def epoch() -> None:
        for users, items, negatives in loader:
            logits = torch.cat([model(users, items), model(users, negatives)])
            labels = torch.cat([torch.ones(len(users)), torch.zeros(len(users))])
            loss = nn.functional.binary_cross_entropy_with_logits(logits, labels)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()

    return min(seconds(epoch) for _ in range(REPEATS))


def by_assent(problem: Problem, model: str, epochs: int, batch: int = BATCH) -> float:
    """Return the CPU seconds of an epoch, validation included; one negative per row, as by hand."""
    settings = settings_of(model, epochs=epochs, patience=epochs, negatives=1, batch_size=batch)
    data = disclose(problem, everything(problem))

    def work() -> None:
        training.train(
            data,
            model=model,
            model_settings=settings.model_settings,
            settings=settings.training,
            seed=0,
        )

    return min(seconds(work) for _ in range(REPEATS)) / epochs


def alone(measurement: Callable[..., T], *arguments: object) -> T:
    """Return what a measurement gives in a new process."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(measurement, *arguments).result()


def against_hand(name: str, problem: Problem, epochs: int) -> None:
    for model in ("mf", "neumf"):
        settings = Settings.model_validate({"model": model}).model_settings.model_dump()
        deep, widths = settings.get("perceptron_dimension", 1), tuple(settings.get("hidden", ()))
        ours = alone(by_assent, problem, model, epochs)
        hand = alone(by_hand, problem, settings["dimension"], deep, widths)
        print(f"{name}, {model}: {1000 * ours:.1f} ms of CPU an epoch, {1000 * hand:.1f} ms by hand")
        verdict(f"{name}, {model}, by hand / assent", hand / ours, 5, at_most=False)
        if model == "neumf":
            roofline(name, problem, ours)


@dataclass(frozen=True)
class Work:
    """What a part of a step has to do."""

    floats: float
    """Numbers read or written, each once per pass over them."""
    multiplied: float
    """Multiplications with an addition, in layers and products."""
    divided: float
    """Square roots, divisions and exponentials."""


def work_of_neumf(problem: Problem, batch: int) -> dict[str, Work]:
    """Return what NeuMF's step has to do for a batch with one negative per row, by part."""
    settings = NeuMFSettings()
    wide, narrow, hidden = settings.dimension, settings.perceptron_dimension, settings.hidden
    rng = np.random.default_rng(0)
    some = rng.choice(len(problem.train), size=min(batch, len(problem.train)), replace=False)
    drawn = rng.integers(problem.n_items, size=len(some))
    users = len(np.unique(problem.train.users[some]))
    items = len(np.unique(np.concatenate([problem.train.items[some], drawn])))
    samples, rows, every = 2 * len(some), users + items, problem.n_users + problem.n_items
    units, pairs = sum(hidden), sum(a * b for a, b in pairwise((*hidden, 1)))
    return {
        # Parameters and both moments are read and written when a row catches up, and when it moves.
        "Adam on rows of the product": Work(rows * wide * (6 + 6 + 1), rows * wide * 8, rows * wide * 4),
        "Adam on the perceptron's tables": Work(
            every * narrow * (6 + 2), every * narrow * 5, every * narrow * 2
        ),
        # A user's and an item's vector are read, forwards and backwards; gradients are added to.
        "products": Work(samples * wide * (2 + 2 + 2) + rows * wide * 2, samples * wide * 4, 0),
        # A layer's input and output, forwards; its output, its slope and its input's, backwards.
        "layers": Work(
            samples * units * 8 + rows * 2 * narrow,
            3 * (samples * pairs + rows * narrow * hidden[0]),
            samples * units * 2,
        ),
    }


def speeds() -> tuple[float, float, float]:
    """Return this machine's numbers moved, multiplied and divided per second, in arrays that caches hold."""
    x, y, a = np.ones(2**20, np.float32), np.ones(2**20, np.float32), np.ones((512, 512), np.float32)

    def often(work: Callable[[], object], times: int) -> float:
        return min(seconds(lambda: [work() for _ in range(times)]) for _ in range(5)) / times

    return (
        2 * len(x) / often(lambda: np.copyto(x, y), 200),
        512**3 / often(lambda: a @ a, 20),
        2 * len(x) / often(lambda: np.divide(np.sqrt(x, out=y), y, out=y), 50),
    )


def roofline(name: str, problem: Problem, epoch: float) -> None:
    """Print how far NeuMF's step, of an epoch of so many seconds, is from what its work must take."""
    moved, multiplied, divided = alone(speeds)
    print(
        f"one thread: {4e-9 * moved:.0f} GB/s, {2e-9 * multiplied:.0f} GFlop/s, "
        f"{1e-9 * divided:.1f} G roots or divisions/s"
    )
    least = 0.0
    for part, work in work_of_neumf(problem, BATCH).items():
        times = work.floats / moved, work.multiplied / multiplied, work.divided / divided
        least += max(times)
        print(f"  {part}: {', '.join(f'{1e6 * each:.0f}' for each in times)} µs to move, multiply, divide")
    rows = len(problem.train)
    step, fixed = (
        1e6 * each / math.ceil(rows / batch)
        for each, batch in ((epoch, BATCH), (alone(by_assent, problem, "neumf", 1, SMALL), SMALL))
    )
    print(
        f"{name}, neumf: a step takes {step:.0f} µs; its work must take {1e6 * least:.0f} µs, "
        f"{1e6 * least / step:.0%} of that; a step of {SMALL} rows takes {fixed:.0f} µs"
    )


def against_mf(name: str, problem: Problem, epochs: int) -> None:
    """Print CPU time per epoch: the difference between trainings of 1 and of `epochs` + 1 epochs."""
    costs = {}
    for model in sorted(MODELS, key=lambda name: name != "mf"):
        long, short = (settings_of(model, epochs=n, evaluate_every=n) for n in (1 + epochs, 1))
        differences = [
            seconds(lambda: train(problem, long)) - seconds(lambda: train(problem, short))  # noqa: B023
            for _ in range(3)
        ]
        costs[model] = min(differences) / epochs
        times = costs[model] / costs["mf"]
        print(f"{name}, {model}: {1000 * costs[model]:.0f} ms of CPU an epoch, {times:.1f} times MF's")
    verdict("lightgcn / mf", costs["lightgcn"] / costs["mf"], 3)


if __name__ == "__main__":
    given = read_options(
        __doc__,
        datasets=Option(REAL, "data sets of the comparison with a loop by hand", quick=REAL[:1]),
        epochs=Option(20, "epochs of a measured training", quick=2),
    )
    with one_thread():
        against_mf("diginetica", load("diginetica", quick=given.quick), given.epochs)
        for data in given.datasets:
            against_hand(data, load(data, quick=given.quick), given.epochs)
