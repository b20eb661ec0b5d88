"""An item of a reproduction: a table or figure, described by what differs from item to item.

`Item.cells` says which records it needs, `Item.chapter` what they show. Items that compare methods share
their tasks, columns and sentences.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from statistics import median
from typing import Any

from assent.evaluation.evaluate import HeldOut
from assent.lab.lab import Lab, Task
from assent.lab.store import Found, Key
from assent.reproduce.beside import Beside
from assent.reproduce.plan import (
    CHANCE,
    DATASETS,
    NULLS,
    OURS,
    PAPER_METHODS,
    SIMULATION,
    DataSource,
    Plan,
)
from assent.reproduce.profiles import Profile
from assent.results.comparison import sentences
from assent.results.plot import Chart
from assent.results.records import ALL, METHOD, NOTHING, Flat, Way
from assent.results.records import name as way_name
from assent.results.table import Column, Table, rows_by, shown, tabulate
from assent.results.words import plural, share
from assent.runs.measure import Cell as MethodCell
from assent.training import Settings

NO_FIGURE = "The paper has no such figure."
PICTURE_ONLY = "The paper shows this as a picture, without numbers to put beside ours."
REWARD = Column("reward_mean", "reward", decimals=3, better=1)
VIOLATION = Column("violation", "wv", decimals=3)
F1 = Column("f1", "F1@5 %", 100, better=1)
PRECISION = Column("precision", "Precision@5 %", 100, better=1)
NDCG = Column("ndcg", "NDCG@5 %", 100, better=1)
MRR = Column("mrr", "MRR@5 %", 100, better=1)
SECONDS = Column("seconds", "seconds", decimals=1)
TRAININGS = Column("trainings", "trainings", decimals=0)
PLACE = {"dataset": "data set", "model": "model"}
METHOD_LABEL = {**PLACE, METHOD: "method"}
REFERENCE = {METHOD: way_name(OURS)}
ALL_WAYS: Sequence[Way] = (*PAPER_METHODS.values(), *NULLS, NOTHING)
CHEAP_WAYS: Sequence[Way] = tuple(way for way in ALL_WAYS if way[0] != "proactive")
"""Those that train no model for everything they try."""

Labels = Mapping[str, Any]
Kind = tuple[str, ...]
"""What is measured first, then where: the longer a beginning two kinds share, the more they are alike."""
Only = Mapping[str, Sequence[str]]
"""Which cells are wanted: patterns by name, as in file names. A cell fits if it fits one pattern of each."""
Block = Sequence[tuple[Task, Labels]]
"""Tasks of one repeat, each with the labels of its record."""


@dataclass(frozen=True)
class Cell:
    """One record that an item needs: a task, where it is run, and what the item calls its record.

    Cells of the same source, settings, seed and task are the same, whatever their labels: items share them.
    """

    source: DataSource
    settings: Settings
    seed: int
    task: Task
    labels: Labels = field(default_factory=dict)
    alone: bool = False
    """Whether it shares nothing with others and is better computed beside them."""

    @property
    def kind(self) -> Kind:
        """What it takes about as long as."""
        what = f"{type(self.task).__name__} {self.labels.get('method_name', '')}"
        return what, self.source.name, self.settings.model

    @property
    def label(self) -> str:
        """What it is called where it fails."""
        labels = dict.fromkeys([*map(str, self.labels.values()), self.settings.model])
        return f"{', '.join(labels)}, repeat {self.seed + 1}"

    @property
    def place(self) -> dict[str, str]:
        """What tells it from the other cells of its item, as text: labels, price, model and repeat."""
        price = getattr(self.task, "price", None)
        priced = {} if price is None else {"price": price}
        return as_place({**priced, "model": self.settings.model, **self.labels, "seed": self.seed})

    def fits(self, only: Only) -> bool:
        """Return whether it has every name of a wish, with one of that name's patterns."""
        place = self.place
        return all(
            name in place and any(fnmatchcase(place[name], pattern) for pattern in patterns)
            for name, patterns in only.items()
        )

    def key(self, lab: Lab) -> Key:
        """Return the key of its task."""
        return self.task.key(lab)

    def run(self, lab: Lab) -> Found:
        """Do its task."""
        return self.task.run(lab)


def as_place(labels: Labels) -> dict[str, str]:
    """Return labels of a cell or of its record as text, with the names that people call them by."""
    found = {name: value for name, value in labels.items() if name not in (METHOD, "seed")}
    found |= {"method": labels[METHOD]} if METHOD in labels else {}
    return {name: shown(value) for name, value in {**found, "repeat": labels["seed"] + 1}.items()}


@dataclass(frozen=True)
class Chapter:
    """What an item has to show."""

    item: "Item"
    records: Sequence[Flat]
    wanted: int
    """Records that it has when all is done."""
    table: Table
    charts: Sequence[Chart] = ()
    beside: Sequence[Beside] = ()
    """The paper's numbers beside ours."""
    said: Sequence[str] = ()
    """What follows, in sentences."""


def _nothing(*_: object) -> tuple[()]:
    return ()


@dataclass(frozen=True)
class Item:
    """A table or figure of the paper, or one of ours."""

    name: str
    """What the command line calls it."""
    title: str
    where: str
    """Where the paper has it, or that it is ours."""
    about: str
    """How it is measured, in a sentence or two."""
    labels: Mapping[str, str]
    """Of its table: keys of the records, with their headings."""
    columns: Sequence[Column]
    blocks: Callable[[Plan, str, str], Iterable[Block]]
    """The tasks for a model and a data set; the repeats of a block come one after the other."""
    models: str = "one_model"
    """The field of the plan that has its models."""
    datasets: Sequence[str] = tuple(DATASETS)
    variants: Callable[[Plan, DataSource], Iterable[tuple[DataSource, Labels]]] = lambda _, source: [
        (source, {})
    ]
    """The forms in which it looks at a data set, each with the labels of its records."""
    alters: Callable[[Labels], Mapping[str, Any]] = lambda _: {}
    """Settings of the base model that the records with these labels have instead of the plan's."""
    profiles: Collection[Profile] = tuple(Profile)
    """The profiles that have it."""
    repeats: int | None = None
    """Largest number of repeats; None: as many as the plan has."""
    alone: bool = False
    """Whether its cells share nothing with others and are better computed beside them."""
    last: bool = False
    """Whether its cells are computed after all others, because they take longest."""
    subtitle: str = ""
    """Added to the title of the table; may have fields of the plan in braces."""
    reference: Callable[[Plan], Labels | None] = lambda _: None
    """Labels of the rows that the others are tested against."""
    lines: Callable[[Sequence[Flat]], Iterable[Flat]] = list
    """Turns the records of the cells into those of the table."""
    charts: Callable[[Table], Sequence[Chart]] = _nothing
    beside: Callable[[Plan, Table], Iterable[Beside]] = _nothing
    said: Callable[[Plan, Table, Sequence[Flat]], Iterable[str]] = _nothing
    """Sentences on the table and the records; the legend of the table follows."""
    not_comparable: str = ""
    """Why there are no numbers of the paper to compare with, where there are none."""

    def cells(self, plan: Plan) -> list[Cell]:
        """The records that it needs."""
        return [
            Cell(
                variant,
                plan.settings(model, name, self.alters(own)),
                seed,
                task,
                {"dataset": name, **own, **labels},
                self.alone,
            )
            for name in plan.among(self.datasets)
            for variant, labels in self.variants(plan, plan.source(name))
            for model in plan.of(getattr(plan, self.models))
            for block in self.blocks(plan, model, name)
            for seed in range(plan.repeats)[: self.repeats]
            for task, own in block
        ]

    def chapter(self, plan: Plan, records: Sequence[Flat], wanted: int) -> Chapter:
        """What the records of these cells say; some of the `wanted` ones may be missing."""
        table = tabulate(
            [*self.lines(records)],
            self.labels,
            self.columns,
            reference=self.reference(plan),
            name=self.name,
            title=self.title + self.subtitle.format(plan=plan),
        )
        said = [*self.said(plan, table, records), table.legend]
        beside = [*self.beside(plan, table)]
        return Chapter(self, records, wanted, table, self.charts(table), beside, said)


def at_prices(
    plan: Plan,
    model: str,
    dataset: str,
    ways: Iterable[Way],
    prices: Iterable[float] = (1.0,),
    *,
    labels: Labels | None = None,
    rewards_on: HeldOut | None = None,
    **changes: Any,
) -> Block:
    """Every method at every price; `changes` are settings of the methods.

    Rewards count the losses of the rows `rewards_on`, by default those of the profile.
    """
    methods = [(plan.method(way, model, dataset, **changes), way_name(way)) for way in ways]
    rows = rewards_on or plan.profile.rewards_on
    return [
        (MethodCell(method, price, rewards_on=rows), {METHOD: name, **(labels or {})})
        for price in prices
        for method, name in methods
    ]


def chance(plan: Plan, *_: object) -> list[str]:
    """That simulated data rank at chance, where there are any."""
    return [CHANCE] if SIMULATION in plan.datasets else []


def without_influence(table: Table, figure: str = REWARD.key) -> Iterator[str]:
    """Where a figure of IFRQE++, the reference of the table, is not better than without influence."""
    nulls = {name: [] for name in map(way_name, NULLS)}  # type: dict[str, list[str]]
    places = dict.fromkeys(nulls, 0)
    for row in table.rows:
        null, amount = row.labels[METHOD], row.amounts[figure]
        if null in nulls and amount.difference is not None:
            places[null] += 1
            if amount.difference >= 0 or (amount.p is not None and not amount.sign):
                nulls[null].append(", ".join(str(row.labels[key]) for key in table.labels if key != METHOD))
    for null, level in nulls.items():
        if level:
            yield (
                f"{way_name(OURS)} is not better than {null} at {len(level)} of "
                f"{plural(places[null], 'place')}: no gain from influence is shown there "
                f"({'; '.join(level)})."
            )


def nulls_of(records: Sequence[Flat], labels: Mapping[str, str], column: Column = REWARD) -> Iterator[str]:
    """Where IFRQE++ is not better than its nulls, of records that a table shows against another reference."""
    own = [record for record in records if METHOD in record]
    yield from without_influence(tabulate(own, labels, [column], reference=REFERENCE), column.key)


_FLAT = 0.02
"""Share by which All's loss has to be below Nothing's, for disclosing to be able to pay."""


def verdict(table: Table) -> Iterator[str]:
    """How often IFRQE++ has the larger reward, where Nothing wins, and how much IFRQE++ discloses."""
    yield from sentences(table, REWARD.key)
    places = [
        {row.labels[METHOD]: row for row in rows if row.amounts[REWARD.key].mean is not None}
        for rows in rows_by(table.rows, *(label for label in table.labels if label != METHOD)).values()
    ]
    yield from without_influence(table)
    ours, everything, nothing = (way_name(way) for way in (OURS, ALL, NOTHING))
    shares, flat, both = [], 0, 0
    for place in places:
        violation = {method: row.amounts[VIOLATION.key].mean or 0.0 for method, row in place.items()}
        if ours in place and violation.get(everything):
            shares.append(violation[ours] / violation[everything])
        if {everything, nothing} <= place.keys():
            price = place[everything].labels.get("price", 1.0)
            losses = {
                method: -(row.amounts[REWARD.key].mean or 0.0) - price * violation[method]
                for method, row in place.items()
            }
            both += 1
            flat += losses[everything] > (1 - _FLAT) * losses[nothing]
    if shares:
        least, middle, most = (share(of(shares)) for of in (min, median, max))
        spread = least if least == most else f"{least} to {most} (median {middle})"
        yield f"{ours} discloses {spread} of All's violation."
    if flat:
        yield (
            f"In {flat} of {plural(both, 'place')} the mean loss of All is within {_FLAT:.0%} of Nothing's, "
            "which is ln 2 for every user with validation rows: scores stay near 0. There next to nothing "
            "can pay in this reward, whatever a ranking gains."
        )
