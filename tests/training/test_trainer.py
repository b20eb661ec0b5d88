import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_pre_hook

from assent.data.problem import Problem, make_problem
from assent.data.simulate import simulate
from assent.evaluation.evaluate import candidate_scores, ranked_metrics
from assent.evaluation.metrics import mean_metrics, ranking_metrics, top_hits
from assent.models import MF, Draws, MFSettings, model_name
from assent.models.losses import sample_losses
from assent.support.arrays import Bools
from assent.support.errors import AssentError
from assent.support.progress import Advance
from assent.training import Disclosed, Trained, TrainingSettings, disclose, train
from assent.training.disclosed import monitor_candidates, negatives

QUICK = TrainingSettings(epochs=4, learning_rate=0.05, batch_size=64, evaluate_every=2)


@pytest.fixture(scope="module")
def problem() -> Problem:
    """A log with planted taste, and no accidents."""
    log = simulate(preference="learnable", users=80, items=60, noise=0, seed=0)
    return make_problem(log, "full", negatives=5)


def everything(problem: Problem) -> Bools:
    return np.ones(len(problem.train), dtype=np.bool_)


def fitted(
    data: Disclosed, settings: TrainingSettings = QUICK, *, seed: int = 0, kind: type[MF] = MF
) -> Trained:
    model_settings = MFSettings(dimension=8, strength=0.65)
    return train(data, model=model_name(kind), model_settings=model_settings, settings=settings, seed=seed)


def parameters(trained: Trained) -> bytes:
    return b"".join(value.numpy().tobytes() for value in trained.model.state_dict().values())


def test_the_same_seed_gives_the_same_bytes(problem: Problem) -> None:
    data = disclose(problem, everything(problem))
    first = fitted(data, seed=3)
    torch.manual_seed(17)
    np.random.default_rng(17).random(5)
    again = fitted(data, seed=3)
    assert parameters(first) == parameters(again)
    assert (first.epochs, first.monitor, first.seed) == (again.epochs, again.monitor, again.seed)
    assert parameters(fitted(data, seed=4)) != parameters(first)


@pytest.mark.parametrize("seed", [0, 1])
def test_the_seed_decides_where_a_training_starts(problem: Problem, seed: int) -> None:
    still = TrainingSettings(epochs=1, learning_rate=1e-30)
    data = disclose(problem, everything(problem))
    trained = fitted(data, still, seed=seed)
    initial = MF(trained.model.sizes, MFSettings(dimension=8))
    initial.initialise(Draws(seed, data.user_keys, data.item_keys))
    for found, expected in zip(
        trained.model.state_dict().values(), initial.state_dict().values(), strict=True
    ):
        assert torch.equal(found[:-1], expected[:-1])


class Differentiated(MF):
    """Matrix factorisation by autograd."""

    name = "differentiated"

    def losses(self, users: Tensor, items: Tensor, prepared: None) -> Tensor:
        return super().losses(users, items, prepared)


def test_gradients_by_hand_and_by_autograd_train_the_same_model(problem: Problem) -> None:
    data = disclose(problem, everything(problem))
    by_hand, by_autograd = fitted(data), fitted(data, kind=Differentiated)
    assert parameters(by_hand) != parameters(by_autograd)
    for ours, expected in zip(by_hand.model.parameters(), by_autograd.model.parameters(), strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-3, atol=1e-4)
    assert by_hand.monitor == pytest.approx(by_autograd.monitor, abs=1e-3)


def test_the_learning_rate_falls_along_a_cosine(problem: Problem) -> None:
    rates: list[float] = []

    def record(optimizer: torch.optim.Optimizer, *_: object) -> None:
        rates.append(optimizer.param_groups[0]["lr"])

    data = disclose(problem, everything(problem))
    hook = register_optimizer_step_pre_hook(record)
    try:
        fitted(data, QUICK, kind=Differentiated)
    finally:
        hook.remove()
    steps = QUICK.epochs * math.ceil(len(data.rows) / 64)
    expected = 0.05 / 2 * (1 + np.cos(np.pi * np.arange(steps) / steps))
    np.testing.assert_allclose(rates, expected)


def test_it_learns_what_is_planted(problem: Problem) -> None:
    trained = fitted(disclose(problem, everything(problem)), QUICK.model_copy(update={"epochs": 10}))
    learnt = mean_metrics(ranked_metrics(problem, trained))["ndcg"]

    popularity = np.bincount(problem.train.items, minlength=problem.n_items).astype(np.float64)
    scores = np.tile(popularity, (problem.n_users, 1))
    for part in (problem.train, problem.valid):
        scores[part.users, part.items] = -np.inf
    relevant = np.zeros(scores.shape, dtype=np.bool_)
    relevant[problem.test.users, problem.test.items] = True

    def ndcg(scores: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> float:
        hits = top_hits(scores, relevant, np.arange(problem.n_users), k=5, seed=0)
        return mean_metrics(ranking_metrics(hits, relevant.sum(axis=1)))["ndcg"]

    popular, chance = ndcg(scores), ndcg(np.where(np.isfinite(scores), 0.0, -np.inf))
    assert learnt > 3 * popular
    assert learnt > 3 * chance


def test_a_training_lowers_the_loss_that_it_says_it_minimises(problem: Problem) -> None:
    data = disclose(problem, everything(problem))

    def loss(trained: Trained) -> float:
        items = np.column_stack([data.rows.items, negatives(data, seed=99, epoch=0, count=1)])
        with torch.no_grad():
            sampled = trained.model(torch.from_numpy(data.rows.users), torch.from_numpy(items))
        return float(sample_losses(*sampled).mean())

    one, ten = (fitted(data, QUICK.model_copy(update={"epochs": epochs})) for epochs in (1, 10))
    assert loss(ten) < loss(one) - 0.05


class Placing(MF):
    """Puts every validation item at a given place at each look, and keeps the parameters at each look."""

    name = "placing"
    places: ClassVar[list[int]] = []
    looks: ClassVar[list[dict[str, Tensor]]] = []

    def forward(self, users: Tensor, items: Tensor, prepared: None = None) -> tuple[Tensor, Tensor]:
        logits, penalties = super().forward(users, items)
        if not self.training and items.shape[1] == 100:  # 99 rivals: a look at the validation rows
            logits = torch.arange(100, 0, -1.0).repeat(len(items), 1)
            logits[:, 0] = 99.5 - self.places[len(self.looks)]
            self.looks.append({name: value.clone() for name, value in self.state_dict().items()})
        return logits, penalties


def placed(
    problem: Problem, settings: TrainingSettings, *places: int
) -> tuple[Trained, list[dict[str, Tensor]]]:
    """Train with the validation items at these places at the looks; the model, and the parameters at each."""
    Placing.places, Placing.looks = list(places), []
    return fitted(disclose(problem, everything(problem)), settings, kind=Placing), Placing.looks


def ndcg_at(place: int) -> float:
    return pytest.approx(1 / math.log2(place + 2))  # type: ignore[return-value]


def kept_is(trained: Trained, look: dict[str, Tensor]) -> bool:
    """Whether a model has the parameters of a look, but for those of the unknown, which `finish` sets."""
    return all(torch.equal(value[:-1], look[name][:-1]) for name, value in trained.model.state_dict().items())


def test_it_stops_after_patience_and_keeps_the_best(problem: Problem) -> None:
    settings = TrainingSettings(epochs=10, batch_size=64, evaluate_every=2, patience=2)
    trained, looks = placed(problem, settings, 4, 1, 2, 1, 0)
    assert len(looks) == 4  # neither a worse nor an equal score is an improvement
    assert (trained.epochs, trained.monitor) == (4, ndcg_at(1))
    assert [kept_is(trained, look) for look in looks] == [False, True, False, False]


def test_an_improvement_starts_the_wait_anew(problem: Problem) -> None:
    settings = TrainingSettings(epochs=9, batch_size=64, evaluate_every=1, patience=2)
    trained, looks = placed(problem, settings, 1, 2, 0, 4, 3)
    assert len(looks) == 5
    assert (trained.epochs, trained.monitor) == (3, 1.0)
    assert kept_is(trained, looks[2])


def test_the_last_epoch_is_looked_at_whatever_the_interval(problem: Problem) -> None:
    settings = TrainingSettings(epochs=5, batch_size=64, evaluate_every=3)
    trained, looks = placed(problem, settings, 2, 1)
    assert len(looks) == 2
    assert trained.epochs == 5
    assert kept_is(trained, looks[1])


def test_without_validation_rows_the_last_epoch_is_kept(problem: Problem) -> None:
    data = disclose(problem, everything(problem))
    unwatched = replace(data, valid=data.valid[:0], valid_keys=data.valid_keys[:0])
    trained = fitted(unwatched)
    assert (trained.epochs, trained.monitor) == (4, None)
    for table in trained.model.state_dict().values():
        assert table[-1].any()
        torch.testing.assert_close(table[-1], table[:-1].mean(0))  # what the unknown are given


def test_the_monitor_is_ndcg_of_the_validation_rows(problem: Problem) -> None:
    data = disclose(problem, np.random.default_rng(0).random(len(problem.train)) < 0.2)
    trained = fitted(data, seed=5)
    assert (data.valid.items == data.n_items).any()
    user_table, item_table = (value.double().numpy() for value in trained.model.state_dict().values())
    gains = []
    for user, item, rivals in zip(
        data.valid.users, data.valid.items, monitor_candidates(data, seed=5, count=99), strict=True
    ):
        own = user_table[user] @ item_table[item]
        scores = item_table[rivals] @ user_table[user]
        rank = (scores > own + 1e-9).sum() + 0.5 * (abs(scores - own) <= 1e-9).sum()
        gains.append(1 / math.log2(rank + 2) if rank < 5 else 0)
    assert trained.monitor == pytest.approx(np.mean(gains), abs=1e-6)
    assert trained.monitor is not None
    assert trained.monitor > 0


def test_a_diverging_training_names_the_epoch_and_the_batch(problem: Problem) -> None:
    data = disclose(problem, everything(problem))
    with pytest.raises(
        AssentError,
        match=r"the loss is (nan|inf) at epoch 1, batch 2; lower the setting training\.learning_rate",
    ):
        fitted(data, TrainingSettings(learning_rate=1e30, batch_size=64))
    with pytest.raises(AssentError, match=r"the loss is (nan|inf) at epoch 2, batch 1; .* \(now 1e\+30\)"):
        fitted(data, TrainingSettings(learning_rate=1e30))


def test_from_nothing_comes_a_model_at_chance(problem: Problem) -> None:
    nothing = fitted(disclose(problem, ~everything(problem)))
    assert (nothing.epochs, nothing.monitor) == (0, None)
    assert (len(nothing.user_ids), len(nothing.item_ids)) == (0, 0)
    scores = candidate_scores(problem, nothing, problem.valid.users, problem.valid_candidates)
    assert not scores.any()
    chance = np.mean([5 / (problem.n_items - row) for row in np.bincount(problem.train.users) + 1])
    hit = mean_metrics(ranked_metrics(problem, nothing))["hit"]
    assert abs(hit - chance) < 4 * math.sqrt(chance / problem.n_users)


def test_nothing_is_no_reason_to_warn(problem: Problem) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted(disclose(problem, ~everything(problem)))


def test_one_interaction_is_enough(problem: Problem) -> None:
    one = np.arange(len(problem.train)) == 0
    trained = fitted(disclose(problem, one))
    assert (len(trained.user_ids), len(trained.item_ids)) == (1, 1)
    assert all(value.isfinite().all() for value in trained.model.state_dict().values())


@given(st.integers(0, 10**7))
def test_a_batch_is_a_64th_of_the_rows_but_not_small(rows: int) -> None:
    assert TrainingSettings().batch(rows) == (rows // 64 if rows >= 64 * 2048 else 2048)
    assert TrainingSettings(batch_size=7).batch(rows) == 7


class Watcher:
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    @contextmanager
    def task(self, label: str, total: int) -> Iterator[Advance]:
        self.heard.append(f"{label} of {total}")
        yield lambda: self.heard.append("step")


def test_progress_counts_the_epochs(problem: Problem) -> None:
    watcher = Watcher()
    train(
        disclose(problem, everything(problem)),
        model="mf",
        model_settings=MFSettings(dimension=4),
        settings=QUICK,
        seed=0,
        progress=watcher,
        label="anchor 1",
    )
    assert watcher.heard == ["anchor 1 of 4", "step", "step", "step", "step"]


def test_a_training_may_start_from_another_models_parameters(problem: Problem) -> None:
    some = np.arange(len(problem.train)) % 4 > 0
    first = fitted(disclose(problem, some, vocabulary=everything(problem)))
    before = parameters(first)
    arguments: dict[str, Any] = {"model": "mf", "model_settings": MFSettings(dimension=8, strength=0.65)}
    still = TrainingSettings(epochs=1, learning_rate=1e-12)
    moved, fresh = (
        train(disclose(problem, everything(problem)), settings=still, seed=0, start=start, **arguments)
        for start in (first.model, None)
    )
    for ours, theirs in zip(moved.model.parameters(), first.model.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs)
    assert not all(map(torch.allclose, fresh.model.parameters(), first.model.parameters()))
    assert parameters(first) == before
