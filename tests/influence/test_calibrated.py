"""The calibrated loss is the least over all scales, and its gradient is taken with the scale held fixed."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from assent.influence.autodiff import Autodiff
from assent.influence.closed_form import Curvature
from assent.influence.estimate import linearise
from assent.influence.inverse import Estimator
from assent.models import MF, Draws, ModelSettings, Recommender
from assent.models.losses import Loss

from .cases import CASES, Case
from .readers import Reader

EVERY = pytest.mark.parametrize("case", CASES, ids=str)
BOTH = pytest.mark.parametrize("kind", [Reader, MF], ids=["autodiff", "closed form"])


def drawn(like: Tensor, seed: int) -> Tensor:
    return torch.randn(like.shape, dtype=like.dtype, generator=torch.Generator().manual_seed(seed))


def tables(model: Recommender) -> list[Tensor]:
    return [parameter for name, parameter in model.named_parameters() if name.endswith("table")]


@torch.no_grad()
def at(case: Case, kind: type[Recommender], *, by: float = 0.0, further: float = 0.0) -> Curvature | Autodiff:
    """A model that ranks better than chance, its parameters moved `by`, its selection `further`."""
    settings = case.model.settings if kind is MF else ModelSettings()
    model = kind(case.model.sizes, settings).double()
    model.initialise(Draws.numbered(model.sizes, 3))
    anchor = torch.from_numpy(case.anchor).double()

    def found() -> Curvature | Autodiff:
        given = {"trained": replace(case.trained, model=model), "anchor": anchor.numpy()}
        calibrated = case.settings(Estimator.TRUNCATED, loss=Loss.CALIBRATED)
        linearised = linearise(**case.arguments | given, settings=calibrated)
        assert isinstance(linearised, Curvature | Autodiff)
        return linearised

    if Loss.CALIBRATED.scale(found().valid_scores()) < 1e-3:
        dict(model.named_parameters())["item_table"].neg_()
    # The rows of unknown users and items never move.
    for seed, table in enumerate(tables(model)):
        table[:-1] += by * drawn(table[:-1], seed)
    anchor += further * drawn(anchor, 9)
    return found()


@EVERY
@BOTH
def test_the_scale_is_the_best_for_all_validation_rows(case: Case, kind: type[Recommender]) -> None:
    found = at(case, kind)
    scores = found.valid_scores()
    c = Loss.CALIBRATED.scale(scores)
    assert c > 1e-3
    assert c != pytest.approx(1)
    assert_close(found.valid_losses(), Loss.PAIRWISE.of(c * scores))
    for other in (0.9 * c, 1.1 * c):
        assert Loss.PAIRWISE.of(other * scores).sum() > found.valid_losses().sum()


@EVERY
@BOTH
def test_the_gradient_is_that_of_the_least_loss(case: Case, kind: type[Recommender]) -> None:
    found, step = at(case, kind), 1e-5
    ones = torch.ones(len(found.valid.users), dtype=torch.double)
    by_parameters, by_o = found.valid_gradient(ones)
    moves = [drawn(table[:-1], seed) for seed, table in enumerate(tables(found.model))]
    if kind is MF:
        along = torch.cat(moves)
    else:
        padded = [torch.cat([move, torch.zeros_like(move[:1])]).flatten() for move in moves]
        along = torch.cat([*padded, torch.zeros(3, dtype=torch.double)])
    rises = [at(case, kind, by=sign * step).valid_losses().sum() for sign in (1, -1)]
    assert_close((rises[0] - rises[1]) / (2 * step), (by_parameters * along).sum(), rtol=1e-3, atol=1e-6)
    rises = [at(case, kind, further=sign * step).valid_losses().sum() for sign in (1, -1)]
    assert_close(
        (rises[0] - rises[1]) / (2 * step), by_o @ drawn(found.samples.anchor, 9), rtol=1e-3, atol=1e-6
    )
