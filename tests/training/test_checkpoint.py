import json
import math
import random
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from safetensors import safe_open
from torch import Tensor, nn

from assent.data.problem import make_problem
from assent.data.simulate import simulate
from assent.models import MF, MFSettings, Sizes, model_name
from assent.support.arrays import mix
from assent.support.errors import AssentError
from assent.support.progress import SILENT, Advance, Progress
from assent.training import Disclosed, Trained, TrainingSettings, disclose, train
from assent.training import stored as storage
from assent.training.trainer import fingerprint

EPOCHS = 8
MODEL = MFSettings(dimension=4)
SETTINGS = TrainingSettings(epochs=EPOCHS, learning_rate=0.05, batch_size=64, evaluate_every=2)


def small_data() -> Disclosed:
    problem = make_problem(simulate(preference="learnable", users=40, items=30, seed=0), "full", negatives=5)
    return disclose(problem, np.random.default_rng(0).random(len(problem.train)) < 0.8)


@pytest.fixture(scope="module")
def data() -> Disclosed:
    return small_data()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.progress"


class KilledError(Exception):
    """The process was killed."""


@dataclass
class Interrupter:
    """Ends a training once so many epochs are done."""

    epochs: int

    @contextmanager
    def task(self, label: str, total: int) -> Iterator[Advance]:
        done = iter(range(1, total + 1))

        def advance() -> None:
            if next(done) == self.epochs:
                raise KilledError

        yield advance


class Counting(MF):
    """Counts the training steps of all models of its kind."""

    name = "counting"
    steps: ClassVar[int] = 0

    def losses(self, users: Tensor, items: Tensor, prepared: None) -> Tensor:
        Counting.steps += self.training
        return super().losses(users, items, prepared)


def fitted(
    data: Disclosed,
    path: Path | None,
    *,
    kind: type[MF] = Counting,
    settings: TrainingSettings = SETTINGS,
    model: MFSettings = MODEL,
    seed: int = 0,
    progress: Progress = SILENT,
    save_every: float = 0,
) -> Trained:
    """Train with a checkpoint after each epoch."""
    return train(
        data,
        model=model_name(kind),
        model_settings=model,
        settings=settings,
        seed=seed,
        progress=progress,
        checkpoint=path,
        save_every=save_every,
    )


def leave_checkpoint(data: Disclosed, path: Path, epochs: int, **changed: Any) -> None:
    with pytest.raises(KilledError):
        fitted(data, path, progress=Interrupter(epochs), **changed)
    assert counters(path)["epoch"] == epochs


def counters(path: Path) -> dict[str, Any]:
    with safe_open(path, framework="pt") as file:
        found: dict[str, Any] = json.loads(file.metadata()["state"])
    return found


def tensors(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    with safe_open(path, framework="np") as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def result(trained: Trained) -> tuple[bytes, int, float | None]:
    tables = [value.numpy().tobytes() for value in trained.model.state_dict().values()]
    return b"".join(tables), trained.epochs, trained.monitor


def epochs_of(data: Disclosed, path: Path) -> tuple[Trained, float]:
    """Train, and tell how many epochs were run for it."""
    Counting.steps = 0
    trained = fitted(data, path)
    return trained, Counting.steps / math.ceil(len(data.rows) / 64)


@pytest.mark.parametrize("done", [1, 2, 5, EPOCHS])
def test_a_resumed_training_ends_with_the_same_bytes(data: Disclosed, path: Path, done: int) -> None:
    whole = fitted(data, None)
    leave_checkpoint(data, path, done)
    resumed, epochs = epochs_of(data, path)
    assert epochs == EPOCHS - done
    assert result(resumed) == result(whole)
    assert not path.exists()


def test_a_training_can_be_interrupted_again_and_again(data: Disclosed, path: Path) -> None:
    for done in range(1, EPOCHS):
        leave_checkpoint(data, path, done)
    assert result(fitted(data, path)) == result(fitted(data, None))


class Placing(MF):
    """Puts every validation item at the next of these places among its rivals."""

    name = "placing"
    places: ClassVar[Iterator[int]]

    def forward(self, users: Tensor, items: Tensor, prepared: None = None) -> tuple[Tensor, Tensor]:
        logits, penalties = super().forward(users, items)
        if not self.training and items.shape[1] == 100:  # 99 rivals: a look at the validation rows
            logits = torch.arange(100, 0, -1.0).repeat(len(items), 1)
            logits[:, 0] = 99.5 - next(self.places)
        return logits, penalties


def test_early_stopping_is_resumed_too(data: Disclosed, path: Path) -> None:
    """The best parameters and the wait go on from where they were."""
    places = [2, 0, 1, 2, 3, 4]
    settings = SETTINGS.model_copy(update={"evaluate_every": 1, "patience": 4})
    looking: dict[str, Any] = {"settings": settings, "kind": Placing}
    Placing.places = iter(places)
    whole = fitted(data, None, **looking)
    assert (whole.epochs, whole.monitor) == (2, 1.0)
    Placing.places = iter(places)
    leave_checkpoint(data, path, 4, **looking)
    assert counters(path) == {"epoch": 4, "best_epoch": 2, "best_score": 1.0, "waited": 2}
    assert result(fitted(data, path, **looking)) == result(whole)
    assert not list(Placing.places)


def test_a_finished_training_leaves_nothing(data: Disclosed, path: Path) -> None:
    fitted(data, path)
    assert not list(path.parent.iterdir())


def test_without_a_path_nothing_is_written(
    data: Disclosed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    fitted(data, None)
    assert not list(tmp_path.iterdir())


def test_saving_is_not_done_all_the_time(data: Disclosed, tmp_path: Path) -> None:
    path = tmp_path / "run.progress"
    with pytest.raises(KilledError):
        fitted(data, path, progress=Interrupter(EPOCHS), save_every=60)
    assert not path.exists()


def without_last_row(data: Disclosed) -> Disclosed:
    return replace(data, rows=data.rows[:-1], row_keys=data.row_keys[:-1])


def with_other_ids(data: Disclosed) -> Disclosed:
    return replace(data, row_keys=mix(data.row_keys))


def without_last_validation_row(data: Disclosed) -> Disclosed:
    return replace(data, valid=data.valid[:-1], valid_keys=data.valid_keys[:-1])


@pytest.mark.parametrize("change", [without_last_row, with_other_ids, without_last_validation_row])
def test_a_checkpoint_of_other_data_is_not_used(data: Disclosed, path: Path, change: Any) -> None:
    leave_checkpoint(change(data), path, 3)
    again, epochs = epochs_of(data, path)
    assert epochs == EPOCHS
    assert result(again) == result(fitted(data, None))


@pytest.mark.parametrize(
    "changed",
    [
        {"seed": 1},
        {"model": MFSettings(dimension=4, strength=0.5)},
        {"model": MFSettings(dimension=5)},
        {"settings": SETTINGS.model_copy(update={"learning_rate": 0.01})},
        {"settings": SETTINGS.model_copy(update={"epochs": EPOCHS + 1})},
        {"settings": SETTINGS.model_copy(update={"negatives": 2})},
    ],
    ids="-".join,
)
def test_a_checkpoint_of_other_settings_is_not_used(
    data: Disclosed, path: Path, changed: dict[str, Any]
) -> None:
    leave_checkpoint(data, path, 3, **changed)
    again, epochs = epochs_of(data, path)
    assert epochs == EPOCHS
    assert result(again) == result(fitted(data, None))


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.99])
def test_a_truncated_checkpoint_is_not_used(data: Disclosed, path: Path, share: float) -> None:
    leave_checkpoint(data, path, 3)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    again, epochs = epochs_of(data, path)
    assert epochs == EPOCHS
    assert result(again) == result(fitted(data, None))


def test_the_seconds_of_a_training_include_those_before_a_kill(data: Disclosed, path: Path) -> None:
    class Slow(Interrupter):
        @contextmanager
        def task(self, label: str, total: int) -> Iterator[Advance]:
            time.sleep(1)
            with super().task(label, total) as advance:
                yield advance

    start = time.monotonic()
    whole = fitted(data, None)
    assert 0 < whole.seconds <= time.monotonic() - start
    start = time.monotonic()
    with pytest.raises(KilledError):
        fitted(data, path, progress=Slow(3))
    again = fitted(data, path)
    assert 1 < again.seconds <= time.monotonic() - start
    assert not list(path.parent.iterdir())


def test_a_failed_training_keeps_the_last_checkpoint(data: Disclosed, path: Path) -> None:
    settings = SETTINGS.model_copy(update={"learning_rate": 1e30, "batch_size": None})
    with pytest.raises(AssentError, match="epoch 2"):
        fitted(data, path, settings=settings)
    assert counters(path)["epoch"] == 1


class Tripping(MF):
    """Goes well for two epochs; in the third, its loss or its parameters are not finite."""

    name = "tripping"
    by_loss: ClassVar[bool] = True

    def __init__(self, sizes: Sizes, settings: MFSettings) -> None:
        super().__init__(sizes, settings)
        self.n_steps = -1  # one more is what the contract's check asks for

    def losses(self, users: Tensor, items: Tensor, prepared: None) -> Tensor:
        self.n_steps += 1
        losses = super().losses(users, items, prepared)
        if self.n_steps <= 2:
            return losses
        return losses + float("nan") if self.by_loss else losses + (self.user_table * 0).square().sum().sqrt()


class Stumbling(Tripping):
    name = "stumbling"
    by_loss: ClassVar[bool] = False


@pytest.mark.parametrize(
    ("kind", "what"),
    [
        (Tripping, "the loss is nan at epoch 3, batch 1; lower"),
        (Stumbling, "a parameter is not finite after epoch 3"),
    ],
)
def test_a_failure_leaves_the_last_good_state_though_no_save_was_due(
    data: Disclosed, tmp_path: Path, kind: type[MF], what: str
) -> None:
    path = tmp_path / "run.progress"
    settings = SETTINGS.model_copy(update={"batch_size": None})

    with pytest.raises(AssentError, match=rf"training: {what}.*; the state after epoch 2 is kept in {path}$"):
        fitted(data, path, kind=kind, settings=settings, save_every=60)
    assert counters(path)["epoch"] == 2
    good = tensors(path)
    assert all(np.isfinite(value).all() for value in good.values())

    with pytest.raises(KilledError):
        fitted(data, path, settings=settings, progress=Interrupter(2))
    expected = tensors(path)
    assert good.keys() == expected.keys()
    assert all(np.array_equal(value, expected[name]) for name, value in good.items())


def test_a_failure_at_once_claims_no_file_of_another_run(data: Disclosed, path: Path) -> None:
    leave_checkpoint(data, path, 3)
    before = path.read_bytes()
    settings = SETTINGS.model_copy(update={"learning_rate": 1e30})
    with pytest.raises(AssentError, match=r"epoch 1, batch 2.*\(now 1e\+30\)$"):
        fitted(data, path, settings=settings)
    assert path.read_bytes() == before


def test_a_failure_right_after_a_resumption_names_the_file(data: Disclosed, path: Path) -> None:
    settings = SETTINGS.model_copy(update={"learning_rate": 1e30, "batch_size": None})
    for _ in range(2):
        with pytest.raises(AssentError, match=rf"epoch 2, batch 1; .* after epoch 1 is kept in {path}$"):
            fitted(data, path, settings=settings)


class Tied(MF):
    """Has one table under two names, and another that is not laid out in order of its axes."""

    name = "tied"

    def __init__(self, sizes: Sizes, settings: MFSettings) -> None:
        super().__init__(sizes, settings)
        self.user_table = nn.Parameter(torch.zeros(settings.dimension, sizes.users + 1).T)
        self.again = self.item_table


def test_any_layout_of_parameters_can_be_kept(data: Disclosed, path: Path) -> None:
    whole = fitted(data, None, kind=Tied)
    with pytest.raises(KilledError):
        fitted(data, path, kind=Tied, progress=Interrupter(5))
    assert result(fitted(data, path, kind=Tied)) == result(whole)
    storage.save(whole, path.parent / "model")
    assert result(storage.load(path.parent / "model", f"{__name__}:Tied")) == result(whole)


def test_a_fingerprint_names_all_that_a_training_depends_on(data: Disclosed) -> None:
    def marks() -> Iterator[str]:
        for changed in (
            data,
            without_last_row(data),
            with_other_ids(data),
            without_last_validation_row(data),
        ):
            yield fingerprint(changed, "mf", MODEL, SETTINGS, 0)
        yield fingerprint(replace(data, user_ids=np.append(data.user_ids, "zzz")), "mf", MODEL, SETTINGS, 0)
        yield fingerprint(replace(data, item_ids=np.append(data.item_ids, "zzz")), "mf", MODEL, SETTINGS, 0)
        yield fingerprint(data, "neumf", MODEL, SETTINGS, 0)
        yield fingerprint(data, "mf", MFSettings(dimension=5), SETTINGS, 0)
        yield fingerprint(data, "mf", MODEL, TrainingSettings(), 0)
        yield fingerprint(data, "mf", MODEL, SETTINGS, 1)

    every = list(marks())
    assert len(set(every)) == len(every)
    assert list(marks()) == every


VICTIM = """
import sys, time
from contextlib import contextmanager
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import test_checkpoint as here

class Slow:
    @contextmanager
    def task(self, label, total):
        left = iter(range(total - 1, -1, -1))
        def advance():
            print("epoch", flush=True)
            time.sleep(60 if next(left) == 1 else 0.005)  # it never gets to the last epoch
        yield advance

here.fitted(here.small_data(), Path(sys.argv[2]), progress=Slow())
"""


def test_a_killed_process_is_resumed_by_another(data: Disclosed, path: Path) -> None:
    whole = fitted(data, None)
    command = [sys.executable, "-c", VICTIM, str(Path(__file__).parent), str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as victim:
        assert victim.stdout is not None
        seen = random.randint(1, EPOCHS - 1)
        for _ in range(seen):
            assert victim.stdout.readline() == "epoch\n"
        time.sleep(random.uniform(0, 0.02))
        victim.kill()
    assert victim.returncode == -signal.SIGKILL

    done = counters(path)["epoch"]
    assert seen <= done < EPOCHS
    resumed, epochs = epochs_of(data, path)
    assert epochs == EPOCHS - done
    assert result(resumed) == result(whole)


class Dropping(MF):
    """Remembers the lots that dropout draws while training."""

    name = "dropping"
    lots: ClassVar[list[bytes]] = []

    def losses(self, users: Tensor, items: Tensor, prepared: None) -> Tensor:
        if self.training:
            Dropping.lots.append(torch.nn.functional.dropout(torch.ones(64), 0.5).numpy().tobytes())
        return super().losses(users, items, prepared)


def test_dropout_differs_between_epochs_and_is_the_same_when_resumed(data: Disclosed, path: Path) -> None:
    whole = SETTINGS.model_copy(update={"batch_size": len(data.rows)})  # one draw per epoch

    def lots(seed: int = 0) -> list[bytes]:
        Dropping.lots.clear()
        fitted(data, path, kind=Dropping, settings=whole, seed=seed)
        return Dropping.lots[-EPOCHS:]

    known = lots()
    assert len(set(known)) == EPOCHS
    assert not set(known) & set(lots(seed=1))
    assert lots() == known
    leave_checkpoint(data, path, 3, kind=Dropping, settings=whole)
    assert lots()[-(EPOCHS - 3) :] == known[3:]


def test_a_checkpoint_that_was_changed_is_not_used(data: Disclosed, path: Path) -> None:
    leave_checkpoint(data, path, 3)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    again, epochs = epochs_of(data, path)
    assert epochs == EPOCHS
    assert result(again) == result(fitted(data, None))


def test_a_link_to_a_checkpoint_is_not_followed(data: Disclosed, path: Path) -> None:
    leave_checkpoint(data, path, 3)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    outside = path.rename(path.with_name("outside"))
    path.symlink_to(outside)
    before = outside.read_bytes()
    again, epochs = epochs_of(data, path)
    assert epochs == EPOCHS
    assert result(again) == result(fitted(data, None))
    assert outside.read_bytes() == before
