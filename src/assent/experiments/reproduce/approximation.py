"""Figure: how far the predicted validation loss is from that of a retrained model."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from assent.arrays import Bools
from assent.evaluation import validation_losses
from assent.experiments.reproduce import paper
from assent.experiments.reproduce.base import Findings, Item
from assent.experiments.reproduce.beside import OWN_SETTINGS, Beside, beside, data_reasons, plan_reasons
from assent.experiments.reproduce.cells import Cell, Record
from assent.experiments.reproduce.charts import Chart
from assent.experiments.reproduce.grid import Column, Grid
from assent.experiments.reproduce.means import grid
from assent.experiments.reproduce.plan import Plan
from assent.experiments.reproduce.series import rows_by, series_of
from assent.experiments.reproduce.tasks import Desk, settings_key
from assent.experiments.store import Key
from assent.influence.predict import predicted_losses
from assent.report.numbers import plural
from assent.settings import Settings

ANCHORS = 2
"""Of IFRQE++ here, as in the paper."""
_DRAWS = 5
"""Tells these random selections from those of others with the same seed."""
COLUMNS = (
    Column("error_ifrqe", "IFRQE error %", 100, 2, -1),
    Column("error_ifrqe++", "IFRQE++ error %", 100, 2, -1),
    Column("error_unchanged", "no change, error %", 100, 2, -1),
)


@dataclass(frozen=True)
class Approximated:
    """The validation loss of a model trained on a random selection, and what the anchors predict for it."""

    number: int
    """Of the selection."""
    alone: ClassVar[bool] = False

    def key(self, fingerprint: str, settings: Settings, seed: int) -> Key:
        """What models and influence depend on, and the selection's number."""
        return settings_key("approximation", fingerprint, settings, seed, number=self.number)

    def run(self, desk: Desk) -> dict[str, Any]:
        """Mean losses over users: real, by one anchor, by the nearest of two, and the first anchor's own."""
        bench = desk.bench
        problem, settings = bench.problem, bench.settings.linearisation
        rng = np.random.default_rng((bench.seed, _DRAWS, self.number))
        drawn: Bools = rng.random(len(problem.train)) < bench.settings.anchor_rate
        real = validation_losses(problem, bench.final(drawn, label=f"selection {self.number}"), settings.loss)
        far = [np.count_nonzero(drawn != bench.anchor(t)[0]) for t in range(ANCHORS)]
        predicted = {
            t: predicted_losses(bench.linearise(t), drawn[None], settings, bench.seed)
            for t in {0, int(np.argmin(far))}
        }
        kept = validation_losses(problem, bench.anchor(0)[1], settings.loss)
        samples = problem.valid_samples().sum()
        return {
            "model": bench.settings.model,
            "real": float(real.sum() / samples),
            "ifrqe": float(predicted[0].sum() / samples),
            "ifrqe++": float(predicted[int(np.argmin(far))].sum() / samples),
            "unchanged": float(kept.sum() / samples),
        }


class Approximation(Item):
    """Errors of IFRQE, IFRQE++ and of predicting no change."""

    name: ClassVar[str] = "approximation"
    title: ClassVar[str] = "Approximation of the validation loss"
    where: ClassVar[str] = "Figure 2 (a), and the appendix"
    about: ClassVar[str] = (
        "Random selections are trained on. Real and predicted losses are averaged over them; the error is "
        "|real − predicted| / real. IFRQE predicts from one anchor, IFRQE++ from the nearer of two; “no "
        "change” takes the first anchor's loss for that of every selection. Where its error is as small, the "
        "selections hardly change the mean loss, and a small error does not show that changes are predicted."
    )

    def cells(self, plan: Plan) -> list[Cell]:
        """Selections for every model, data set and repeat."""
        return [
            Cell(plan.source(dataset), plan.settings(model, dataset), seed, Approximated(number),
                 {"dataset": dataset})
            for dataset in plan.datasets
            for model in plan.of(plan.wide_models)
            for seed in plan.seeds
            for number in range(plan.selections)
        ]  # fmt: skip

    def findings(self, plan: Plan, records: Sequence[Record]) -> Findings:
        """The table of errors, a chart per data set, the paper's four numbers."""
        table = grid(
            self.name,
            f"{self.title}, {plan.selections} selections",
            list(_errors(records)),
            labels={"dataset": "data set", "model": "model"},
            columns=COLUMNS,
        )
        wins = sum(_at(row.amounts, "ifrqe++") <= _at(row.amounts, "ifrqe") for row in table.rows)
        idle = sum(_at(row.amounts, "unchanged") <= _at(row.amounts, "ifrqe++") for row in table.rows)
        said = [
            f"Over {plural(len(table.rows), 'combination')} of data set and model, two anchors are at least "
            f"as accurate as one in {wins}.",
            f"In {idle} of them predicting no change at all is at least as accurate as IFRQE++.",
            table.legend,
        ]
        return Findings([table], list(_charts(table)), list(_beside(plan, table)), said)


def _errors(records: Sequence[Record]) -> Iterator[Record]:
    """One record per data set, model and repeat: errors of losses that are averaged over selections."""
    groups: dict[tuple[str, str, int], list[Record]] = {}
    for each in records:
        groups.setdefault((each["dataset"], each["model"], each["seed"]), []).append(each)
    for (dataset, model, seed), group in groups.items():
        mean = {
            name: np.mean([each[name] for each in group])
            for name in ("real", "ifrqe", "ifrqe++", "unchanged")
        }
        errors = {
            f"error_{name}": float(abs(mean["real"] - mean[name]) / mean["real"])
            for name in ("ifrqe", "ifrqe++", "unchanged")
        }
        yield {"dataset": dataset, "model": model, "seed": seed, **errors}


def _at(amounts: Any, name: str) -> float:
    return float(amounts[f"error_{name}"].mean)


def _charts(table: Grid) -> Iterator[Chart]:
    names = {
        "error_ifrqe": "IFRQE",
        "error_ifrqe++": "IFRQE++, two anchors",
        "error_unchanged": "no change",
    }
    for (dataset,), rows in rows_by(table.rows, "dataset").items():
        series = series_of(rows, names, along="model")
        yield Chart(f"{table.name}-{dataset}", dataset, "model", "error of the loss, %", series, 100)


def _beside(plan: Plan, table: Grid) -> Iterator[Beside]:
    for dataset in plan.among(("diginetica", "amazon-video-games")):
        row = table.row(dataset=dataset, model="mf")
        for column, theirs in zip(COLUMNS, ("IFRQE", "IFRQE++"), strict=False):
            found = paper.look_up("approximation_error_mf", paper.DATASETS[dataset], theirs)
            yield from beside(
                {"data set": dataset, "model": "MF"},
                column,
                found and (100 * found[0], None),
                row.amounts[column.key] if row else None,
                [*plan_reasons(plan), *data_reasons(plan, dataset), OWN_SETTINGS],
            )
