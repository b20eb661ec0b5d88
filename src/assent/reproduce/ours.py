"""What the paper does not have: frontier, datamodeling score, price of anarchy, reliability of the values.

An estimate that another anchor or another training seed does not confirm is noise. Agreement does not make it
true: combined values of two seeds share the structure that they rest on. `ESTIMATES` names the estimates that
are judged; another one is an entry there.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

from assent.lab.anchors import InfluenceAt, loss_weights, random_anchors
from assent.lab.lab import Lab
from assent.lab.store import Found, Key
from assent.methods.ifrqe import IFRQE
from assent.methods.worth import WorthMethod
from assent.reproduce import item as m
from assent.reproduce.cells import Cell, Certified
from assent.reproduce.item import Findings, Item
from assent.reproduce.plan import CHANCE, NOTHING, OURS, SIMULATION, Plan
from assent.results.plot import Chart, charts
from assent.results.records import ALL, METHOD, Flat, Way
from assent.results.records import name as way_name
from assent.results.table import Column, Table
from assent.runs.lds import AVERAGED, LEVELS, LdsPlan, predict_orders, rank_correlations
from assent.runs.measure import Cell as MethodCell
from assent.support.arrays import Floats
from assent.support.statistics import correlation
from assent.worth.estimate import Source

WAYS: Sequence[Way] = (
    ("random", ""),
    ("threshold", ""),
    ("occurrence", ""),
    ("worth", "nash"),
    ("worth", "welfare"),
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
        "compared at the same cost to people. Worth, assent's own method, plays for each user's own reward "
        "(nash) or for the sum of all (welfare)."
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
                plan.settings(model),
                seed,
                MethodCell(plan.method_of_ours(way, model), 1.0, point),
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
    """A task: the linear datamodeling scores of every estimator."""

    selections: int
    seeds: int
    method: WorthMethod

    @property
    def label(self) -> str:
        """What progress bars and errors call it."""
        return "linear datamodeling scores"

    def key(self, lab: Lab) -> Key:
        """Return the method's key and how much is retrained."""
        more = {"selections": self.selections, "seeds": self.seeds, "method": self.method.key}
        return lab.key | {"kind": "lds"} | more

    def run(self, lab: Lab) -> Found:
        """Return a figure `level:estimator` per estimator and level; retrainings are kept on the way."""
        orders = predict_orders(
            lab.problem,
            lab.settings,
            LdsPlan(selections=self.selections, seeds=self.seeds, method=self.method),
            seed=lab.seed,
            store=lab.store,
            progress=lab.progress,
        )
        found = {f"{each['level']}:{each['estimator']}": each["lds"] for each in orders.records()}
        return Found(facts={"model": lab.settings.model, **found})


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
                plan.settings(model),
                seed,
                Scored(plan.lds_selections, plan.lds_seeds, _worth(plan, model)),
                {"dataset": dataset},
                alone=True,
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


def _worth(plan: Plan, model: str) -> WorthMethod:
    method = plan.method_of_ours(("worth", "welfare"), model)
    assert isinstance(method, WorthMethod)
    return method


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
                        plan.settings(model),
                        seed,
                        Certified(plan.method(OURS, model, dataset), price),
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


LOSSES = ("bce", "pairwise")
"""Validation losses that value is measured on: the paper's, and assent's default."""
_OTHER_SEED = 10_000
"""Added to a repeat's seed for the other training."""


def _at_anchors(lab: Lab, method: IFRQE, level: str, *, anchors: int) -> list[Floats]:
    """Return influence at the first anchors, each for itself: [Z] each."""
    settings = method.influence_for(lab.settings.model)
    drawn = random_anchors(lab, anchors, rate=method.anchor_rate)
    found = lab.run([InfluenceAt(anchor, settings, method.reward) for anchor in drawn])
    return [entry.arrays[level] for entry in found]


def _own_anchors(lab: Lab, values: "Valuing") -> list[Floats]:
    weights = loss_weights(lab, values.ifrqe.reward)[lab.problem.train.users]
    return [each * weights for each in _at_anchors(lab, values.ifrqe, "own", anchors=2)]


def _social_anchors(lab: Lab, values: "Valuing") -> list[Floats]:
    return _at_anchors(lab, values.ifrqe, "social", anchors=2)


def _social_seeds(lab: Lab, values: "Valuing") -> list[Floats]:
    return [_at_anchors(each, values.ifrqe, "social", anchors=1)[0] for each in _two_seeds(lab)]


def _worth_seeds(lab: Lab, values: "Valuing", source: Source) -> list[Floats]:
    method = values.worth.model_copy(update={"source": source})
    return [method.estimate(each).social for each in _two_seeds(lab)]


def _two_seeds(lab: Lab) -> list[Lab]:
    return [lab, replace(lab, seed=lab.seed + _OTHER_SEED)]


@dataclass(frozen=True)
class Valuing:
    """The methods whose values are judged, with one loss."""

    ifrqe: IFRQE
    worth: WorthMethod

    @classmethod
    def by(cls, plan: Plan, model: str, dataset: str, loss: str) -> "Valuing":
        """Return the plan's methods with values by `loss`."""
        ways = (("ifrqe", "welfare"), ("worth", "welfare"))
        ifrqe, worth = (plan.method(way, model, dataset, influence={"loss": loss}) for way in ways)
        assert isinstance(ifrqe, IFRQE)
        assert isinstance(worth, WorthMethod)
        return cls(ifrqe, worth)


ESTIMATES: Mapping[str, Callable[[Lab, Valuing], list[Floats]]] = {
    "own influence, two anchors": _own_anchors,
    "social influence, two anchors": _social_anchors,
    "social, influence, two seeds": _social_seeds,
    "social, cross-fitted, two seeds": partial(_worth_seeds, source=Source.CROSS_FITTED),
    "social, combined, two seeds": partial(_worth_seeds, source=Source.COMBINED),
}
"""What every interaction is worth, valued twice independently: [Z], [Z]."""


@dataclass(frozen=True)
class Agreement:
    """A task: how far the two valuations of an estimate agree."""

    estimate: str
    values: Valuing

    @property
    def label(self) -> str:
        """What progress bars and errors call it."""
        return f"agreement: {self.estimate}"

    def key(self, lab: Lab) -> Key:
        """Return the estimate's name and the keys of the methods."""
        methods = {"ifrqe": self.values.ifrqe.key, "worth": self.values.worth.key}
        return lab.key | {"kind": "agreement", "estimate": self.estimate, **methods}

    def run(self, lab: Lab) -> Found:
        """Return Pearson's and Spearman's correlation over interactions; None for constants."""
        first, second = ESTIMATES[self.estimate](lab, self.values)
        plain = correlation(first, second)
        (of_ranks,) = rank_correlations(first[:, None], second[:, None])
        found = {
            "model": lab.settings.model,
            "correlation": plain,
            "rank_correlation": None if plain is None else float(of_ranks),
        }
        return Found(facts=found)


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
                plan.settings(model),
                seed,
                Agreement(estimate, Valuing.by(plan, model, dataset, loss)),
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
