"""Gradients by hand are autograd's."""

from typing import Any

import numpy as np
import pytest
import torch

from assent.models import MF, MODELS, MFSettings, Recommender
from assent.models.contract import Lookup, Sizes
from assent.support.arrays import Ints

from .cases import made, pairs

SIZES = Sizes(users=9, items=11, rows=40, negatives=2)
BY_HAND = [name for name, kind in MODELS.items() if kind.gradients is not Recommender.gradients]


def looked_up(ids: Ints) -> Lookup:
    rows, places = np.unique(ids, return_inverse=True)
    return Lookup(rows, places.reshape(ids.shape))


PLAIN = {"form": "plain"}
CASES: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in BY_HAND),
    ("neumf", PLAIN),
    ("neumf", {"dropout": 0.5}),
    ("neumf", {**PLAIN, "dropout": 0.2}),
]


@pytest.mark.parametrize(("name", "settings"), CASES, ids=str)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("negatives", [1, 3])
def test_gradients_by_hand_are_those_of_autograd(
    name: str, settings: dict[str, Any], seed: int, negatives: int
) -> None:
    """Users and items occur several times; one row has the same item as positive and as negative.

    Both leave out the same hidden units, drawn by torch's generator.
    """
    rng = np.random.default_rng(seed)
    model = made(name, sizes=SIZES, seed=seed, **settings).train()
    torch.manual_seed(seed)
    users, items = rng.integers(0, 9, 30), rng.integers(0, 11, (30, 1 + negatives))
    items[0] = items[0, 0]
    losses = model.losses(torch.from_numpy(users), torch.from_numpy(items), None)
    names, values = zip(*model.named_parameters(), strict=True)
    expected = dict(zip(names, torch.autograd.grad(losses.mean(), values), strict=True))

    read = {"users": looked_up(users), "items": looked_up(items)}
    torch.manual_seed(seed)
    loss, by_row = model.gradients(read["users"], read["items"])
    assert loss == pytest.approx(losses.mean().item())
    found = {name: value.grad for name, value in model.named_parameters() if value.grad is not None}
    for table, gradient in zip(model.tables(), by_row, strict=True):
        name = next(name for name, value in model.named_parameters() if value is table.values)
        found[name] = torch.zeros_like(table.values).index_copy(
            0, torch.from_numpy(read[table.of].rows), gradient
        )
    assert found.keys() == expected.keys()
    for name, gradient in found.items():
        torch.testing.assert_close(gradient, expected[name])


@pytest.mark.parametrize(("name", "settings"), CASES, ids=str)
def test_logits_by_hand_are_those_of_forward(name: str, settings: dict[str, Any]) -> None:
    model = made(name, sizes=SIZES, **settings)
    users, items = pairs(model)
    torch.testing.assert_close(model.logits(users, items, None), model(users, items, None)[0])
    assert not model.scores(users, items, None).requires_grad


def test_both_models_of_tables_alone_have_gradients_by_hand() -> None:
    assert BY_HAND == ["mf", "neumf"]


class OtherLoss(MF):
    name = "other-loss"

    def losses(self, users: torch.Tensor, items: torch.Tensor, prepared: None) -> torch.Tensor:
        return 2 * super().losses(users, items, prepared)


class OtherName(MF):
    name = "other-name"


def test_a_subclass_that_changes_the_loss_is_differentiated_by_autograd() -> None:
    brings = {kind: kind(SIZES, MFSettings()).brings("gradients") for kind in (MF, OtherName, OtherLoss)}
    assert brings == {MF: True, OtherName: True, OtherLoss: False}
