"""The state of a training run on disk, so that a killed one goes on where it was."""

import json
import time
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

import torch
from pydantic import BaseModel
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from assent.models import code_of
from assent.support.files import read_json, write_json, write_with
from assent.training.disclosed import Disclosed

_SECONDS_BETWEEN_SAVES = 10.0


@dataclass
class TrainingState:
    """Where a run stands: epochs done, and the best parameters so far."""

    epoch: int = 0
    best_epoch: int = 0
    best_score: float | None = None
    waited: int = 0
    best: dict[str, Tensor] = field(default_factory=dict)

    def look(self, model: nn.Module, score: float | None) -> None:
        """Take note of a validation score; without one, the latest parameters are the best."""
        if score is None or self.best_score is None or score > self.best_score:
            self.best = copies(model.state_dict())
            self.best_epoch, self.best_score, self.waited = self.epoch, score, 0
        else:
            self.waited += 1


class Checkpoint:
    """One safetensors file with the parameters, Adam's moments and, as its metadata, the counters.

    A file that belongs to other data, settings or another seed has another fingerprint and is not used. What
    the run took so far lies in a file beside it, so that this one is a function of the training alone.
    """

    def __init__(self, path: Path | None, mark: str) -> None:
        self._path = path
        self._mark = mark
        self._latest: tuple[dict[str, Tensor], dict[str, str]] | None = None
        self._started_at = self._saved_at = time.monotonic()
        self._is_ours = False
        self._seconds_before = 0.0

    def load(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> TrainingState:
        """Put a saved state into `model` and `optimizer`; a fresh state where there is none."""
        if self._path is None or not self._path.exists():
            return TrainingState()
        try:
            with safe_open(self._path, framework="pt") as file:
                metadata = file.metadata() or {}
                tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        except (SafetensorError, OSError):
            return TrainingState()
        if metadata.get("fingerprint") != self._mark:
            return TrainingState()
        counters = json.loads(metadata["state"])
        model.load_state_dict(named_under("model", tensors))
        for name, parameter in model.named_parameters():
            optimizer.state[parameter] = named_under(f"adam.{name}", tensors)
        self._is_ours = True
        seconds = seconds_of(self._path)
        self._seconds_before = float(read_json(seconds)) if seconds.exists() else 0.0
        return TrainingState(**counters, best=named_under("best", tensors))

    def keep(self, model: nn.Module, optimizer: torch.optim.Optimizer, state: TrainingState) -> None:
        """Take a copy of the state after an epoch; save it, unless that was done a moment ago."""
        if self._path is None:
            return
        tensors = {f"model.{name}": value for name, value in model.state_dict().items()}
        for name, parameter in model.named_parameters():
            tensors |= {f"adam.{name}.{key}": value for key, value in optimizer.state[parameter].items()}
        kept = copies(tensors) | {f"best.{name}": value for name, value in state.best.items()}
        counters = {key: value for key, value in vars(state).items() if key != "best"}
        self._latest = kept, {"fingerprint": self._mark, "state": json.dumps(counters)}
        if time.monotonic() - self._saved_at >= _SECONDS_BETWEEN_SAVES:
            self._save(self._path, *self._latest)

    def rescue(self) -> Path | None:
        """Save the latest copy, since no later one will come; the file, if it is one of this run."""
        if self._path is not None and self._latest is not None:
            self._save(self._path, *self._latest)
        return self._path if self._is_ours else None

    @property
    def seconds(self) -> float:
        """What the training took so far, in this process and those before it."""
        return self._seconds_before + time.monotonic() - self._started_at

    def _save(self, path: Path, tensors: dict[str, Tensor], metadata: dict[str, str]) -> None:
        write_json(seconds_of(path), self.seconds)
        write_with(path, lambda file: file.write(save(tensors, metadata)))
        self._saved_at = time.monotonic()
        self._is_ours = True

    def remove(self) -> None:
        """Delete the files: the run is finished."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)
            seconds_of(self._path).unlink(missing_ok=True)


def seconds_of(kept: Path) -> Path:
    """The file of what a training took, beside what it left."""
    return kept.with_name(f"{kept.name}.seconds")


def fingerprint(
    data: Disclosed, model: str, model_settings: BaseModel, settings: BaseModel, seed: int
) -> str:
    """A short name for all that determines a training run."""
    digest = blake2b(digest_size=16)
    for array in (data.rows.users, data.rows.items, data.row_keys, data.valid_keys):
        digest.update(array.tobytes())
    how = [model, code_of(model), model_settings.model_dump(), settings.model_dump(), seed]
    digest.update(json.dumps([*how, data.n_users, data.n_items]).encode())
    return digest.hexdigest()


def copies(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Copies of tensors, each with its own memory in order of its axes: what safetensors takes."""
    return {
        name: value.detach().clone(memory_format=torch.contiguous_format) for name, value in tensors.items()
    }


def named_under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors under `prefix`, named without it."""
    start = f"{prefix}."
    return {key.removeprefix(start): value for key, value in tensors.items() if key.startswith(start)}
