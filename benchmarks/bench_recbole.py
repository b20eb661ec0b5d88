"""RecBole's NeuMF, written out with its rules: what the paper's rows of NeuMF rest on.

    bench_recbole.py                            Diginetica, one seed (a minute)
    bench_recbole.py --seeds 3

It has parameters for every item of the data, also for those that no training row has, which no model here
has. Embeddings start with a deviation of 0.01, dropout of 0.1 before each layer, Adam at 0.01, 50 epochs. The
epoch of the least validation loss is kept (the best reward of a selection); beside it, the last. CDAE is in
`assent.reproduce.recbole`; `assent reproduce differences --profile paper --models cdae` prints its figures.
Printed are test F1@5, NDCG@5 and MRR@5 among 100 items in %, and the mean test loss.
"""

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from assent.data.problem import Problem
from assent.support.runtime import one_thread
from common import Option, load, read_options

RATE: Final = 0.01
BATCH: Final = 2048
DIMENSION: Final = 64
LAYERS: Final = (128, 64)
DROPOUT: Final = 0.1

Score = Callable[[Tensor, Tensor], Tensor]
"""Logits of users [n] with items [n, m]."""


def judged(problem: Problem, score: Score) -> tuple[float, list[float]]:
    """Return the mean validation loss, and F1, NDCG, MRR (in %) and the mean loss of test rows."""
    losses, figures = [], list[float]()
    assert problem.test_candidates is not None
    for rows, candidates in (
        (problem.valid, problem.valid_candidates),
        (problem.test, problem.test_candidates),
    ):
        with torch.no_grad():
            scores = score(torch.from_numpy(rows.users), torch.from_numpy(candidates))
        labels = torch.zeros_like(scores)
        labels[:, 0] = 1
        losses.append(float(binary_cross_entropy_with_logits(scores, labels)))
        rivals, own = scores[:, 1:], scores[:, :1]
        rank = (rivals > own).sum(1) + 0.5 * (rivals == own).sum(1)
        gains = (torch.full_like(rank, 1 / 3), 1 / torch.log2(rank + 2), 1 / (rank + 1))
        figures = [100 * float(torch.where(rank < 5, gain, 0).mean()) for gain in gains]
    return losses[0], [*figures, losses[1]]


def parameters_of(modules: Sequence[nn.Module]) -> list[nn.Parameter]:
    return [each for module in modules for each in module.parameters()]


def neumf(problem: Problem, epochs: int) -> list[tuple[float, list[float]]]:
    """Train and judge after every epoch."""
    users, items = problem.n_users, problem.n_items
    tables = [nn.Embedding(count, DIMENSION) for count in (users, items, users, items)]
    for table in tables:
        nn.init.normal_(table.weight, 0, 0.01)
    layers: list[nn.Module] = []
    width = 2 * DIMENSION
    for wide in LAYERS:
        layers += [nn.Dropout(DROPOUT), nn.Linear(width, wide), nn.ReLU()]
        width = wide
    perceptron, last = nn.Sequential(*layers), nn.Linear(DIMENSION + width, 1)
    adam = torch.optim.Adam(parameters_of([*tables, perceptron, last]), lr=RATE)
    known = set((problem.train.users * items + problem.train.items).tolist())

    def logits(u: Tensor, i: Tensor) -> Tensor:
        deep = perceptron(torch.cat([tables[2](u), tables[3](i)], -1))
        scores: Tensor = last(torch.cat([tables[0](u) * tables[1](i), deep], -1)).squeeze(-1)
        return scores

    def score(some: Tensor, candidates: Tensor) -> Tensor:
        perceptron.eval()
        parts = zip(torch.split(some, 256), torch.split(candidates, 256), strict=True)
        found = torch.cat([logits(u[:, None].expand_as(i), i) for u, i in parts])
        perceptron.train()
        return found

    def negatives() -> np.ndarray:
        found = torch.randint(items, (len(problem.train),)).numpy()
        while True:
            bad = [int(key) in known for key in problem.train.users * items + found]
            if not any(bad):
                return found
            found[bad] = torch.randint(items, (sum(bad),)).numpy()

    found = []
    for _ in range(epochs):
        drawn = negatives()
        for some in torch.split(torch.randperm(len(problem.train)), BATCH // 2):
            here = some.numpy()
            u = torch.from_numpy(np.tile(problem.train.users[here], 2))
            i = torch.from_numpy(np.concatenate([problem.train.items[here], drawn[here]]))
            labels = torch.cat([torch.ones(len(here)), torch.zeros(len(here))])
            loss = binary_cross_entropy_with_logits(logits(u, i), labels)
            adam.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            adam.step()
        found.append(judged(problem, score))
    return found


if __name__ == "__main__":
    given = read_options(
        __doc__,
        datasets=Option(("diginetica",), "data sets"),
        seeds=Option(1, "seeds"),
        epochs=Option(50, "epochs", quick=2),
    )
    for name in given.datasets:
        problem = load(name, quick=given.quick)
        for seed in range(given.seeds):
            torch.manual_seed(seed)
            with one_thread():
                path = neumf(problem, given.epochs)
            best = min(range(len(path)), key=lambda epoch: path[epoch][0])
            for epoch in (best, len(path) - 1):
                f1, ndcg, mrr, loss = path[epoch][1]
                print(
                    f"{name}, seed {seed}, epoch {epoch + 1}: F1 {f1:.2f}, NDCG {ndcg:.2f}, MRR {mrr:.2f}, "
                    f"loss {loss:.3f}",
                    flush=True,
                )
