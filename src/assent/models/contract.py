"""The contract of a recommender: what to implement to use an own model with every part of assent.

Subclass `Recommender`, give it a `name` and a `Settings` class, and implement five methods:

    class Popularity(Recommender):                       # s(u, i) = b_i
        name = "popularity"
        Settings = PopularitySettings                    # a ModelSettings with the field `decay`

        def __init__(self, sizes, settings):
            super().__init__(sizes, settings)
            self.bias = nn.Parameter(torch.zeros(sizes.items + 1))    # the last one: an unknown item

        def initialise(self, draws):
            draws.items(self.bias, std=0.1)

        def forward(self, users, items, prepared):       # users [n], items [n, m] → two tensors [n, m]
            return self.bias[items], self.settings.decay / 2 * self.bias[items].square()

        def score_all(self, users, prepared):            # users [n] → [n, n_items + 1]
            return self.bias.expand(len(users), -1)

        @torch.no_grad()
        def finish(self):
            self.bias[-1] = self.bias[:-1].sum() / max(1, self.n_items)

A model that reads interactions as input (a graph, histories) also implements `prepare`; one that brings its
own solver implements `step` and `objective` in place of `losses`. One that looks rows up in tables may be
trained faster by `tables` and `gradients`; one whose logits are products of vectors is exported by `vectors`.
The trainer, early stopping, ranking,
influence, all methods and the stored files then work with it. The model is built for the users and items of
the rows that it is trained on and sees no others; it knows nothing of selections or games. docs/models.md
explains more, examples/own_recommender.py runs, and `assent.testing` has the tests.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict
from scipy.special import ndtri
from torch import Tensor, nn

from assent.models.losses import sample_losses
from assent.support.arrays import Ints, Keys, mix, slices, uniforms
from assent.support.draws import Purpose

_NUMBERS = 2**20
"""Initial parameters drawn at once, to bound memory."""


class ModelSettings(BaseModel):
    """Base class of a model's settings: give each field a default and a description."""

    model_config = ConfigDict(frozen=True, extra="forbid")


@dataclass(frozen=True)
class Sizes:
    """The size of the training data: all that a model knows of the data when it is built."""

    users: int
    items: int
    rows: int  # disclosed interactions
    negatives: int  # sampled negatives per interaction and epoch


@dataclass(frozen=True)
class Evidence:
    """The interactions that a model may read as input, in the model's indices.

    The rows are sorted by user and, within a user, by time. `weights` is the selection o: 1 for a disclosed
    interaction, 0 for one that must leave no trace. Influence differentiates the scores by the weights.
    """

    users: Tensor  # [n]
    items: Tensor  # [n]
    weights: Tensor  # [n]


class Initialisation(StrEnum):
    """How large initial parameters are."""

    OWN = "own"
    """As the model's settings say."""
    XAVIER = "xavier"
    """Deviation √(2 / (rows + columns)) of every table and layer (Glorot and Bengio, 2010)."""


class Draws:
    """Random numbers for initial parameters.

    Those of a user or an item depend on the seed and the id alone, so that nobody's start depends on who else
    there is (with Xavier's deviation: but for a factor that all share). `generator` is for parameters that
    belong to nobody.
    """

    def __init__(
        self,
        seed: int,
        user_keys: Keys,
        item_keys: Keys,
        initialisation: Initialisation = Initialisation.OWN,
    ) -> None:
        self.user_keys, self.item_keys = user_keys, item_keys
        self.generator = torch.Generator().manual_seed(seed)
        self._seed, self._tables, self._initialisation = seed, 0, initialisation

    @classmethod
    def numbered(cls, sizes: Sizes, seed: int = 0) -> "Draws":
        """Return the draws for users and items whose ids are their numbers."""
        return cls(seed, mix(np.arange(sizes.users)), mix(np.arange(sizes.items)))

    def users(self, table: Tensor, *, std: float) -> None:
        """Fill `table[n_users, ...]` with normal numbers of deviation `std`; a row more is left as it is."""
        self._fill(table, self.user_keys, std)

    def items(self, table: Tensor, *, std: float) -> None:
        """Fill `table[n_items, ...]` with normal numbers of deviation `std`; a row more is left as it is."""
        self._fill(table, self.item_keys, std)

    @torch.no_grad()
    def layer(self, weights: Tensor, *, std: float) -> None:
        """Add normal numbers of deviation `std` to the `weights[outputs, inputs]` of a layer."""
        noise = torch.empty_like(weights).normal_(generator=self.generator)
        rows, columns = weights.shape
        weights.add_(noise, alpha=self._deviation(rows, columns, std))

    def _deviation(self, rows: int, columns: int, std: float) -> float:
        return std if self._initialisation is Initialisation.OWN else math.sqrt(2 / (rows + columns))

    @torch.no_grad()
    def _fill(self, table: Tensor, keys: Keys, std: float) -> None:
        """Draw anew with every call, so that the tables of a model differ."""
        self._tables += 1
        if not len(keys):
            return
        own = mix(self._seed, Purpose.PARAMETERS, self._tables, keys)
        width = table[:1].numel()
        std = self._deviation(len(keys), width, std)
        for rows in slices(len(keys), max(1, _NUMBERS // max(1, width))):
            numbers = torch.from_numpy(std * ndtri(uniforms(own[rows], width)))
            table[rows] = numbers.to(table.dtype).view_as(table[rows])


class Lookup(NamedTuple):
    """The rows of a table that a batch reads: its users or items are `rows[places]`."""

    rows: Ints  # distinct: [k]
    places: Ints  # [n] of users, [n, m] of items


@dataclass(frozen=True)
class Table:
    """An embedding table whose rows are read by user or by item."""

    values: nn.Parameter  # [users + 1 or items + 1, d], the last row for the unknown
    of: Literal["users", "items"]


class Recommender(nn.Module, ABC):
    """A recommender of `n_items` items to `n_users` users.

    Index `n_users` stands for any unknown user, index `n_items` for any unknown item.
    """

    name: ClassVar[str]
    """The model's name in messages and files."""
    Settings: ClassVar[type[ModelSettings]]
    """The class of the model's settings."""
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """This model's own defaults: {"training": {"epochs": 50}, "influence": {"damping": 20.0}}.

    The keys are names of fields of `assent.Settings` that are settings themselves: "training", "influence"
    and "value". Their values map fields of these settings to defaults. What the user gives comes first.
    """
    search: ClassVar[Sequence[tuple[str, Sequence[float]]]] = ()
    """Rounds of the search for settings: a field of `Settings` and the factors to multiply it by.

    A quick search takes the first two rounds, a thorough one all. Without rounds nothing is searched."""
    samples_at_once: ClassVar[int] = 2**15
    """Samples per block when influence differentiates: more need more memory but fewer `prepare` calls."""

    def __init__(self, sizes: Sizes, settings: Any) -> None:
        super().__init__()
        self.sizes = sizes
        self.n_users = sizes.users
        self.n_items = sizes.items
        self.settings = settings

    @property
    def reads_evidence(self) -> bool:
        """Whether the model implements `prepare`; if so, the disclosed interactions are saved with it."""
        return type(self).prepare is not Recommender.prepare

    @property
    def brings_solver(self) -> bool:
        """Whether the model implements `step`; if so, it is trained by it."""
        return type(self).step is not Recommender.step

    @abstractmethod
    def initialise(self, draws: Draws) -> None:
        """Draw the initial parameters, from `draws` alone."""

    def prepare(self, evidence: Evidence) -> Any:
        """Return what the scores need of the disclosed interactions, in any form; by default None.

        The result is the argument `prepared` of the methods below. It is computed before every training step
        and once before ranking, and must be differentiable by the parameters and by `evidence.weights`.
        """
        return None

    @abstractmethod
    def forward(self, users: Tensor, items: Tensor, prepared: Any) -> tuple[Tensor, Tensor]:
        """Return logits and penalties of `users[n]` with `items[n, m]`: two tensors [n, m].

        σ(logit) is the probability of an interaction. The penalty is the regularisation in the loss of that
        one sample.
        """

    def losses(self, users: Tensor, items: Tensor, prepared: Any) -> Tensor:
        """Return the loss of each sample, [n, m]; `items[:, 0]` are the positives. Default: BCE + penalty."""
        return sample_losses(*self(users, items, prepared))

    def tables(self) -> Sequence[Table]:
        """Return the tables of which a batch has gradients by the rows that it reads, and by no others."""
        return ()

    def gradients(self, users: Lookup, items: Lookup) -> tuple[float, list[Tensor]]:
        """Return the mean of `losses` and its gradients by the rows of `tables`, by hand: [k, d] each.

        Optional: by default, autograd differentiates `losses`. Gradients by other parameters are put into
        their `grad`, as by `backward`.
        """
        raise NotImplementedError

    def logits(self, users: Tensor, items: Tensor, prepared: Any) -> Tensor:
        """Return the logits of `forward` without gradients. Optional: by default, `forward` is called."""
        raise NotImplementedError

    def vectors(self, prepared: Any) -> tuple[Tensor, Tensor]:
        """Return vectors whose products are the logits: [n_users + 1, d] and [n_items + 1, d].

        Optional: without them the model cannot be exported, because other programs do not know its code.
        """
        raise NotImplementedError

    def brings(self, name: str) -> bool:
        """Whether to call `gradients`, `logits` or `vectors`: not if a subclass changed what they serve."""
        classes = type(self).__mro__
        first, *others = (
            next(k for k, each in enumerate(classes) if method in vars(each))
            for method in (name, "prepare", "forward", "losses")
        )
        return first <= min(others)

    @torch.no_grad()
    def scores(self, users: Tensor, items: Tensor, prepared: Any) -> Tensor:
        """Return the logits of `users[n]` with `items[n, m]`, the fastest way: [n, m]."""
        if self.brings("logits"):
            return self.logits(users, items, prepared)
        logits: Tensor = self(users, items, prepared)[0]
        return logits

    def step(self, evidence: Evidence) -> None:
        """Improve the parameters by one pass over the disclosed interactions (an epoch), from these alone.

        The default does nothing: the trainer then takes steps of Adam along the gradient of `losses`.
        """

    def objective(self, evidence: Evidence) -> Tensor:
        """Return what `step` minimises, a number; differentiable by parameters and `evidence.weights`."""
        raise NotImplementedError

    @abstractmethod
    def score_all(self, users: Tensor, prepared: Any) -> Tensor:
        """Return the logits of `users[n]` for every item and, last, for an unknown item: [n, n_items + 1].

        Several threads may call it at once.
        """

    @abstractmethod
    def finish(self) -> None:
        """Set the parameters of the unknown user and item, from the trained parameters alone.

        It is called after training and before each look at the validation rows: twice must be as good as
        once.
        """
