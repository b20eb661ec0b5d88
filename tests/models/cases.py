"""A tiny log with a user and an item without rows, and a row of weight 0; every model, made for it."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from assent.models import Draws, Evidence, Recommender, Sizes, model_class

SIZES = Sizes(users=4, items=5, rows=7, negatives=2)
"""User 3 and item 4 have no evidence; user 4 and item 5 stand for the unknown."""

TINY: dict[str, dict[str, Any]] = {
    "mf": {"dimension": 2},
    "neumf": {"dimension": 2, "perceptron_dimension": 2, "hidden": (3, 2), "layer_scale": 1.0},
    "lightgcn": {"dimension": 2, "layers": 2},
    "din": {"dimension": 2, "attention": 3, "hidden": (3, 2), "history": 4, "layer_scale": 1.0},
    "cdae": {"dimension": 2, "activation": "tanh"},
}
"""Settings that make every model small, and its layers anything but trivial."""


def evidence() -> Evidence:
    """Seven rows, the third of weight 0; no sum of weights is 1, where LightGCN has a kink."""
    return Evidence(
        users=torch.tensor([0, 0, 1, 1, 1, 1, 2]),
        items=torch.tensor([0, 1, 0, 1, 2, 3, 3]),
        weights=torch.tensor([0.9, 0.8, 0.0, 0.7, 0.95, 0.9, 0.6], dtype=torch.float64),
    )


def without(shown: Evidence, row: int) -> Evidence:
    """The evidence without one of its rows."""
    kept = torch.arange(len(shown.users)) != row
    return Evidence(shown.users[kept], shown.items[kept], shown.weights[kept])


def weighted(shown: Evidence, weights: Tensor) -> Evidence:
    """The same rows with other weights."""
    return replace(shown, weights=weights)


def made(name: str, *, sizes: Sizes = SIZES, seed: int = 0, **settings: Any) -> Recommender:
    """A model as after training: float64, every parameter some number, those of the unknown set."""
    kind = model_class(name)
    model = kind(
        sizes, kind.Settings.model_validate({**TINY[name], "initial_scale": 0.8, **settings})
    ).double()
    draws = Draws.numbered(sizes, seed)
    model.initialise(draws)
    with torch.no_grad():
        for value in model.parameters():
            value.add_(0.3 * torch.randn(value.shape, generator=draws.generator, dtype=value.dtype))
    model.finish()
    return model.eval()


def pairs(model: Recommender) -> tuple[Tensor, Tensor]:
    """Every user, the unknown one too, with every item, the unknown one too: [n], [n, m]."""
    users, items = torch.arange(model.n_users + 1), torch.arange(model.n_items + 1)
    return users, items.expand(len(users), -1)
