"""What the contract's tests work on: the recommender under test, logs, and changes of withheld rows."""

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl
import torch
from torch import Tensor

from assent.data.interactions import NO_ITEMS, Interactions
from assent.data.problem import Problem, make_problem, make_problem_from_parts, parts_of
from assent.data.simulate import simulate
from assent.evaluation.metrics import ranking_metrics, top_hits
from assent.models import Evidence, Recommender, Sizes, model_class, model_name
from assent.models.checks import checked_class, make_model
from assent.support.arrays import Bools, Floats
from assent.support.errors import AssentError
from assent.support.progress import SILENT, Advance, Progress
from assent.training import Disclosed, Settings, Trained, disclose, train
from assent.training.stored import evidence_of, save


@cache
def planted_problem() -> Problem:
    """Return a problem of 120 users with planted tastes for 60 items, without noise."""
    log = simulate(preference="learnable", users=120, items=60, noise=0, seed=0)
    return make_problem(log, "full", negatives=5)


def everything(problem: Problem) -> Bools:
    """Return the selection that discloses every training row: [len(train)]."""
    return np.ones(len(problem.train), dtype=np.bool_)


def popularity_ndcg(problem: Problem) -> Floats:
    """Return NDCG@5 on the test rows for every user, with items ranked by their number of training rows."""
    counts = np.bincount(problem.train.items, minlength=problem.n_items).astype(np.float64)
    scores = np.tile(counts, (problem.n_users, 1))
    for part in (problem.train, problem.valid):
        scores[part.users, part.items] = -np.inf
    relevant = np.zeros(scores.shape, dtype=np.bool_)
    relevant[problem.test.users, problem.test.items] = True
    hits = top_hits(scores, relevant, np.arange(problem.n_users), k=5, seed=0)
    return ranking_metrics(hits, relevant.sum(axis=1))["ndcg"]


LEARNING: Mapping[str, Any] = {"epochs": 30, "batch_size": 128}
"""Training settings of `learnt`, which `training` overrides; the rest are the model's defaults."""
MOMENT: Mapping[str, Any] = {"epochs": 4, "batch_size": 64, "evaluate_every": 2}
"""Training settings of `quickly`, which override `training`."""


class Subject:
    """A recommender under test."""

    model: ClassVar[type[Recommender] | str]
    """The class, which must be at the top level of a module, or its name as in `assent.Settings.model`."""
    settings: ClassVar[Mapping[str, Any]] = {}
    """Model settings that differ from its defaults."""
    training: ClassVar[Mapping[str, Any]] = {}
    """Training settings that differ from `LEARNING` and the model's defaults."""

    @classmethod
    @cache
    def learnt(cls) -> tuple[Trained, Disclosed]:
        """Return the model trained on the planted problem, once for all tests, and its training input."""
        data = disclose(planted_problem(), everything(planted_problem()))
        return cls._train(data, {**LEARNING, **cls.training}), data

    def quickly(self, data: Disclosed, *, progress: Progress = SILENT, path: Path | None = None) -> Trained:
        """Return the model trained on `data` for a few epochs, with a checkpoint at `path` after each."""
        options = {"progress": progress, "checkpoint": path, "save_every": 0}
        return self._train(data, {**self.training, **MOMENT}, **options)

    def initial(self, seed: int = 0, sizes: Sizes | None = None) -> Recommender:
        """Return the model before training, by default of the planted problem's sizes."""
        problem = planted_problem()
        chosen = self._chosen(self.training)
        sizes = sizes or Sizes(problem.n_users, problem.n_items, len(problem.train), 1)
        return make_model(model_class(chosen.model), sizes, chosen.model_settings, seed)

    def final(self, table: pl.DataFrame, folder: Path) -> dict[str, str]:
        """Return hashes of the scores and files of a model trained on the disclosed rows of `table`.

        A model of all training rows is trained before it.
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
    """Return the disclosed part of a small log."""
    return disclose(*problem_of(split_log(seed=0, share=0.6)))


def parameters(model: Recommender) -> str:
    """Return a hash of a model's saved state."""
    return _hash(*(value.contiguous().numpy().tobytes() for value in model.state_dict().values()))


def answers(trained: Trained) -> str:
    """Return a hash of the parameters and of all scores of all users, the unknown included."""
    scores = trained.scores_of_all(torch.arange(len(trained.user_ids) + 1))
    return _hash(parameters(trained.model).encode(), scores.contiguous().numpy().tobytes())


def _hash(*parts: bytes) -> str:
    return blake2b(b"".join(parts), digest_size=8).hexdigest()


def half_weighted(data: Disclosed) -> tuple[Evidence, Tensor]:
    """Return evidence in which half of the rows and all of the first user's weigh 0, and which weigh 1."""
    full = evidence_of(data.rows)
    is_kept = torch.from_numpy(np.random.default_rng(0).random(len(data.rows)) < 0.5) & (full.users != 0)
    return Evidence(full.users, full.items, full.weights * is_kept), is_kept


def outputs(model: Recommender, evidence: Evidence) -> tuple[Tensor, Tensor, Tensor]:
    """Return scores of all items for all users, and logits and penalties of some pairs, given `evidence`."""
    users = torch.arange(model.n_users + 1)
    items = torch.arange(model.n_items + 1).expand(len(users), -1)
    prepared = model.prepare(evidence)
    logits, penalties = model(users, items[:, ::7], prepared)
    return model.score_all(users, prepared), logits, penalties


class KilledError(Exception):
    """Stands for the end of a killed process."""


class Killer:
    """A progress that ends a training after its third epoch."""

    @contextmanager
    def task(self, label: str, total: int) -> Iterator[Advance]:
        """Raise after three epochs."""
        done = itertools.count(1)

        def advance() -> None:
            if next(done) == 3:
                raise KilledError

        yield advance


Change = Callable[[pl.DataFrame, np.random.Generator], pl.DataFrame]
"""A change of a split log that keeps its disclosed, validation and test rows."""


def split_log(seed: int, share: float) -> pl.DataFrame:
    """Return a log with columns `split` and `disclosed`, True for about `share` of the training rows.

    Every fifth user discloses nothing.
    """
    log = simulate(preference="learnable", users=30, items=40, seed=seed).table
    from_end = pl.len().over("user") - pl.int_range(pl.len()).over("user")
    split = pl.when(from_end == 1).then(pl.lit("test")).when(from_end == 2).then(pl.lit("valid"))
    lots = pl.Series(np.random.default_rng(seed).random(log.height) < share)
    secretive = pl.col("user").str.slice(1).cast(pl.Int64) % 5 == 0
    table = log.with_columns(split=split.otherwise(pl.lit("train")))
    return table.with_columns(disclosed=lots & ~secretive & (pl.col("split") == "train"))


def is_withheld(table: pl.DataFrame) -> pl.Series:
    """Return which rows are training rows that are not disclosed: [rows]."""
    return (table["split"] == "train") & ~table["disclosed"]


def problem_of(table: pl.DataFrame) -> tuple[Problem, Bools]:
    """Return the problem of a split log, and the selection of its disclosed rows."""
    parts = parts_of(Interactions("log", table, NO_ITEMS))
    problem = make_problem_from_parts(*parts, negatives=1)
    disclosed = set(table.filter("disclosed").select("user", "item").iter_rows())
    users, items = problem.user_ids[problem.train.users], problem.item_ids[problem.train.items]
    selection = [pair in disclosed for pair in zip(users.tolist(), items.tolist(), strict=True)]
    assert sum(selection) == len(disclosed)
    return problem, np.array(selection, dtype=np.bool_)


def drop_all(table: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """Drop all withheld rows."""
    return table.filter(~is_withheld(table))


def drop_some(table: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """Drop about half of the withheld rows."""
    return table.filter(~(is_withheld(table) & pl.Series(rng.random(table.height) < 0.5)))


def drop_one(table: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """Drop one withheld row."""
    places = is_withheld(table).arg_true()
    if not len(places):
        return table
    gone = places[int(rng.integers(len(places)))]
    return table.filter(pl.int_range(pl.len()) != gone)


def drop_secretive_users(table: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """Drop the training rows of users who withhold all of them."""
    candid = table.filter("disclosed")["user"].unique().implode()
    return table.filter((pl.col("split") != "train") | pl.col("user").is_in(candid))


def swap_items(table: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """Replace the item of each withheld row by another item of the log that its user does not have."""
    every = sorted(set(table["item"]))
    theirs = {user: set(rows["item"]) for (user,), rows in table.group_by("user")}
    items = table["item"].to_list()
    for place in is_withheld(table).arg_true():
        user = table["user"][place]
        items[place] = str(rng.choice([item for item in every if item not in theirs[user]]))
        theirs[user].add(items[place])
    return table.with_columns(item=pl.Series(items))


def invent_items(table: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """Replace the item of each withheld row by a new one; some sort first, some last."""
    names = [f"{'!~'[int(rng.integers(2))]}new {rng.integers(10**9)}-{row}" for row in range(table.height)]
    return table.with_columns(
        item=pl.when(is_withheld(table)).then(pl.Series(names)).otherwise(pl.col("item"))
    )


def change_unwillingness(table: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """Change the unwillingness of withheld rows, also to "never", which drops the row at once."""
    drawn = pl.Series(rng.choice([0.0, 0.2, 0.999, 1.0], table.height))
    value = pl.when(is_withheld(table)).then(drawn).otherwise(pl.col("unwillingness"))
    return table.with_columns(unwillingness=value)


def change_times(table: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """Change the times of withheld rows, also to times after the validation and test rows."""
    drawn = pl.Series(rng.choice([-1.0, 0.5, 1e9], table.height))
    return table.with_columns(time=pl.when(is_withheld(table)).then(drawn).otherwise(pl.col("time")))


def shuffle(table: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """Change the order of the rows."""
    return table[rng.permutation(table.height)]


def add_rows(table: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """Add a withheld row for every user and for new users."""
    users = ["!new user", *sorted(set(table["user"])), "~new user"]
    added = pl.DataFrame(
        {
            "user": users,
            "item": [f"added {rng.integers(10**9)}" for _ in users],
            "time": rng.random(len(users)) * 10,
            "unwillingness": rng.random(len(users)),
            "split": ["train"] * len(users),
            "disclosed": [False] * len(users),
        }
    )
    return pl.concat([added.select(table.columns), table])


CHANGES: list[Change] = [
    drop_all,
    drop_some,
    drop_one,
    drop_secretive_users,
    swap_items,
    invent_items,
    change_unwillingness,
    change_times,
    shuffle,
    add_rows,
]
