"""The lab: trains models and computes what rests on them, as tasks in a list.

A *task* knows its key (everything that its result depends on) and how to compute the result. `Lab.run` looks
every task up in the store, sends the missing ones to the executor, and returns all results. The lab knows no
values and no game.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from typing import NamedTuple, Protocol

import numpy as np
import torch

from assent.data.problem import Problem
from assent.lab.executor import SERIAL, Executor
from assent.lab.store import Entry, Found, Key, Store, digest
from assent.models import code_of
from assent.support.arrays import Bools
from assent.support.errors import AssentError
from assent.support.progress import SILENT, Advance, Progress
from assent.support.runtime import cores, threads_for_rows
from assent.training import Disclosed, Settings, Trained, disclose, train
from assent.training.stored import tensors_of, trained_from


class Task(Protocol):
    """A piece of work whose result is kept."""

    def key(self, lab: "Lab") -> Key:
        """Return all that determines the result."""

    def run(self, lab: "Lab") -> Found:
        """Compute the result."""

    @property
    def label(self) -> str:
        """What progress bars and errors call it."""


@dataclass(frozen=True, eq=False)
class Lab:
    """A problem, the settings of its base model and a seed, with the store and the executor to work with.

    Without a store, results live in a temporary folder as long as the lab does.
    """

    problem: Problem
    settings: Settings = field(default_factory=Settings)
    seed: int = 0
    store: Store = field(default_factory=Store.temporary)
    executor: Executor = SERIAL
    progress: Progress = SILENT

    @cached_property
    def fingerprint(self) -> str:
        """A short name for the problem."""
        return self.problem.fingerprint()

    @cached_property
    def _contents(self) -> dict[tuple[str, str | None], str]:
        """Names of what trainings may see, by selection and vocabulary."""
        return {}

    @property
    def key(self) -> dict[str, object]:
        """What a result of this lab may depend on: the problem with people's wishes, settings and seed."""
        return {"problem": self.fingerprint, **self.base_key, "seed": self.seed}

    @property
    def rows_key(self) -> dict[str, str]:
        """What a result depends on that uses the rows, whatever people wish."""
        return {"rows": self.problem.rows_fingerprint}

    @property
    def base_key(self) -> dict[str, object]:
        """What a base model depends on besides data and seed."""
        return {
            "settings": self.settings.model_dump(mode="json"),
            "code": code_of(self.settings.model),
        }

    def content(self, selection: Bools, vocabulary: Bools | None) -> str:
        """Return a short name for all that a training on `selection[Z]` may see."""
        names = hash_of(selection), None if vocabulary is None else hash_of(vocabulary)
        if names not in self._contents:
            self._contents[names] = disclosed(self.problem, selection, vocabulary).content
        return self._contents[names]

    def with_settings(self, settings: Settings) -> "Lab":
        """Return a lab for the same problem with other settings of the base model."""
        return self._of_same_problem(replace(self, settings=settings))

    def with_seed(self, seed: int) -> "Lab":
        """Return a lab for the same problem with another seed."""
        return self._of_same_problem(replace(self, seed=seed))

    def _of_same_problem(self, other: "Lab") -> "Lab":
        """Return another lab, with what is shared by all labs of the problem."""
        other.__dict__.update(self._names, _for_workers=self._for_workers)
        return other

    @property
    def _names(self) -> dict[str, object]:
        """Names of the problem and its parts, which take time to hash."""
        return {"fingerprint": self.fingerprint, "_contents": self._contents}

    @cached_property
    def _for_workers(self) -> "Lab":
        """What workers share: the same object for all labs of a problem, so that they get it once."""
        found = replace(self, executor=SERIAL, progress=SILENT)
        found.__dict__.update(self._names)
        return found

    def run(self, tasks: Sequence[Task], label: str = "") -> list[Entry]:
        """Return the results of all tasks, in order; compute those that the store lacks.

        With an executor of several workers, missing tasks are computed beside each other. `label` names what
        progress shows; a single task shows its own.
        """
        keys = [task.key(self) for task in tasks]
        found = [self.store.get(key) for key in keys]
        lacking = zip(keys, tasks, found, strict=True)
        missing = list({digest(key): task for key, task, entry in lacking if entry is None}.values())
        if len(missing) > 1:
            with self.progress.task(label or missing[0].label, len(missing)) as advance, threads_for_rows(1):
                if self.executor is SERIAL:
                    SERIAL.map(_compute_one, missing, self, advance)
                else:
                    jobs = [_Job(self.settings, self.seed, task) for task in missing]
                    self.executor.map(_compute_job, jobs, self._for_workers, advance)
        elif missing:
            with threads_for_rows(min(self.executor.workers, cores())):  # one task may use them all
                SERIAL.map(_compute_one, missing, self, lambda: None)
        return [entry or self._computed(task, key)
                for key, task, entry in zip(keys, tasks, found, strict=True)]  # fmt: skip

    def train(self, trainings: Sequence["Training"], label: str = "training models") -> list[Trained]:
        """Return a trained model for each training, with its cost; train those that the store lacks."""
        entries = zip(trainings, self.run(trainings, label), strict=True)
        return [_model_in(entry, (each.settings or self.settings).model) for each, entry in entries]

    def _computed(self, task: Task, key: Key) -> Entry:
        found = self.store.get(key)
        if found is None:  # another process has deleted it meanwhile
            SERIAL.map(_compute_one, [task], self, lambda: None)
            found = self.store.get(key)
        if found is None:
            raise AssentError(f"{self.store.folder}: {task.label} was computed but cannot be read back")
        return found


def compute(lab: Lab, task: Task, *, wait: bool = True) -> bool:
    """Compute a task and store the result, unless it is there; False if another process is at it."""
    key = task.key(lab)
    with lab.store.held(key, wait=wait) as held:
        if held and lab.store.get(key) is None:
            start = time.perf_counter()
            found = task.run(lab)
            lab.store.put(key, found, seconds=time.perf_counter() - start)
    return held


@dataclass(frozen=True, eq=False)
class Elsewhere:
    """A task of another lab, computed beside those of this one; that lab finds the result in the store."""

    lab: Lab
    task: Task

    @classmethod
    def of(cls, lab: Lab, task: Task) -> "Elsewhere":
        """Return a task of `lab`."""
        return cls(_at(lab._for_workers, lab.settings, lab.seed), task)

    @property
    def label(self) -> str:
        """What progress bars and errors call it."""
        return self.task.label

    def key(self, lab: Lab) -> Key:
        """Return the key in the other lab."""
        return self.task.key(self.lab)

    def run(self, lab: Lab) -> Found:
        """Compute it there."""
        return self.task.run(self.lab)


class _Job(NamedTuple):
    """A task for a worker, whose lab may have other settings and another seed."""

    settings: Settings
    seed: int
    task: Task

    @property
    def label(self) -> str:
        return self.task.label


def _compute_job(shared: Lab, job: _Job, tell: Advance) -> None:
    _compute_one(_at(shared, job.settings, job.seed), job.task, tell)


def _at(lab: Lab, settings: Settings, seed: int) -> Lab:
    return lab.with_settings(settings).with_seed(seed)


def _compute_one(lab: Lab, task: Task, tell: Advance) -> None:
    compute(lab, task)
    tell()


@dataclass(frozen=True, eq=False)
class Training:
    """A task: train the lab's model on a selection."""

    selection: Bools
    """[Z]"""
    vocabulary: Bools | None = None
    """Training rows, [Z], whose users and items the model knows; None: those of the selection.

    Anchors know all, so that influence has parameters for every row. A final model knows its selection.
    With a vocabulary, a training takes all its epochs: which of them ranks validation rows best is a matter
    of a hair, and a single row would move the influence of all others by moving it."""
    seed: int | None = None
    """None: the lab's seed."""
    after: str | None = None
    """Digest of the stored training whose parameters to start from; it has the same vocabulary."""
    epochs: int | None = None
    """None: as many as the settings say."""
    label: str = "training"
    settings: Settings | None = None
    """Of the base model; None: the lab's."""

    def key(self, lab: Lab) -> Key:
        """Return what the training may see, settings and seed; for a warm start also its beginning.

        Other rows of the log are no part of it: a training whose own rows have not changed is not repeated.
        """
        lab = lab.with_settings(self.settings) if self.settings else lab
        about = lab.base_key | {
            "kind": "training",
            "seed": lab.seed if self.seed is None else self.seed,
            "content": lab.content(self.selection, self.vocabulary),
            "judged": self.vocabulary is None,
        }
        if self.after is not None or self.epochs is not None:
            about |= {"epochs": self.epochs, "after": self.after}
        return about

    def run(self, lab: Lab) -> Found:
        """Train and take the model apart for the store."""
        trained = self.train(lab)
        tensors, facts = tensors_of(trained)
        arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
        return Found(arrays, facts, trainings=1, seconds=trained.seconds)

    def train(self, lab: Lab) -> Trained:
        """Train, from the checkpoint of a killed process if there is one."""
        before = None if self.after is None else lab.store.at(self.after)
        if before is None and self.after is not None:
            raise AssentError(f"{lab.store.folder}: no trained model {self.after}")
        settings = self.settings or lab.settings
        training = settings.training
        if self.epochs is not None:
            training = training.model_copy(update={"epochs": self.epochs})
        return train(
            disclosed(lab.problem, self.selection, self.vocabulary),
            model=settings.model,
            model_settings=settings.model_settings,
            settings=training,
            seed=lab.seed if self.seed is None else self.seed,
            progress=lab.progress,
            label=self.label,
            checkpoint=lab.store.checkpoint(self.key(lab)),
            start=None if before is None else _model_in(before, settings.model).model,
        )


def disclosed(problem: Problem, selection: Bools, vocabulary: Bools | None) -> Disclosed:
    """Return what a training on `selection[Z]` may see; with a vocabulary, no validation row."""
    data = disclose(problem, selection, vocabulary=vocabulary)
    return data if vocabulary is None else data.unjudged()


def _model_in(entry: Entry, model: str) -> Trained:
    """Return the model of an entry, which is of the kind `model`, whatever the entry says."""
    tensors = {name: torch.from_numpy(array) for name, array in entry.arrays.items()}
    return replace(trained_from(tensors, entry.facts, model=model), cost=entry.cost)


def everything(problem: Problem) -> Bools:
    """Return the selection that discloses all training rows: [Z]."""
    return np.ones(len(problem.train), dtype=np.bool_)


def hash_of(selection: Bools) -> str:
    """A short name for a selection."""
    return blake2b(np.packbits(selection).tobytes() + len(selection).to_bytes(8), digest_size=16).hexdigest()
