"""Ours: how far estimates of what interactions are worth agree with themselves.

An estimate that another anchor or another training seed does not confirm is noise, whatever it says. That
both agree does not make it true: combined values share the structure that they rest on.
`ESTIMATES` names the estimates that are judged; another one is an entry there.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from assent.arrays import Floats
from assent.experiments.rank_scores import rank_correlations
from assent.experiments.reproduce.base import Findings, Item
from assent.experiments.reproduce.cells import Cell, Record
from assent.experiments.reproduce.charts import Chart
from assent.experiments.reproduce.grid import Column
from assent.experiments.reproduce.means import grid
from assent.experiments.reproduce.plan import Plan
from assent.experiments.reproduce.series import rows_by, series_by
from assent.experiments.reproduce.sources import CHANCE, SIMULATION
from assent.experiments.reproduce.tasks import Desk, settings_key
from assent.experiments.store import Key
from assent.settings import Settings
from assent.statistics import correlation
from assent.value.settings import Source
from assent.workbench import Workbench

Estimate = Callable[[Workbench], tuple[Floats, Floats]]
"""What every interaction is worth at a workbench, valued twice on grounds of their own: [Z], [Z]."""
LOSSES = ("bce", "pairwise")
"""Validation losses that value is measured on: the paper's, and assent's default."""
_OTHER_SEED = 10_000
"""Added to a repeat's seed for the other training."""


def _own_anchors(bench: Workbench) -> tuple[Floats, Floats]:
    first, second = _valued(bench, Source.INFLUENCE).estimates(2).own
    return first, second


def _social_anchors(bench: Workbench) -> tuple[Floats, Floats]:
    first, second = _valued(bench, Source.INFLUENCE).estimates(2).social
    return first, second


def _two_seeds(bench: Workbench, source: Source) -> tuple[Floats, Floats]:
    settings = _from(bench.settings, source)
    first, second = (
        Workbench(bench.problem, settings, seed, bench.progress).estimates(1).social[0]
        for seed in (bench.seed, bench.seed + _OTHER_SEED)
    )
    return first, second


def _valued(bench: Workbench, source: Source) -> Workbench:
    """A workbench whose values come from there: this one, if its own do."""
    if bench.settings.value.source is source:
        return bench
    return Workbench(bench.problem, _from(bench.settings, source), bench.seed, bench.progress)


def _from(settings: Settings, source: Source) -> Settings:
    value = settings.value.model_copy(update={"source": source})
    return settings.model_copy(update={"value": value})


ESTIMATES: Mapping[str, Estimate] = {
    "own influence, two anchors": _own_anchors,
    "social influence, two anchors": _social_anchors,
    "social, influence, two seeds": partial(_two_seeds, source=Source.INFLUENCE),
    "social, cross-fitted, two seeds": partial(_two_seeds, source=Source.CROSS_FITTED),
    "social, combined, two seeds": partial(_two_seeds, source=Source.COMBINED),
}


@dataclass(frozen=True)
class Agreement:
    """How far the two valuations of an estimate agree."""

    estimate: str
    alone: ClassVar[bool] = False

    def key(self, fingerprint: str, settings: Settings, seed: int) -> Key:
        """What models and influence depend on, and the estimate's name."""
        return settings_key("agreement", fingerprint, settings, seed, estimate=self.estimate)

    def run(self, desk: Desk) -> dict[str, Any]:
        """Pearson's and Spearman's correlation over interactions; None for constants."""
        first, second = ESTIMATES[self.estimate](desk.bench)
        plain = correlation(first, second)
        (of_ranks,) = rank_correlations(first[:, None], second[:, None])
        return {
            "model": desk.bench.settings.model,
            "correlation": plain,
            "rank_correlation": None if plain is None else float(of_ranks),
        }


class Reliability(Item):
    """Correlation of an estimate with itself."""

    name: ClassVar[str] = "reliability"
    title: ClassVar[str] = "Reliability of the value estimates"
    where: ClassVar[str] = "Ours"
    about: ClassVar[str] = (
        "The same interactions are valued twice: at two anchors, which differ by a fifth of their rows, or "
        "after trainings with two seeds: influence at one anchor, cross-fitted over folds, or combined with "
        "what the structure of the log leads to expect, which both seeds share. Near 0, values are noise, "
        "and choosing by them is drawing lots. Near 1 they need not be true: where neither seed measured "
        "anything, what both fall back on is the same. A dash: all interactions are valued alike."
    )

    def cells(self, plan: Plan) -> list[Cell]:
        """Every estimate with each loss."""
        return [
            Cell(
                plan.source(dataset),
                plan.settings(model, dataset, influence={"loss": loss}),
                seed,
                Agreement(estimate),
                {"dataset": dataset, "estimate": estimate, "loss": loss},
            )
            for dataset in plan.datasets
            for model in plan.of(plan.one_model)
            for loss in LOSSES
            for seed in plan.seeds
            for estimate in ESTIMATES
        ]

    def findings(self, plan: Plan, records: Sequence[Record]) -> Findings:
        """The table and a chart per loss."""
        table = grid(
            self.name,
            self.title,
            records,
            labels={"dataset": "data set", "model": "model", "loss": "loss", "estimate": "estimate"},
            columns=[
                Column("correlation", "correlation", decimals=3, better=1),
                Column("rank_correlation", "rank correlation", decimals=3, better=1),
            ],
            reference={"loss": LOSSES[0]},
        )
        charts = [
            Chart(
                f"{self.name}-{loss}",
                f"values by the loss {loss}",
                "data set",
                "correlation",
                series_by(rows, "estimate", along="dataset", key="correlation"),
            )
            for (loss,), rows in rows_by(table.rows, "loss").items()
        ]
        said = [CHANCE, table.legend] if SIMULATION in plan.datasets else [table.legend]
        return Findings([table], charts, said=said, not_comparable="The paper has no such figure.")
