"""What the paper does not have: frontier, datamodeling score, price of anarchy, reliability of the values.

An estimate that another anchor or another training seed does not confirm is noise. Agreement does not make it
true: combined values of two seeds share the structure that they rest on. `ESTIMATES` names the estimates that
are judged; another one is an entry there.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from assent.reproduce import item as m
from assent.reproduce.cells import Cell, Certified, Desk, Measured, settings_key
from assent.reproduce.item import Findings, Item
from assent.reproduce.plan import CHANCE, NOTHING, OURS, SIMULATION, Plan
from assent.results.plot import Chart, charts
from assent.results.records import ALL, METHOD, Flat, Way
from assent.results.records import name as way_name
from assent.results.table import Column, Table
from assent.runs.lds import AVERAGED, LEVELS, LdsPlan, predict_orders
from assent.runs.rank_scores import rank_correlations
from assent.runs.store import Key
from assent.settings import Settings
from assent.support.arrays import Floats
from assent.support.statistics import correlation
from assent.workbench import Workbench
from assent.worth.settings import Source

WAYS: Sequence[Way] = (
    ("random", ""),
    ("threshold", ""),
    ("occurrence", ""),
    ("ifrqe++", "nash"),
    ("ifrqe++", "welfare"),
)


def _shown(plan: Plan, table: Table, pictures: Sequence[Chart]) -> Findings:
    """A table of ours; where it has simulated data, that these rank at chance."""
    said = [CHANCE, table.legend] if SIMULATION in plan.datasets else [table.legend]
    return Findings(table, pictures, said=said, not_comparable=m.NO_FIGURE)


class Frontier(Item):
    """NDCG within shares of All's violation."""

    name: ClassVar[str] = "frontier"
    title: ClassVar[str] = "Frontier: quality against violation"
    where: ClassVar[str] = "Ours"
    about: ClassVar[str] = (
        "Each method discloses within a share of All's violation, whatever the price, so that methods are "
        "compared at the same cost to people. IFRQE++ plays for each user's own reward (nash) or for the sum "
        "of all (welfare), with values as assent has them by default: combined, by a ranking loss."
    )
    labels: ClassVar[Mapping[str, str]] = {**m.PLACE, "kept": "violation %", METHOD: "method"}
    columns: ClassVar[Sequence[Column]] = (m.NDCG, m.F1, m.VIOLATION)

    def cells(self, plan: Plan) -> list[Cell]:
        """All, each method within each budget, the largest first, and Nothing: in the order of the table."""
        budgets = sorted(plan.points, reverse=True)
        places = [(ALL, 1.0), *((way, point) for point in budgets for way in WAYS), (NOTHING, 0.0)]
        return [
            Cell(
                plan.source(dataset),
                plan.settings_of_ours(model, dataset),
                seed,
                Measured(way, 1.0, point),
                {"dataset": dataset, METHOD: way_name(way), "kept": 100 * point},
            )
            for dataset in plan.datasets
            for model in plan.of(plan.one_model)
            for seed in plan.seeds
            for way, point in places
        ]

    def findings(self, plan: Plan, records: Sequence[Flat]) -> Findings:
        """The table and a chart per data set and model."""
        table = self.table(records, reference={METHOD: way_name(("threshold", ""))})
        pictures = charts(
            table, "dataset", "model", along="kept", x="violation, % of All’s", y=m.NDCG.heading,
            figures="ndcg", factor=100,
        )  # fmt: skip
        return _shown(plan, table, pictures)


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
    labels: ClassVar[Mapping[str, str]] = {**m.PLACE, "estimator": "estimator"}
    columns: ClassVar[Sequence[Column]] = tuple(
        Column(level, f"LDS, {level}", decimals=3, better=1) for level in LEVELS
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

    def findings(self, plan: Plan, records: Sequence[Flat]) -> Findings:
        """The table and a chart per level."""
        table = self.table(list(_lines(records)), f", R = {plan.lds_selections}", {"estimator": AVERAGED})
        pictures = [
            chart
            for level in LEVELS
            for chart in charts(
                table, along="dataset", x="data set", y="rank correlation", figures=level, by="estimator",
                prefix=f"{self.name}-{level}", title=f"LDS, {level} loss",
            )
        ]  # fmt: skip
        return _shown(plan, table, pictures)


def _lines(records: Sequence[Flat]) -> Iterator[Flat]:
    """A line per estimator with its score at each level."""
    for record in records:
        about = {key: record[key] for key in ("dataset", "model", "seed")}
        for name in record:
            level, colon, estimator = name.partition(":")
            if colon and level == LEVELS[0]:
                yield {**about, "estimator": estimator} | {
                    each: record[f"{each}:{estimator}"] for each in LEVELS
                }


SOCIAL: Way = ("ifrqe++", "welfare")
_LABELS = ("dataset", "model", "price", "seed")


class PriceOfAnarchy(Item):
    """Cost of the equilibrium over that of the welfare optimum: predicted, and true."""

    name: ClassVar[str] = "price-of-anarchy"
    title: ClassVar[str] = "Price of anarchy"
    where: ClassVar[str] = "Ours"
    about: ClassVar[str] = (
        "IFRQE++ played for each user's own reward (nash, the paper's equilibrium) and for the sum of all "
        "rewards (welfare). The price of anarchy is the cost (minus reward) of the first over the second: "
        "as predicted from the anchors, and measured after retraining. At 1, selfishness costs nothing."
    )
    labels: ClassVar[Mapping[str, str]] = {**m.PLACE, "price": "price"}
    columns: ClassVar[Sequence[Column]] = (
        Column("predicted", "predicted", decimals=3),
        Column("true", "after retraining", decimals=3),
        Column("nash", "reward, nash", decimals=3),
        Column("welfare", "reward, welfare", decimals=3),
        Column("gain", "largest gain by deviating", decimals=4),
    )

    def cells(self, plan: Plan) -> list[Cell]:
        """True rewards of both, and the certificate of the first."""
        found = []
        for dataset in plan.datasets:
            source = plan.source(dataset)
            for model in plan.of(plan.one_model):
                found += m.price_cells(plan, source, model, (OURS, SOCIAL), plan.prices)
                found += [
                    Cell(
                        source,
                        plan.settings(model, dataset),
                        seed,
                        Certified(OURS, price),
                        {"dataset": dataset, "model": model, "price": price},
                    )
                    for seed in plan.seeds
                    for price in plan.prices
                ]
        return found

    def findings(self, plan: Plan, records: Sequence[Flat]) -> Findings:
        """The table and a chart of both ratios."""
        table = self.table(list(_ratios(records)))
        names = {"predicted": "predicted", "true": "after retraining"}
        pictures = charts(
            table, "dataset", along="price", x="price of a unit of unwillingness", y="price of anarchy",
            figures=names,
        )  # fmt: skip
        return Findings(table, pictures, said=[table.legend], not_comparable=m.NO_FIGURE)


def _ratios(records: Sequence[Flat]) -> Iterator[Flat]:
    """One record per data set, model, price and repeat for which all three are there."""
    groups: dict[tuple[object, ...], dict[str, Flat]] = {}
    for each in records:
        part = "certificate" if "price_of_anarchy" in each else each["objective"]
        groups.setdefault(tuple(each[label] for label in _LABELS), {})[part] = each
    for place, parts in groups.items():
        if len(parts) == 3:
            nash, welfare = parts["nash"]["reward_mean"], parts["welfare"]["reward_mean"]
            certificate = parts["certificate"]
            yield dict(zip(_LABELS, place, strict=True)) | {
                "predicted": certificate["price_of_anarchy"],
                "true": nash / welfare if welfare < 0 else None,
                "nash": nash,
                "welfare": welfare,
                "gain": certificate["largest_gain"],
            }


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
    labels: ClassVar[Mapping[str, str]] = {**m.PLACE, "loss": "loss", "estimate": "estimate"}
    columns: ClassVar[Sequence[Column]] = (
        Column("correlation", "correlation", decimals=3, better=1),
        Column("rank_correlation", "rank correlation", decimals=3, better=1),
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

    def findings(self, plan: Plan, records: Sequence[Flat]) -> Findings:
        """The table and a chart per loss."""
        table = self.table(records, reference={"loss": LOSSES[0]})
        pictures = charts(
            table, "loss", along="dataset", x="data set", y="correlation", figures="correlation",
            by="estimate", title="values by the loss {}",
        )  # fmt: skip
        return _shown(plan, table, pictures)
