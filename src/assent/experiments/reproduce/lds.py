"""Ours: the linear datamodeling score, which says whether influence orders selections as retraining does."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from assent.experiments.lds import LEVELS, LdsPlan, predict_orders
from assent.experiments.lds_predictions import AVERAGED
from assent.experiments.reproduce.base import Findings, Item
from assent.experiments.reproduce.cells import Cell, Record
from assent.experiments.reproduce.charts import Chart
from assent.experiments.reproduce.grid import Column
from assent.experiments.reproduce.means import grid
from assent.experiments.reproduce.plan import Plan
from assent.experiments.reproduce.series import series_by
from assent.experiments.reproduce.sources import CHANCE, SIMULATION
from assent.experiments.reproduce.tasks import Desk, settings_key
from assent.experiments.store import Key
from assent.settings import Settings


@dataclass(frozen=True)
class Scored:
    """The scores of every estimator."""

    selections: int
    seeds: int
    alone: ClassVar[bool] = True

    def key(self, fingerprint: str, settings: Settings, seed: int) -> Key:
        """What models and values depend on, pooled ones among them, and how much is retrained."""
        more = {"selections": self.selections, "seeds": self.seeds}
        return settings_key("lds", fingerprint, settings, seed, **more)

    def run(self, desk: Desk) -> dict[str, Any]:
        """A figure `level:estimator` per estimator and level; retrainings are kept on the way."""
        bench = desk.bench
        orders = predict_orders(
            bench.problem,
            bench.settings,
            LdsPlan(selections=self.selections, seeds=self.seeds),
            seed=bench.seed,
            cache=bench.folder,
            progress=bench.progress,
        )
        found = {f"{each['level']}:{each['estimator']}": each["lds"] for each in orders.records()}
        return {"model": bench.settings.model, **found}


class Lds(Item):
    """Scores by estimator, for a user's own loss and for the sum of all."""

    name: ClassVar[str] = "lds"
    title: ClassVar[str] = "Linear datamodeling score of the estimators"
    where: ClassVar[str] = "Ours"
    about: ClassVar[str] = (
        "Over random selections that disclose 80 %, the rank correlation of predicted and retrained "
        "validation loss, the ranking loss that values are measured on: for each user (own), and for the sum "
        "of all users (social). “Another seed” is a retraining in place of an estimate. 1 is perfect, 0 is "
        "chance."
    )

    def cells(self, plan: Plan) -> list[Cell]:
        """One per data set, model and repeat."""
        return [
            Cell(
                plan.source(dataset),
                plan.settings_of_ours(model, dataset),
                seed,
                Scored(plan.lds_selections, plan.lds_seeds),
                {"dataset": dataset},
            )
            for dataset in plan.datasets
            for model in plan.of(plan.one_model)
            for seed in plan.seeds
        ]

    def findings(self, plan: Plan, records: Sequence[Record]) -> Findings:
        """The table and a chart per level."""
        lines = list(_lines(records))
        table = grid(
            self.name,
            f"{self.title}, R = {plan.lds_selections}",
            lines,
            labels={"dataset": "data set", "model": "model", "estimator": "estimator"},
            columns=[Column(level, f"LDS, {level}", decimals=3, better=1) for level in LEVELS],
            reference={"estimator": AVERAGED},
        )
        charts = [
            Chart(
                f"{self.name}-{level}",
                f"LDS, {level} loss",
                "data set",
                "rank correlation",
                series_by(table.rows, "estimator", along="dataset", key=level),
            )
            for level in LEVELS
        ]
        said = [CHANCE, table.legend] if SIMULATION in plan.datasets else [table.legend]
        return Findings([table], charts, said=said, not_comparable="The paper has no such figure.")


def _lines(records: Sequence[Record]) -> Iterator[Record]:
    """A line per estimator with its score at each level."""
    for record in records:
        about = {key: record[key] for key in ("dataset", "model", "seed")}
        for name in record:
            level, colon, estimator = name.partition(":")
            if colon and level == LEVELS[0]:
                yield {**about, "estimator": estimator} | {
                    each: record[f"{each}:{estimator}"] for each in LEVELS
                }
