import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from assent.data.problem import Rows, make_problem
from assent.data.simulate import simulate
from assent.models import MF, Draws, MFSettings, Sizes, model_class
from assent.models.layers import noise_edge
from assent.support.arrays import Ints, mix
from assent.support.errors import AssentError
from assent.training import Disclosed, TrainingSettings, disclose, train

SIZES = Sizes(users=5, items=7, rows=20, negatives=2)


@pytest.fixture
def model() -> MF:
    """As after training: every embedding is some number, those of the unknown are set."""
    made = MF(SIZES, MFSettings(dimension=3, strength=0.4, initial_scale=0.8))
    made.initialise(Draws.numbered(made.sizes, 0))
    made.finish()
    return made


def test_logits_and_penalties_agree_with_a_plain_loop(model: MF) -> None:
    users, items = torch.tensor([4, 0, 5, 0]), torch.tensor([[0, 6], [3, 3], [1, 7], [7, 2]])
    logits, penalties = model(users, items)
    p, q = model.user_table.tolist(), model.item_table.tolist()
    c = 0.4 * 0.5 / 3 * (math.sqrt(5 / 20) + math.sqrt(7 / 20))
    for row, user in enumerate(users.tolist()):
        for column, item in enumerate(items[row].tolist()):
            logit, squares = 0.0, 0.0
            for a, b in zip(p[user], q[item], strict=True):
                logit += a * b
                squares += a * a + b * b
            assert logits[row, column].item() == pytest.approx(logit, rel=1e-5)
            assert penalties[row, column].item() == pytest.approx(c / 2 * squares, rel=1e-5)


def test_a_penalty_reaches_the_embeddings_of_its_sample_alone(model: MF) -> None:
    _, penalties = model(torch.tensor([2]), torch.tensor([[1]]))
    penalties.sum().backward()
    for table, touched in ((model.user_table, 2), (model.item_table, 1)):
        assert table.grad is not None
        np.testing.assert_allclose(
            table.grad[touched].tolist(), (model.l2 * table[touched]).tolist(), rtol=1e-5
        )
        others = torch.arange(len(table)) != touched
        assert not table.grad[others].any()


def test_gradients_are_those_of_the_formula(model: MF) -> None:
    """With repeated users and items, whose contributions add up, and a weight per logit and penalty."""
    users, items = torch.tensor([4, 0, 5, 0]), torch.tensor([[0, 6], [3, 3], [1, 7], [0, 2]])
    generator = torch.Generator().manual_seed(1)
    by_logit, by_penalty = (torch.randn(items.shape, generator=generator) for _ in range(2))
    logits, penalties = model(users, items)
    found = torch.autograd.grad((by_logit * logits + by_penalty * penalties).sum(), list(model.parameters()))

    p, q = (table.detach().clone().requires_grad_() for table in model.parameters())
    own, theirs = p[users].unsqueeze(1), q[items]
    squares = own.square().sum(-1) + theirs.square().sum(-1)
    weighted = by_logit * (own * theirs).sum(-1) + by_penalty * model.l2 / 2 * squares
    for ours, expected in zip(found, torch.autograd.grad(weighted.sum(), [p, q]), strict=True):
        torch.testing.assert_close(ours, expected)


def test_all_scores_are_those_of_the_pairs(model: MF) -> None:
    users = torch.tensor([3, 5, 0])
    every = torch.arange(model.n_items + 1).expand(3, -1)
    torch.testing.assert_close(model.score_all(users), model(users, every)[0])


def test_unknown_users_and_items_get_the_mean_embedding(model: MF) -> None:
    for table in (model.user_table, model.item_table):
        torch.testing.assert_close(table[-1], table[:-1].mean(0))
    before = model.user_table.detach().clone()
    model.finish()
    assert torch.equal(before, model.user_table)


def test_a_model_of_nothing_scores_everything_alike() -> None:
    model = MF(Sizes(0, 0, 0, 1), MFSettings(dimension=3))
    model.initialise(Draws.numbered(model.sizes, 0))
    model.finish()
    assert model.score_all(torch.tensor([0, 0])).tolist() == [[0], [0]]
    assert model(torch.tensor([0]), torch.tensor([[0, 0]]))[0].tolist() == [[0, 0]]


def test_initial_embeddings_come_from_the_draws_alone() -> None:
    def tables(seed: int) -> torch.Tensor:
        model = MF(Sizes(300, 200, 1000, 1), MFSettings(dimension=8, initial_scale=0.3))
        model.initialise(Draws.numbered(model.sizes, seed))
        assert not model.user_table[-1].any()
        assert not model.item_table[-1].any()
        return torch.cat([model.user_table[:-1], model.item_table[:-1]]).detach()

    first = tables(1)
    torch.manual_seed(99)
    assert torch.equal(first, tables(1))
    assert not torch.equal(first, tables(2))
    assert first.std().item() == pytest.approx(0.3, rel=0.05)


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(1, 10**7), st.integers(1, 20))
def test_the_noise_edge_follows_its_formula(users: int, items: int, rows: int, negatives: int) -> None:
    edge = noise_edge(Sizes(users, items, rows, negatives))
    expected = 0.5 / (1 + negatives) * ((rows / users) ** -0.5 + (rows / items) ** -0.5)
    assert edge == pytest.approx(expected)


def test_without_rows_there_is_no_noise() -> None:
    assert noise_edge(Sizes(0, 0, 0, 1)) == 0
    assert noise_edge(Sizes(3, 4, 0, 1)) == 0


def pure_noise(users: int, items: int, each: int) -> Disclosed:
    """A log in which every user has `each` items, drawn uniformly: there is nothing to learn."""
    drawn: Ints = np.random.default_rng(0).random((users, items)).argpartition(each, axis=1)[:, :each]
    rows = Rows(np.repeat(np.arange(users), each), drawn.ravel())
    return Disclosed(
        user_ids=np.array([f"u{number:03}" for number in range(users)]),
        item_ids=np.array([f"i{number:03}" for number in range(items)]),
        user_keys=mix(np.arange(users)),
        item_keys=mix(np.arange(items)),
        rows=rows,
        row_keys=mix(rows.users, rows.items),
        valid=rows[:0],
        valid_keys=mix(rows.users[:0]),
    )


def size_after_training(data: Disclosed, strength: float) -> float:
    """Root mean square of the logits of all pairs, after a training that starts far from zero."""
    trained = train(
        data,
        model="mf",
        model_settings=MFSettings(dimension=8, strength=strength, initial_scale=0.3),
        settings=TrainingSettings(epochs=10, learning_rate=0.05, batch_size=50, negatives=2),
        seed=0,
    )
    scores = trained.scores_of_all(torch.arange(data.n_users))
    return float(scores.square().mean().sqrt())


def test_noise_collapses_above_the_edge_and_taste_survives_below() -> None:
    problem = make_problem(
        simulate(preference="learnable", users=80, items=60, noise=0, seed=0), "full", negatives=5
    )
    planted = disclose(problem, np.ones(len(problem.train), dtype=np.bool_))
    noise = pure_noise(80, 60, 10)
    assert size_after_training(noise, 2.0) < 0.01
    assert size_after_training(noise, 0.5) > 0.3
    assert size_after_training(planted, 0.5) > 1
    # What is there to be learnt holds out against a penalty that has wiped out the noise.
    assert size_after_training(planted, 2.0) > 10 * size_after_training(noise, 2.0)


def test_a_model_that_does_not_exist_is_refused() -> None:
    assert model_class("mf") is MF
    with pytest.raises(AssentError, match=r"^model svd: unknown; accepted: ials, mf, "):
        model_class("svd")
