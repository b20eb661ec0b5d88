"""The paper's numbers beside ours, and why some cannot be compared."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from assent.reproduce.paper import CLOSE, RANKING, contradictions, look_up, printed, sizes
from assent.reproduce.plan import CHANCE, DATASETS, MODELS, PAPER_METHODS, SCR, SIMULATION, THEIR_L, Plan
from assent.reproduce.profiles import Profile
from assent.results.records import METHOD, Way
from assent.results.records import name as way_name
from assent.results.table import Amount, Column, Table

KEYS: Mapping[str, str] = {"violation": "wv", "reward_mean": "reward"}
"""What the paper calls figures of the records, where it has another name."""
_UNTRAINED = 0.03
"""How near to ln 2 a loss is that of a model that has learnt nothing."""
USERS_OWN = "Settings of this run are the user's own, not the plan's (see “How it was run”)."
OWN_SETTINGS = "Base models are trained with assent's settings, not the paper's, but for the embedding size."


@dataclass(frozen=True)
class Beside:
    """One number of the paper."""

    labels: Mapping[str, str]
    """Its place, heading by heading."""
    figure: str
    """What it is."""
    paper: float
    paper_error: float | None
    ours: float | None
    """None where it was not measured."""
    error: float | None
    decimals: int
    runs: int | None = None
    """How many repeats ours is the mean of; None where it is no mean."""
    why: Sequence[str] = ()
    """Why the two cannot be compared, in sentences; empty where they can."""
    contradicted: str = ""
    """What else the paper prints that this number cannot be true beside, in a sentence; empty: nothing."""

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's."""
        return None if self.ours is None else self.ours - self.paper


def beside(
    labels: Mapping[str, str],
    column: Column,
    theirs: tuple[float, float | None] | None,
    ours: Amount | None,
    why: Iterable[str],
    contradicted: str = "",
) -> Iterator[Beside]:
    """The paper's number, if it has one, with ours in the same unit, if there is one."""
    if theirs is None:
        return
    ours = ours or Amount(None)
    mean, error = (None if each is None else column.factor * each for each in (ours.mean, ours.error))
    decimals = 3 if column.decimals is None else column.decimals
    figures = *theirs, mean, error, decimals, ours.runs
    yield Beside(labels, column.heading, *figures, tuple(why), contradicted)


def beside_rows(
    plan: Plan,
    table: Table,
    path: str,
    *,
    columns: Sequence[Column] = (),
    datasets: Iterable[str] = DATASETS,
    models: Iterable[str] = MODELS,
    methods: Mapping[str, Way] = PAPER_METHODS,
) -> Iterator[Beside]:
    """The paper's table beside ours, as far as its data sets and models are asked for.

    `path` leads to a row of `numbers`, or to a single one: names with slashes between, where {dataset},
    {model}, {method} and {price} stand for the paper's names. `columns` are those of the table unless given.
    """
    prices = plan.prices if "{price" in path else (None,)
    for dataset, model, price, theirs in product(
        plan.among([*datasets]), plan.of([*models]), prices, methods
    ):
        at = {} if price is None else {"price": price}
        labels = {"data set": dataset, "model": MODELS[model]}
        labels |= {name: f"{value:g}" for name, value in at.items()} | {"method": theirs}
        names = {"dataset": DATASETS[dataset], "model": MODELS[model], "method": theirs}
        place = path.format(**names, **at).split("/")
        row = table.row(dataset=dataset, model=model, **at, **{METHOD: way_name(methods[theirs])})
        for column in columns or table.columns:
            key = KEYS.get(column.key, column.key)
            why = reasons(plan, dataset, method=theirs, figure=key, row=printed(*place))
            found, known = look_up(*place, key) or look_up(*place), contradictions()
            against = known.get((*place, key)) or known.get(tuple(place), "")
            amount = row.amounts[column.key] if row else None
            yield from beside(labels, column, found, amount, why, against)


def reasons(
    plan: Plan, dataset: str, *, method: str, figure: str, row: Mapping[str, float] | None = None
) -> Iterator[str]:
    """Why a number of the paper and ours cannot be held against each other, in sentences.

    `method` is a row of the paper's tables, `figure` a key of `paper.json`, `row` all that the table prints
    in that row at price 1, if that is what it prints.
    """
    yield from plan_reasons(plan, method)
    yield from data_reasons(plan, dataset)
    if plan.profile is Profile.ASSENT and figure in (*RANKING, "reward"):
        yield OWN_SETTINGS
    if dataset == SIMULATION and figure in RANKING:
        yield CHANCE
    if figure == "reward" and plan.profile is not Profile.AUTHORS:
        yield "The code that the authors published takes rewards of test rows; ours are of validation rows."
    if figure == "reward" and dataset == SIMULATION:
        yield "Simulated data carry no preference: rewards tell what is disclosed, not what is learnt."
    if figure == "seconds":
        yield "Other machines and other programs: seconds show orders of magnitude only."
    if method == "Random":
        rate = plan.setting(PAPER_METHODS["Random"], dataset, "rate")
        yield _RANDOM.format(rate=f"{100 * rate:g}")
    if method in _METHOD_REASONS:
        yield _METHOD_REASONS[method]
    if method in ("IFRQE", "IFRQE++"):
        yield _EXACT if plan.profile is Profile.ASSENT else _STEP
    if method == "SCR" and (explored := plan.explored(dataset)) != THEIR_L:
        yield f"SCR explores L = {explored} selections here, {THEIR_L} in the paper."
    if figure == "reward" and row and {"reward", "wv"} <= row.keys():
        loss = -row["reward"] - row["wv"]
        if loss < 0:
            yield "The paper's reward is above −λ · wv, which no loss allows."
        if abs(loss - math.log(2)) < _UNTRAINED:
            yield "The paper's loss here is ln 2, that of an untrained model."


def plan_reasons(plan: Plan, method: str | None = None) -> Iterator[str]:
    """What the user or the scale has changed; for a row of the paper's tables, of what that method reads."""
    if plan.reduced:
        yield "This run is a smaller version of the paper's: compare the order, not the figures."
    if plan.changed({**PAPER_METHODS, "SCR": SCR}.get(method or "")):
        yield USERS_OWN


def data_reasons(plan: Plan, dataset: str) -> Iterator[str]:
    """What differs in the data themselves."""
    if dataset == "steam":
        yield "Other data: the paper cites steam.internet.byu.edu, not the reviews that are read here."
    ours, theirs = plan.sizes.get(dataset), sizes(dataset)
    if plan.reduced or not ours:
        return
    if any(abs(a - b) > CLOSE * b for a, b in zip(ours, theirs, strict=True)):
        have, had = (f"{a:,} users, {b:,} items and {c:,} interactions" for a, b, c in (ours, theirs))
        yield f"Another cut of the data: ours has {have}, the paper's {had}."


_RANDOM = (
    "The paper states no rate of Random, and prints 89 to 100 % of Base's wv for it; ours discloses {rate} % "
    "of the interactions."
)
_EXACT = (
    "The paper's strategies are tables that a sampled gradient moves away from a prior of 0.9; ours are "
    "exact best responses, which withhold whatever does not pay at this price."
)
_STEP = "The paper does not state the step size of Algorithm 3; item “gamma” shows what others give."
_METHOD_REASONS = {
    "Threshold": "The paper says that Threshold withholds unwillingness above 0.5, which leaves 25 % of "
    "Base's wv where unwillingness is uniform; ours does. Its tables print 98 % (Diginetica), 95 % "
    "(simulation) and 90 % (Steam, Amazon), whatever the model but for two rows. The published code has no "
    "Threshold, but a function that withholds at random with the probability `threshold`: 0.02, 0.05 and "
    "0.1 give these shares.",
    "Proactive": "No code of Proactive was published: ours is a re-implementation, with warm starts.",
    "SCR": "No code of SCR was published: ours is a re-implementation.",
}
"""What is not known of the paper's methods, or is not what the paper says of them."""
