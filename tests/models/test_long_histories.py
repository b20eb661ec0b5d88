"""One long history among short ones: no model takes memory that grows with the square of its length."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from assent.data.problem import Problem, Rows
from assent.influence.estimate import influence, linearise
from assent.influence.least_squares import LeastSquares
from assent.lab import Lab, Training
from assent.methods import influence_settings
from assent.models import MODELS
from assent.models.contract import Evidence
from assent.models.layers import Histories
from assent.models.losses import Loss
from assent.support.arrays import Bools
from assent.training import Settings, disclose, train

ROWS, ITEMS, LONG = 2000, 2100, 1600


def log_with(longest: int) -> Problem:
    """2,000 training rows: one person has `longest` of them, the others ten each."""
    rng = np.random.default_rng(0)
    users = np.concatenate([np.zeros(longest, dtype=np.int64), 1 + np.arange(ROWS - longest) // 10])
    items = np.concatenate([rng.permutation(ITEMS)[:longest], rng.integers(ITEMS, size=ROWS - longest)])
    n_users = int(users.max()) + 1
    held = Rows(np.arange(n_users), rng.integers(ITEMS, size=n_users))
    candidates = np.column_stack([held.items, rng.integers(ITEMS, size=(n_users, 4))])
    return Problem(
        name="long",
        protocol="full",
        seed=0,
        user_ids=np.array([f"u{k:04}" for k in range(n_users)]),
        item_ids=np.array([f"i{k:04}" for k in range(ITEMS)]),
        train=Rows(users, items),
        valid=held,
        test=held,
        unwillingness=rng.random(ROWS),
        valid_candidates=candidates,
        test_candidates=None,
    )


class Largest(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Remembers the numbers of the largest tensor that any operation makes."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        found = func(*args, **(kwargs or {}))
        for each in found if isinstance(found, (tuple, list)) else (found,):
            if isinstance(each, Tensor):
                self.numbers = max(self.numbers, each.numel())
        return found


@contextmanager
def largest_tensor() -> Iterator[Largest]:
    with Largest() as largest:
        yield largest


def largest_of(model: str, problem: Problem, selection: Bools) -> int:
    """The largest tensor of a training on `selection[Z]` and of influence there."""
    settings = Settings.model_validate(
        {"model": model, "model_settings": {"dimension": 4}, "training": {"epochs": 1}}
    )
    with largest_tensor() as largest:
        trained = train(
            disclose(problem, selection, vocabulary=np.ones(ROWS, dtype=np.bool_)),
            model=model,
            model_settings=settings.model_settings,
            settings=settings.training,
            seed=0,
        )
        how = influence_settings(model, {"truncation": 1, "groups": 1, "draws": 1})
        influence(linearise(problem, selection, trained, negatives=1, settings=how, seed=0), how, 0)
    return largest.numbers


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("share", [1.0, 0.0])
def test_the_largest_tensor_is_about_that_of_short_histories(model: str, share: float) -> None:
    """Of a long history that is disclosed, and of one that is withheld but for a row."""
    selections = []
    for problem in (log_with(10), log_with(LONG)):
        withheld = (problem.train.users == 0) & (np.arange(ROWS) > 0) & (share == 0)
        selections.append(largest_of(model, problem, ~withheld))
    short, long = selections
    assert long <= 8 * short  # DIN reads 50 rows, not 10; the square would be 160 times as much


def test_a_history_is_limited_whatever_is_withheld() -> None:
    for weights in (torch.ones(1000), torch.zeros(1000), (torch.arange(1000) % 2).float()):
        rows = Evidence(torch.zeros(1000, dtype=torch.int64), torch.arange(1000), weights)
        kept = Histories.of(rows, 1, latest=5)
        assert len(kept.items) <= 4 * 5
        read = kept.items[kept.weights > 0]
        assert torch.equal(read, torch.arange(1000)[weights > 0][-5:])


@pytest.mark.parametrize("loss", [Loss.PAIRWISE, Loss.BCE])
@pytest.mark.parametrize("share", [1.0, 0.5])
def test_own_influence_of_a_long_history_to_first_order_is_the_exact_one(loss: Loss, share: float) -> None:
    """Of one among 1,600 rows, the first order is all that matters."""
    problem = log_with(LONG)
    selection = np.random.default_rng(0).random(ROWS) < share
    settings = Settings.model_validate({"model_settings": {"dimension": 4}, "training": {"epochs": 3}})
    trained = Lab(problem, settings).train([Training(selection, np.ones(ROWS, dtype=np.bool_))])[0]
    how = influence_settings("ials", {"loss": loss})
    model = linearise(problem, selection, trained, negatives=1, settings=how, seed=0)
    assert isinstance(model, LeastSquares)
    weights = torch.ones(len(model.valid.users))
    exact, first = (replace(model, exact_up_to=most).own(weights).double() for most in (2**40, 0))
    own = torch.from_numpy(problem.train.users == 0)
    assert float((first - exact)[own].abs().max()) < 0.01 * float(exact[own].abs().max())
    assert not torch.equal(first, exact)
