"""The trainer of all models: its settings, Adam and its schedule, early stopping, checkpoints."""

import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializeAsAny,
    ValidationInfo,
    field_validator,
    model_validator,
)
from safetensors import SafetensorError
from safetensors.torch import load as from_bytes
from safetensors.torch import save as as_bytes
from torch import Tensor, nn
from torch.nn import functional as F

from assent.models import (
    IALS,
    MODELS,
    Draws,
    Evidence,
    IALSSettings,
    Initialisation,
    ModelSettings,
    Recommender,
    Sizes,
    code_of,
    model_class,
)
from assent.models.checks import check_contract, make_model
from assent.models.losses import Loss
from assent.support.arrays import Ints, mix, slices
from assent.support.draws import Purpose, by_lot
from assent.support.errors import AssentError
from assent.support.files import read_own, write_bytes
from assent.support.progress import SILENT, Progress
from assent.support.runtime import flushed, reuse_freed_memory
from assent.training.adam import Adam, Moments, RowAdam
from assent.training.disclosed import Disclosed, monitor_candidates, negatives
from assent.training.stored import Trained, copies, evidence_of, named_under

_MONITOR_NEGATIVES = 99
_MONITOR_K = 5
_MONITOR_SAMPLES = 2**14
"""Validation samples scored at once: they fit into a processor's cache."""
_REGULARISE = "raise the regularisation"
_DROPOUT = 1
"""Separates the random numbers of a model's dropout from other draws of the same epoch."""


Batches = list[tuple[Ints, Ints]]
"""Users [n] and items [n, 1 + negatives] of each step, positives first."""


class Schedule(StrEnum):
    """The learning rate of each step."""

    COSINE = "cosine"
    """Decays to 0 along half a cosine."""
    CONSTANT = "constant"
    """Stays."""

    def factor(self, share: float) -> float:
        """Return what the learning rate is multiplied by when the share `share` of all steps is done."""
        return 0.5 * (1 + math.cos(math.pi * share)) if self is Schedule.COSINE else 1.0


class BatchUnit(StrEnum):
    """What the size of a batch counts."""

    ROWS = "rows"
    """Disclosed interactions; their negatives come on top."""
    SAMPLES = "samples"
    """Interactions and their negatives together, as RecBole counts."""
    PEOPLE = "people"
    """People, each with all items: those that they have not disclosed are negatives, none is sampled. The
    loss is summed. So RecBole trains CDAE."""


class Kept(StrEnum):
    """Which epoch's parameters are kept."""

    NDCG = "ndcg"
    """Those that rank validation rows best."""
    REWARD = "reward"
    """Those of the largest reward: the selection is given, so it is the least loss of validation samples."""
    LAST = "last"
    """Those after the last epoch; validation rows are not looked at."""


class TrainingSettings(BaseModel):
    """How a recommender is trained (docs/models.md says how the defaults were chosen)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    epochs: int = Field(80, ge=1, description="passes over the disclosed rows")
    learning_rate: float = Field(0.015, gt=0, description="Adam's")
    schedule: Schedule = Field(Schedule.COSINE, description="how the learning rate falls, or that it stays")
    batch_size: int | None = Field(None, ge=1, description="per step; default: rows / 64, at least 2048")
    batch_unit: BatchUnit = Field(BatchUnit.ROWS, description="what the batch size counts")
    negatives: int = Field(1, ge=1, description="sampled negatives per positive and epoch")
    evaluate_every: int = Field(10, ge=1, description="epochs between two looks at validation rows")
    stop_after: int | None = Field(
        None, ge=1, description="epochs after which training ends, in the schedule of all of them"
    )
    patience: int = Field(4, ge=1, description="looks without improvement before training stops")
    keep: Kept = Field(Kept.NDCG, description="which epoch's parameters are kept")
    initialisation: Initialisation = Field(
        Initialisation.OWN, description="size of initial parameters: the model's own, or Xavier's"
    )

    def batch(self, rows: int) -> int:
        """Return the rows (or people, if these are the unit) per step when training on `rows` rows."""
        size = self.batch_size or max(2048, rows // 64)
        return max(1, size // (1 + self.negatives)) if self.batch_unit is BatchUnit.SAMPLES else size

    @property
    def last_epoch(self) -> int:
        """The number of epochs that are run at most."""
        return min(self.epochs, self.stop_after or self.epochs)


class Tune(StrEnum):
    """How settings of the base model are searched for, on validation rows."""

    NONE = "none"
    """They are taken as they are."""
    QUICK = "quick"
    """In two rounds of a few trainings each."""
    THOROUGH = "thorough"
    """In all rounds that the model knows."""


class Settings(BaseModel):
    """The base model and how it is trained; round-trips to JSON.

    A setting that is not given takes the model's own default, or else assent's. `tune` is for what makes
    final models: fit, frontier, compare and lds. A `Training` takes the settings as they are.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str = Field(IALS.name, description="name of the recommender")
    model_settings: SerializeAsAny[ModelSettings] = Field(
        IALSSettings(), description="settings of the recommender"
    )
    training: TrainingSettings = Field(TrainingSettings(), description="how it is trained")
    tune: Tune = Field(Tune.QUICK, description="how settings that nobody gave are searched for")
    fixed: tuple[str, ...] = Field((), description="settings of the recommender that are not searched for")
    """By default those that were given."""

    @model_validator(mode="before")
    @classmethod
    def _defaults_of_the_model(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        values = {"model_settings": {}, **values}
        of_model, asked = values["model_settings"], values.get("training", {})
        if isinstance(of_model, ModelSettings):
            owners = {model.Settings: name for name, model in MODELS.items()}
            values = {"model": owners.get(type(of_model), IALS.name), **values}
        if isinstance(of_model, dict | ModelSettings):
            given = of_model if isinstance(of_model, dict) else of_model.model_fields_set
            values = {"fixed": sorted(given), **values}
        if isinstance(asked, dict):
            values["training"] = {**defaults_of(values.get("model", IALS.name), "training"), **asked}
        return values

    @field_validator("model_settings", mode="before")
    @classmethod
    def _settings_of_the_model(cls, given: Any, info: ValidationInfo) -> Any:
        if "model" not in info.data:
            return given
        return model_class(info.data["model"]).Settings.model_validate(given)


def defaults_of(model: str, part: str) -> dict[str, Any]:
    """Return the defaults of `part` ("training" or "influence") that differ from assent's for a model."""
    return dict(model_class(model).defaults.get(part, {}))


def train(
    data: Disclosed,
    *,
    model: str,
    model_settings: ModelSettings,
    settings: TrainingSettings,
    seed: int,
    progress: Progress = SILENT,
    label: str = "training",
    checkpoint: Path | None = None,
    save_every: float = 10.0,
    start: Recommender | None = None,
) -> Trained:
    """Minimise the mean loss of the disclosed rows; return the model of the epoch that `keep` names.

        ℓ_k(θ) = BCE(s(u_k, i_k), 1) + Σ_j BCE(s(u_k, j), 0) + penalties

    where j runs over the sampled negatives of row k; the mean is over samples. Or the model's own `losses`,
    or, if it brings its solver, its `objective`. With batches of people, j runs over all items that the
    row's owner has not disclosed, once per person.

    The result is a function of `data`, the settings and `seed` alone. Without rows it is a model without
    users and items that scores everything alike. With `checkpoint`, the state is saved to that file about
    every `save_every` seconds, and when training diverges; a later call with the same arguments continues
    from it, and `Trained.seconds` counts both. With `start`, training begins at the parameters of that model,
    which must have the same vocabulary. Raises an `AssentError` if the model breaks the contract or training
    diverges.
    """
    saved = Checkpoint(checkpoint, fingerprint(data, model, model_settings, settings, seed), save_every)
    reuse_freed_memory()
    sizes = Sizes(data.n_users, data.n_items, len(data.rows), settings.negatives)
    draws = Draws(seed, data.user_keys, data.item_keys, settings.initialisation)
    recommender = make_model(model_class(model), sizes, model_settings, draws)
    if start is not None:
        recommender.load_state_dict(start.state_dict())
    evidence = evidence_of(data.rows)
    check_contract(recommender, evidence)
    adam = Adam(recommender.parameters(), settings.learning_rate)
    state = saved.load(recommender, adam.moments)
    monitor = _monitor(data, evidence, seed, settings.keep)
    with progress.task(label, settings.last_epoch) as advance, flushed(), torch.random.fork_rng():
        for _ in range(state.epoch):
            advance()
        while len(data.rows) and state.epoch < settings.last_epoch and state.waited < settings.patience:
            try:
                _run_epoch(recommender, adam, data, evidence, settings, seed=seed, epoch=state.epoch)
            except AssentError as error:
                kept = saved.rescue()
                where = f"; the state after epoch {state.epoch} is kept in {kept}" if kept else ""
                raise AssentError(f"{error}{where}") from None
            state.epoch += 1
            if state.epoch % settings.evaluate_every == 0 or state.epoch == settings.last_epoch:
                state.look(recommender, monitor(recommender))
            saved.keep(recommender, adam.moments, state)
            advance()
    if state.best:
        recommender.load_state_dict(state.best)
    if state.best_score is None:  # what was scored was finished before
        _finish(recommender)
    saved.remove()
    about = data.user_ids, data.item_ids, seed, state.best_epoch, state.best_score
    rows = data.rows if recommender.reads_evidence else None
    return Trained(recommender.eval(), *about, rows, saved.seconds)


def _run_epoch(
    model: Recommender,
    adam: Adam,
    data: Disclosed,
    evidence: Evidence,
    settings: TrainingSettings,
    *,
    seed: int,
    epoch: int,
) -> None:
    """Train for one epoch: by the model's own solver, or by steps of Adam.

    The order of two rows depends on (seed, epoch) and their ids alone, torch's generator (for dropout) on
    (seed, epoch), so that a resumed run needs no state of a generator.
    """
    model.train()
    # torch.manual_seed would also seed generators of other devices, which takes a millisecond.
    torch.default_generator.manual_seed(int(mix(seed, epoch, _DROPOUT).item()))
    if model.brings_solver:
        with _solvable():
            model.step(evidence)
        _check_finite(model, epoch, _REGULARISE)
        return
    advice = f"lower the setting training.learning_rate (now {settings.learning_rate})"
    rows = len(data.rows)
    batch = settings.batch(rows)
    by_person = settings.batch_unit is BatchUnit.PEOPLE
    steps = math.ceil((data.n_users if by_person else rows) / batch)
    done = [(epoch * steps + step) / (settings.epochs * steps) for step in range(steps)]
    rates = [settings.learning_rate * settings.schedule.factor(share) for share in done]
    if by_person:
        people = by_lot(data.user_keys, seed, Purpose.ORDER, epoch)
        parts = [people[here] for here in slices(len(people), batch)]
        _take(_people_steps(model, adam.of_torch, data, evidence, parts, rates), epoch, advice)
        _check_finite(model, epoch, advice)
        return
    drawn = negatives(data, seed=seed, epoch=epoch, count=settings.negatives)
    order = by_lot(data.row_keys, seed, Purpose.ORDER, epoch)
    if model.brings("gradients"):  # rows are sorted by user: in order, a batch reads its users' rows in order
        order = np.concatenate([np.sort(order[here]) for here in slices(rows, batch)])
    users, items = data.rows.users[order], np.concatenate([data.rows.items[:, None], drawn], axis=1)[order]
    batches = [(users[here], items[here]) for here in slices(rows, batch)]
    if model.brings("gradients"):
        _take(_row_steps(model, adam.moments, batches, rates), epoch, advice)
    else:
        _take(_steps(model, adam.of_torch, evidence, batches, rates), epoch, advice)
    _check_finite(model, epoch, advice)


def _take(losses: Iterable[float], epoch: int, advice: str) -> None:
    """Take the steps that yield these losses; raise where one is not finite."""
    for step, loss in enumerate(losses):
        if not math.isfinite(loss):
            raise AssentError(
                f"training: the loss is {loss} at epoch {epoch + 1}, batch {step + 1}; {advice}"
            )


def _people_steps(
    model: Recommender,
    optimizer: torch.optim.Adam,
    data: Disclosed,
    evidence: Evidence,
    parts: list[Ints],
    rates: list[float],
) -> Iterator[float]:
    """Yield the loss of each part of the people, summed over all items, and take a step of Adam along it."""
    starts, owned = data.owned
    for people, rate in zip(parts, rates, strict=True):
        for group in optimizer.param_groups:
            group["lr"] = rate
        counts = starts[people + 1] - starts[people]
        rows = np.repeat(np.arange(len(people)), counts)
        within = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        items = torch.from_numpy(owned[np.repeat(starts[people], counts) + within])
        users, places = torch.from_numpy(people), torch.from_numpy(rows)
        labels = torch.zeros(len(people), data.n_items)
        labels[places, items] = 1
        prepared = model.prepare(evidence)
        logits = model.score_all(users, prepared)[:, : data.n_items]
        _, penalties = model(users[places], items.unsqueeze(1), prepared)
        loss = F.binary_cross_entropy_with_logits(logits, labels, reduction="sum") + penalties.sum()
        yield loss.item()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()


def _steps(
    model: Recommender, optimizer: torch.optim.Adam, evidence: Evidence, batches: Batches, rates: list[float]
) -> Iterator[float]:
    """Yield the mean loss of each batch, and take a step of Adam along its gradient by autograd."""
    for (users, items), rate in zip(batches, rates, strict=True):
        for group in optimizer.param_groups:
            group["lr"] = rate
        sampled = torch.from_numpy(users), torch.from_numpy(items)
        loss = model.losses(*sampled, model.prepare(evidence)).mean()
        yield loss.item()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()


def _row_steps(model: Recommender, moments: Moments, batches: Batches, rates: list[float]) -> Iterator[float]:
    """Take a step of Adam along the model's own `gradients` of each batch; yield the batch's mean loss."""
    stepper = RowAdam(model, moments, rates)
    for users, items in batches:
        yield stepper.step(users, items)
    stepper.settle()


@contextmanager
def _solvable() -> Iterator[None]:
    """Turn the error of a system that cannot be solved into one that says what to do."""
    try:
        yield
    except np.linalg.LinAlgError as error:
        raise AssentError(f"training: {str(error).rstrip('.')}; {_REGULARISE}") from None


def _finish(model: Recommender) -> None:
    with _solvable():
        model.finish()


def _check_finite(model: Recommender, epoch: int, advice: str) -> None:
    if not all(value.sum().isfinite() for value in model.state_dict().values()):
        raise AssentError(f"training: a parameter is not finite after epoch {epoch + 1}; {advice}")


def _monitor(
    data: Disclosed, evidence: Evidence, seed: int, keep: Kept
) -> Callable[[Recommender], float | None]:
    """Return a function model → score of an epoch, the more the better; → None where nothing is looked at.

    The score is the mean NDCG@5 of validation items among sampled items, where a rival with an equal score
    counts as half a rank, or minus the mean cross-entropy of all of them.
    """
    if not len(data.valid) or keep is Kept.LAST:
        return lambda _: None
    sampled = monitor_candidates(data, seed=seed, count=_MONITOR_NEGATIVES)
    users = torch.from_numpy(data.valid.users)
    items = torch.from_numpy(np.concatenate([data.valid.items[:, None], sampled], axis=1))
    n_parts = math.ceil(items.numel() / _MONITOR_SAMPLES)

    @torch.no_grad()
    def score(model: Recommender) -> float:
        model.eval()
        _finish(model)
        prepared = model.prepare(evidence)
        parts = zip(users.chunk(n_parts), items.chunk(n_parts), strict=True)
        scores = torch.cat([model.scores(u, i, prepared) for u, i in parts])
        if keep is Kept.REWARD:
            return -float(Loss.BCE.of(scores).sum() / scores.numel())
        rivals, own = scores[:, 1:], scores[:, :1]
        rank = (rivals > own).sum(1) + 0.5 * (rivals == own).sum(1)
        return float(torch.where(rank < _MONITOR_K, 1 / torch.log2(rank + 2), 0).mean())

    return score


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

    A file with another `key` (of other data, settings or seed) is ignored, and so is one that was changed.
    With path None nothing is kept.
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

    def load(self, model: nn.Module, moments: Moments) -> TrainingState:
        """Load the saved state into `model` and `moments`; return a fresh state if there is none."""
        if self._path is None:
            return TrainingState()
        try:
            content = read_own(self._path)
            tensors, metadata = from_bytes(content), _metadata(content)
            is_whole = metadata["fingerprint"] == self._key and metadata["hash"] == _hash(tensors, metadata)
        except (AssentError, SafetensorError, KeyError, TypeError, ValueError):  # none there, or damaged
            is_whole = False
        if not is_whole:
            return TrainingState()
        try:
            counters = json.loads(metadata["state"])
            model.load_state_dict(named_under("model", tensors))
            for name, parameter in model.named_parameters():
                moments[parameter] = named_under(f"adam.{name}", tensors)
            state = TrainingState(**counters, best=named_under("best", tensors))
            self._started_at -= float(metadata["seconds"])
        except (KeyError, ValueError, TypeError, RuntimeError):  # forged: the hash fits
            raise AssentError(f"{self._path}: no state of a training; delete it and run again") from None
        self._is_ours = True
        return state

    def keep(self, model: nn.Module, moments: Moments, state: TrainingState) -> None:
        """Copy the state after an epoch; save it if the last save is `save_every` seconds ago."""
        if self._path is None:
            return
        tensors = {f"model.{name}": value for name, value in model.state_dict().items()}
        for name, parameter in model.named_parameters():
            tensors |= {f"adam.{name}.{key}": value for key, value in moments[parameter].items()}
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
        clock = {"seconds": str(self.seconds), "hash": _hash(tensors, metadata)}
        write_bytes(path, as_bytes(tensors, metadata | clock), private=True)
        self._saved_at = time.monotonic()
        self._is_ours = True

    def remove(self) -> None:
        """Delete the file of a finished run."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)


def _metadata(content: bytes) -> dict[str, str]:
    """Return the metadata of a safetensors file, whose header is JSON behind 8 bytes for its length."""
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    return dict(header["__metadata__"])


def _hash(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> str:
    """Return a hash of a saved state, whatever the clock said."""
    found = blake2b(json.dumps([metadata["fingerprint"], metadata["state"]]).encode(), digest_size=16)
    for name in sorted(tensors):
        found.update(f"{name}\0{tensors[name].dtype}\0".encode())
        found.update(tensors[name].numpy().tobytes())
    return found.hexdigest()


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
