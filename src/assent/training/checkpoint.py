"""The state of a training run on disk, from which a killed run continues."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

import torch
from pydantic import BaseModel
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from assent.models import code_of
from assent.support.files import write_with
from assent.training.disclosed import Disclosed


@dataclass
class TrainingState:
    """How far a run is: epochs done, and the best parameters so far."""

    epoch: int = 0
    best_epoch: int = 0
    best_score: float | None = None
    waited: int = 0
    best: dict[str, Tensor] = field(default_factory=dict)

    def look(self, model: nn.Module, score: float | None) -> None:
        """Record a validation score; without one (None), the latest parameters are the best."""
        if score is None or self.best_score is None or score > self.best_score:
            self.best = copies(model.state_dict())
            self.best_epoch, self.best_score, self.waited = self.epoch, score, 0
        else:
            self.waited += 1


class Checkpoint:
    """One safetensors file: parameters and Adam's moments; counters and seconds spent are its metadata.

    A file with another `key` (of other data, settings or seed) is ignored. With path None nothing is kept.
    """

    def __init__(self, path: Path | None, key: str, save_every: float) -> None:
        self._path = path
        self._key = key
        self._save_every = save_every
        self._latest: tuple[dict[str, Tensor], dict[str, str]] | None = None
        self._started_at = self._saved_at = time.monotonic()
        self._is_ours = False

    @property
    def seconds(self) -> float:
        """Seconds spent on this run so far, by all processes."""
        return time.monotonic() - self._started_at

    def load(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> TrainingState:
        """Load the saved state into `model` and `optimizer`; return a fresh state if there is none."""
        if self._path is None:
            return TrainingState()
        try:
            with safe_open(self._path, framework="pt") as file:
                metadata = file.metadata() or {}
                tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        except (SafetensorError, OSError):  # none there, or damaged
            return TrainingState()
        if metadata.get("fingerprint") != self._key:
            return TrainingState()
        counters = json.loads(metadata["state"])
        model.load_state_dict(named_under("model", tensors))
        for name, parameter in model.named_parameters():
            optimizer.state[parameter] = named_under(f"adam.{name}", tensors)
        self._is_ours = True
        self._started_at -= float(metadata.get("seconds", 0))
        return TrainingState(**counters, best=named_under("best", tensors))

    def keep(self, model: nn.Module, optimizer: torch.optim.Optimizer, state: TrainingState) -> None:
        """Copy the state after an epoch; save it if the last save is `save_every` seconds ago."""
        if self._path is None:
            return
        tensors = {f"model.{name}": value for name, value in model.state_dict().items()}
        for name, parameter in model.named_parameters():
            tensors |= {f"adam.{name}.{key}": value for key, value in optimizer.state[parameter].items()}
        kept = copies(tensors) | {f"best.{name}": value for name, value in state.best.items()}
        counters = {key: value for key, value in vars(state).items() if key != "best"}
        self._latest = kept, {"fingerprint": self._key, "state": json.dumps(counters)}
        if time.monotonic() - self._saved_at >= self._save_every:
            self._save(self._path, *self._latest)

    def rescue(self) -> Path | None:
        """Save the latest copy of a failing run; return the file if it belongs to this run."""
        if self._path is not None and self._latest is not None:
            self._save(self._path, *self._latest)
        return self._path if self._is_ours else None

    def _save(self, path: Path, tensors: dict[str, Tensor], metadata: dict[str, str]) -> None:
        content = save(tensors, metadata | {"seconds": str(self.seconds)})
        write_with(path, lambda file: file.write(content))
        self._saved_at = time.monotonic()
        self._is_ours = True

    def remove(self) -> None:
        """Delete the file of a finished run."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)


def fingerprint(
    data: Disclosed, model: str, model_settings: BaseModel, settings: BaseModel, seed: int
) -> str:
    """Return the key of a training run: a hash of all that its result depends on."""
    digest = blake2b(digest_size=16)
    for array in (data.rows.users, data.rows.items, data.row_keys, data.valid_keys):
        digest.update(array.tobytes())
    how = [model, code_of(model), model_settings.model_dump(), settings.model_dump(), seed]
    digest.update(json.dumps([*how, data.n_users, data.n_items]).encode())
    return digest.hexdigest()


def copies(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return contiguous copies of tensors, each with its own memory, as safetensors needs them."""
    own = torch.contiguous_format
    return {name: value.detach().clone(memory_format=own) for name, value in tensors.items()}


def named_under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors under `prefix`, named without it."""
    start = f"{prefix}."
    return {key.removeprefix(start): value for key, value in tensors.items() if key.startswith(start)}
