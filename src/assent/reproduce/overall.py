"""Table 1: every model, data set and method at price 1.

Table of the appendix: precision, NDCG and MRR of the overall comparison.

Table of the appendix: rewards at prices 0.1, 0.5, 1 and 2.
"""

from collections.abc import Iterator, Sequence
from statistics import mean, median
from typing import ClassVar

from assent.report.words import listed, percent
from assent.report.words import name as way_name
from assent.reproduce import item as m
from assent.reproduce import paper
from assent.reproduce.beside import Beside, beside, reasons
from assent.reproduce.cells import Cell, Record
from assent.reproduce.charts import METHOD, WAYS, Chart, Series, rows_by, series_by
from assent.reproduce.grid import Grid, grid
from assent.reproduce.item import Findings, Item
from assent.reproduce.plan import OURS, PAPER_METHODS, Plan
from assent.reproduce.verdict import verdict

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


class MoreMetrics(Overall):
    """The cells of Overall, other figures of them."""

    name: ClassVar[str] = "more-metrics"
    title: ClassVar[str] = "Overall comparison, more metrics"
    where: ClassVar[str] = "Appendix, overall comparison with more performance evaluation"
    about: ClassVar[str] = "The models of the overall comparison, judged by precision, NDCG and MRR at 5."

    def findings(self, plan: Plan, records: Sequence[Record]) -> Findings:
        """The table, NDCG as charts, the paper's table beside it."""
        table = grid(
            self.name,
            f"{self.title}, price 1, at 5",
            records,
            labels=m.METHOD_LABEL,
            columns=[m.PRECISION, m.NDCG, m.MRR],
            reference=m.REFERENCE,
        )
        charts = m.charts_by_model(table, "ndcg", "NDCG@5 %", factor=100)
        return Findings([table], charts, m.beside_table(plan, table, "more_metrics"), [table.legend])


class Price(Item):
    """The reward at each price."""

    name: ClassVar[str] = "price"
    title: ClassVar[str] = "Influence of the price"
    where: ClassVar[str] = "Appendix, influence of the balancing parameter λ"
    about: ClassVar[str] = (
        "The overall comparison at several prices of a unit of unwillingness (the paper's λ)."
    )

    def cells(self, plan: Plan) -> list[Cell]:
        """All methods at all prices."""
        return [
            cell
            for dataset in plan.datasets
            for model in plan.of(plan.few_models)
            for cell in m.price_cells(plan, plan.source(dataset), model, m.ALL_WAYS, plan.prices)
        ]

    def findings(self, plan: Plan, records: Sequence[Record]) -> Findings:
        """The table, a chart per data set and model, the paper's table beside it."""
        table = grid(
            self.name,
            self.title,
            records,
            labels={"dataset": "data set", "model": "model", "price": "price", "method_name": "method"},
            columns=[m.REWARD, m.VIOLATION],
            reference=m.REFERENCE,
        )
        charts = m.charts_along(table, "price", "price of a unit of unwillingness", "reward_mean", "reward")
        return Findings([table], charts, list(_beside(plan, table)), [*verdict(table), table.legend])


def _beside(plan: Plan, table: Grid) -> Iterator[Beside]:
    """The paper's rewards at the prices that were asked for."""
    for dataset in plan.datasets:
        for model in plan.of(plan.few_models):
            for price in plan.prices:
                for theirs, way in PAPER_METHODS.items():
                    row = table.row(dataset=dataset, model=model, price=price, method_name=way_name(way))
                    name = paper.MODELS[model]
                    yield from beside(
                        {"data set": dataset, "model": name, "price": f"{price:g}", "method": theirs},
                        m.REWARD,
                        paper.look_up("lambda_reward", f"{price:.1f}", name, theirs, paper.DATASETS[dataset]),
                        row.amounts["reward_mean"] if row else None,
                        [*reasons(plan, dataset, method=theirs, figure="reward")],
                    )
