"""RecBole's CDAE, written out with its rules, to see whether the paper's rows of CDAE rest on them.

It is no model of assent: it has parameters for every item of the data, also for those that nobody has
disclosed, which a model of assent never gets. It is trained on disclosed rows alone, and nothing is served
from it. `benchmarks/bench_recbole.py` has others that are written out.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, dropout

from assent.data.problem import Problem
from assent.evaluation.evaluate import HeldOut, figures, validation_losses
from assent.lab.lab import Lab
from assent.lab.store import Found
from assent.methods import Method
from assent.reproduce.measurements import Measurement
from assent.support.arrays import Bools, Ints, Strings

RATE, BATCH, DIMENSION, EPOCHS = 0.01, 2048, 64, 50
"""Adam's rate, people or samples per batch, length of embeddings, epochs."""
CORRUPTION = 0.5
"""Share of CDAE's input that is left out."""
_PATIENCE = 10
"""Epochs after the best one; the loss rises steadily by then."""


class Written(nn.Module, ABC):
    """A model for all people and items of a problem, which learns from the rows of a selection."""

    def __init__(self, problem: Problem, selection: Bools) -> None:
        super().__init__()
        self.user_ids: Strings = problem.user_ids
        self.item_ids: Strings = problem.item_ids
        rows = problem.train[selection]  # sorted by user and, within a user, by time
        self.owners = rows.users
        self.items = torch.from_numpy(rows.items)
        self.starts = np.searchsorted(rows.users, np.arange(problem.n_users + 1))

    def spread(self, starts: Ints, ends: Ints) -> tuple[Tensor, Tensor]:
        """Return the rows from each start to its end: which of them a row belongs to, and its item."""
        counts = ends - starts
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        places = np.repeat(np.arange(len(counts)), counts)
        return torch.from_numpy(places), self.items[np.repeat(starts, counts) + within]

    def rows_of(self, people: Tensor) -> tuple[Tensor, Tensor]:
        """Return the place of each disclosed row's owner among `people`, and its item."""
        return self.spread(self.starts[people.numpy()], self.starts[people.numpy() + 1])

    @torch.no_grad()
    def scores(self, users: Tensor, items: Tensor) -> Tensor:
        """Return the logits of `users[n]` with `items[n, m]`: [n, m]."""
        self.eval()
        found = self.logits(users, items)
        self.train()
        return found

    @abstractmethod
    def logits(self, users: Tensor, items: Tensor) -> Tensor:
        """Return the logits of `users[n]` with `items[n, m]`: [n, m]."""

    @abstractmethod
    def epoch(self) -> Iterator[Tensor]:
        """Yield the loss of each batch of an epoch."""


class WrittenCDAE(Written):
    """CDAE: σ(W'ᵀ relu(W x_u + V_u + b) + b'), trained on batches of people with all items."""

    def __init__(self, problem: Problem, selection: Bools) -> None:
        super().__init__(problem, selection)
        self.of_user = nn.Embedding(problem.n_users, DIMENSION)
        self.of_input = nn.Embedding(problem.n_items, DIMENSION)
        self.bias = nn.Parameter(torch.zeros(DIMENSION))
        self.out = nn.Linear(DIMENSION, problem.n_items)
        self.apply(start_as_xavier)

    def hidden(self, people: Tensor) -> Tensor:
        """Return the hidden units of some people: [people, d]."""
        places, items = self.rows_of(people)
        weights = dropout(torch.ones(len(items)), CORRUPTION, self.training).unsqueeze(1)
        own = self.of_user(people) + self.bias
        return torch.relu(own.index_add(0, places, weights * self.of_input(items)))

    def logits(self, users: Tensor, items: Tensor) -> Tensor:
        """Return W'ᵀ times the hidden units plus b' for some items."""
        weights, biases = self.out.weight[items], self.out.bias[items]
        return torch.einsum("nd,nmd->nm", self.hidden(users), weights) + biases

    def epoch(self) -> Iterator[Tensor]:
        """Yield the loss of 2048 people, summed over all items: nearly everything is a 0."""
        for people in torch.split(torch.randperm(len(self.user_ids)), BATCH):
            labels = torch.zeros(len(people), len(self.item_ids))
            labels[self.rows_of(people)] = 1
            yield binary_cross_entropy_with_logits(self.out(self.hidden(people)), labels, reduction="sum")


def start_as_xavier(module: nn.Module) -> None:
    """Give a layer or a table its start."""
    if isinstance(module, nn.Embedding | nn.Linear):
        nn.init.xavier_normal_(module.weight)
    if isinstance(module, nn.Linear):
        nn.init.zeros_(module.bias)


def train_written(
    kind: type[Written], problem: Problem, selection: Bools, *, seed: int, epochs: int = EPOCHS
) -> Written:
    """Return the model of the epoch with the least validation loss: the best reward of a given selection."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = kind(problem, selection)
        adam = torch.optim.Adam(model.parameters(), lr=RATE)
        best, kept, waited = float("inf"), model.state_dict(), 0
        for _ in range(epochs):
            for loss in model.epoch():
                adam.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                adam.step()
            now = float(validation_losses(problem, model).sum())
            waited += 1
            if now < best:
                best, waited = now, 0
                kept = {key: value.clone() for key, value in model.state_dict().items()}
            if waited == _PATIENCE:
                break
        model.load_state_dict(kept)
    return model


@dataclass(frozen=True)
class WrittenOut(Measurement):
    """A task: the paper's figures of a method on RecBole's CDAE."""

    kind: ClassVar[str] = "written-cdae"
    method: Method
    price: float

    def run(self, lab: Lab) -> Found:
        """Return ranking metrics of test rows, violation and the mean reward of validation rows."""
        problem = lab.problem
        selection = self.method.at_price(lab, self.price).selection
        trained = train_written(WrittenCDAE, problem, selection, seed=lab.seed)
        ranked = HeldOut.TEST.of(problem).metrics(problem, trained, (5,))
        found = figures(problem, trained, selection, price=self.price, ranked=ranked)
        return Found(facts={"model": lab.settings.model} | found)
