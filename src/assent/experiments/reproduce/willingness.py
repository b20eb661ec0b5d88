"""Figure: the methods on simulated data with differently characterised unwillingness."""

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from assent.experiments.reproduce import method_items as m
from assent.experiments.reproduce import paper
from assent.experiments.reproduce.base import Findings, Item
from assent.experiments.reproduce.cells import Cell, Record
from assent.experiments.reproduce.means import grid
from assent.experiments.reproduce.plan import Plan
from assent.experiments.reproduce.sources import SIMULATION
from assent.experiments.reproduce.verdict import verdict


class Willingness(Item):
    """Settings A to D of (a1, a2, a3)."""

    name: ClassVar[str] = "willingness"
    title: ClassVar[str] = "Characters of unwillingness"
    where: ClassVar[str] = "Figure 3"
    about: ClassVar[str] = (
        "The simulation with unwillingness σ(s · g + b), s uniform on [a1, a2] and b normal with spread a3: "
        "A = (0.6, 2, 1.2), B = (0.4, 2, 0.8), C = (0.6, 1, 1.5), D = (0.5, 1, 1). Price 1. Without "
        "Proactive, which trains for everything it tries."
    )

    def cells(self, plan: Plan) -> list[Cell]:
        """The methods under each setting."""
        found = []
        for setting, (low, high, spread) in paper.numbers()["willingness_settings"].items():
            if setting == "default" or SIMULATION not in plan.datasets:
                continue
            source = replace(plan.source(SIMULATION), sensitivity=(float(low), float(high), float(spread)))
            for model in plan.of(plan.few_models):
                found += m.price_cells(plan, source, model, m.CHEAP_WAYS, labels={"setting": setting})
        return found

    def findings(self, plan: Plan, records: Sequence[Record]) -> Findings:
        """The table and a chart per model."""
        table = grid(
            self.name,
            f"{self.title}, price 1",
            records,
            labels={"dataset": "data set", "model": "model", "setting": "setting", "method_name": "method"},
            columns=[m.REWARD, m.VIOLATION],
            reference=m.REFERENCE,
        )
        charts = m.charts_along(table, "setting", "setting of (a1, a2, a3)", "reward_mean", "reward")
        why = "The paper shows this as a picture, without numbers to put beside ours."
        return Findings([table], charts, said=[*verdict(table), table.legend], not_comparable=why)
