"""Gradients by hand are autograd's."""

import numpy as np
import pytest
import torch

from assent.models import MF, MODELS, MFSettings, Recommender
from assent.models.contract import Lookup, Sizes
from assent.support.arrays import Ints

from .cases import made

SIZES = Sizes(users=9, items=11, rows=40, negatives=2)
BY_HAND = [name for name, kind in MODELS.items() if kind.gradients is not Recommender.gradients]


def looked_up(ids: Ints) -> Lookup:
    rows, places = np.unique(ids, return_inverse=True)
    return Lookup(rows, places.reshape(ids.shape))


@pytest.mark.parametrize("name", BY_HAND)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("negatives", [1, 3])
def test_gradients_by_hand_are_those_of_autograd(name: str, seed: int, negatives: int) -> None:
    """Users and items occur several times; one row has the same item as positive and as negative."""
    rng = np.random.default_rng(seed)
    model = made(name, sizes=SIZES, seed=seed)
    users, items = rng.integers(0, 9, 30), rng.integers(0, 11, (30, 1 + negatives))
    items[0] = items[0, 0]
    tables = {id(table.values): table for table in model.tables()}
    others = [value for value in model.parameters() if id(value) not in tables]

    loss = model.losses(torch.from_numpy(users), torch.from_numpy(items), None).mean()
    decayed = sum(
        0.5 * table.decay * table.values[:-1].square().sum() for table in model.tables() if table.decay
    )
    expected = dict(
        zip(
            map(id, model.parameters()),
            torch.autograd.grad(loss - decayed, list(model.parameters())),
            strict=True,
        )
    )

    read = {"users": looked_up(users), "items": looked_up(items)}
    found, by_row = model.gradients(read["users"], read["items"])
    assert found == pytest.approx((loss - decayed).item(), rel=1e-6)
    for table, gradient in zip(tables.values(), by_row, strict=True):
        whole = expected[id(table.values)]
        torch.testing.assert_close(gradient, whole[read[table.of].rows], rtol=1e-6, atol=1e-9)
        whole[read[table.of].rows] = 0
        assert whole.abs().max() < 1e-12  # the rows that are not in the batch
    for value in others:
        assert value.grad is not None
        torch.testing.assert_close(value.grad, expected[id(value)], rtol=1e-6, atol=1e-9)


def test_both_models_of_tables_alone_have_gradients_by_hand() -> None:
    assert BY_HAND == ["mf", "neumf"]


class OtherLoss(MF):
    name = "other-loss"

    def losses(self, users: torch.Tensor, items: torch.Tensor, prepared: None) -> torch.Tensor:
        return 2 * super().losses(users, items, prepared)


class OtherName(MF):
    name = "other-name"


def test_a_subclass_that_changes_the_loss_is_differentiated_by_autograd() -> None:
    brings = {kind: kind(SIZES, MFSettings()).brings_gradients for kind in (MF, OtherName, OtherLoss)}
    assert brings == {MF: True, OtherName: True, OtherLoss: False}
