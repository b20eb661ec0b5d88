"""An item of a reproduction: a table or figure, the cells that it is made of, and what it says.

Items that compare methods share their cells, columns, labels and sentences.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, ClassVar

from assent.reproduce.cells import Cell
from assent.reproduce.paper import Beside
from assent.reproduce.plan import NOTHING, OURS, PAPER_METHODS, DataSource, Plan
from assent.results.comparison import sentences
from assent.results.plot import Chart
from assent.results.records import ALL, METHOD, Flat, Way
from assent.results.records import name as way_name
from assent.results.table import Column, Table, rows_by, tabulate
from assent.results.words import plural, share
from assent.runs.measure import Cell as MethodCell

NO_FIGURE = "The paper has no such figure."
PICTURE_ONLY = "The paper shows this as a picture, without numbers to put beside ours."


@dataclass(frozen=True)
class Findings:
    """What an item has to show."""

    table: Table
    charts: Sequence[Chart] = ()
    beside: Sequence[Beside] = ()
    """The paper's numbers beside ours."""
    said: Sequence[str] = ()
    """What follows, in sentences."""
    not_comparable: str = ""
    """Why there are no numbers of the paper to compare with, where there are none."""


class Item(ABC):
    """A table or figure of the paper, or one of ours; a subclass is a file and an entry of the registry."""

    name: ClassVar[str]
    """What the command line calls it."""
    title: ClassVar[str]
    where: ClassVar[str]
    """Where the paper has it, or that it is ours."""
    about: ClassVar[str]
    """How it is measured, in a sentence or two."""
    last: ClassVar[bool] = False
    """Whether its cells are computed after all others, because they take longest."""
    labels: ClassVar[Mapping[str, str]]
    """Of its table: keys of the records, with their headings."""
    columns: ClassVar[Sequence[Column]]

    @abstractmethod
    def cells(self, plan: Plan) -> list[Cell]:
        """The records that it needs."""

    @abstractmethod
    def findings(self, plan: Plan, records: Sequence[Flat]) -> Findings:
        """What the records of these cells say; some may be missing, with their data set."""

    def table(
        self, records: Sequence[Flat], more: str = "", reference: Mapping[str, Any] | None = None
    ) -> Table:
        """Its table; `more` is added to the title."""
        title = f"{self.title}{more}"
        return tabulate(records, self.labels, self.columns, reference=reference, name=self.name, title=title)


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
ALL_WAYS: Sequence[Way] = (*PAPER_METHODS.values(), NOTHING)
CHEAP_WAYS: Sequence[Way] = tuple(way for way in ALL_WAYS if way[0] != "proactive")
"""Those that train no model for everything they try."""


def price_cells(
    plan: Plan,
    source: DataSource,
    model: str,
    ways: Iterable[Way],
    prices: Iterable[float] = (1.0,),
    *,
    labels: Mapping[str, Any] | None = None,
    **changes: Any,
) -> list[Cell]:
    """Every method at every price in every repeat."""
    settings = plan.settings(model)
    return [
        Cell(
            source,
            settings,
            seed,
            MethodCell(plan.method(way, model, source.name, **changes), price),
            {"dataset": source.name, METHOD: way_name(way), **(labels or {})},
        )
        for seed in plan.seeds
        for price in prices
        for way in ways
    ]


_FLAT = 0.02
"""Share by which All's loss has to be below Nothing's, for disclosing to be able to pay."""


def verdict(table: Table) -> Iterator[str]:
    """How often IFRQE++ has the larger reward, where Nothing wins, and how much IFRQE++ discloses."""
    yield from sentences(table, REWARD.key)
    places = [
        {row.labels[METHOD]: row for row in rows if row.amounts[REWARD.key].mean is not None}
        for rows in rows_by(table.rows, *(label for label in table.labels if label != METHOD)).values()
    ]
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
