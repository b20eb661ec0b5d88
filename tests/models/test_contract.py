"""What every recommender has to keep, whatever its formula."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from assent.data.simulator import simulate
from assent.data.split import make_problem
from assent.models import MODELS, Recommender, Sizes, model_class
from assent.training import TrainingSettings, disclose, train

from .cases import SIZES, TINY, evidence, made, pairs, weighted, without

READERS = ["lightgcn", "din", "cdae"]
"""The models whose input is the evidence."""

pytestmark = pytest.mark.parametrize("name", MODELS)


def test_readers_of_evidence_say_so(name: str) -> None:
    assert made(name).reads_evidence == (name in READERS)


def test_all_scores_are_those_of_the_pairs(name: str) -> None:
    model = made(name)
    prepared = model.prepare(evidence())
    users, items = pairs(model)
    expected = model(users, items, prepared)[0]
    torch.testing.assert_close(model.score_all(users, prepared), expected)
    torch.testing.assert_close(model.score_all(users.flip(0), prepared), expected.flip(0))
    assert expected.isfinite().all()
    assert expected.dtype == torch.float64
    assert len(set(expected.flatten().tolist())) > model.n_items


def test_a_row_of_weight_0_leaves_no_trace(name: str) -> None:
    model = made(name)
    users, items = pairs(model)
    shown = evidence()
    for prepare in (model.prepare, model.train().prepare):
        found, expected = prepare(shown), prepare(without(shown, 2))
        model.eval()
        for ours, theirs in zip(model(users, items, found), model(users, items, expected), strict=True):
            assert torch.equal(ours, theirs)


class Whole(nn.Module):
    """A model as a function of its parameters and the evidence's weights."""

    def __init__(self, model: Recommender) -> None:
        super().__init__()
        self.model = model

    def forward(self, weights: Tensor) -> Tensor:
        users, items = pairs(self.model)
        prepared = self.model.prepare(weighted(evidence(), weights))
        logits, penalties = self.model(users, items, prepared)
        mixed: Tensor = (logits + penalties)[[0, 1, 3, 4]][:, [0, 2, 5]]
        return mixed


def test_first_and_second_derivatives_are_those_of_finite_differences(name: str) -> None:
    """By parameters and weights together, at a row of weight 0 as well."""
    whole = Whole(made(name))
    names = [name for name, _ in whole.named_parameters()]
    values = [value.detach().clone().requires_grad_() for value in whole.parameters()]

    def scores(weights: Tensor, *parameters: Tensor) -> Tensor:
        found: Tensor = torch.func.functional_call(
            whole, dict(zip(names, parameters, strict=True)), (weights,)
        )
        return found

    weights = evidence().weights.clone().requires_grad_()
    assert torch.autograd.gradcheck(scores, (weights, *values), fast_mode=True)
    assert torch.autograd.gradgradcheck(scores, (weights, *values), fast_mode=True)
    slopes = torch.autograd.grad(scores(weights, *values).sum(), weights, allow_unused=True)[0]
    assert (slopes is not None and bool(slopes[2].abs() > 1e-6)) == (name in READERS)


def test_the_unknown_and_those_without_evidence_have_scores(name: str) -> None:
    model = made(name)
    users, items = pairs(model)
    nothing = weighted(evidence(), torch.zeros_like(evidence().weights))
    logits, penalties = model(users, items, model.prepare(nothing))
    assert logits.isfinite().all()
    assert (penalties >= 0).all()


def test_a_model_of_nothing_scores_everything_alike(name: str) -> None:
    kind = model_class(name)
    model = kind(Sizes(0, 0, 0, 1), kind.Settings.model_validate(TINY[name]))
    model.initialise(torch.Generator().manual_seed(0))
    model.finish()
    model.eval()
    none = torch.zeros(0, dtype=torch.int64)
    prepared = model.prepare(type(evidence())(none, none, torch.zeros(0)))
    assert model.score_all(torch.tensor([0, 0]), prepared).shape == (2, 1)
    assert model(torch.tensor([0]), torch.tensor([[0, 0]]), prepared)[0].unique().numel() == 1


def test_initial_parameters_come_from_the_generator_alone(name: str) -> None:
    def drawn(seed: int) -> Tensor:
        kind = model_class(name)
        model = kind(SIZES, kind.Settings.model_validate(TINY[name]))
        model.initialise(torch.Generator().manual_seed(seed))
        return torch.cat([value.detach().flatten() for value in model.parameters()])

    first = drawn(1)
    torch.manual_seed(99)
    assert torch.equal(first, drawn(1))
    assert not torch.equal(first, drawn(2))


def test_training_learns_and_repeats_itself(name: str) -> None:
    problem = make_problem(
        simulate(preference="learnable", users=40, items=30, noise=0, seed=0), "full", negatives=5
    )
    data = disclose(problem, np.ones(len(problem.train), dtype=np.bool_))
    kind = model_class(name)
    settings = kind.Settings.model_validate({**TINY[name], "dimension": 8})

    def scores(seed: int, epochs: int) -> Tensor:
        training = TrainingSettings(epochs=epochs, learning_rate=0.02, batch_size=64, evaluate_every=epochs)
        trained = train(data, model=name, model_settings=settings, settings=training, seed=seed)
        return trained.scores_of_all(torch.arange(data.n_users))

    def separation(found: Tensor) -> float:
        """How far the disclosed items stand above the rest, in standard deviations of the scores."""
        own = torch.zeros(found.shape, dtype=torch.bool)
        own[data.rows.users, data.rows.items] = True
        return float((found[own].mean() - found[~own].mean()) / found.std())

    after = scores(0, 8)
    assert torch.equal(after, scores(0, 8))
    assert not torch.equal(after, scores(1, 8))
    assert separation(after) > 0.5
