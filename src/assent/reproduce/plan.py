"""What all items of a reproduction agree on: data sets, models, methods, and how much of the paper is run."""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np

from assent.data.door import assign
from assent.data.draws import PAPER_SENSITIVITY, Sensitivity
from assent.data.interactions import Interactions
from assent.data.named import read_named
from assent.data.problem import Problem, Protocol, make_problem
from assent.data.simulate import MOST, simulate
from assent.evaluation.metrics import RewardForm
from assent.methods import METHODS, Method, make_method, merged, method_settings
from assent.reproduce.profiles import Profile
from assent.results.records import Way
from assent.results.table import shown
from assent.results.words import listed
from assent.support.arrays import string_keys
from assent.training import Settings, Tune

BASE = ("model_settings", "training")
"""Settings of the base model; the others belong to methods."""
SIMULATION = "simulation"
"""Built in; the others are files."""
DATASETS: Mapping[str, str] = {
    SIMULATION: "simulation",
    "diginetica": "diginetica",
    "steam": "steam",
    "amazon-video-games": "amazon_video",
}
"""Data sets, with their keys in `paper.json`."""
MODELS = {"mf": "MF", "neumf": "NeuMF", "lightgcn": "LightGCN", "din": "DIN", "cdae": "CDAE"}
"""Models, with what the paper calls them."""
CHANCE = "The simulated data carry no preference: every model ranks at chance (F1 of 1.67 %)."


@dataclass(frozen=True)
class DataSource:
    """A data set as an item wants it."""

    name: str
    users: int | None = None
    """At most so many users, a neighbourhood; None: all."""
    eta: float = 0.5
    """Of the simulation: how hard interactions are to come by."""
    sensitivity: Sensitivity = PAPER_SENSITIVITY
    """Of the simulation: (a1, a2, a3) of the unwillingness."""
    negatives: int = 99
    """Sampled items that each validation and test row is ranked among."""


@dataclass(frozen=True)
class Where:
    """Folders."""

    data: Path | None = None
    """Of the data sets."""
    kept: Path | None = None
    """For what was read of large files."""


@cache
def problem_of(source: DataSource, seed: int, where: Where) -> Problem:
    """The problem of repeat `seed`: split as in the paper's tables.

    A repeat draws the sampled negatives anew and, for real data, everybody's unwillingness. The simulation's
    belongs to its features and stays.
    """
    log = _log(source, where)
    if source.name != SIMULATION:
        log = assign(log, "random", seed)
    return make_problem(log, Protocol.PAPER_TABLES, seed=seed, negatives=source.negatives)


def size_of(source: DataSource, where: Where) -> tuple[int, int, int]:
    """Users, items and interactions of a data set."""
    problem = problem_of(source, 0, where)
    return problem.n_users, problem.n_items, sum(map(len, (problem.train, problem.valid, problem.test)))


@cache
def _log(source: DataSource, where: Where) -> Interactions:
    if source.name == SIMULATION:
        enough = max(source.users or 0, MOST + source.negatives + 1)
        size = {} if source.users is None else {"users": source.users, "items": enough}
        log = simulate(preference="paper", eta=source.eta, sensitivity=source.sensitivity, **size)
        return replace(log, name=SIMULATION)
    return _fewer(read_named(source.name, where.data, where.kept), source.users)


def _fewer(log: Interactions, users: int | None) -> Interactions:
    """The log of a neighbourhood of `users` people: a person, then whoever shares an item with one of them.

    People drawn by lot would hardly share anything. The first is the one whose id comes first in an order by
    hash, and so is the next where a neighbourhood ends.
    """
    people = log.table["user"].unique().sort()
    if users is None or users >= len(people):
        return log
    queue = people.gather(np.argsort(string_keys(people))).to_list()
    items_of, users_of = (
        dict(log.table.group_by(key, maintain_order=True).agg(other).iter_rows())
        for key, other in (("user", "item"), ("item", "user"))
    )
    chosen: dict[str, None] = {}
    for start in queue:
        near = deque([start])
        while near and len(chosen) < users:
            person = near.popleft()
            if person not in chosen:
                chosen[person] = None
                near.extend(other for item in items_of[person] for other in users_of[item])
    return replace(log, table=log.table.filter(log.table["user"].is_in(list(chosen))))


OURS: Way = ("ifrqe++", "nash")
"""The paper's best method: tests are against it."""
PAPER_METHODS: Mapping[str, Way] = {
    "Base": ("all", ""),
    "Random": ("random", ""),
    "Threshold": ("threshold", ""),
    "Proactive": ("proactive", "nash"),
    "IFRQE": ("ifrqe", "nash"),
    "IFRQE++": OURS,
}
"""The rows of the paper's tables."""
NULLS: Sequence[Way] = ((OURS[0], "nash, zero"), (OURS[0], "nash, permuted"))
"""IFRQE++ without what it measures."""
SCR: Way = ("scratch", "nash, tables")
"""Trains a model for everything it tries: the paper's algorithms on true rewards."""
FITTED: Way = ("scratch", "nash")
"""The same with values that are fitted to what was tried, which takes fewer trainings."""
VARIANTS: Mapping[Way, Mapping[str, Any]] = {
    NULLS[0]: {"signal": "zero"},
    NULLS[1]: {"signal": "permuted"},
    SCR: {"learns": "tables"},
}
"""Ways that differ from those for the same objective by settings."""
THEIR_L, THEIR_M = 1000, 10
"""L and M of the paper's SCR."""
RANGES: Mapping[str, Sequence[float]] = {
    "learning_rate": (0.001, 0.01, 0.05),
    "batch_size": (1024, 2048, 4096),
    "dimension": (64, 128, 256),
    "drop": (0.01, 0.1, 0.2),
    "epochs": (50, 100, 150),
    "anchors": tuple(range(1, 11)),
    "price": (0.1, 0.5, 1),
    "rounds": (1, 3, 5, 10),
    "samples": (500, 1000, 2000),
    "lissa_steps": (10, 20, 30),
}
"""Of the paper's table of settings: `drop` is 1 − the rate of an anchor; the last ones are λ, M, L, N_J."""


class Scale(StrEnum):
    """How much."""

    QUICK = "quick"
    FULL = "full"


@dataclass(frozen=True)
class Plan:
    """What all items agree on. The defaults are the paper's."""

    scale: Scale = Scale.FULL
    profile: Profile = Profile.ASSENT
    repeats: int = 10
    datasets: Sequence[str] = tuple(DATASETS)
    models: Sequence[str] = tuple(MODELS)
    users: int | None = None
    """Largest number of users of a data set."""
    negatives: int = 99
    anchors: Mapping[str, int] = field(
        default_factory=lambda: {SIMULATION: 2, "diginetica": 8, "steam": 4, "amazon-video-games": 6}
    )
    """T of the paper's table of settings."""
    prices: Sequence[float] = (0.1, 0.5, 1.0, 2.0)
    numbers_of_anchors: Sequence[int] = tuple(range(1, 11))
    selections: int = 10
    """That the approximation is judged on."""
    etas: Sequence[float] = (0.1, 0.2, 0.3, 0.4, 0.5)
    points: Sequence[float] = (0.75, 0.5, 0.25, 0.1)
    lds_selections: int = 32
    lds_seeds: int = 3
    trials: int = 50
    """Of the search."""
    ranges: Mapping[str, Sequence[float]] = field(default_factory=lambda: RANGES)
    """Of the search, by setting."""
    few_models: Sequence[str] = ("mf", "neumf", "lightgcn")
    """Models of the items that the paper shows for three."""
    wide_models: Sequence[str] = tuple(MODELS)
    """Models of the approximation."""
    scratch_models: Sequence[str] = tuple(MODELS)
    """Models that SCR trains again and again."""
    anchor_models: Sequence[str] = tuple(MODELS)
    """Models of the number of anchors."""
    one_model: Sequence[str] = ("mf",)
    """Models of the items of ours."""
    overrides: Mapping[str, Any] = field(default_factory=dict)
    """Settings that differ from the paper's, as JSON: of training, of methods; by scale and user."""
    sizes: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)
    """Users, items and interactions of the data sets that were found."""
    altered: Sequence[str] = ()
    """Settings of the user's own, as KEY=VALUE."""

    @cached_property
    def reduced(self) -> list[str]:
        """What is less than the paper's, so that figures cannot be compared, in sentences."""
        found = []
        if self.users is not None:
            found.append(
                f"A neighbourhood of at most {self.users} users of each data set, who share items: quality "
                "is not that of all."
            )
        if self.scale is Scale.QUICK:
            anchors = [
                f"{self.setting(OURS, name, 'anchors')} ({_FULL.anchors[name]}) for {name}"
                for name in self.datasets
            ]
            rounds = self.setting(PAPER_METHODS["Proactive"], SIMULATION, "rounds")
            found += [
                f"T, the number of anchors, and the paper's: {', '.join(anchors)}.",
                f"Proactive has at most {rounds} rounds; SCR explores {self.explored(SIMULATION)} "
                "selections.",
            ]
            if self.profile is not Profile.ASSENT:
                game = self.setting(OURS, SIMULATION, "table")
                found.append(f"Tables learn in M = {game['rounds']} rounds of L = {game['samples']} samples.")
        return found

    @property
    def fewer(self) -> Iterator[str]:
        """What is left out of the full scale, in sentences; the figures that are there can be compared."""
        values = {"prices": "prices", "η": "etas", "numbers of anchors": "numbers_of_anchors",
                  "budgets": "points"}  # fmt: skip
        said = [f"{name} {listed([*map(shown, own)])}"
                for name, own, full in self._beside_full(values) if len(own) < len(full)]  # fmt: skip
        if said:
            yield f"Fewer values: {'; '.join(said)}."
        draws = {"selections of the approximation": "selections", "of the LDS": "lds_selections",
                 "seeds of each": "lds_seeds", "trials of the search": "trials"}  # fmt: skip
        said = [f"{name} {own} ({full})" for name, own, full in self._beside_full(draws) if own < full]
        if said:
            yield f"Fewer draws, in brackets those of the full scale: {', '.join(said)}."
        models = {"the items that the paper shows for three models": "few_models",
                  "the approximation": "wide_models", "SCR": "scratch_models",
                  "the number of anchors": "anchor_models"}  # fmt: skip
        gone = {name: [each for each in self.of(full) if each not in own]
                for name, own, full in self._beside_full(models)}  # fmt: skip
        said = [f"{listed(without)} of {name}" for name, without in gone.items() if without]
        if said:
            yield f"Left out: {'; '.join(said)}."

    def _beside_full(self, names: Mapping[str, str]) -> Iterator[tuple[str, Any, Any]]:
        """Name, value here and value at the full scale of the fields with these names."""
        return ((name, getattr(self, key), getattr(_FULL, key)) for name, key in names.items())

    def source(self, name: str) -> DataSource:
        """A data set."""
        return DataSource(name, self.users, negatives=self.negatives)

    def settings(self, model: str, dataset: str, changes: Mapping[str, Any] | None = None) -> Settings:
        """Return how a model is trained; `changes` are settings that differ from the plan's."""
        own = {part: self.overrides[part] for part in BASE if part in self.overrides}
        given = merged(merged(self.profile.base(model, dataset), own), changes or {})
        return Settings.model_validate({"model": model, "tune": Tune.NONE, **given})

    def method(self, way: Way, model: str, dataset: str, **changes: Any) -> Method:
        """Return a method as the paper's tables have it: their reward, loss, game and T."""
        paper = {
            "reward": RewardForm.MEAN,
            "anchors": self.anchors.get(dataset, 3),
            "proactive": {"warm_epochs": 5},
            "scratch": {"selections": THEIR_L, "rounds": THEIR_M if way == SCR else 4},
        }
        paper = merged(paper, self.profile.methods(dataset))
        return _made(way, model, merged(merged(paper, self.overrides), changes))

    def method_of_ours(self, way: Way, model: str) -> Method:
        """Return a method with influence as assent has it by default, for items that the paper lacks."""
        return _made(way, model, merged({"reward": RewardForm.MEAN}, self.overrides))

    def setting(self, way: Way, dataset: str, name: str) -> Any:
        """Return a setting of a method as the paper's tables have it."""
        return self.method(way, self.models[0], dataset).model_dump()[name]

    def changed(self, way: Way | None) -> bool:
        """Whether the user has changed settings that a method reads; for None, any."""
        heads = {setting.partition("=")[0].partition(".")[0] for setting in self.altered}
        return any(
            head in BASE or way is None or method_settings(way[0], {head: {head: 0}}) for head in heads
        )

    def explored(self, dataset: str) -> int:
        """Return how many selections SCR explores, L."""
        return int(self.setting(SCR, dataset, "selections"))

    def of(self, models: Sequence[str]) -> list[str]:
        """Those of the models that are asked for."""
        return [model for model in models if model in self.models]

    def among(self, names: Sequence[str]) -> list[str]:
        """Those of the data sets that are asked for."""
        return [name for name in names if name in self.datasets]


_FULL = Plan()


def _made(way: Way, model: str, given: Mapping[str, Any]) -> Method:
    settings = method_settings(way[0], given) | dict(VARIANTS.get(way, {}))
    if "objective" in METHODS[way[0]].model_fields:
        settings["objective"] = way[1].partition(",")[0]
    return make_method(way[0], model, **settings)


def quick(repeats: int | None = None, profile: Profile = Profile.ASSENT) -> Plan:
    """Everything in half an hour on two cores; the paper's profile trains longer and has fewer users."""
    own = profile is Profile.ASSENT
    table = {} if own else {"table": {"rounds": 2, "samples": 200}}
    return Plan(
        scale=Scale.QUICK,
        profile=profile,
        repeats=repeats or 2,
        users=500 if own else 300,
        anchors=dict.fromkeys(DATASETS, 2),
        prices=(0.1, 1.0),
        numbers_of_anchors=(1, 2, 4),
        selections=3,
        etas=(0.1, 0.3, 0.5),
        points=(0.5, 0.25),
        lds_selections=8,
        lds_seeds=1,
        trials=5,
        few_models=("mf", "lightgcn"),
        wide_models=("mf", "lightgcn"),
        scratch_models=("mf",),
        anchor_models=("mf",),
        overrides={"proactive": {"rounds": 30}, "scratch": {"selections": 20, "rounds": 2}, **table},
    )


def full(repeats: int | None = None, profile: Profile = Profile.ASSENT) -> Plan:
    """All repeats and users."""
    return Plan(repeats=repeats or 10, profile=profile)
