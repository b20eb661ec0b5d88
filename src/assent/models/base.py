"""The contract between assent and a recommender: what a model gives, and what it gets for it.

A model gives logits of (user, item) pairs with the penalty of each. It gets training, early stopping,
ranking, influence, every method and saving. It knows nothing of selections or of the game:
it is built for the users and items of the rows that it is trained on, and sees no others.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor, nn


class ModelSettings(BaseModel):
    """Settings of a model: a subclass per model, with a default and a description for each field."""

    model_config = ConfigDict(frozen=True, extra="forbid")


@dataclass(frozen=True)
class Sizes:
    """How much a model is trained on: all that it may know of the data when it is built."""

    users: int
    items: int
    rows: int
    """Disclosed interactions."""
    negatives: int
    """Sampled negatives of each."""


class Recommender(nn.Module, ABC):
    """A recommender of `n_items` items to `n_users` users.

    Index `n_users` stands for a user, and `n_items` for an item, that the model was not trained on;
    `finish` is called once after training and prepares what these two are given.
    """

    name: ClassVar[str]
    """What the command line calls the model."""
    Settings: ClassVar[type[ModelSettings]]
    """The class of its settings."""

    def __init__(self, sizes: Sizes, settings: Any) -> None:
        super().__init__()
        self.sizes = sizes
        self.n_users = sizes.users
        self.n_items = sizes.items
        self.settings = settings

    @abstractmethod
    def initialise(self, generator: torch.Generator) -> None:
        """Draw the initial parameters from `generator` and nothing else."""

    @abstractmethod
    def forward(self, users: Tensor, items: Tensor) -> tuple[Tensor, Tensor]:
        """Logits and penalties of `users[n]` with `items[n, m]`: two tensors [n, m].

        σ(logit) is the probability of an interaction; the penalty is the regularisation as it enters the
        loss of that one sample.
        """

    @abstractmethod
    def score_all(self, users: Tensor) -> Tensor:
        """Logits of `users[n]` for every item and, last, for an unknown one: [n, n_items + 1]."""

    @abstractmethod
    def finish(self) -> None:
        """Prepare what an unknown user and an unknown item are given, from the trained parameters alone."""
