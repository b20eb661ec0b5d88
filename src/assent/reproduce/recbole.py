"""RecBole's CDAE, written out with its rules, to see whether the paper's rows of CDAE rest on them.

It is no model of assent: it has parameters for every item of the data, also for those that nobody has
disclosed, which a model of assent never gets. It is trained on disclosed rows alone, and nothing is served
from it.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, dropout

from assent.data.problem import Problem, Rows
from assent.lab.lab import Lab
from assent.lab.store import Found
from assent.methods import Method
from assent.models.losses import Loss
from assent.reproduce.measurements import Measurement
from assent.support.arrays import Bools, Ints

RATE, BATCH, DIMENSION, CORRUPTION, EPOCHS = 0.01, 2048, 64, 0.5, 50
"""Adam's rate, people per batch, hidden units, share of the input left out, epochs."""
_PATIENCE = 10
"""Epochs after the best one; the loss rises steadily by then."""
_AT_ONCE = 512
"""People that are scored at once."""
_CUTOFF = 5


class WrittenCDAE(nn.Module):
    """CDAE: σ(W'ᵀ relu(W x_u + V_u + b) + b'), all of Xavier's normal start, for the rows of a selection."""

    def __init__(self, problem: Problem, selection: Bools) -> None:
        super().__init__()
        rows = problem.train[selection]
        order = np.argsort(rows.users, kind="stable")
        self._items = torch.from_numpy(rows.items[order])
        self._starts = np.searchsorted(rows.users[order], np.arange(problem.n_users + 1))
        self.of_user = nn.Embedding(problem.n_users, DIMENSION)
        self.of_input = nn.Embedding(problem.n_items, DIMENSION)
        self.bias = nn.Parameter(torch.zeros(DIMENSION))
        self.out = nn.Linear(DIMENSION, problem.n_items)
        for each in (self.of_user, self.of_input, self.out):
            nn.init.xavier_normal_(each.weight)
        nn.init.zeros_(self.out.bias)

    def rows_of(self, people: Tensor) -> tuple[Tensor, Tensor]:
        """Return the place of each disclosed row's owner among `people`, and its item."""
        starts, ends = self._starts[people.numpy()], self._starts[people.numpy() + 1]
        counts = ends - starts
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        places = np.repeat(np.arange(len(people)), counts)
        return torch.from_numpy(places), self._items[np.repeat(starts, counts) + within]

    def forward(self, people: Tensor) -> Tensor:
        """Return the logits of all items: [people, items]."""
        places, items = self.rows_of(people)
        weights = dropout(torch.ones(len(items)), CORRUPTION, self.training).unsqueeze(1)
        own = self.of_user(people) + self.bias
        hidden = torch.relu(own.index_add(0, places, weights * self.of_input(items)))
        logits: Tensor = self.out(hidden)
        return logits

    @torch.no_grad()
    def scores(self, rows: Rows, candidates: Ints) -> Tensor:
        """Return the logits of the candidates of each row: [rows, candidates]."""
        self.eval()
        parts = zip(
            torch.split(torch.from_numpy(rows.users), _AT_ONCE),
            torch.split(torch.from_numpy(candidates), _AT_ONCE),
            strict=True,
        )
        found = torch.cat([self(people).gather(1, items) for people, items in parts])
        self.train()
        return found


def train_cdae(problem: Problem, selection: Bools, *, seed: int, epochs: int = EPOCHS) -> WrittenCDAE:
    """Return the model of the epoch with the least validation loss: the best reward of a given selection."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = WrittenCDAE(problem, selection)
        adam = torch.optim.Adam(model.parameters(), lr=RATE)
        best, kept, waited = float("inf"), model.state_dict(), 0
        for _ in range(epochs):
            for people in torch.split(torch.randperm(problem.n_users), BATCH):
                labels = torch.zeros(len(people), problem.n_items)
                labels[model.rows_of(people)] = 1
                loss = binary_cross_entropy_with_logits(model(people), labels, reduction="sum")
                adam.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                adam.step()
            now = float(Loss.BCE.of(model.scores(problem.valid, problem.valid_candidates)).mean())
            waited += 1
            if now < best:
                best, waited = now, 0
                kept = {name: value.clone() for name, value in model.state_dict().items()}
            if waited == _PATIENCE:
                break
        model.load_state_dict(kept)
    return model


@dataclass(frozen=True)
class WrittenOut(Measurement):
    """A task: the paper's figures of a method on RecBole's CDAE."""

    kind: ClassVar[str] = "recbole-cdae"
    method: Method
    price: float

    def run(self, lab: Lab) -> Found:
        """Return ranking metrics of test rows, violation and the mean reward of validation rows."""
        problem = lab.problem
        assert problem.test_candidates is not None
        selection = self.method.at_price(lab, self.price).selection
        model = train_cdae(problem, selection, seed=lab.seed)
        scores = model.scores(problem.test, problem.test_candidates)
        rivals, own = scores[:, 1:], scores[:, :1]
        rank = (rivals > own).sum(1) + 0.5 * (rivals == own).sum(1)
        gains = {
            "f1": torch.full_like(rank, 2 / (_CUTOFF + 1)), "precision": torch.full_like(rank, 1 / _CUTOFF),
            "ndcg": 1 / torch.log2(rank + 2), "mrr": 1 / (rank + 1),
        }  # fmt: skip
        found = {name: float(torch.where(rank < _CUTOFF, gain, 0).mean()) for name, gain in gains.items()}
        losses = Loss.BCE.of(model.scores(problem.valid, problem.valid_candidates))
        mean = float(losses.sum()) / problem.valid_candidates.shape[1] / problem.n_users
        violation = problem.violation(selection)
        reward = -mean - self.price * violation
        about = {"model": lab.settings.model, "violation": violation, "reward_mean": reward}
        return Found(facts=about | found)
