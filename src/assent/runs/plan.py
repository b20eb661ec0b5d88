"""What a run is asked to do, and all that it depends on."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from typing import Any, Final

from assent.data.problem import Problem
from assent.data.unwillingness import for_the_record
from assent.lab.lab import Lab
from assent.methods import Choice, Method, make_method
from assent.methods.heuristics import All
from assent.methods.worth import WorthMethod
from assent.models import code_of
from assent.results.records import check_price
from assent.runs.compare import parse_methods
from assent.runs.folder import FORMAT, Run
from assent.support.errors import AssentError
from assent.training import Settings

USUAL_BUDGET: Final = 0.5
"""Share of what people mind that a run may disclose where it is asked for nothing else."""
USUAL_PRICE: Final = 0.1
"""Price of the rewards in the records where none is given."""
USUAL_CONFIDENCE: Final = 0.9
"""Chance with which quality is to be kept."""
MOST_SEEDS: Final = 3
"""Most seeds that a live run is judged with where no number is given."""


@dataclass(frozen=True)
class RunPlan:
    """What a run is asked to do.

    Its operating point is a `budget`, a quality to keep, or a `price`; without any, the usual budget.
    """

    method: Method = field(default_factory=WorthMethod)
    """How to choose."""
    price: float | None = None
    """Loss units that one unit of unwillingness is worth, in the decision and in the rewards.

    With a budget or a quality to keep, the price of the decision is found, and this one is of the rewards."""
    budget: float | None = None
    """Share of All's violation to keep within."""
    keep_quality: float | None = None
    """Share of All's quality to keep, with as little violation as that takes."""
    confidence: float = USUAL_CONFIDENCE
    """Chance with which that share is to be reached on other rows."""
    seed: int = 0
    seeds: int | None = None
    """Seeds that quality is measured with; None: one for an experiment, for a live run up to `MOST_SEEDS`."""
    reference: bool = False
    """Whether a live run also measures a model of everything, which uses what people withhold.

    A quality to keep and a comparison at `points` measure one anyway."""
    k: tuple[int, ...] = (5,)
    """Lengths of the lists that metrics are taken of; the report shows the first."""
    unwillingness: str = "column"
    """Where the unwillingness came from; the record keeps no ids of it (`for_the_record`)."""
    rest: str | None = None
    """What stands for unwillingness that nobody gave, one of `RESTS`."""
    closed: float | None = None
    """The limit of unwillingness above which the log was not read."""
    points: tuple[float, ...] = ()
    """Budgets, as shares of All's violation, at which the report compares methods; none: it does not."""
    frontier_seeds: int = 2
    """Number of seeds of that comparison."""
    frontier_methods: tuple[Method, ...] = ()
    """Its methods; none: the usual ones."""
    shards: int | None = None
    """Number of parts that a live run's people are dealt into, each decided on by itself; None: it is not."""

    def __post_init__(self) -> None:
        check_price(self.reward_price)
        if self.budget is not None and self.keep_quality is not None:
            raise AssentError("budget and keep_quality: accepted: one of them")
        for name in ("budget", "keep_quality"):
            if self.method.name == All.name and (given := getattr(self, name)) is not None:
                raise AssentError(f"{name}={given:g}: method all discloses everything; accepted: without it")
        for name in ("budget", "keep_quality", "confidence"):
            given = getattr(self, name)
            if given is not None and not 0 <= given <= 1:
                raise AssentError(f"{name}={given:g}: accepted: a number from 0 to 1")
        if self.confidence in (0, 1):
            raise AssentError(
                f"confidence={self.confidence:g}: accepted: a number between 0 and 1, such as 0.9"
            )
        if self.shards is not None:
            if self.shards < 1:
                raise AssentError(f"shards={self.shards}: accepted: a whole number from 1 on")
            if self.keep_quality is not None or self.points:
                whole = "keep_quality and points compare models of everybody"
                raise AssentError(f"shards={self.shards}: {whole}; accepted: a budget or a price, no points")

    @property
    def within(self) -> float | None:
        """The budget, unless there is a price or a quality to keep instead."""
        if self.budget is None and self.price is None and self.keep_quality is None:
            return USUAL_BUDGET
        return self.budget

    @property
    def reward_price(self) -> float:
        """The price that rewards in the records count."""
        return USUAL_PRICE if self.price is None else self.price

    def decide(self, lab: Lab, budget: float | None, method: Method | None = None) -> Choice:
        """Let the method decide within the budget or, without one, at the price."""
        method = method or self.method
        return method.at_price(lab, self.reward_price) if budget is None else method.within(lab, budget)

    def compared(self, model: str) -> Sequence[Method]:
        """Return the methods that the report compares."""
        return self.frontier_methods or parse_methods(None, model=model)

    def check(self, problem: Problem, model: str) -> None:
        """Refuse budgets and wishes at which a method cannot decide."""
        self.method.check(problem, self.within)
        if problem.judges is not None and self.method.retrains:
            tries = (
                f"{self.method.name} tries decisions out by training, which needs rows that nobody decides on"
            )
            raise AssentError(f"a live run: {tries}; accepted: an experiment")
        for point in self.points:
            for method in self.compared(model):
                method.check(problem, point)


def describe(
    problem: Problem,
    plan: RunPlan,
    settings: Settings,
    live: Problem | None = None,
    calibration: str | None = None,
) -> dict[str, Any]:
    """Return all that a run depends on, as JSON; two equal ones give equal runs.

    `calibration` is the mark of one that is kept from another run.
    """
    method_settings = plan.method.model_dump(mode="json")
    return {
        "format": FORMAT,
        "assent": version("assent"),
        "dataset": problem.name,
        "protocol": problem.protocol,
        "fingerprint": problem.fingerprint(),
        "live": None if live is None else live.fingerprint(),
        "calibration": calibration,
        "method": plan.method.name,
        "objective": plan.method.plays_for,
        "method_settings": {name: value for name, value in method_settings.items() if name != "objective"},
        "price": plan.reward_price,
        "budget": plan.within,
        "keep_quality": plan.keep_quality,
        "confidence": plan.confidence if plan.keep_quality is not None else None,
        "reference": plan.reference,
        "seed": plan.seed,
        "seeds": plan.seeds,
        "k": list(plan.k),
        "split_seed": problem.seed,
        "negatives": problem.valid_candidates.shape[1] - 1,
        "negatives_asked": problem.negatives,
        "unwillingness": for_the_record(plan.unwillingness),
        "rest": plan.rest,
        "closed": plan.closed,
        "wishes": (live or problem).wishes.summary(),
        "shards": plan.shards,
        "frontier_points": list(plan.points),
        "frontier_seeds": [plan.seed + s for s in range(plan.frontier_seeds)] if plan.points else [],
        "frontier_methods": [method.key for method in plan.frontier_methods],
        **settings.model_dump(mode="json"),
        **({"code": code} if (code := code_of(settings.model)) else {}),
    }


def settings_of(run: Run) -> Settings:
    """Return the base settings that a finished run was asked for."""
    asked = {name: run.settings[name] for name in Settings.model_fields}
    return Settings.model_validate(asked | {"model": run.model or run.settings["model"]})


def plan_of(run: Run, **changed: Any) -> RunPlan:
    """Return the plan of a finished run, with what `changed` names instead."""
    said = run.settings
    model, points = run.model or said["model"], tuple(said["frontier_points"])
    method = {"objective": said["objective"]} if said["objective"] else {}
    plan = RunPlan(
        method=make_method(said["method"], model, **method, **said["method_settings"]),
        price=said["price"],
        budget=None if said["method"] == All.name else said["budget"],
        keep_quality=said["keep_quality"],
        confidence=said["confidence"] or USUAL_CONFIDENCE,
        seed=said["seed"],
        seeds=said["seeds"],
        reference=said["reference"],
        k=tuple(said["k"]),
        unwillingness=said["unwillingness"],
        rest=said["rest"],
        closed=said["closed"],
        points=points,
        frontier_seeds=len(said["frontier_seeds"]) or RunPlan.frontier_seeds,
        frontier_methods=tuple(
            make_method(each["method"], model, **{name: each[name] for name in each if name != "method"})
            for each in said["frontier_methods"]
        ),
        shards=said["shards"],
    )
    return replace(plan, **changed)
