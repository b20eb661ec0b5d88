"""Figure of the appendix: the methods on simulated data of different sparsity."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

from assent.experiments.reproduce import method_items as m
from assent.experiments.reproduce import paper
from assent.experiments.reproduce.base import Findings, Item
from assent.experiments.reproduce.beside import Beside, beside, plan_reasons
from assent.experiments.reproduce.cells import Cell, Record
from assent.experiments.reproduce.grid import Amount, Column
from assent.experiments.reproduce.means import grid
from assent.experiments.reproduce.plan import Plan
from assent.experiments.reproduce.sources import SIMULATION, Source, Where, problem_of
from assent.experiments.reproduce.verdict import verdict

INTERACTIONS = Column("interactions", "interactions", decimals=0)


class Sparsity(Item):
    """η from 0.1 to 0.5."""

    name: ClassVar[str] = "sparsity"
    title: ClassVar[str] = "Sparsity of the data"
    where: ClassVar[str] = "Appendix, influence of the data sparsity"
    about: ClassVar[str] = (
        "The simulation with thresholds η: the larger, the fewer interactions. Price 1. Without "
        "Proactive, which trains for everything it tries. The paper prints the numbers of interactions, the "
        "rewards are a picture."
    )

    def cells(self, plan: Plan) -> list[Cell]:
        """The methods at each η."""
        return [
            cell
            for eta in plan.etas
            for model in plan.of(plan.few_models)
            if SIMULATION in plan.datasets
            for cell in m.price_cells(plan, _source(plan, eta), model, m.CHEAP_WAYS, labels={"eta": eta})
        ]

    def findings(self, plan: Plan, records: Sequence[Record]) -> Findings:
        """The table, a chart per model, numbers of interactions beside the paper's."""
        table = grid(
            self.name,
            f"{self.title}, price 1",
            records,
            labels={"dataset": "data set", "model": "model", "eta": "η", "method_name": "method"},
            columns=[m.REWARD, m.VIOLATION],
            reference=m.REFERENCE,
        )
        charts = m.charts_along(table, "eta", "η", "reward_mean", "reward")
        return Findings([table], charts, list(_beside(plan)), [*verdict(table), table.legend])


def _source(plan: Plan, eta: float) -> Source:
    return replace(plan.source(SIMULATION), eta=eta)


def _beside(plan: Plan) -> Iterator[Beside]:
    """How many interactions the simulation has."""
    for eta in plan.etas:
        problem = problem_of(_source(plan, eta), 0, Where())
        rows = sum(map(len, (problem.train, problem.valid, problem.test)))
        theirs = paper.look_up("simulation_interactions_by_eta", f"{eta:g}")
        why = list(plan_reasons(plan)) if plan.reduced else []
        yield from beside({"η": f"{eta:g}"}, INTERACTIONS, theirs, Amount(float(rows), None), why)
