"""A log in which there is something to learn, and what popularity alone makes of it.

The recommender under test: how it is trained, and what is looked at.

Logs with withheld rows, and ways to change those rows that no model may notice.
"""

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
from assent.data.problem import Problem
from assent.data.simulate import simulate
from assent.data.split import make_problem, make_problem_from_parts, parts_of
from assent.evaluation.metrics import ranking_metrics, top_hits
from assent.models import Evidence, Recommender, Sizes, model_class, model_name
from assent.models.checks import checked_class, make_model
from assent.settings import Settings
from assent.support.arrays import Bools, Floats
from assent.support.errors import AssentError
from assent.support.progress import SILENT, Advance, Progress
from assent.training import Disclosed, Trained, disclose, train
from assent.training.stored import evidence_of, save


@cache
def planted_problem() -> Problem:
    """120 users with tastes of their own for 60 items, and no accidents; test rows are ranked among all."""
    log = simulate(preference="learnable", users=120, items=60, noise=0, seed=0)
    return make_problem(log, "full", negatives=5)


def everything(problem: Problem) -> Bools:
    """The selection that discloses every training row: [len(train)]."""
    return np.ones(len(problem.train), dtype=np.bool_)


def popularity_ndcg(problem: Problem) -> Floats:
    """NDCG@5 on the test rows for every user when items are ranked by how many training rows they have."""
    counts = np.bincount(problem.train.items, minlength=problem.n_items).astype(np.float64)
    scores = np.tile(counts, (problem.n_users, 1))
    for part in (problem.train, problem.valid):
        scores[part.users, part.items] = -np.inf
    relevant = np.zeros(scores.shape, dtype=np.bool_)
    relevant[problem.test.users, problem.test.items] = True
    hits = top_hits(scores, relevant, np.arange(problem.n_users), k=5, seed=0)
    return ranking_metrics(hits, relevant.sum(axis=1))["ndcg"]


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


Change = Callable[[pl.DataFrame, np.random.Generator], pl.DataFrame]
"""A change of a split log that leaves its disclosed, validation and test rows as they are."""


def split_log(seed: int, share: float) -> pl.DataFrame:
    """A log with columns for its split and for what is disclosed: about `share` of the training rows.

    Every fifth user discloses nothing at all.
    """
    log = simulate(preference="learnable", users=30, items=40, seed=seed).table
    from_end = pl.len().over("user") - pl.int_range(pl.len()).over("user")
    split = pl.when(from_end == 1).then(pl.lit("test")).when(from_end == 2).then(pl.lit("valid"))
    lots = pl.Series(np.random.default_rng(seed).random(log.height) < share)
    secretive = pl.col("user").str.slice(1).cast(pl.Int64) % 5 == 0
    table = log.with_columns(split=split.otherwise(pl.lit("train")))
    return table.with_columns(disclosed=lots & ~secretive & (pl.col("split") == "train"))


def is_withheld(table: pl.DataFrame) -> pl.Series:
    """Which rows are training rows that are not disclosed: [rows]."""
    return (table["split"] == "train") & ~table["disclosed"]


def problem_of(table: pl.DataFrame) -> tuple[Problem, Bools]:
    """The problem of a split log, and the selection of the rows that it marks as disclosed."""
    parts = parts_of(Interactions("log", table, NO_ITEMS))
    problem = make_problem_from_parts(*parts, negatives=1)
    disclosed = set(table.filter("disclosed").select("user", "item").iter_rows())
    users, items = problem.user_ids[problem.train.users], problem.item_ids[problem.train.items]
    selection = [pair in disclosed for pair in zip(users.tolist(), items.tolist(), strict=True)]
    assert sum(selection) == len(disclosed)
    return problem, np.array(selection, dtype=np.bool_)


def drop_all(table: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """No withheld row is left."""
    return table.filter(~is_withheld(table))


def drop_some(table: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """About half of the withheld rows are left."""
    return table.filter(~(is_withheld(table) & pl.Series(rng.random(table.height) < 0.5)))


def drop_one(table: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """All withheld rows but one are left."""
    places = is_withheld(table).arg_true()
    if not len(places):
        return table
    gone = places[int(rng.integers(len(places)))]
    return table.filter(pl.int_range(pl.len()) != gone)


def drop_secretive_users(table: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """Those who withhold all of their training rows leave the training rows altogether."""
    candid = table.filter("disclosed")["user"].unique().implode()
    return table.filter((pl.col("split") != "train") | pl.col("user").is_in(candid))


def swap_items(table: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """Each withheld row turns into one of another item of the log that its user does not have."""
    every = sorted(set(table["item"]))
    theirs = {user: set(rows["item"]) for (user,), rows in table.group_by("user")}
    items = table["item"].to_list()
    for place in is_withheld(table).arg_true():
        user = table["user"][place]
        items[place] = str(rng.choice([item for item in every if item not in theirs[user]]))
        theirs[user].add(items[place])
    return table.with_columns(item=pl.Series(items))


def invent_items(table: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """Each withheld row turns into one of an item that no other row has; some sort first, some last."""
    names = [f"{'!~'[int(rng.integers(2))]}new {rng.integers(10**9)}-{row}" for row in range(table.height)]
    return table.with_columns(
        item=pl.when(is_withheld(table)).then(pl.Series(names)).otherwise(pl.col("item"))
    )


def change_unwillingness(table: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """Also to "never", which drops the row before anything else."""
    drawn = pl.Series(rng.choice([0.0, 0.2, 0.999, 1.0], table.height))
    value = pl.when(is_withheld(table)).then(drawn).otherwise(pl.col("unwillingness"))
    return table.with_columns(unwillingness=value)


def change_times(table: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """Also to times after the validation and test rows."""
    drawn = pl.Series(rng.choice([-1.0, 0.5, 1e9], table.height))
    return table.with_columns(time=pl.when(is_withheld(table)).then(drawn).otherwise(pl.col("time")))


def shuffle(table: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """The rows of the file are in another order."""
    return table[rng.permutation(table.height)]


def add_rows(table: pl.DataFrame, rng: np.random.Generator) -> pl.DataFrame:
    """Everybody, and some new users, withhold a row more."""
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
