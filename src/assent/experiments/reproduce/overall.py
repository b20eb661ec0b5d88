"""Table 1: every model, data set and method at price 1."""

from collections.abc import Iterator, Sequence
from statistics import mean, median
from typing import ClassVar

from assent.experiments.reproduce import method_items as m
from assent.experiments.reproduce import paper
from assent.experiments.reproduce.base import Findings, Item
from assent.experiments.reproduce.cells import Cell, Record
from assent.experiments.reproduce.charts import Chart, Series
from assent.experiments.reproduce.grid import Grid
from assent.experiments.reproduce.means import grid
from assent.experiments.reproduce.plan import OURS, PAPER_METHODS, Plan
from assent.experiments.reproduce.series import METHOD, WAYS, rows_by, series_by
from assent.experiments.reproduce.verdict import verdict
from assent.report.numbers import listed, percent
from assent.report.words import name as way_name

_THEIRS = tuple(paper.DATASETS.values())
"""What the paper calls its data sets."""


class Overall(Item):
    """F1, violation and reward."""

    name: ClassVar[str] = "overall"
    title: ClassVar[str] = "Overall comparison"
    where: ClassVar[str] = "Table 1"
    about: ClassVar[str] = (
        "Every model on every data set at price 1: each method chooses, a model is trained on its choice and "
        "tested. Reward: minus the mean validation loss of a user's samples, minus price · violation."
    )

    def cells(self, plan: Plan) -> list[Cell]:
        """All methods at price 1."""
        return [
            cell
            for dataset in plan.datasets
            for model in plan.models
            for cell in m.price_cells(plan, plan.source(dataset), model, m.ALL_WAYS)
        ]

    def findings(self, plan: Plan, records: Sequence[Record]) -> Findings:
        """The table, quality against violation and rewards as charts, the paper's table beside it."""
        table = grid(
            self.name,
            f"{self.title}, price 1",
            records,
            labels=m.METHOD_LABEL,
            columns=[m.F1, m.VIOLATION, m.REWARD, m.SECONDS],
            reference=m.REFERENCE,
        )
        return Findings(
            [table],
            [*_quality(table), *_rewards(table)],
            m.beside_table(plan, table, "overall"),
            [*verdict(table), *_speed(table), _claims(), table.legend],
        )


def _speed(table: Grid) -> Iterator[str]:
    """How long Proactive takes beside IFRQE++."""
    both = [
        {row.labels[METHOD]: row.amounts["seconds"].mean for row in rows}
        for rows in rows_by(table.rows, "dataset", "model").values()
    ]
    found = [(each.get(way_name(OURS)), each.get(way_name(PAPER_METHODS["Proactive"]))) for each in both]
    ratios = [theirs / ours for ours, theirs in found if ours and theirs]
    if ratios:
        yield (
            f"Proactive, whose trainings go on from the one before, takes {min(ratios):.1f} to "
            f"{max(ratios):.1f} times as long as IFRQE++ (median {median(ratios):.1f}), the final training "
            "included; the paper says 13.5 times, on average."
        )


def _claims() -> str:
    """What the paper's text says of its Table 1, and what that table gives."""
    gains = [mean(_their_gain(model, data, "reward") for model in paper.MODELS.values()) for data in _THEIRS]
    f1 = mean(_their_gain(model, data, "f1") for model in paper.MODELS.values() for data in _THEIRS)
    return (
        "The paper's text says that with IFRQE++ F1 falls by 8.02 percent from the base model's, and that "
        "rewards rise by 12.4, 11.1, 14.6 and 21.3 percent on the simulation, Diginetica, Steam and "
        f"Amazon. Its own Table 1 gives {percent(f1, 1)} for F1 and "
        f"{listed([percent(gain, 1) for gain in gains])} for rewards, in the mean over models."
    )


def _their_gain(model: str, dataset: str, figure: str) -> float:
    """By what share of the base model's the paper's IFRQE++ is above it."""
    rows = paper.numbers()["overall"][model]
    base, ours = (float(rows[method][dataset][figure][0]) for method in ("Base", "IFRQE++"))
    return (ours - base) / abs(base)


def _quality(table: Grid) -> Iterator[Chart]:
    """F1 against violation: a small chart per data set and model, a point per method."""
    for (dataset, model), rows in rows_by(table.rows, "dataset", "model").items():
        yield Chart(
            f"{table.name}-f1-{dataset}-{model}",
            f"{dataset}, {model}",
            "wv, violation of a user's willingness",
            "F1 %",
            [
                Series(WAYS[row.labels[METHOD]], [row.amounts["violation"].mean or 0.0], [row.amounts["f1"]])
                for row in rows
            ],
            100,
            measured=True,
            small=True,
        )


def _rewards(table: Grid) -> list[Chart]:
    """Rewards: the models along the axis, a chart per data set; for one model, the data sets in one chart."""
    models = {row.labels["model"] for row in table.rows}
    if len(models) > 1:
        return m.charts_by_model(table, "reward_mean", "reward")
    series = series_by(table.rows, METHOD, along="dataset", key="reward_mean")
    return [Chart(f"{table.name}-reward_mean", ", ".join(models), "data set", "reward", series)]
