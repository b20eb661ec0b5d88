"""The methods on simulated data: with unwillingness of different character, and of different sparsity."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from assent.reproduce import item as m
from assent.reproduce import paper
from assent.reproduce.cells import Cell
from assent.reproduce.item import Findings, Item
from assent.reproduce.paper import Beside, beside, plan_reasons
from assent.reproduce.plan import SIMULATION, DataSource, Plan, Where, problem_of
from assent.results.plot import charts
from assent.results.records import METHOD, Flat
from assent.results.table import Amount, Column


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
    labels: ClassVar[Mapping[str, str]] = {**m.PLACE, "setting": "setting", METHOD: "method"}
    columns: ClassVar[Sequence[Column]] = (m.REWARD, m.VIOLATION)

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

    def findings(self, plan: Plan, records: Sequence[Flat]) -> Findings:
        """The table and a chart per model."""
        table = self.table(records, ", price 1", m.REFERENCE)
        pictures = charts(
            table, "dataset", "model", along="setting", x="setting of (a1, a2, a3)", y="reward",
            figures="reward_mean",
        )  # fmt: skip
        said = [*m.verdict(table), table.legend]
        return Findings(table, pictures, said=said, not_comparable=m.PICTURE_ONLY)


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
    labels: ClassVar[Mapping[str, str]] = {**m.PLACE, "eta": "η", METHOD: "method"}
    columns: ClassVar[Sequence[Column]] = (m.REWARD, m.VIOLATION)

    def cells(self, plan: Plan) -> list[Cell]:
        """The methods at each η."""
        return [
            cell
            for eta in plan.etas
            for model in plan.of(plan.few_models)
            if SIMULATION in plan.datasets
            for cell in m.price_cells(plan, _source(plan, eta), model, m.CHEAP_WAYS, labels={"eta": eta})
        ]

    def findings(self, plan: Plan, records: Sequence[Flat]) -> Findings:
        """The table, a chart per model, numbers of interactions beside the paper's."""
        table = self.table(records, ", price 1", m.REFERENCE)
        pictures = charts(table, "dataset", "model", along="eta", x="η", y="reward", figures="reward_mean")
        return Findings(table, pictures, [*_beside(plan)], [*m.verdict(table), table.legend])


def _source(plan: Plan, eta: float) -> DataSource:
    return replace(plan.source(SIMULATION), eta=eta)


def _beside(plan: Plan) -> Iterator[Beside]:
    """How many interactions the simulation has."""
    for eta in plan.etas:
        problem = problem_of(_source(plan, eta), 0, Where())
        rows = sum(map(len, (problem.train, problem.valid, problem.test)))
        theirs = paper.look_up("simulation_interactions_by_eta", f"{eta:g}")
        why = list(plan_reasons(plan)) if plan.reduced else []
        yield from beside({"η": f"{eta:g}"}, INTERACTIONS, theirs, Amount(float(rows), None), why)
