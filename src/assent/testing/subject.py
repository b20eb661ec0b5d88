"""The recommender under test: how it is trained, and what is looked at."""

import itertools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl
import torch
from torch import Tensor

from assent.errors import AssentError
from assent.models import Evidence, Recommender, Sizes, model_class, model_name
from assent.models.contract import checked_class, make_model
from assent.progress import SILENT, Advance, Progress
from assent.settings import Settings
from assent.testing.planted import everything, planted_problem
from assent.testing.withheld import problem_of, split_log
from assent.training import Disclosed, Trained, disclose, train
from assent.training.storage import save
from assent.training.trained import evidence_of

LEARNING: Mapping[str, Any] = {"epochs": 30, "batch_size": 128}
"""How the planted tastes are learnt, unless `training` says otherwise; the rest is the model's default."""
MOMENT: Mapping[str, Any] = {"epochs": 4, "batch_size": 64, "evaluate_every": 2}
"""The same where a training has only to be one, whatever `training` says."""


class Subject:
    """A recommender under test."""

    model: ClassVar[type[Recommender] | str]
    """The class, which has to be at the top of a module, or its name as `--model` takes it."""
    settings: ClassVar[Mapping[str, Any]] = {}
    """Settings of the model that differ from its defaults."""
    training: ClassVar[Mapping[str, Any]] = {}
    """Training settings that differ from `LEARNING` and the model's defaults."""

    @classmethod
    @cache
    def learnt(cls) -> tuple[Trained, Disclosed]:
        """The model trained on the planted problem, once for all tests, and what it was trained on."""
        data = disclose(planted_problem(), everything(planted_problem()))
        return cls._train(data, {**LEARNING, **cls.training}), data

    def quickly(self, data: Disclosed, *, progress: Progress = SILENT, path: Path | None = None) -> Trained:
        """The model trained on `data` for a moment, with checkpoints at `path`."""
        return self._train(data, {**self.training, **MOMENT}, progress=progress, checkpoint=path)

    def initial(self, seed: int = 0, sizes: Sizes | None = None) -> Recommender:
        """The model before training, of the planted problem's sizes unless others are given."""
        problem = planted_problem()
        chosen = self._chosen(self.training)
        sizes = sizes or Sizes(problem.n_users, problem.n_items, len(problem.train), 1)
        return make_model(model_class(chosen.model), sizes, chosen.model_settings, seed)

    def final(self, table: pl.DataFrame, folder: Path) -> dict[str, str]:
        """What a model of the disclosed rows of `table` says and its files, after one of all training rows.

        Both as hashes, by which they are compared.
        """
        problem, selection = problem_of(table)
        self.quickly(disclose(problem, everything(problem)))
        trained = self.quickly(disclose(problem, selection))
        save(trained, folder / "model")
        files = {file.name: _hash(file.read_bytes()) for file in folder.iterdir()}
        return {"answers": answers(trained), **files}

    @classmethod
    def _chosen(cls, training: Mapping[str, Any]) -> Settings:
        if not hasattr(cls, "model"):
            raise AssentError(f"{cls.__name__}: has no model; expected model = the class under test")
        model = cls.model
        kind = model_class(model) if isinstance(model, str) else checked_class(model, str(model))
        values = {"model": model_name(kind), "model_settings": dict(cls.settings), "training": dict(training)}
        return Settings.model_validate(values)

    @classmethod
    def _train(cls, data: Disclosed, training: Mapping[str, Any], **options: Any) -> Trained:
        chosen = cls._chosen(training)
        return train(
            data,
            model=chosen.model,
            model_settings=chosen.model_settings,
            settings=chosen.training,
            seed=0,
            **options,
        )


def disclosed_part() -> Disclosed:
    """A small log of which a part is disclosed."""
    return disclose(*problem_of(split_log(seed=0, share=0.6)))


def parameters(model: Recommender) -> str:
    """A hash of all that is saved of a model's state."""
    return _hash(*(value.contiguous().numpy().tobytes() for value in model.state_dict().values()))


def answers(trained: Trained) -> str:
    """A hash of the parameters and of all scores of everybody, the unknown included."""
    scores = trained.scores_of_all(torch.arange(len(trained.user_ids) + 1))
    return _hash(parameters(trained.model).encode(), scores.contiguous().numpy().tobytes())


def _hash(*parts: bytes) -> str:
    return blake2b(b"".join(parts), digest_size=8).hexdigest()


def half_weighted(data: Disclosed) -> tuple[Evidence, Tensor]:
    """Evidence in which about half of the rows, and all of the first user's, weigh 0; and which weigh 1."""
    full = evidence_of(data.rows)
    is_kept = torch.from_numpy(np.random.default_rng(0).random(len(data.rows)) < 0.5) & (full.users != 0)
    return Evidence(full.users, full.items, full.weights * is_kept), is_kept


def outputs(model: Recommender, evidence: Evidence) -> tuple[Tensor, Tensor, Tensor]:
    """Scores of all items for everybody, and the logits and penalties of some pairs, given `evidence`."""
    users = torch.arange(model.n_users + 1)
    items = torch.arange(model.n_items + 1).expand(len(users), -1)
    prepared = model.prepare(evidence)
    logits, penalties = model(users, items[:, ::7], prepared)
    return model.score_all(users, prepared), logits, penalties


class KilledError(Exception):
    """The process ended here."""


class Killer:
    """Ends a training after its third epoch."""

    @contextmanager
    def task(self, label: str, total: int) -> Iterator[Advance]:
        """Count the epochs."""
        done = itertools.count(1)

        def advance() -> None:
            if next(done) == 3:
                raise KilledError

        yield advance
