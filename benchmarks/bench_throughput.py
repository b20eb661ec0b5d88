"""An epoch of training, against the loop that one would write by hand.

The loop by hand is the usual one: a Dataset that draws a negative in `__getitem__`, a DataLoader that
shuffles, nn.Embedding tables, Adam on binary cross-entropy, the same batch size, dimensions and layers. Each
runs in a process of its own: assent asks the C library to keep freed memory (`assent.support.runtime`), and a
loop in the same process would gain from that.
"""

import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from multiprocessing import get_context

import numpy as np
import torch
from assent.settings import Settings
from assent.workbench import Workbench
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from assent.data.problem import Problem
from common import load, verdict

EPOCHS = 20


class Pairs(Dataset[tuple[int, int, int]]):
    """User, item, and an item that she has not: as one would write it."""

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
        """Logits."""
        product: Tensor = self.users(users) * self.items(items)
        if self.out is None:
            return product.sum(-1)
        deep = self.tower(torch.cat([self.deep_users(users), self.deep_items(items)], dim=-1))
        logits: Tensor = self.out(torch.cat([product, deep], dim=-1)).squeeze(-1)
        return logits


def by_hand(problem: Problem, dimension: int, deep: int, layers: tuple[int, ...]) -> float:
    """Seconds of an epoch."""
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

    return least_seconds(epoch)


def by_assent(problem: Problem, model: str) -> float:
    """Seconds of an epoch, the looks at the validation rows included; one negative a row, as by hand."""
    training = {"epochs": EPOCHS, "patience": EPOCHS, "negatives": 1, "batch_size": 2048}
    bench = Workbench(problem, Settings.model_validate({"model": model, "training": training}), seed=0)
    everything = np.ones(len(problem.train), dtype=np.bool_)
    return least_seconds(lambda: bench.final(everything)) / EPOCHS


def least_seconds(run: Callable[[], object], times: int = 4) -> float:
    """The shortest of a few runs: what it takes when nothing else interferes."""

    def once() -> float:
        start = time.perf_counter()
        run()
        return time.perf_counter() - start

    return min(once() for _ in range(times))


def alone(seconds: Callable[..., float], *arguments: object) -> float:
    """What a measurement gives in a new process."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(seconds, *arguments).result()


if __name__ == "__main__":
    for name in ("diginetica", "steam", "amazon_video_games"):
        problem = load(name)
        for model in ("mf", "neumf"):
            settings = Settings.model_validate({"model": model}).model_settings.model_dump()
            deep, widths = settings.get("perceptron_dimension", 1), tuple(settings.get("hidden", ()))
            ours = alone(by_assent, problem, model)
            hand = alone(by_hand, problem, settings["dimension"], deep, widths)
            print(f"{name}, {model}: {1000 * ours:.0f} ms an epoch, {1000 * hand:.0f} ms by hand")
            verdict(f"{name}, {model}, by hand / assent", hand / ours, 5, "", at_most=False)
