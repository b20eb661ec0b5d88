"""iALS: its objective, its solver, its logits, fold-in."""

import math
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
import torch

from assent.data.problem import Problem
from assent.evaluation.evaluate import validation_losses
from assent.lab import Lab, Processes, Training, everything
from assent.models import IALS, Draws, Evidence, IALSSettings, Sizes
from assent.support.errors import AssentError
from assent.training import Settings, Trained
from tests.small import small_problem

SIZES = Sizes(users=6, items=8, rows=15, negatives=1)


def some_evidence(seed: int = 0) -> Evidence:
    rng = np.random.default_rng(seed)
    pairs = np.sort(rng.choice(6 * 8, size=15, replace=False))
    return Evidence(torch.from_numpy(pairs // 8), torch.from_numpy(pairs % 8), torch.ones(15).double())


def made(dimension: int = 3, **settings: float) -> IALS:
    model = IALS(SIZES, IALSSettings(dimension=dimension, **settings)).double()
    model.initialise(Draws.numbered(model.sizes, 0))
    return model


def test_the_objective_is_the_sum_over_all_pairs() -> None:
    model, evidence = made(strength=0.3, unobserved=2.0), some_evidence()
    alpha, noise = 2.0 * 15 / (6 * 8), math.sqrt(6 / 15) + math.sqrt(8 / 15)
    l2 = 0.3 * noise / 3
    w, h = model.user_table.detach()[:-1], model.item_table.detach()[:-1]
    total = 0.0
    for u in range(6):
        for i in range(8):
            score, sizes = float(w[u] @ h[i]), float(w[u] @ w[u] + h[i] @ h[i])
            total += alpha * (score**2 + l2 * sizes)
            if any((evidence.users == u) & (evidence.items == i)):
                total += (1 - score) ** 2 + l2 * sizes
    assert model.objective(evidence).item() == pytest.approx(total / 2)


@pytest.mark.parametrize("dimension", [3, 70])
def test_every_step_lowers_the_objective_until_the_gradient_is_zero(dimension: int) -> None:
    model, evidence = made(dimension), some_evidence()
    values = [model.objective(evidence).item()]
    for _ in range(300):
        model.step(evidence)
        values.append(model.objective(evidence).item())
    assert all(later <= before + 1e-12 for before, later in pairwise(values))
    slopes = torch.autograd.grad(model.objective(evidence), list(model.parameters()))
    assert max(float(each.abs().max()) for each in slopes) < 1e-4


def test_users_are_solved_for_exactly_whatever_the_dimension() -> None:
    model, evidence = made(70), some_evidence()
    model.step(evidence)
    model.finish()
    (by_users,) = torch.autograd.grad(model.objective(evidence), [model.user_table])
    assert float(by_users.abs().max()) < 1e-10


def test_pure_noise_collapses_at_a_strength_of_about_one() -> None:
    rng = np.random.default_rng(0)
    users = np.repeat(np.arange(300), 10)
    items = rng.random((300, 200)).argpartition(10, axis=1)[:, :10].ravel()
    evidence = Evidence(torch.from_numpy(users), torch.from_numpy(items), torch.ones(3000))
    sizes, ranks = Sizes(300, 200, 3000, 1), []
    for strength in (0.3, 2.0):
        model = IALS(sizes, IALSSettings(dimension=16, strength=strength))
        model.initialise(Draws.numbered(model.sizes, 0))
        for _ in range(30):
            model.step(evidence)
        singular = torch.linalg.svdvals(model.user_table.detach() @ model.item_table.detach().T)
        ranks.append(int((singular > 1e-2 * singular[0]).sum()))
    assert ranks[0] > 8
    assert ranks[1] <= 1  # what is left is how often items occur


@cache
def trained() -> tuple[Problem, Trained]:
    problem = small_problem(users=80)
    settings = Settings.model_validate({"model": "ials", "model_settings": {"dimension": 8}})
    [model] = Lab(problem, settings).train([Training(everything(problem))])
    return problem, model


def test_logits_are_calibrated_for_rows_that_training_has_not_seen() -> None:
    """The loss of validation rows is far below that of knowing nothing, which raw scores do not beat."""
    problem, model = trained()
    assert isinstance(model.model, IALS)
    fitted = model.model.calibration.clone()
    loss = float(validation_losses(problem, model).mean())
    model.model.calibration.copy_(torch.tensor([1.0, 0.0]))
    raw = float(validation_losses(problem, model).mean())
    model.model.calibration.copy_(fitted)
    nothing = problem.valid_candidates.shape[1] * math.log(2)
    assert loss < 0.7 * nothing
    assert raw > 0.95 * nothing


def test_items_without_interactions_score_as_unknown_ones_and_strangers_get_the_mean() -> None:
    model, evidence = made(), some_evidence()
    kept = evidence.items != 5
    model.step(Evidence(evidence.users[kept], evidence.items[kept], evidence.weights[kept]))
    model.finish()
    assert not model.item_table[5].any()
    scores = model.score_all(torch.arange(7))
    torch.testing.assert_close(scores[:, 5], scores[:, 8])
    torch.testing.assert_close(model.user_table[6], model.user_table[:6].mean(0))


def test_fold_in_gives_the_vectors_of_training() -> None:
    problem, model = trained()
    assert isinstance(model.model, IALS)
    for user in (0, 7):
        own = problem.item_ids[problem.train.items[problem.train.users == user]]
        assert torch.equal(model.fold_in(own[::-1]), model.model.user_table[user])
        assert torch.equal(model.fold_in([*own, "no such item"]), model.model.user_table[user])
    assert torch.equal(model.fold_in([]), model.model.user_table[-1])  # as an unknown user


def test_what_is_disclosed_now_is_what_recommendations_rest_on() -> None:
    problem, model = trained()
    own = problem.item_ids[problem.train.items[problem.train.users == 3]].tolist()
    me, stranger = problem.user_ids[3], "a stranger"
    had = [(me, item) for item in own]
    found = model.recommend([me, stranger], 5, exclude=had, disclosed={stranger: own})
    mine, theirs = (found.filter(user=each).drop("user") for each in (me, stranger))
    assert mine["score"].to_list() == pytest.approx(theirs["score"].to_list(), rel=1e-5)
    assert not set(own) & set(theirs["item"])
    withdrawn = model.recommend(me, 5, exclude=had, disclosed={me: own[:1]})
    assert withdrawn["item"].to_list() != mine["item"].to_list()
    nothing = model.recommend(me, 5, disclosed={me: []})
    assert nothing["item"].to_list() == model.recommend(stranger, 5)["item"].to_list()


def test_what_is_disclosed_now_must_be_lists_of_ids_of_users() -> None:
    _, model = trained()
    with pytest.raises(AssentError, match="items: the text 'i01'; accepted: a list of ids"):
        model.fold_in("i01")
    with pytest.raises(AssentError, match="accepted: a list of ids"):
        model.recommend("eve", disclosed={"eve": "i01"})
    with pytest.raises(AssentError, match="disclosed: 'bob' is none of the users"):
        model.recommend("eve", disclosed={"bob": ["i01"]})


def test_rows_of_weight_0_do_not_calibrate() -> None:
    """What is withheld leaves no trace in the logits either."""
    evidence = some_evidence()
    weights = evidence.weights * (torch.arange(len(evidence.weights)) % 3 > 0)
    kept = weights > 0
    found = []
    for each in (
        Evidence(evidence.users, evidence.items, weights),
        Evidence(evidence.users[kept], evidence.items[kept], weights[kept]),
    ):
        model = made()
        for _ in range(3):
            model.step(each)
        model.finish()
        found.append(model.calibration.clone())
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("strength", [20.0, 1e4])
def test_vectors_that_collapse_keep_finite_logits(strength: float) -> None:
    problem = small_problem()
    settings = Settings.model_validate({"model_settings": {"dimension": 8, "strength": strength}})
    [model] = Lab(problem, settings).train([Training(everything(problem))])
    assert np.isfinite(model.recommend(problem.user_ids[0], 3)["score"].to_numpy()).all()


def test_systems_that_cannot_be_solved_are_an_error_that_says_what_to_do() -> None:
    weak = {"dimension": 256, "strength": 1e-9, "unobserved": 1e-3}
    lab = Lab(small_problem(), Settings.model_validate({"model_settings": weak}))
    with pytest.raises(AssentError, match="raise the regularisation"):
        lab.train([Training(everything(lab.problem))])


def test_the_model_is_the_same_bytes_whatever_the_executor() -> None:
    problem = small_problem()
    settings = Settings.model_validate({"model": "ials", "model_settings": {"dimension": 70}})
    [alone] = Lab(problem, settings).train([Training(everything(problem))])
    with Processes(2) as processes:  # a single task runs here, with two threads
        [beside] = Lab(problem, settings, executor=processes).train([Training(everything(problem))])
    for name, value in alone.model.state_dict().items():
        assert torch.equal(value, beside.model.state_dict()[name]), name
