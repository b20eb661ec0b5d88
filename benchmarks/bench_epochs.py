"""Time of an epoch: of every model in epochs of MF, and against a training loop written by hand.

The loop by hand is the usual one: a Dataset that draws a negative in `__getitem__`, a DataLoader that
shuffles, nn.Embedding tables, Adam on binary cross-entropy, the same batch size, dimensions and layers. CPU
time counts. The loop and assent run in processes of their own with one thread: assent asks the C library to
keep freed memory, and a loop in the same process would gain from that.
"""

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from multiprocessing import get_context

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from assent import training
from assent.data.problem import Problem
from assent.lab import everything
from assent.models import MODELS
from assent.support.runtime import one_thread
from assent.training import Settings, disclose
from common import REAL, Option, load, read_options, seconds, settings_of, train, verdict

REPEATS = 4
"""Measurements, the shortest of which counts: when nothing else interferes."""


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
    loader = DataLoader(Pairs(problem), batch_size=2048, shuffle=True)

    def epoch() -> None:
        for users, items, negatives in loader:
            logits = torch.cat([model(users, items), model(users, negatives)])
            labels = torch.cat([torch.ones(len(users)), torch.zeros(len(users))])
            loss = nn.functional.binary_cross_entropy_with_logits(logits, labels)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()

    return min(seconds(epoch) for _ in range(REPEATS))


def by_assent(problem: Problem, model: str, epochs: int) -> float:
    """Return the CPU seconds of an epoch, validation included; one negative per row, as by hand."""
    settings = settings_of(model, epochs=epochs, patience=epochs, negatives=1, batch_size=2048)
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


def alone(measurement: Callable[..., float], *arguments: object) -> float:
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
