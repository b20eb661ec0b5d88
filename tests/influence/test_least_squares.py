"""The closed forms of iALS: against dense derivatives in double precision, and against retraining."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import combinations

import numpy as np
import pytest
import torch
from torch import Tensor

from assent.data.problem import Problem
from assent.influence.estimate import linearise, own_influence, social_influence
from assent.influence.inverse import Estimator, InfluenceSettings
from assent.influence.least_squares import LeastSquares
from assent.models import IALS, Draws, Evidence, IALSSettings, Sizes
from assent.models.losses import Loss
from assent.support.arrays import Bools, Floats
from assent.training import Trained, disclose
from tests.small import small_problem, some_of

EXACT = InfluenceSettings(truncation=500, tolerance=1e-12, damping=1e-9)


@cache
def problem() -> Problem:
    return small_problem(users=12, items=30)


def converged(anchor: Bools | Floats, start: IALS | None = None) -> IALS:
    """The model of a selection, trained until nothing moves, in double precision."""
    data = disclose(problem(), np.ones(len(anchor), dtype=np.bool_))
    sizes = Sizes(problem().n_users, data.n_items, len(anchor), 1)
    model = IALS(sizes, IALSSettings(dimension=2, strength=0.3)).double()
    model.initialise(Draws.numbered(model.sizes, 0))
    if start is not None:
        model.load_state_dict(start.state_dict())
    rows = torch.from_numpy(data.rows.users), torch.from_numpy(data.rows.items)
    evidence = Evidence(*rows, torch.from_numpy(anchor.astype(np.float64)))
    for _ in range(600):
        model.step(evidence)
    model.finish()
    return model.eval()


@cache
def anchor() -> Bools:
    return some_of(problem(), 0.8)


@cache
def trained() -> IALS:
    return converged(anchor())


def at(loss: Loss = Loss.PAIRWISE, model: IALS | None = None, **changes: object) -> LeastSquares:
    data = disclose(problem(), np.ones(len(anchor()), dtype=np.bool_))
    settings = EXACT.model_copy(update={"loss": loss, **changes})
    known = Trained(model or trained(), data.user_ids, data.item_ids, 0, 1, None)
    found = linearise(problem(), anchor(), known, negatives=1, settings=settings, seed=0)
    assert isinstance(found, LeastSquares)
    return found


def jacobian_of(model: LeastSquares, function: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """A function of the users' and the items' vectors, as one of the vector θ, [P]: its dense Jacobian."""
    found: Tensor = torch.func.jacrev(lambda x: function(*_parts(model, x)))(_theta(model))
    return found


@pytest.mark.parametrize("full", [True, False])
def test_products_are_those_of_the_dense_hessian(full: bool) -> None:
    model = replace(at(), full=full, damping=0.2)
    users, items, o = model.samples.users, model.samples.items[:, 0], model.samples.anchor
    l2, alpha = model.model.l2, model.model.alpha

    def residuals(w: Tensor, h: Tensor) -> Tensor:
        """Numbers whose half sum of squares is the objective."""
        own, theirs = w[users], h[items]
        missing = o.sqrt() * (1 - (own * theirs).sum(1))
        held = (o * l2).sqrt()[:, None] * torch.cat([own, theirs], dim=1)
        counts = torch.tensor([alpha * l2 * len(h), alpha * l2 * len(w)]).sqrt()
        return torch.cat(
            [each.flatten() for each in (missing, held, alpha**0.5 * w @ h.T, counts[0] * w, counts[1] * h)]
        )

    size = sum(each[:-1].numel() for each in model.tables)
    jacobian = jacobian_of(model, residuals)
    dense = jacobian.T @ jacobian
    if full:
        dense = torch.func.hessian(lambda x: 0.5 * residuals(*_parts(model, x)).square().sum())(_theta(model))
    found = torch.stack([model.product(each.view(-1, 2)).flatten() for each in torch.eye(size).double()])
    torch.testing.assert_close(found, dense + 0.2 * torch.eye(size).double())


def _theta(model: LeastSquares) -> Tensor:
    return torch.cat([each[:-1].detach() for each in model.tables]).flatten()


def _parts(model: LeastSquares, x: Tensor) -> tuple[Tensor, Tensor]:
    both = x.view(-1, 2)
    return both[: model.n_users], both[model.n_users :]


def test_the_preconditioner_is_the_inverse_of_the_diagonal_blocks() -> None:
    model = replace(at(), damping=0.1)
    x = torch.randn(
        model.n_users + model.model.n_items, 2, generator=torch.Generator().manual_seed(0)
    ).double()
    found = model.precondition(x)
    for row in (0, 3, model.n_users, model.n_users + 5):
        block = torch.zeros(2, 2).double()
        for column in range(2):
            one = torch.zeros_like(x)
            one[row, column] = 1
            block[:, column] = model.product(one)[row]
        torch.testing.assert_close(found[row], torch.linalg.solve(block, x[row]))


@pytest.mark.parametrize("loss", Loss)
def test_own_influence_is_what_leaving_a_row_out_does_given_the_items(loss: Loss) -> None:
    model = at(loss)
    found = own_influence(model, EXACT, 0)[0].numpy()
    base, owners = model.losses_given_items(anchor()), problem().train.users
    for k in range(len(found)):
        other = anchor().copy()
        other[k] = not other[k]
        change = model.losses_given_items(other)[owners[k]] - base[owners[k]]
        assert found[k] == pytest.approx(change if anchor()[k] else -change, abs=1e-9)
    assert np.abs(found).max() > 1e-6


def test_several_rows_can_be_withheld_at_once() -> None:
    """Everybody's vector then minimises the objective with these rows alone, the items being fixed."""
    model, few = at(), some_of(problem(), 0.4, seed=5)
    losses = model.losses_given_items(few)
    data = disclose(problem(), np.ones(len(few), dtype=np.bool_))
    h, l2, alpha = model.tables[1], model.model.l2, model.model.alpha
    for user in range(problem().n_users):
        own = h[torch.from_numpy(data.rows.items[(data.rows.users == user) & few])]
        ridge = l2 * (len(own) + alpha * (len(h) - 1))
        A = alpha * h.T @ h + own.T @ own + ridge * torch.eye(2).double()
        w = torch.linalg.solve(A, own.sum(0))
        logits = model.logits(h[model.valid.items[model.valid.users == user]] @ w)
        assert losses[user] == pytest.approx(float(model.loss.of(logits).sum()), rel=1e-9)


def test_own_influence_needs_a_selection() -> None:
    shares = replace(at(), samples=replace(at().samples, anchor=torch.full((len(anchor()),), 0.5).double()))
    with pytest.raises(ValueError, match="must be a selection"):
        shares.own(torch.ones(len(shares.valid.users)).double())


def test_social_influence_predicts_retraining() -> None:
    """Withholding a little of one row, and training to the end, moves the sum of losses as predicted."""
    model = at()
    found, residual = social_influence(model, EXACT, 0)
    assert residual is not None
    assert residual < 1e-6
    base = model.valid_losses().sum()
    rows, little = np.flatnonzero(anchor())[:12], 0.01
    predicted, true = [], []
    for k in rows:
        other = anchor().astype(np.float64)
        other[k] -= little
        moved = converged(other, trained())
        moved.calibration.copy_(trained().calibration)  # influence takes it as given
        predicted.append(float(found[k]))
        true.append(float(at(model=moved).valid_losses().sum() - base) / little)
    np.testing.assert_allclose(true, predicted, atol=0.02 * np.abs(predicted).max())
    assert np.abs(true).max() > 1e-4


def test_estimators_differ_for_everybody_and_for_owners() -> None:
    """One must not stand for another without a word; those that solve systems have the exact own values."""
    social, own = {}, {}
    for estimator in Estimator:
        settings = InfluenceSettings(estimator=estimator, damping=0.2)
        social[estimator] = social_influence(at(estimator=estimator), settings, 0)[0]
        own[estimator] = own_influence(at(estimator=estimator), settings, 0)[0]
    for found in (social, own):
        assert all(each.isfinite().all() and each.abs().max() > 0 for each in found.values())
    pairs = list(combinations(Estimator, 2))
    assert not any(torch.allclose(social[a], social[b]) for a, b in pairs)
    same = {(a, b) for a, b in pairs if torch.allclose(own[a], own[b])}
    assert same == {(Estimator.TRUNCATED, Estimator.GAUSS_NEWTON)}


def test_who_withholds_their_last_row_is_an_unknown_user() -> None:
    """The final model serves them the mean vector, so that is what the last row is measured against."""
    model = at()
    alone = anchor().copy()
    user = int(model.samples.users[np.flatnonzero(alone)[0]])
    theirs = np.flatnonzero((model.samples.users.numpy() == user) & alone)
    alone[theirs[1:]] = False
    left = replace(model, samples=replace(model.samples, anchor=torch.from_numpy(alone).double()))
    found = float(left.own(torch.ones(len(model.valid.users)).double())[theirs[0]])
    nothing = alone.copy()
    nothing[theirs[0]] = False
    before, after = left.losses_given_items(alone)[user], left.losses_given_items(nothing)[user]
    assert found == pytest.approx(after - before)
    unknown = model.logits(model.tables[1] @ model.tables[0][-1])
    rows = model.valid.owners == user
    expected = model.loss.of(model.valid.scale[rows] * unknown[model.valid.items[rows]]).sum()
    assert after == pytest.approx(float(expected))
