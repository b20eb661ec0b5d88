"""RecBole's NeuMF and DIN, written out with its rules: what the paper's rows of them rest on.

    bench_recbole.py                            both on Diginetica, one seed (NeuMF a minute, DIN ten)
    bench_recbole.py --models neumf --seeds 3

They have parameters for every item of the data, also for those that no training row has, which no model here
has. NeuMF: embeddings start with a deviation of 0.01, dropout of 0.1 before each layer. DIN: a training row's
history is what its owner had before it. Adam at 0.01, 50 epochs; the epoch of the least validation loss is
kept (the best reward of a selection), and training ends ten epochs after it. CDAE is in
`assent.reproduce.recbole`; `assent reproduce differences --profile paper --models cdae` prints its figures.
Printed are test F1@5, NDCG@5 and MRR@5 among 100 items in %, and the mean test loss.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from assent.data.problem import Problem
from assent.evaluation.evaluate import HeldOut
from assent.lab import everything
from assent.models.losses import Loss
from assent.reproduce.recbole import BATCH, DIMENSION, Written, start_as_xavier, train_written
from assent.support.arrays import Bools, Ints
from assent.support.runtime import one_thread
from common import Option, load, read_options

NEUMF_LAYERS: Final = (128, 64)
DROPOUT: Final = 0.1
DIN_LAYERS: Final = (256, 256)
"""Widths of DIN's layers, and of those of its attention."""
NUMBERS: Final = 2**24
"""Numbers per temporary tensor of DIN: 64 MB."""


class Sampled(Written):
    """A model that learns from training rows with a sampled item each."""

    def __init__(self, problem: Problem, selection: Bools) -> None:
        super().__init__(problem, selection)
        self.known = np.unique(self.owners * problem.n_items + self.items.numpy())
        self.targets = np.arange(len(self.items))

    def of_rows(self, rows: Ints, items: Tensor) -> Tensor:
        """Return the logits of `items[n, m]` for training rows `rows[n]`: [n, m]."""
        return self.logits(torch.from_numpy(self.owners[rows]), items)

    def epoch(self) -> Iterator[Tensor]:
        """Yield the mean loss of 1024 training rows with a sampled item each."""
        order = self.targets[torch.randperm(len(self.targets)).numpy()]
        for first in range(0, len(order), BATCH // 2):
            rows = order[first : first + BATCH // 2]
            both = torch.stack([self.items[rows], self.sampled(self.owners[rows])], dim=1)
            labels = torch.tensor([1.0, 0.0]).expand(len(rows), 2)
            yield binary_cross_entropy_with_logits(self.of_rows(rows, both), labels)

    def sampled(self, owners: Ints) -> Tensor:
        """Return an item for each owner that they do not disclose, uniformly drawn."""
        n_items = len(self.item_ids)
        drawn = torch.randint(n_items, (len(owners),))
        while (taken := np.isin(owners * n_items + drawn.numpy(), self.known)).any():
            drawn[torch.from_numpy(taken)] = torch.randint(n_items, (int(taken.sum()),))
        return drawn


class WrittenNeuMF(Sampled):
    """NeuMF: hᵀ[p_u ⊙ q_i, layers([p'_u, q'_i])]."""

    def __init__(self, problem: Problem, selection: Bools) -> None:
        super().__init__(problem, selection)
        users, items = problem.n_users, problem.n_items
        tables = [nn.Embedding(count, DIMENSION) for count in (users, items, users, items)]
        for table in tables:
            nn.init.normal_(table.weight, 0, 0.01)
        self.tables = nn.ModuleList(tables)
        layers: list[nn.Module] = []
        width = 2 * DIMENSION
        for wide in NEUMF_LAYERS:
            layers += [nn.Dropout(DROPOUT), nn.Linear(width, wide), nn.ReLU()]
            width = wide
        self.perceptron, self.last = nn.Sequential(*layers), nn.Linear(DIMENSION + width, 1)

    def logits(self, users: Tensor, items: Tensor) -> Tensor:
        """Return the logits of `users[n]` with `items[n, m]`, some people at a time: [n, m]."""
        parts = zip(torch.split(users, BATCH // 2), torch.split(items, BATCH // 2), strict=True)
        return torch.cat([self._logits(u.unsqueeze(1).expand_as(i), i) for u, i in parts])

    def _logits(self, u: Tensor, i: Tensor) -> Tensor:
        p, q, deep_p, deep_q = (table(of) for table, of in zip(self.tables, (u, i, u, i), strict=True))
        deep = self.perceptron(torch.cat([deep_p, deep_q], -1))
        scores: Tensor = self.last(torch.cat([p * q, deep], -1)).squeeze(-1)
        return scores


class WrittenDIN(Sampled):
    """DIN: B([v, e_i, v ⊙ e_i]), v = Σ_j a_j e_j / √d, a_j = A([e_i, e_j, e_i − e_j, e_i ⊙ e_j]).

    A has sigmoids; B has batch norms and Dice, which is SiLU with RecBole's constant of 0. A training row is
    a disclosed item with the person's earlier ones as history; a person's first item is no training row.
    """

    def __init__(self, problem: Problem, selection: Bools) -> None:
        super().__init__(problem, selection)
        self.of_item = nn.Embedding(problem.n_items, DIMENSION)
        first, second = DIN_LAYERS
        self.attention = nn.Sequential(
            nn.Linear(4 * DIMENSION, first), nn.Sigmoid(), nn.Linear(first, second), nn.Sigmoid(),
            nn.Linear(second, 1),
        )  # fmt: skip
        self.scorer = nn.Sequential(
            nn.Linear(3 * DIMENSION, first), nn.BatchNorm1d(first), nn.SiLU(),
            nn.Linear(first, second), nn.BatchNorm1d(second), nn.SiLU(), nn.Linear(second, 1),
        )  # fmt: skip
        self.apply(start_as_xavier)
        self.targets = np.flatnonzero(np.arange(len(self.items)) > self.starts[self.owners])

    def logits(self, users: Tensor, items: Tensor) -> Tensor:
        """Return the scores of some items after all that their users disclose."""
        people = users.numpy()
        return self._after(self.starts[people], self.starts[people + 1], items)

    def of_rows(self, rows: Ints, items: Tensor) -> Tensor:
        """Return the scores of some items after what came before training rows."""
        return self._after(self.starts[self.owners[rows]], rows, items)

    def _after(self, starts: Ints, ends: Ints, items: Tensor) -> Tensor:
        """Return the scores of `items[n, m]` after the rows from `starts[n]` to `ends[n]`: [n, m]."""
        places, past = self.spread(starts, ends)
        e_past, e = self.of_item(past), self.of_item(items)
        columns = max(1, NUMBERS // (DIN_LAYERS[0] * max(1, len(past))))
        interest = torch.cat([self._interest(places, e_past, part) for part in torch.split(e, columns, 1)], 1)
        features = torch.cat([interest, e, interest * e], -1)
        logits: Tensor = self.scorer(features.flatten(0, 1)).view(items.shape)
        return logits

    def _interest(self, places: Tensor, e_past: Tensor, e: Tensor) -> Tensor:
        """Return v of every item `e[n, m, d]`, from the past `e_past[p, d]` of places: [n, m, d]."""
        target, own = e.index_select(0, places), e_past.unsqueeze(1).expand(-1, e.shape[1], -1)
        weights = self.attention(torch.cat([target, own, target - own, target * own], -1))
        return torch.zeros_like(e).index_add(0, places, weights * own / DIMENSION**0.5)


MODELS: Final[dict[str, type[Sampled]]] = {"neumf": WrittenNeuMF, "din": WrittenDIN}

if __name__ == "__main__":
    given = read_options(
        __doc__,
        datasets=Option(("diginetica",), "data sets"),
        models=Option(tuple(MODELS), "models"),
        seeds=Option(1, "seeds"),
        epochs=Option(50, "epochs", quick=2),
    )
    for name in given.datasets:
        problem = load(name, quick=given.quick)
        judged = HeldOut.TEST.of(problem)
        samples = judged.candidates.size
        for model in given.models:
            for seed in range(given.seeds):
                with one_thread():
                    trained = train_written(
                        MODELS[model], problem, everything(problem), seed=seed, epochs=given.epochs
                    )
                    found = judged.metrics(problem, trained, (5,))
                    loss = judged.losses(problem, trained, Loss.BCE).sum() / samples
                f1, ndcg, mrr = (100 * found[key].mean() for key in ("f1", "ndcg", "mrr"))
                print(
                    f"{name}, {model}, seed {seed}: F1 {f1:.2f}, NDCG {ndcg:.2f}, MRR {mrr:.2f}, "
                    f"loss {loss:.3f}",
                    flush=True,
                )
