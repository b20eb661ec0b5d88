"""Adam row by row gives what torch's Adam on whole tables gives."""

import numpy as np
import pytest
import torch
from torch import Tensor

from assent.models import Draws, Recommender, Sizes, model_class
from assent.support.arrays import Ints
from assent.training.adam import RowAdam

SIZES = Sizes(users=60, items=50, rows=400, negatives=1)
EPOCHS = 3


def batches(steps: int, size: int, seed: int) -> list[tuple[Ints, Ints]]:
    """The last ten users and items are read once at most: they miss nearly every step."""
    rng = np.random.default_rng(seed)
    found = [(rng.integers(0, 50, size), rng.integers(0, 40, (size, 2))) for _ in range(steps)]
    found[0][0][0], found[0][1][0, 1] = 55, 45
    return found


def made(name: str) -> Recommender:
    model = model_class(name)(SIZES, model_class(name).Settings())
    model.initialise(Draws.numbered(model.sizes, 0))
    return model


def rates(steps: int) -> list[float]:
    return [0.02 - 0.01 * step / steps for step in range(steps)]


def by_torch(model: Recommender, steps: int, size: int) -> dict[str, Tensor]:
    """Parameters and moments after steps of torch's Adam along autograd's gradients."""
    adam = torch.optim.Adam(model.parameters())
    for epoch in range(EPOCHS):
        for (users, items), rate in zip(batches(steps, size, epoch), rates(steps), strict=True):
            adam.param_groups[0]["lr"] = rate
            adam.zero_grad()
            loss = model.losses(torch.from_numpy(users), torch.from_numpy(items), None).mean()
            loss.backward()  # type: ignore[no-untyped-call]
            adam.step()
    return state_of(model, adam)


def by_row(model: Recommender, steps: int, size: int) -> dict[str, Tensor]:
    adam = torch.optim.Adam(model.parameters())
    for epoch in range(EPOCHS):
        stepper = RowAdam(model, adam.state, rates(steps))
        for users, items in batches(steps, size, epoch):
            stepper.step(users, items)
        stepper.settle()
    return state_of(model, adam)


def state_of(model: Recommender, adam: torch.optim.Adam) -> dict[str, Tensor]:
    found = {name: value.detach() for name, value in model.named_parameters()}
    for name, value in model.named_parameters():
        found |= {f"{key} of {name}": moment for key, moment in adam.state[value].items()}
    return found


@pytest.mark.parametrize("name", ["mf", "neumf"])
@pytest.mark.parametrize(("steps", "size"), [(6, 40), (300, 3)])
def test_steps_row_by_row_are_those_of_torch(name: str, steps: int, size: int) -> None:
    """They are as near to steps in float64 as those of torch in float32 are."""
    exact = by_torch(made(name).double(), steps, size)
    torchs, ours = by_torch(made(name), steps, size), by_row(made(name), steps, size)
    assert ours.keys() == exact.keys()
    for key, value in exact.items():
        error, usual = (
            float((found[key] - value).norm() / (value.norm() + 1e-12)) for found in (ours, torchs)
        )
        assert error < 3 * usual + 1e-6, key


@pytest.mark.parametrize("name", ["mf", "neumf"])
def test_the_row_of_the_unknown_does_not_move(name: str) -> None:
    model = made(name)
    model.finish()
    before = [table.values[-1].clone() for table in model.tables()]
    by_row(model, 5, 10)
    for table, row in zip(model.tables(), before, strict=True):
        assert torch.equal(table.values[-1], row)
