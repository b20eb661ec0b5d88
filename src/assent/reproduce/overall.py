"""The overall comparison: Table 1, its further metrics, and its rewards at several prices."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import mean, median
from typing import ClassVar

from assent.reproduce import item as m
from assent.reproduce import paper
from assent.reproduce.cells import Cell
from assent.reproduce.item import Findings, Item
from assent.reproduce.paper import Beside, beside, beside_row, reasons
from assent.reproduce.plan import OURS, PAPER_METHODS, Plan
from assent.results.plot import Chart, Series, charts
from assent.results.records import METHOD, WAYS, Flat
from assent.results.records import name as way_name
from assent.results.table import Column, Table, rows_by
from assent.results.words import listed, percent

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
    labels: ClassVar[Mapping[str, str]] = m.METHOD_LABEL
    columns: ClassVar[Sequence[Column]] = (m.F1, m.VIOLATION, m.REWARD, m.SECONDS)

    def cells(self, plan: Plan) -> list[Cell]:
        """All methods at price 1."""
        return [
            cell
            for dataset in plan.datasets
            for model in plan.models
            for cell in m.price_cells(plan, plan.source(dataset), model, m.ALL_WAYS)
        ]

    def findings(self, plan: Plan, records: Sequence[Flat]) -> Findings:
        """The table, quality against violation and rewards as charts, the paper's table beside it."""
        table = self.table(records, ", price 1", m.REFERENCE)
        said = [*m.verdict(table), *_speed(table), _claims(), table.legend]
        pictures = [*_quality(table), *_rewards(table)]
        return Findings(table, pictures, [*_beside_all(plan, table, "overall")], said)


def _beside_all(plan: Plan, table: Table, section: str) -> Iterator[Beside]:
    """The table beside the paper's, of all its models and methods: `section` of its numbers."""
    for dataset in plan.datasets:
        for model, their_model in paper.MODELS.items():
            for theirs, way in PAPER_METHODS.items():
                labels = {"data set": dataset, "model": their_model, "method": theirs}
                row = table.row(dataset=dataset, model=model, method_name=way_name(way))
                path = (section, their_model, theirs, paper.DATASETS[dataset])
                yield from beside_row(plan, dataset, labels, table.columns, row, *path)


def _speed(table: Table) -> Iterator[str]:
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


def _quality(table: Table) -> Iterator[Chart]:
    """F1 against violation: a small chart per data set and model, a point per method."""
    for (dataset, model), rows in rows_by(table.rows, "dataset", "model").items():
        series = [
            Series(WAYS[row.labels[METHOD]], [row.amounts["violation"].mean or 0.0], [row.amounts["f1"]])
            for row in rows
        ]
        yield Chart(
            f"{table.name}-f1-{dataset}-{model}",
            f"{dataset}, {model}",
            "wv, violation of a user's willingness",
            m.F1.heading,
            series,
            100,
            measured=True,
            small=True,
        )


def _rewards(table: Table) -> list[Chart]:
    """Rewards: the models along the axis, a chart per data set; for one model, the data sets in one chart."""
    models = {row.labels["model"] for row in table.rows}
    along, split = ("model", "dataset") if len(models) > 1 else ("dataset", "model")
    prefix = f"{table.name}-reward_mean"
    return charts(
        table, split, along=along, x=table.labels[along], y="reward", figures="reward_mean", prefix=prefix
    )


class MoreMetrics(Overall):
    """The cells of Overall, other figures of them."""

    name: ClassVar[str] = "more-metrics"
    title: ClassVar[str] = "Overall comparison, more metrics"
    where: ClassVar[str] = "Appendix, overall comparison with more performance evaluation"
    about: ClassVar[str] = "The models of the overall comparison, judged by precision, NDCG and MRR at 5."
    columns: ClassVar[Sequence[Column]] = (m.PRECISION, m.NDCG, m.MRR)

    def findings(self, plan: Plan, records: Sequence[Flat]) -> Findings:
        """The table, NDCG as charts, the paper's table beside it."""
        table = self.table(records, ", price 1", m.REFERENCE)
        pictures = charts(
            table, "dataset", along="model", x="model", y=m.NDCG.heading, figures="ndcg",
            prefix=f"{self.name}-ndcg", factor=100,
        )  # fmt: skip
        return Findings(table, pictures, [*_beside_all(plan, table, "more_metrics")], [table.legend])


class Price(Item):
    """The reward at each price."""

    name: ClassVar[str] = "price"
    title: ClassVar[str] = "Influence of the price"
    where: ClassVar[str] = "Appendix, influence of the balancing parameter λ"
    about: ClassVar[str] = (
        "The overall comparison at several prices of a unit of unwillingness (the paper's λ)."
    )
    labels: ClassVar[Mapping[str, str]] = {**m.PLACE, "price": "price", METHOD: "method"}
    columns: ClassVar[Sequence[Column]] = (m.REWARD, m.VIOLATION)

    def cells(self, plan: Plan) -> list[Cell]:
        """All methods at all prices."""
        return [
            cell
            for dataset in plan.datasets
            for model in plan.of(plan.few_models)
            for cell in m.price_cells(plan, plan.source(dataset), model, m.ALL_WAYS, plan.prices)
        ]

    def findings(self, plan: Plan, records: Sequence[Flat]) -> Findings:
        """The table, a chart per data set and model, the paper's table beside it."""
        table = self.table(records, reference=m.REFERENCE)
        pictures = charts(
            table, "dataset", "model", along="price", x="price of a unit of unwillingness", y="reward",
            figures="reward_mean",
        )  # fmt: skip
        return Findings(table, pictures, [*_beside(plan, table)], [*m.verdict(table), table.legend])


def _beside(plan: Plan, table: Table) -> Iterator[Beside]:
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
                        reasons(plan, dataset, method=theirs, figure="reward"),
                    )
