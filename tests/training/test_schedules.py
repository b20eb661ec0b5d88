"""How the paper trains: a constant rate, batches of samples, Xavier's start, the epoch that is kept."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.small import small_problem
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.optim.optimizer import register_optimizer_step_pre_hook

from assent.lab import Lab, Training, everything
from assent.lab.tuning import tuned
from assent.models import MODELS, Draws, Initialisation, Sizes
from assent.models.losses import Loss
from assent.training import Disclosed, Settings, Trained, TrainingSettings, disclose, train
from assent.training.adam import RowAdam
from assent.training.disclosed import monitor_candidates

PROBLEM = small_problem(40, 60)
DATA = disclose(PROBLEM, everything(PROBLEM))
QUICK: dict[str, Any] = {"epochs": 6, "learning_rate": 0.05, "batch_size": 32, "evaluate_every": 1}


def fitted(
    model: str = "mf", data: Disclosed = DATA, seed: int = 0, strength: float = 0.5, **training: Any
) -> Trained:
    of_model = {"dimension": 4, "strength": strength}
    settings = Settings.model_validate(
        {"model": model, "model_settings": of_model, "training": {**QUICK, **training}}
    )
    return train(
        data, model=model, model_settings=settings.model_settings, settings=settings.training, seed=seed
    )


def parameters(trained: Trained) -> bytes:
    return b"".join(value.numpy().tobytes() for value in trained.model.state_dict().values())


@contextmanager
def rates_of_torch() -> Iterator[list[float]]:
    found: list[float] = []
    hook = register_optimizer_step_pre_hook(lambda adam, *_: found.append(adam.param_groups[0]["lr"]))
    try:
        yield found
    finally:
        hook.remove()


@pytest.mark.parametrize("schedule", ["cosine", "constant"])
@pytest.mark.parametrize("model", ["mf", "lightgcn"])
def test_every_step_has_the_rate_of_the_schedule(
    model: str, schedule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both of torch's Adam and of that by rows, which gets an epoch's rates at once."""
    by_rows: list[float] = []
    made = RowAdam.__init__

    def noted(self: RowAdam, of: Any, moments: Any, rates: Any) -> None:
        by_rows.extend(rates)
        made(self, of, moments, rates)

    monkeypatch.setattr(RowAdam, "__init__", noted)
    with rates_of_torch() as by_torch:
        fitted(model, schedule=schedule)
    steps = QUICK["epochs"] * math.ceil(len(DATA.rows) / 32)
    done = np.arange(steps) / steps
    expected = 0.05 / 2 * (1 + np.cos(np.pi * done)) if schedule == "cosine" else np.full(steps, 0.05)
    np.testing.assert_allclose(by_rows if model == "mf" else by_torch, expected)


@given(st.integers(1, 5000), st.integers(1, 5), st.integers(1, 10**6))
def test_a_batch_of_samples_has_as_many_rows_as_fit_with_their_negatives(
    size: int, negatives: int, rows: int
) -> None:
    by_rows, by_samples = (
        TrainingSettings(batch_size=size, negatives=negatives, batch_unit=unit).batch(rows)
        for unit in ("rows", "samples")
    )
    assert by_rows == size
    assert by_samples == max(1, size // (1 + negatives))


def test_the_unit_of_a_batch_changes_nothing_but_its_size() -> None:
    assert parameters(fitted(batch_size=64, batch_unit="samples")) == parameters(fitted(batch_size=32))
    assert parameters(fitted(batch_size=32, batch_unit="samples")) != parameters(fitted(batch_size=32))


def test_a_batch_of_people_takes_a_step_along_the_loss_of_all_items() -> None:
    """One step of Adam from the same start, written out on the matrix of who has disclosed what."""
    known: dict[str, Any] = {
        "batch_size": 2 * DATA.n_users,
        "batch_unit": "people",
        "epochs": 1,
        "keep": "last",
    }
    found = fitted(strength=0.0, schedule="constant", **known)
    start = fitted(strength=0.0, **{**known, "learning_rate": 1e-30}).model.train()
    labels = torch.zeros(DATA.n_users, DATA.n_items)
    labels[DATA.rows.users, DATA.rows.items] = 1
    logits = start.score_all(torch.arange(DATA.n_users), None)
    loss = binary_cross_entropy_with_logits(logits[:, :-1], labels, reduction="sum")
    loss.backward()  # type: ignore[no-untyped-call]
    for (name, parameter), after in zip(start.named_parameters(), found.model.parameters(), strict=True):
        assert parameter.grad is not None, name
        sure = parameter.grad[:-1].abs() > 1e-4
        assert sure.any()
        moved = (after - parameter)[:-1][sure]
        torch.testing.assert_close(moved, -0.05 * parameter.grad[:-1][sure].sign(), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("model", ["mf", "neumf", "lightgcn", "din", "cdae"])
def test_xavier_spreads_tables_and_layers_by_their_rows_and_columns(model: str) -> None:
    sizes = Sizes(users=900, items=700, rows=5000, negatives=1)
    kind = MODELS[model]
    settings = kind.Settings.model_validate({} if model in ("mf", "lightgcn") else {"form": "plain"})
    made = kind(sizes, settings)
    keys = Draws.numbered(sizes)
    made.initialise(Draws(0, keys.user_keys, keys.item_keys, Initialisation.XAVIER))
    matrices = {name: value for name, value in made.named_parameters() if value.dim() == 2}
    for name, value in matrices.items():
        rows = len(value) - (name.endswith("table") and "input" not in name)  # the last is the unknown's
        expected = math.sqrt(2 / (rows + value.shape[1]))
        few = 5 / math.sqrt(2 * value.numel())
        assert value[:rows].std().item() == pytest.approx(expected, rel=max(0.02, few)), name
    biases = [value for name, value in made.named_parameters() if "bias" in name]
    assert all(not value.any() for value in biases)


def test_a_training_starts_as_it_is_asked_to() -> None:
    still: dict[str, Any] = {"epochs": 1, "learning_rate": 1e-30}
    own, xavier = (fitted(initialisation=each, **still).model for each in ("own", "xavier"))
    for name, value in own.named_parameters():
        factor = math.sqrt(2 / (len(value) - 1 + 4)) / 0.1
        torch.testing.assert_close(xavier.get_parameter(name)[:-1], factor * value[:-1])


def test_the_last_epoch_is_kept_without_a_look_at_validation_rows() -> None:
    last = fitted(keep="last", patience=1)
    assert (last.epochs, last.monitor) == (QUICK["epochs"], None)
    assert parameters(last) == parameters(fitted(data=DATA.unjudged()))
    assert parameters(last) != parameters(fitted(keep="ndcg", stop_after=3))


def test_the_epoch_of_the_best_reward_has_the_least_validation_loss() -> None:
    """Training that runs on overfits: the best epoch is neither the first nor the last."""
    often: dict[str, Any] = {"epochs": 30, "patience": 30, "schedule": "constant", "strength": 0.0}
    best = fitted(keep="reward", **often)
    assert 1 < best.epochs < 30
    assert best.monitor is not None
    sampled = monitor_candidates(DATA, seed=0, count=99)
    users, items = DATA.valid.users, np.concatenate([DATA.valid.items[:, None], sampled], axis=1)

    def loss(trained: Trained) -> float:
        scores = trained.model.scores(torch.from_numpy(users), torch.from_numpy(items), None)
        return float(Loss.BCE.of(scores).mean() / 100)

    assert loss(best) == pytest.approx(-best.monitor)
    others = [fitted(keep="last", stop_after=epoch, **often) for epoch in range(1, 31)]
    assert min(range(30), key=lambda place: loss(others[place])) + 1 == best.epochs


def test_settings_are_searched_by_ndcg_whatever_epoch_is_kept() -> None:
    found = [
        tuned(
            Lab(PROBLEM, Settings(model="mf", training=TrainingSettings(epochs=6, keep=keep))),
            everything(PROBLEM),
        )
        for keep in ("ndcg", "last")
    ]
    assert found[0].attempts == found[1].attempts
    assert all(0 <= each["ndcg"] <= 1 for each in found[1].attempts)
    assert found[1].settings.training.keep == "last"


@pytest.mark.parametrize("model", ["neumf", "din", "cdae"])
def test_plain_forms_are_trained_and_start_elsewhere(model: str) -> None:
    training = {"epochs": 3, "batch_size": 32}
    labs = [
        Lab(PROBLEM, Settings.model_validate(
            {"model": model, "model_settings": {"form": form}, "training": training, "tune": "none"}))
        for form in ("assent", "plain")
    ]  # fmt: skip
    found = [lab.train([Training(everything(PROBLEM))])[0] for lab in labs]
    assert parameters(found[0]) != parameters(found[1])
