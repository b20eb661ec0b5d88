"""Table of the appendix: training from scratch for everything that is tried (SCR), against IFRQE++."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import mean, median
from typing import ClassVar

from assent.reproduce import item as m
from assent.reproduce import paper
from assent.reproduce.cells import Cell
from assent.reproduce.item import Findings, Item
from assent.reproduce.paper import Beside, beside_row
from assent.reproduce.plan import OURS, SCR, THEIR_SELECTIONS, Plan
from assent.results.plot import charts
from assent.results.records import Flat
from assent.results.records import name as way_name
from assent.results.table import Column, Table

_DATASETS = ("diginetica", "amazon-video-games")
"""Those of the paper's table."""


class Scratch(Item):
    """Quality, reward and seconds of both."""

    name: ClassVar[str] = "scratch"
    title: ClassVar[str] = "Training from scratch (SCR)"
    where: ClassVar[str] = "Appendix, comparison with the method of “training from scratch”"
    about: ClassVar[str] = (
        "SCR, a re-implementation, plays for the same rewards with a model trained on every joint selection "
        "that it explores. Seconds count all that a choice rests on, and the final training."
    )
    last: ClassVar[bool] = True
    labels: ClassVar[Mapping[str, str]] = m.METHOD_LABEL
    columns: ClassVar[Sequence[Column]] = (
        m.PRECISION, m.NDCG, m.MRR, m.F1, m.VIOLATION, m.REWARD, m.SECONDS, m.TRAININGS,
    )  # fmt: skip

    def cells(self, plan: Plan) -> list[Cell]:
        """Both methods at price 1."""
        return [
            cell
            for dataset in plan.among(_DATASETS)
            for model in plan.of(plan.scratch_models)
            for cell in m.price_cells(plan, plan.source(dataset), model, (SCR, OURS))
        ]

    def findings(self, plan: Plan, records: Sequence[Flat]) -> Findings:
        """The table, the paper's beside it, and how many times faster."""
        table = self.table(records, ", price 1", m.REFERENCE)
        pictures = charts(
            table, "dataset", along="model", x="model", y="seconds", figures="seconds",
            prefix=f"{self.name}-seconds", logarithmic=True,
        )  # fmt: skip
        return Findings(table, pictures, [*_beside(plan, table)], [*_speeds(plan, table), table.legend])


def _speeds(plan: Plan, table: Table) -> Iterator[str]:
    """How many times faster IFRQE++ is, here and by the seconds that the paper prints."""
    for row in table.rows:
        dataset, model = row.labels["dataset"], row.labels["model"]
        rival = table.row(dataset=dataset, model=model, method_name=way_name(OURS))
        ours = rival and rival.amounts["seconds"].mean
        scratch = row.amounts["seconds"].mean
        if row.labels["method_name"] == way_name(SCR) and ours and scratch:
            yield (
                f"{dataset}, {model}: IFRQE++ is {scratch / ours:.0f} times as fast as SCR with "
                f"L = {plan.explored(dataset)} (the paper's seconds, L = {THEIR_SELECTIONS}: "
                f"{_their_ratio(dataset, model):.0f} times)."
            )
    ratios = [_their_ratio(dataset, model) for dataset in _DATASETS for model in paper.MODELS]
    yield (
        "The paper's text says “about 20.3 times”, which its own seconds do not give: their ratios go from "
        f"{min(ratios):.0f} to {max(ratios):,.0f}, with median {median(ratios):.0f} and mean "
        f"{mean(ratios):.0f}."
    )


def _their_ratio(dataset: str, model: str) -> float:
    """Seconds of SCR over those of IFRQE++ in the paper's table."""
    rows = paper.numbers()["scratch"][paper.DATASETS[dataset]][paper.MODELS[model]]
    return float(rows["SCR"]["seconds"] / rows["IFRQE++"]["seconds"])


def _beside(plan: Plan, table: Table) -> Iterator[Beside]:
    for dataset in plan.among(_DATASETS):
        for model, their_model in paper.MODELS.items():
            for theirs, way in (("SCR", SCR), ("IFRQE++", OURS)):
                labels = {"data set": dataset, "model": their_model, "method": theirs}
                row = table.row(dataset=dataset, model=model, method_name=way_name(way))
                path = ("scratch", paper.DATASETS[dataset], their_model, theirs)
                yield from beside_row(plan, dataset, labels, table.columns, row, *path)
