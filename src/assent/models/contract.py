"""The contract between assent and a recommender: what a model gives, and what it gets for it.

A model gives logits of (user, item) pairs with the penalty of each, and says how the disclosed interactions
enter its input, if they do. It gets training, early stopping, ranking, influence, every method and saving. It
knows nothing of selections or of the game: it is built for the users and items of the rows that it is trained
on, and sees no others. docs/models.md is the same on one page, with an example.

Whether a recommender keeps the contract, asked before it is trained: what is wrong has a name then.
"""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor, nn

from assent.models.losses import sample_losses
from assent.support.errors import AssentError


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


_TOLERANCE = 1e-4
"""How far two ways to the same score may be apart, relative to the largest score asked for."""


def checked_class(found: Any, name: str) -> type[Recommender]:
    """`found` itself if it is a recommender's class; `name` is what the user called it."""
    if not (isinstance(found, type) and issubclass(found, Recommender)):
        raise AssentError(f"model {name}: not a subclass of assent.Recommender")
    if inspect.isabstract(found):
        missing = ", ".join(sorted(found.__abstractmethods__))
        raise AssentError(f"model {name}: does not define {missing}; expected of every recommender")
    if not isinstance(getattr(found, "name", None), str):
        raise AssentError(f"model {name}: has no name; expected a class attribute such as name = 'mine'")
    settings = getattr(found, "Settings", None)
    if not (isinstance(settings, type) and issubclass(settings, ModelSettings)):
        raise AssentError(
            f"model {name}: has no Settings; expected a subclass of assent.models.ModelSettings"
        )
    return found


def build_model(kind: type[Recommender], sizes: Sizes, settings: ModelSettings) -> Recommender:
    """A model whose parameters are still to be initialised, or loaded."""
    with _blamed(kind.name, "the constructor"):
        return kind(sizes, settings)


def make_model(kind: type[Recommender], sizes: Sizes, settings: ModelSettings, seed: int) -> Recommender:
    """A model with the initial parameters of `seed`."""
    model = build_model(kind, sizes, settings)
    with _blamed(kind.name, "initialise"):
        model.initialise(torch.Generator().manual_seed(seed))
    return model


def check_contract(model: Recommender, evidence: Evidence) -> None:
    """Call every method on a handful of users and items, the unknown among them; refuse what is wrong.

    Parameters, mode and torch's generator are left as they were. The cost is that of about one training step.
    """
    was_training = model.training
    kept = {name: value.clone() for name, value in model.state_dict().items()}
    try:
        with torch.random.fork_rng(devices=[]):
            _check(model.eval(), evidence)
    finally:
        model.load_state_dict(kept)
        model.train(was_training)


def _check(model: Recommender, evidence: Evidence) -> None:
    if not list(model.parameters()):
        raise AssentError(f"model {model.name}: has no parameters; accepted: at least one nn.Parameter")
    _check_parameters(model, "initialise")
    with _blamed(model.name, "finish"):
        model.finish()
    _check_parameters(model, "finish")
    with _blamed(model.name, "prepare"):
        prepared = model.prepare(evidence)
    users, items = _some(model.n_users, 3), _some(model.n_items, 4)
    # Every row has its items in another order: one that takes them from elsewhere is found out.
    pairs = torch.stack([items.roll(row) for row in range(len(users))])
    logits = _check_forward(model, users, pairs, prepared)
    _check_score_all(model, users, pairs, logits, prepared)
    if len(evidence.users):
        _check_losses(model, evidence, prepared)


def _check_forward(model: Recommender, users: Tensor, items: Tensor, prepared: Any) -> Tensor:
    """The logits of `users[n]` with `items[n, m]`, once they are known to be right."""
    with _blamed(model.name, "forward"):
        found = model(users, items, prepared)
    if not (isinstance(found, tuple) and len(found) == 2):
        raise AssentError(
            f"model {model.name}: forward gave a {type(found).__name__}; expected a pair (logits, penalties)"
        )
    asked = f"for users {_shape(users)} and items {_shape(items)}"
    for what, tensor in zip(("logits", "penalties"), found, strict=True):
        _check_tensor(model, f"forward gave {what}", tensor, tuple(items.shape), asked)
    logits: Tensor = found[0]
    if not logits.requires_grad:
        raise AssentError(
            f"model {model.name}: forward gave logits that depend on no parameter; "
            "expected them to require gradients (no detach, no no_grad)"
        )
    return logits


def _check_score_all(model: Recommender, users: Tensor, items: Tensor, logits: Tensor, prepared: Any) -> None:
    with _blamed(model.name, "score_all"):
        scores = model.score_all(users, prepared)
    expected = (len(users), model.n_items + 1)
    asked = f"for users {_shape(users)} and {model.n_items} items"
    _check_tensor(model, "score_all gave scores", scores, expected, asked)
    apart = (scores.gather(1, items) - logits).abs()
    if apart.max() > _TOLERANCE * logits.abs().max() + 1e-6:
        row, column = divmod(int(apart.argmax()), items.shape[1])
        user, item = int(users[row]), int(items[row, column])
        raise AssentError(
            f"model {model.name}: score_all disagrees with forward on user {user} and item {item}: "
            f"{scores[row, item].item():g} against {logits[row, column].item():g}"
        )


def _check_losses(model: Recommender, evidence: Evidence, prepared: Any) -> None:
    """The losses of the first disclosed rows, and that they can be differentiated."""
    users, positives = evidence.users[:3], evidence.items[:3]
    negatives = torch.tensor([0, model.n_items - 1]).expand(len(users), -1)
    items = torch.cat([positives[:, None], negatives], dim=1)
    with _blamed(model.name, "losses"):
        losses = model.losses(users, items, prepared)
    asked = f"for users {_shape(users)} and items {_shape(items)}"
    _check_tensor(model, "losses gave losses", losses, tuple(items.shape), asked)
    parameters = dict(model.named_parameters())
    with _blamed(model.name, "the gradient of losses"):
        gradients = torch.autograd.grad(losses.mean(), list(parameters.values()), allow_unused=True)
    for name, gradient in zip(parameters, gradients, strict=True):
        if gradient is not None and not gradient.isfinite().all():
            raise AssentError(f"model {model.name}: losses gave a gradient of {name} that is not finite")


def _check_tensor(model: Recommender, what: str, found: Any, expected: tuple[int, ...], asked: str) -> None:
    if not isinstance(found, Tensor):
        raise AssentError(f"model {model.name}: {what} of type {type(found).__name__}; expected a tensor")
    if tuple(found.shape) != expected:
        raise AssentError(
            f"model {model.name}: {what} of shape {_shape(found)} {asked}; expected {list(expected)}"
        )
    if not found.is_floating_point():
        raise AssentError(f"model {model.name}: {what} of type {found.dtype}; expected floating point")
    if not found.isfinite().all():
        raise AssentError(f"model {model.name}: {what} that are not finite {asked}")


def _check_parameters(model: Recommender, method: str) -> None:
    for name, value in model.named_parameters():
        if not value.isfinite().all():
            raise AssentError(f"model {model.name}: {method} left parameter {name} with values not finite")


def _some(known: int, count: int) -> Tensor:
    """Up to `count` indices, from 0 to `known`, which stands for the unknown: both ends among them."""
    return torch.tensor(sorted({round(known * step / (count - 1)) for step in range(count)}))


def _shape(tensor: Tensor) -> list[int]:
    return list(tensor.shape)


@contextmanager
def _blamed(model: str, method: str) -> Iterator[None]:
    """Whatever a model raises in `method` is said to come from there."""
    try:
        yield
    except Exception as error:
        reason = (str(error).splitlines() or [""])[0]
        raise AssentError(f"model {model}: {method} raised {type(error).__name__}: {reason}") from error
