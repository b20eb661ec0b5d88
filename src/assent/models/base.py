"""The contract between assent and a recommender: what a model gives, and what it gets for it.

A model gives logits of (user, item) pairs with the penalty of each, and says how the disclosed interactions
enter its input, if they do. It gets training, early stopping, ranking, influence, every method and saving. It
knows nothing of selections or of the game: it is built for the users and items of the rows that it is trained
on, and sees no others. docs/models.md is the same on one page, with an example.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor, nn

from assent.losses import sample_losses


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


@dataclass(frozen=True)
class Evidence:
    """The interactions that a model may read as input: its graph, its histories, its input vectors.

    `users[n]` and `items[n]` are in the model's indices, sorted by user and, within a user, by time.
    `weights[n]` is o: 1 for a disclosed interaction, and 0 for one that must leave no trace. Where influence
    is computed, the weights are variables that the model's scores are differentiated by.
    """

    users: Tensor
    items: Tensor
    weights: Tensor


class Recommender(nn.Module, ABC):
    """A recommender of `n_items` items to `n_users` users.

    Index `n_users` stands for a user, and `n_items` for an item, that the model was not trained on;
    `finish` is called once after training and prepares what these two are given.
    """

    name: ClassVar[str]
    """What the command line calls the model."""
    Settings: ClassVar[type[ModelSettings]]
    """The class of its settings."""
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Defaults of `training`, `influence` and `value` that differ from assent's own for this model."""
    samples_at_once: ClassVar[int] = 2**15
    """Samples whose derivatives are taken together: more of them need more memory, and fewer `prepare`s."""

    def __init__(self, sizes: Sizes, settings: Any) -> None:
        super().__init__()
        self.sizes = sizes
        self.n_users = sizes.users
        self.n_items = sizes.items
        self.settings = settings

    @property
    def reads_evidence(self) -> bool:
        """Whether the disclosed interactions are part of the model's input, and are saved with it."""
        return type(self).prepare is not Recommender.prepare

    @abstractmethod
    def initialise(self, generator: torch.Generator) -> None:
        """Draw the initial parameters from `generator` and nothing else."""

    def prepare(self, evidence: Evidence) -> Any:
        """What the scores need of the disclosed interactions, in any form: propagated tables, histories.

        Called before every training step and once before ranking; the result is what the methods below get
        as `prepared`. Must be differentiable by the parameters and by `evidence.weights`. A model that
        learns from interactions but reads none of them leaves this as it is.
        """
        return None

    @abstractmethod
    def forward(self, users: Tensor, items: Tensor, prepared: Any) -> tuple[Tensor, Tensor]:
        """Logits and penalties of `users[n]` with `items[n, m]`: two tensors [n, m].

        σ(logit) is the probability of an interaction; the penalty is the regularisation as it enters the
        loss of that one sample.
        """

    def losses(self, users: Tensor, items: Tensor, prepared: Any) -> Tensor:
        """The loss of each sample, [n, m], where `items[:, 0]` is the positive: BCE plus penalty."""
        return sample_losses(*self(users, items, prepared))

    @abstractmethod
    def score_all(self, users: Tensor, prepared: Any) -> Tensor:
        """Logits of `users[n]` for every item and, last, for an unknown one: [n, n_items + 1]."""

    @abstractmethod
    def finish(self) -> None:
        """Prepare what an unknown user and an unknown item are given, from the trained parameters alone."""
