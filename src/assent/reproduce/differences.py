"""What may explain a number of the paper: the step size γ, and named differences from the profile."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from assent.evaluation.evaluate import HeldOut
from assent.reproduce import item as m
from assent.reproduce import paper
from assent.reproduce.comparisons import OVERALL
from assent.reproduce.item import Block, Labels, at_prices
from assent.reproduce.plan import DATASETS, MODELS, NULLS, OURS, PAPER_METHODS, SIMULATION, Plan
from assent.reproduce.profiles import AUTHORS_MODELS, AUTHORS_TRAINED, AUTHORS_TRAINING, Profile
from assent.reproduce.recbole import WrittenOut
from assent.results.plot import charts
from assent.results.records import ALL, METHOD, Flat, Way
from assent.results.records import name as way_name
from assent.runs.measure import Cell as MethodCell


def _steps(plan: Plan, model: str, dataset: str) -> list[Block]:
    """IFRQE, IFRQE++ and its nulls with every γ of the profile."""
    ways = (PAPER_METHODS["IFRQE"], OURS, *NULLS)
    return [
        at_prices(plan, model, dataset, ways, labels={"step": step}, table={"step": step})
        for step in plan.profile.steps
    ]


GAMMA = replace(
    OVERALL,
    name="gamma",
    title="The step size γ",
    where="Ours: the paper does not state γ",
    about=(
        "IFRQE, IFRQE++ and its nulls at price 1 with several step sizes of Algorithm 3. The profiles of the "
        "paper and of its authors have this item; assent solves the game exactly, without steps."
    ),
    labels={**m.PLACE, "step": "γ", METHOD: "method"},
    columns=(m.F1, m.PRECISION, m.NDCG, m.MRR, m.VIOLATION, m.REWARD),
    blocks=_steps,
    profiles=(Profile.PAPER, Profile.AUTHORS),
    models="few_models",
    charts=lambda table: charts(table, "dataset", "model", along="step", x="γ", figures="reward_mean"),
    beside=lambda *_: (),
    said=lambda _, table, __: m.without_influence(table),
    not_comparable=m.NO_FIGURE,
)


@dataclass(frozen=True)
class Difference:
    """One named change of an experiment, which may explain a number."""

    source: str
    """Who says so, other than the tables: a value that is chosen because it fits a table explains nothing."""
    ways: Sequence[Way]
    base: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the model and its training."""
    method: Mapping[str, Any] = field(default_factory=dict)
    """Settings of methods."""
    models: Sequence[str] = tuple(MODELS)
    datasets: Sequence[str] = tuple(DATASETS)
    rewards_on: HeldOut | None = None
    by_price: bool = False
    """Whether it is looked at for all prices, with the models of the item that has them."""


_BLIND: Sequence[Way] = (ALL, PAPER_METHODS["Random"], PAPER_METHODS["Threshold"])
_GAMES: Sequence[Way] = (PAPER_METHODS["IFRQE"], OURS)
_PLAYED: Sequence[Way] = (*_GAMES, *NULLS)
_PUBLISHED = {"strategy": "published", "anchors": 3, "anchor_rate": 0.85}
_AT_98 = {"random": {"rate": 0.98}}
_THREE_LAYERS = {"model_settings": {"layers": 3}}
_KEPT: Mapping[str, Any] = {key: AUTHORS_TRAINING[key] for key in ("keep", "evaluate_every", "patience")}
DIFFERENCES: Mapping[str, Difference] = {
    "random.rate=0.98": Difference("the authors' code", [PAPER_METHODS["Random"]], method=_AT_98),
    "training.keep=reward": Difference(
        "the authors' code", _BLIND, base={"training": dict(AUTHORS_TRAINING)}
    ),
    "training.epochs=50": Difference(
        "the authors' files",
        _BLIND,
        base={"training": {"epochs": 50}},
        datasets=("steam", "amazon-video-games"),
    ),
    "rewards of test rows": Difference("the authors' code", (*_BLIND, *_GAMES), rewards_on=HeldOut.TEST),
    "strategy=published, table.step=0.08, anchors=3": Difference(
        "the authors' code", _PLAYED, method={**_PUBLISHED, "table": {"step": 0.08}}, by_price=True
    ),
    "strategy=published, table.step=0.01, anchors=3": Difference(
        "the authors' code, with a step at which nothing moves",
        _PLAYED,
        method={**_PUBLISHED, "table": {"step": 0.01}},
    ),
    "model_settings.layers=3": Difference(
        "the paper of LightGCN", _BLIND, base=_THREE_LAYERS, models=["lightgcn"]
    ),
    "model_settings.layers=3, random.rate=0.98": Difference(
        "the paper of LightGCN, and the authors' code",
        [PAPER_METHODS["Random"]],
        base=_THREE_LAYERS,
        method=_AT_98,
        models=["lightgcn"],
    ),
    "NeuMF as in the authors' code": Difference(
        "embeddings and layers start as RecBole's do, dropout is 0.1, the epoch of the best reward is kept",
        _BLIND,
        base={"training": {**_KEPT, **AUTHORS_TRAINED["neumf"]}, "model_settings": AUTHORS_MODELS["neumf"]},
        models=["neumf"],
    ),
    "CDAE as RecBole trains it": Difference(
        "a batch is of 2048 people with all items (`training.batch_unit=people`), hidden units are ReLU, "
        "the epoch of the best reward is kept",
        _BLIND,
        base={"training": {**_KEPT, **AUTHORS_TRAINED["cdae"]}, "model_settings": AUTHORS_MODELS["cdae"]},
        models=["cdae"],
    ),
    **{
        f"{name}, all as in the authors' code": Difference(
            "training, model, influence, game and rewards of `--profile authors` together",
            (*_BLIND, *_GAMES),
            base=Profile.AUTHORS.base(model, "diginetica"),
            method=Profile.AUTHORS.methods("diginetica"),
            models=[model],
            datasets=(SIMULATION, "diginetica"),  # of the same settings
            rewards_on=Profile.AUTHORS.rewards_on,
            by_price=True,
        )
        for model, name in MODELS.items()
    },
}
"""By name. Each changes rows of the overall comparison, and nothing else of them."""
BASES: Mapping[str, str] = {
    "neumf": "NeuMF as in the authors' code",
    "cdae": "RecBole's CDAE, written out",
    "lightgcn": "model_settings.layers=3",
}
"""The difference that explains All of a model, with which its other rows are explained."""
BY_LOT = "by lot, as much as the row's violation"
"""The row's method discloses at random, at the rate that its violation in the paper implies."""
WHOLE = "trained on everything, 0.98 counted"
"""The model of the row is All's; its violation is 0.98 of All's."""
_COUNTED = 0.98
"""What Random discloses in the authors' code."""
STAND_INS: Mapping[str, Sequence[str]] = {
    BY_LOT: [theirs for theirs in PAPER_METHODS if theirs != "Base"],
    WHOLE: ["Random", "Threshold"],
}
"""Differences in which another method stands for one of the paper's, with the rows that they are for."""
_RANKING = tuple(column.heading for column in (m.F1, m.PRECISION, m.NDCG, m.MRR))


def explains(difference: str, method: str, figure: str) -> bool:
    """Return whether a difference may explain a figure (a heading) of a row of the paper.

    A row by lot ranks; its violation is what it was set to, and its reward is mostly that, but for Random,
    which discloses by lot.
    """
    is_reward_of_random = method == "Random" and figure == m.REWARD.heading
    return not difference.endswith(BY_LOT) or figure in _RANKING or is_reward_of_random


def _differing(plan: Plan, model: str, dataset: str) -> list[Block]:
    named = [
        at_prices(
            plan, model, dataset, [way for way in each.ways if price == 1 or way not in _BLIND], [price],
            labels={"difference": name, "price": price}, rewards_on=each.rewards_on, **each.method,
        )
        for name, each in DIFFERENCES.items()
        if model in each.models and dataset in each.datasets
        for price in (plan.prices if each.by_price and model in plan.few_models else (1.0,))
    ]  # fmt: skip
    if model == "cdae":
        everything = WrittenOut(plan.method(ALL, model, dataset), 1.0)
        labels = {METHOD: way_name(ALL), "difference": BASES[model], "price": 1.0}
        named.append([(everything, labels)])
    return [*named, _standing_in(plan, model, dataset)]


def _standing_in(plan: Plan, model: str, dataset: str) -> Block:
    """Other methods in place of the paper's, on the base model as it is explained."""
    rows, base, found = plan.profile.rewards_on, BASES.get(model), []
    for difference, rows_of in STAND_INS.items():
        for theirs in rows_of:
            rate = paper.disclosed_share(model, theirs, dataset)
            if difference == WHOLE:
                method = plan.method(ALL, model, dataset)
            elif rate <= 1:
                method = plan.method(PAPER_METHODS["Random"], model, dataset, random={"rate": rate})
            else:
                continue
            name = f"{base}; {difference}" if base else difference
            labels = {METHOD: way_name(PAPER_METHODS[theirs]), "difference": name, "price": 1.0}
            is_written = model == "cdae"
            task = WrittenOut(method, 1.0) if is_written else MethodCell(method, 1.0, rewards_on=rows)
            found.append((task, labels))
    return found


def _counted(records: Sequence[Flat]) -> list[Flat]:
    """The records, with the violation that a row counts which was trained on everything."""
    return [_less(each) if each["difference"].endswith(WHOLE) else each for each in records]


def _less(record: Flat) -> Flat:
    less = (1 - _COUNTED) * record["violation"]
    reward = record["reward_mean"] + record["price"] * less
    return {**record, "violation": record["violation"] - less, "reward_mean": reward}


def _base_of(labels: Labels) -> Mapping[str, Any]:
    """Settings of the base model that a difference changes."""
    name = labels["difference"].partition("; ")[0]
    return DIFFERENCES[name].base if name in DIFFERENCES else {}


EXPLANATIONS = replace(
    GAMMA,
    name="differences",
    title="Named differences",
    where="Ours",
    about=(
        "Rows of the overall comparison with one thing changed each, on the word of somebody else than the "
        "tables: a number of the paper that such a row matches, and the plan's own row does not, is "
        f"explained by it. {' '.join(f'{name}: {each.source}.' for name, each in DIFFERENCES.items())} "
        f"{BASES['cdae']}: with vectors for all items, also for those that nobody has disclosed, which no "
        "model of assent has; batches of 2048 people, the epoch of the best reward. "
        f"{BY_LOT}: each interaction is disclosed with the paper's violation of the row over that of Base; "
        "it may explain how well the row ranks, not its violation. "
        f"{WHOLE}: in the branch of the authors' code that is no game, 0.98 are disclosed at random by a "
        "function whose argument is called threshold; that counts in the violation, and the model is trained "
        "on everything."
    ),
    labels={**m.PLACE, "price": "price", METHOD: "method", "difference": "difference"},
    columns=(m.F1, m.PRECISION, m.NDCG, m.MRR, m.VIOLATION, m.REWARD),
    blocks=_differing,
    alters=_base_of,
    lines=_counted,
    models="models",
    reference=lambda _: None,
    charts=lambda _: (),
    said=lambda *_: (),
)
