"""An item: a table or figure, the cells that it is made of, and what it says."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from assent.experiments.reproduce.beside import Beside
from assent.experiments.reproduce.cells import Cell, Record
from assent.experiments.reproduce.charts import Chart
from assent.experiments.reproduce.grid import Grid
from assent.experiments.reproduce.plan import Plan


@dataclass(frozen=True)
class Findings:
    """What an item has to show."""

    grids: Sequence[Grid]
    """Its tables."""
    charts: Sequence[Chart] = ()
    beside: Sequence[Beside] = ()
    """The paper's numbers beside ours."""
    said: Sequence[str] = ()
    """What follows, in sentences."""
    not_comparable: str = field(default="")
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

    @abstractmethod
    def cells(self, plan: Plan) -> list[Cell]:
        """The records that it needs."""

    @abstractmethod
    def findings(self, plan: Plan, records: Sequence[Record]) -> Findings:
        """What the records of these cells say; some may be missing, with their data set."""
