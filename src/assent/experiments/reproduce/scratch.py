"""Table of the appendix: training from scratch for everything that is tried (SCR), against IFRQE++."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

from assent.experiments.reproduce import method_items as m
from assent.experiments.reproduce import paper
from assent.experiments.reproduce.base import Findings, Item
from assent.experiments.reproduce.beside import Beside, beside, reasons
from assent.experiments.reproduce.cells import Cell, Record
from assent.experiments.reproduce.grid import Grid, grid
from assent.experiments.reproduce.plan import OURS, THEIR_SELECTIONS, Plan
from assent.report.words import name as way_name


class Scratch(Item):
    """Quality, reward and seconds of both."""

    name: ClassVar[str] = "scratch"
    title: ClassVar[str] = "Training from scratch (SCR)"
    where: ClassVar[str] = "Appendix, comparison with the method of “training from scratch”"
    about: ClassVar[str] = (
        "SCR, a re-implementation, plays for the same rewards with a model trained on every joint selection "
        "that it explores. Seconds count all that a choice rests on, and the final training."
    )

    def cells(self, plan: Plan) -> list[Cell]:
        """Both methods at price 1."""
        return [
            cell
            for dataset in plan.among(("diginetica", "amazon-video-games"))
            for model in plan.of(plan.scratch_models)
            for cell in m.price_cells(plan, plan.source(dataset), model, (m.SCR, OURS))
        ]

    def findings(self, plan: Plan, records: Sequence[Record]) -> Findings:
        """The table, the paper's beside it, and how many times faster."""
        table = grid(
            self.name,
            f"{self.title}, price 1, {plan.repeats} repeats",
            records,
            labels=m.METHOD_LABEL,
            columns=[m.PRECISION, m.NDCG, m.MRR, m.F1, m.VIOLATION, m.REWARD, m.SECONDS, m.TRAININGS],
            reference=m.REFERENCE,
        )
        charts = m.charts_by_model(table, "seconds", "seconds")
        return Findings([table], charts, list(_beside(plan, table)), [*_speeds(plan, table), m.PAIRED])


def _speeds(plan: Plan, table: Grid) -> Iterator[str]:
    for row in table.rows:
        rival = table.row(**{**row.labels, "method_name": way_name(OURS)})
        ours = rival and rival.amounts["seconds"].mean
        theirs = row.amounts["seconds"].mean
        if row.labels["method_name"] == way_name(m.SCR) and ours and theirs:
            place = f"{row.labels['dataset']}, {row.labels['model']}"
            explored = plan.explored(row.labels["dataset"])
            same = explored == THEIR_SELECTIONS
            beside = "the paper: 20 on average" if same else f"with L = {explored}"
            yield f"{place}: IFRQE++ is {theirs / ours:.0f} times as fast as SCR ({beside})."


def _beside(plan: Plan, table: Grid) -> Iterator[Beside]:
    for dataset in plan.among(("diginetica", "amazon-video-games")):
        for model, their_model in paper.MODELS.items():
            for theirs, way in (("SCR", m.SCR), ("IFRQE++", OURS)):
                row = table.row(dataset=dataset, model=model, method_name=way_name(way))
                printed = paper.printed("scratch", paper.DATASETS[dataset], their_model, theirs)
                for column in table.columns:
                    key = m.PAPER_KEYS.get(column.key, column.key)
                    yield from beside(
                        {"data set": dataset, "model": their_model, "method": theirs},
                        column,
                        paper.look_up("scratch", paper.DATASETS[dataset], their_model, theirs, key),
                        row.amounts[column.key] if row else None,
                        [*reasons(plan, dataset, method=theirs, figure=key, row=printed)],
                    )
