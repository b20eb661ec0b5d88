"""Check that a recommender keeps the contract, before it is trained, and say what is wrong."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from assent.models.contract import Draws, Evidence, ModelSettings, Recommender, Sizes
from assent.support.errors import AssentError

_TOLERANCE = 1e-4
"""Largest difference between `forward` and `score_all`, relative to the largest score."""


def checked_class(found: Any, name: str) -> type[Recommender]:
    """Return `found` if it is a complete recommender class; `name` is what the user called it."""
    if not (isinstance(found, type) and issubclass(found, Recommender)):
        raise AssentError(f"model {name}: not a subclass of assent.Recommender")
    missing = ", ".join(sorted(found.__abstractmethods__))
    _require(not missing, name, f"does not define {missing}; every recommender must")
    named, settings = (getattr(found, attribute, None) for attribute in ("name", "Settings"))
    _require(isinstance(named, str), name, "has no name; expected a class attribute such as name = 'mine'")
    is_given = isinstance(settings, type) and issubclass(settings, ModelSettings)
    _require(is_given, name, "has no Settings; expected a subclass of assent.models.ModelSettings")
    fields = list(found.Settings.model_fields)
    for field, _ in found.search:
        text = f"searches {field!r}; expected a field of its Settings ({', '.join(fields)})"
        _require(field in fields, name, text)
    return found


def build_model(kind: type[Recommender], sizes: Sizes, settings: ModelSettings) -> Recommender:
    """Return a model without initial parameters, to be initialised or loaded."""
    with _blamed(kind.name, "the constructor"):
        return kind(sizes, settings)


def make_model(kind: type[Recommender], sizes: Sizes, settings: ModelSettings, draws: Draws) -> Recommender:
    """Return a model with initial parameters from `draws`."""
    model = build_model(kind, sizes, settings)
    with _blamed(kind.name, "initialise"):
        model.initialise(draws)
    return model


def check_contract(model: Recommender, evidence: Evidence) -> None:
    """Call every method on a few users and items, unknown ones included; raise if a result is wrong.

    Parameters, mode and torch's generator are left as they were. It costs about one training step.
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
    parameters = dict(model.named_parameters())
    _require(parameters, model.name, "has no parameters; accepted: at least one nn.Parameter")
    _check_parameters(model, "initialise")
    with _blamed(model.name, "finish"):
        model.finish()
    _check_parameters(model, "finish")
    with _blamed(model.name, "prepare"):
        prepared = model.prepare(evidence)
    users, items = _some(model.n_users, 3), _some(model.n_items, 4)
    # The order of the items differs per row: a model that ignores the row's own items is caught.
    pairs = torch.stack([items.roll(row) for row in range(len(users))])
    logits = _check_forward(model, users, pairs, prepared)
    with _blamed(model.name, "score_all"):
        scores = model.score_all(users, prepared)
    asked = f"for users {_shape(users)} and {model.n_items} items"
    _check_tensor(model, "score_all gave scores", scores, [len(users), model.n_items + 1], asked)
    apart = (scores.gather(1, pairs) - logits).abs()
    row, column = divmod(int(apart.argmax()), len(items))
    user, item = int(users[row]), int(pairs[row, column])
    _require(
        bool(apart.max() <= _TOLERANCE * logits.abs().max() + 1e-6),
        model.name,
        f"score_all disagrees with forward on user {user} and item {item}: "
        f"{scores[row, item].item():g} against {logits[row, column].item():g}",
    )
    if model.brings("vectors"):
        _check_vectors(model, users, prepared, scores)
    if model.brings_solver:
        _check_objective(model, evidence)
    elif len(evidence.users):
        _check_losses(model, evidence, prepared)


def _check_forward(model: Recommender, users: Tensor, items: Tensor, prepared: Any) -> Tensor:
    """Return the logits of `users[n]` with `items[n, m]` after checking them."""
    with _blamed(model.name, "forward"):
        found = model(users, items, prepared)
    text = f"forward gave a {type(found).__name__}; expected a pair (logits, penalties)"
    _require(isinstance(found, tuple) and len(found) == 2, model.name, text)
    asked = f"for users {_shape(users)} and items {_shape(items)}"
    for what, tensor in zip(("logits", "penalties"), found, strict=True):
        _check_tensor(model, f"forward gave {what}", tensor, _shape(items), asked)
    logits: Tensor = found[0]
    expected = "expected them to require gradients (no detach, no no_grad)"
    _require(logits.requires_grad, model.name, f"forward gave logits that depend on no parameter; {expected}")
    return logits


def _check_vectors(model: Recommender, users: Tensor, prepared: Any, scores: Tensor) -> None:
    """Check that products of vectors are the `scores[n, n_items + 1]` of `users[n]`."""
    with _blamed(model.name, "vectors"):
        own, theirs = model.vectors(prepared)
        products = own[users] @ theirs.T
    _check_tensor(model, "vectors gave products", products, _shape(scores), f"for users {_shape(users)}")
    apart = (products - scores).abs().max() if scores.numel() else scores.sum()
    text = f"the products of vectors differ from score_all by up to {apart.item():g}"
    _require(bool(apart <= _TOLERANCE * scores.abs().max() + 1e-6), model.name, text)


def _check_losses(model: Recommender, evidence: Evidence, prepared: Any) -> None:
    """Check the losses of the first disclosed rows, and their gradients."""
    users, positives = evidence.users[:3], evidence.items[:3]
    negatives = torch.tensor([0, model.n_items - 1]).expand(len(users), -1)
    items = torch.cat([positives[:, None], negatives], dim=1)
    with _blamed(model.name, "losses"):
        losses = model.losses(users, items, prepared)
    asked = f"for users {_shape(users)} and items {_shape(items)}"
    _check_tensor(model, "losses gave losses", losses, _shape(items), asked)
    _check_gradient(model, "losses", losses.mean())


def _check_objective(model: Recommender, evidence: Evidence) -> None:
    """Check the number that a model's own solver minimises, of the first disclosed rows, and its gradient."""
    few = Evidence(evidence.users[:3], evidence.items[:3], evidence.weights[:3])
    with _blamed(model.name, "objective"):
        found = model.objective(few)
    _check_tensor(model, "objective gave", found, [], f"for {len(few.users)} disclosed rows")
    _check_gradient(model, "objective", found)


def _check_gradient(model: Recommender, method: str, number: Tensor) -> None:
    parameters = dict(model.named_parameters())
    with _blamed(model.name, f"the gradient of {method}"):
        gradients = torch.autograd.grad(number, list(parameters.values()), materialize_grads=True)
    for name, gradient in zip(parameters, gradients, strict=True):
        text = f"{method} gave a gradient of {name} that is not finite"
        _require(gradient.isfinite().all(), model.name, text)


def _check_tensor(model: Recommender, what: str, found: Any, expected: list[int], asked: str) -> None:
    is_tensor = isinstance(found, Tensor)
    _require(is_tensor, model.name, f"{what} of type {type(found).__name__}; expected a tensor")
    shape = _shape(found)
    _require(shape == expected, model.name, f"{what} of shape {shape} {asked}; expected {expected}")
    _require(found.is_floating_point(), model.name, f"{what} of type {found.dtype}; expected floating point")
    _require(found.isfinite().all(), model.name, f"{what} that are not finite {asked}")


def _check_parameters(model: Recommender, method: str) -> None:
    for name, value in model.named_parameters():
        text = f"{method} left values in {name} that are not finite"
        _require(value.isfinite().all(), model.name, text)


def _require(holds: object, model: str, text: str) -> None:
    if not holds:
        raise AssentError(f"model {model}: {text}")


def _some(known: int, count: int) -> Tensor:
    """Return up to `count` evenly spaced indices from 0 to `known`, the index of the unknown."""
    return torch.tensor(sorted({round(known * step / (count - 1)) for step in range(count)}))


def _shape(tensor: Tensor) -> list[int]:
    return list(tensor.shape)


@contextmanager
def _blamed(model: str, method: str) -> Iterator[None]:
    """Turn any exception into an `AssentError` that names the model and the method."""
    try:
        yield
    except Exception as error:
        reason = (str(error).splitlines() or [""])[0]
        raise AssentError(f"model {model}: {method} raised {type(error).__name__}: {reason}") from error
