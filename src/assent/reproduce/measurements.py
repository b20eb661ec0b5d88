"""Items with measurements of their own: how good estimates are.

An estimate that another anchor or another training seed does not confirm is noise. Agreement does not make it
true: combined values of two seeds share the structure that they rest on. `ESTIMATES` names the estimates of
interactions that are judged; another one is an entry there.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import ClassVar, cast

import numpy as np

from assent.evaluation.evaluate import validation_losses
from assent.influence.estimate import predicted_losses
from assent.lab.anchors import InfluenceAt, linearised, loss_weights, random_anchors
from assent.lab.lab import Lab, Training
from assent.lab.store import Found, Key
from assent.methods import Method
from assent.methods.ifrqe import IFRQE
from assent.methods.worth import WorthMethod
from assent.reproduce import item as m
from assent.reproduce import paper
from assent.reproduce.beside import OWN_SETTINGS, Beside, beside, data_reasons, plan_reasons
from assent.reproduce.item import Block, Item, at_prices
from assent.reproduce.plan import DATASETS, NULLS, OURS, PAPER_METHODS, Plan
from assent.results.plot import charts
from assent.results.records import METHOD, Flat, Way
from assent.results.records import name as way_name
from assent.results.table import Column, Table
from assent.results.words import plural
from assent.runs.lds import AVERAGED, LEVELS, LdsPlan, predict_orders, rank_correlations
from assent.support.arrays import Floats
from assent.support.draws import Purpose, lots
from assent.support.statistics import correlation
from assent.worth.estimate import Source


@dataclass(frozen=True)
class Measurement:
    """A task whose key is its kind and its fields, with the keys of methods."""

    kind: ClassVar[str]

    @property
    def label(self) -> str:
        """What progress bars and errors call it."""
        return self.kind

    def key(self, lab: Lab) -> Key:
        """Return the lab's key, the kind and the fields."""
        own = {each.name: getattr(self, each.name) for each in fields(self)}
        parts = {name: part.key if isinstance(part, Method) else part for name, part in own.items()}
        return lab.key | {"kind": self.kind} | parts

    @abstractmethod
    def run(self, lab: Lab) -> Found:
        """Return the figures as facts."""


_ERRORS = {"ifrqe": "IFRQE", "ifrqe++": "IFRQE++, two anchors", "unchanged": "no change"}
"""The predictions of a loss, with their names."""


@dataclass(frozen=True)
class Approximated(Measurement):
    """A task: the validation loss after training on a random selection, and what anchors predict for it."""

    kind: ClassVar[str] = "approximation"
    number: int
    """Of the selection."""
    method: IFRQE
    """Whose influence predicts; IFRQE++ has two anchors here, as in the paper."""

    def run(self, lab: Lab) -> Found:
        """Return mean losses: real, by one anchor, by the nearest of two, and the first anchor's own."""
        problem, settings = lab.problem, self.method.influence_for(lab.settings.model)
        drawn = lots(problem.row_keys, lab.seed, Purpose.APPROXIMATION, self.number) < self.method.anchor_rate
        anchors = random_anchors(lab, 2, rate=self.method.anchor_rate)
        trained, *models = lab.train([Training(drawn, label=self.label), *anchors])
        near = int(np.argmin([np.count_nonzero(drawn != anchor.selection) for anchor in anchors]))
        predicted = {
            t: predicted_losses(
                linearised(lab, anchors[t], models[t], settings), drawn[None], settings, lab.seed
            )
            for t in {0, near}
        }
        real, kept = (validation_losses(problem, each, settings.loss) for each in (trained, models[0]))
        samples = problem.valid_samples().sum()
        losses = {"real": real, "ifrqe": predicted[0], "ifrqe++": predicted[near], "unchanged": kept}
        means = {name: float(loss.sum() / samples) for name, loss in losses.items()}
        return Found(facts={"model": lab.settings.model, **means})


def _approximated(plan: Plan, model: str, dataset: str) -> list[Block]:
    method = cast(IFRQE, plan.method(PAPER_METHODS["IFRQE"], model, dataset))
    return [[(Approximated(number, method), {"selection": number + 1}) for number in range(plan.selections)]]


def _errors(records: Sequence[Flat]) -> Iterator[Flat]:
    """One record per data set, model and repeat: errors of losses that are averaged over selections."""
    groups: dict[tuple[str, str, int], list[Flat]] = {}
    for each in records:
        groups.setdefault((each["dataset"], each["model"], each["seed"]), []).append(each)
    for (dataset, model, seed), group in groups.items():
        mean = {name: np.mean([each[name] for each in group]) for name in ("real", *_ERRORS)}
        errors = {f"error_{name}": float(abs(mean["real"] - mean[name]) / mean["real"]) for name in _ERRORS}
        yield {"dataset": dataset, "model": model, "seed": seed, **errors}


def _accuracy(_: Plan, table: Table, __: Sequence[Flat]) -> Iterator[str]:
    errors = [{name: row.amounts[f"error_{name}"].mean or 0.0 for name in _ERRORS} for row in table.rows]
    wins = sum(each["ifrqe++"] <= each["ifrqe"] for each in errors)
    idle = sum(each["unchanged"] <= each["ifrqe++"] for each in errors)
    yield (
        f"Over {plural(len(errors), 'combination')} of data set and model, two anchors are at least "
        f"as accurate as one in {wins}."
    )
    yield f"In {idle} of them predicting no change at all is at least as accurate as IFRQE++."


def _beside_errors(plan: Plan, table: Table) -> Iterator[Beside]:
    for dataset in plan.among(("diginetica", "amazon-video-games")) if "mf" in plan.models else ():
        row = table.row(dataset=dataset, model="mf")
        for column, theirs in zip(table.columns, ("IFRQE", "IFRQE++"), strict=False):
            found = paper.look_up("approximation_error_mf", DATASETS[dataset], theirs)
            yield from beside(
                {"data set": dataset, "model": "MF"},
                column,
                found and (100 * found[0], None),
                row.amounts[column.key] if row else None,
                [*plan_reasons(plan), *data_reasons(plan, dataset), OWN_SETTINGS],
            )


APPROXIMATION = Item(
    name="approximation",
    title="Approximation of the validation loss",
    where="Figure 2 (a), and the appendix",
    about=(
        "Random selections are trained on. Real and predicted losses are averaged over them; the error is "
        "|real − predicted| / real. IFRQE predicts from one anchor, IFRQE++ from the nearer of two; “no "
        "change” takes the first anchor's loss for that of every selection. Where its error is as small, the "
        "selections hardly change the mean loss, and a small error does not show that changes are predicted."
    ),
    labels=m.PLACE,
    columns=[
        Column(f"error_{name}", f"{heading}error %", 100, 2, -1)
        for name, heading in (("ifrqe", "IFRQE "), ("ifrqe++", "IFRQE++ "), ("unchanged", "no change, "))
    ],
    blocks=_approximated,
    models="wide_models",
    subtitle=", {plan.selections} selections",
    lines=_errors,
    charts=lambda table: charts(
        table, "dataset", along="model", y="error of the loss, %",
        figures={f"error_{name}": label for name, label in _ERRORS.items()},
    ),
    beside=_beside_errors,
    said=_accuracy,
)  # fmt: skip


@dataclass(frozen=True)
class Scored(Measurement):
    """A task: the linear datamodeling scores of every estimator."""

    kind: ClassVar[str] = "lds"
    selections: int
    seeds: int
    method: WorthMethod

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


def _scored(plan: Plan, model: str, _: str) -> list[Block]:
    method = cast(WorthMethod, plan.method_of_ours(("worth", "welfare"), model))
    return [[(Scored(plan.lds_selections, plan.lds_seeds, method), {})]]


def _scores(records: Sequence[Flat]) -> Iterator[Flat]:
    """A line per estimator with its score at each level."""
    for record in records:
        about = {key: record[key] for key in ("dataset", "model", "seed")}
        for name in record:
            level, colon, estimator = name.partition(":")
            if colon and level == LEVELS[0]:
                scores = {each: record[f"{each}:{estimator}"] for each in LEVELS}
                yield {**about, "estimator": estimator, **scores}


LDS = Item(
    name="lds",
    title="Linear datamodeling score of the estimators",
    where="Ours",
    about=(
        "Over random selections that disclose 80 %, the rank correlation of predicted and retrained "
        "validation loss, the ranking loss that values are measured on: for each user (own), and for the sum "
        "of all users (social). “Another seed” is a retraining in place of an estimate. 1 is perfect, 0 is "
        "chance."
    ),
    labels={**m.PLACE, "estimator": "estimator"},
    columns=[Column(level, f"LDS, {level}", decimals=3, better=1) for level in LEVELS],
    blocks=_scored,
    alone=True,
    subtitle=", R = {plan.lds_selections}",
    reference=lambda _: {"estimator": AVERAGED},
    lines=_scores,
    charts=lambda table: [
        chart
        for level in LEVELS
        for chart in charts(
            table, along="dataset", y="rank correlation", figures=level, by="estimator",
            prefix=f"{table.name}-{level}", title=f"LDS, {level} loss",
        )
    ],
    said=m.chance,
    not_comparable=m.NO_FIGURE,
)  # fmt: skip


@dataclass(frozen=True)
class Certified(Measurement):
    """A task: the certificate of a decision, which says how far it can be trusted."""

    kind: ClassVar[str] = "certificate"
    method: Method
    price: float

    def run(self, lab: Lab) -> Found:
        """Return the certificate's figures."""
        choice = self.method.at_price(lab, self.price)
        figures = {name: value for name, value in choice.certificate.items() if not isinstance(value, list)}
        return Found(facts=figures, rests_on=choice.cost)


SOCIAL: Way = ("ifrqe++", "welfare")
_LABELS = ("dataset", "model", "price", "seed")


def _nash_and_welfare(plan: Plan, model: str, dataset: str) -> list[Block]:
    """True rewards of both, and the certificate of the first."""
    method = plan.method(OURS, model, dataset)
    return [
        at_prices(plan, model, dataset, (OURS, SOCIAL, *NULLS), plan.prices),
        [(Certified(method, price), {"model": model, "price": price}) for price in plan.prices],
    ]


def _ratios(records: Sequence[Flat]) -> Iterator[Flat]:
    """One record per data set, model, price and repeat that has the certificate and all rewards."""
    groups: dict[tuple[object, ...], dict[str, Flat]] = {}
    for each in records:
        part = "certificate" if "price_of_anarchy" in each else each[METHOD]
        groups.setdefault(tuple(each[label] for label in _LABELS), {})[part] = each
    ways = [way_name(way) for way in (OURS, SOCIAL, *NULLS)]
    for place, parts in groups.items():
        if {"certificate", *ways} <= parts.keys():
            nash, welfare, zero, permuted = (parts[way]["reward_mean"] for way in ways)
            certificate = parts["certificate"]
            yield dict(zip(_LABELS, place, strict=True)) | {
                "predicted": certificate["price_of_anarchy"],
                "true": nash / welfare if welfare < 0 else None,
                "nash": nash,
                "welfare": welfare,
                "zero": zero,
                "permuted": permuted,
                "gain": certificate["largest_gain"],
            }


PRICE_OF_ANARCHY = Item(
    name="price-of-anarchy",
    title="Price of anarchy",
    where="Ours",
    about=(
        "IFRQE++ played for each user's own reward (nash, the paper's equilibrium) and for the sum of all "
        "rewards (welfare). The price of anarchy is the cost (minus reward) of the first over the second: "
        "as predicted from the anchors, and measured after retraining. At 1, selfishness costs nothing."
    ),
    labels={**m.PLACE, "price": "price"},
    columns=(
        Column("predicted", "predicted", decimals=3),
        Column("true", "after retraining", decimals=3),
        Column("nash", "reward, nash", decimals=3),
        Column("welfare", "reward, welfare", decimals=3),
        Column("zero", "reward, nash, zero", decimals=3),
        Column("permuted", "reward, nash, permuted", decimals=3),
        Column("gain", "largest gain by deviating", decimals=4),
    ),
    blocks=_nash_and_welfare,
    lines=_ratios,
    charts=lambda table: charts(
        table, "dataset", along="price", x="price of a unit of unwillingness", y="price of anarchy",
        figures={"predicted": "predicted", "true": "after retraining"},
    ),
    said=lambda _, __, records: m.nulls_of(records, {**m.PLACE, "price": "price", METHOD: "method"}),
    not_comparable=m.NO_FIGURE,
)  # fmt: skip

LOSSES = ("bce", "pairwise")
"""Validation losses that value is measured on: the paper's, and assent's default."""
_OTHER_SEED = 10_000
"""Added to a repeat's seed for the other training."""


ESTIMATES: Mapping[str, tuple[str, Source | None, int]] = {
    "own influence, two anchors": ("own", None, 2),
    "social influence, two anchors": ("social", None, 2),
    "social, influence, two seeds": ("social", None, 1),
    "social, cross-fitted, two seeds": ("social", Source.CROSS_FITTED, 1),
    "social, combined, two seeds": ("social", Source.COMBINED, 1),
}
"""Estimates that are judged: whose loss, the source of worth (None: influence), how many anchors per seed."""


@dataclass(frozen=True)
class Agreement(Measurement):
    """A task: how far two valuations of the same interactions agree."""

    kind: ClassVar[str] = "agreement"
    estimate: str
    ifrqe: IFRQE
    worth: WorthMethod

    def run(self, lab: Lab) -> Found:
        """Return Pearson's and Spearman's correlation over interactions; None for constants."""
        first, second = self._valued(lab)
        plain = correlation(first, second)
        (of_ranks,) = rank_correlations(first[:, None], second[:, None])
        found = {
            "model": lab.settings.model,
            "correlation": plain,
            "rank_correlation": None if plain is None else float(of_ranks),
        }
        return Found(facts=found)

    def _valued(self, lab: Lab) -> list[Floats]:
        """Return what every interaction is worth, valued twice independently: [Z], [Z]."""
        level, source, anchors = ESTIMATES[self.estimate]
        labs = [lab] if anchors == 2 else [lab, replace(lab, seed=lab.seed + _OTHER_SEED)]
        if source is not None:
            worth = self.worth.model_copy(update={"source": source})
            return [worth.estimate(each).social for each in labs]
        settings, reward = self.ifrqe.influence_for(lab.settings.model), self.ifrqe.reward
        found = []
        for each in labs:
            drawn = random_anchors(each, anchors, rate=self.ifrqe.anchor_rate)
            entries = each.run([InfluenceAt(anchor, settings, reward) for anchor in drawn])
            found += [entry.arrays[level] for entry in entries]
        if level == "own":
            weights = loss_weights(lab, reward)[lab.problem.train.users]
            found = [values * weights for values in found]
        return found


def _agreements(plan: Plan, model: str, dataset: str) -> Iterator[Block]:
    """Every estimate with each loss."""
    for loss in LOSSES:
        ways, by = (("ifrqe", "welfare"), ("worth", "welfare")), {"loss": loss}
        ifrqe, worth = (plan.method(way, model, dataset, influence=by) for way in ways)
        methods = cast(IFRQE, ifrqe), cast(WorthMethod, worth)
        yield [(Agreement(name, *methods), {"estimate": name, "loss": loss}) for name in ESTIMATES]


RELIABILITY = Item(
    name="reliability",
    title="Reliability of the value estimates",
    where="Ours",
    about=(
        "The same interactions are valued twice: at two anchors, which differ by a fifth of their rows, or "
        "after trainings with two seeds: influence at one anchor, cross-fitted over folds, or combined with "
        "what the structure of the log leads to expect, which both seeds share. Near 0, values are noise, "
        "and choosing by them is drawing lots. Near 1 they need not be true: where neither seed measured "
        "anything, what both fall back on is the same. A dash: all interactions are valued alike."
    ),
    labels={**m.PLACE, "loss": "loss", "estimate": "estimate"},
    columns=(
        Column("correlation", "correlation", decimals=3, better=1),
        Column("rank_correlation", "rank correlation", decimals=3, better=1),
    ),
    blocks=_agreements,
    reference=lambda _: {"loss": LOSSES[0]},
    charts=lambda table: charts(
        table, "loss", along="dataset", figures="correlation", by="estimate", title="values by the loss {}"
    ),
    said=m.chance,
    not_comparable=m.NO_FIGURE,
)
