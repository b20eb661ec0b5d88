"""Items that compare methods: Table 1, its metrics and prices, SCR, anchors, simulations, the frontier."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import mean, median
from typing import Any

from assent.evaluation.evaluate import HeldOut
from assent.reproduce import item as m
from assent.reproduce import paper
from assent.reproduce.item import Block, Item, Labels, at_prices
from assent.reproduce.paper import Beside, beside, beside_rows, plan_reasons
from assent.reproduce.plan import (
    DATASETS,
    FITTED,
    MODELS,
    NULLS,
    OURS,
    PAPER_METHODS,
    SCR,
    SIMULATION,
    THEIR_L,
    THEIR_M,
    DataSource,
    Plan,
    Where,
    size_of,
)
from assent.reproduce.profiles import AUTHORS_MODELS, AUTHORS_TRAINED, AUTHORS_TRAINING, Profile
from assent.reproduce.recbole import WrittenOut
from assent.results.plot import Chart, Series, charts
from assent.results.records import ALL, METHOD, NOTHING, WAYS, Flat, Way
from assent.results.records import name as way_name
from assent.results.table import Amount, Column, Table, rows_by, tabulate
from assent.results.words import MINUS, listed, percent, plural
from assent.runs.measure import Cell as MethodCell


def _overall_said(_: Plan, table: Table, __: Sequence[Flat]) -> Iterator[str]:
    """The verdict, how long Proactive takes, and what the paper's text says of its Table 1."""
    yield from m.verdict(table)
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
    models, datasets = [*paper.numbers()["overall"]], [*paper.numbers()["datasets"]]
    gains = [mean(paper.gain(model, data, "reward") for model in models) for data in datasets]
    f1 = mean(paper.gain(model, data, "f1") for model in models for data in datasets)
    yield (
        "The paper's text says that with IFRQE++ F1 falls by 8.02 percent from the base model's, and that "
        "rewards rise by 12.4, 11.1, 14.6 and 21.3 percent on the simulation, Diginetica, Steam and "
        f"Amazon. Its own Table 1 gives {percent(f1, 1)} for F1 and "
        f"{listed([percent(gain, 1) for gain in gains])} for rewards, in the mean over models."
    )


def _overall_charts(table: Table) -> Iterator[Chart]:
    """F1 against violation, a small chart per data set and model; then rewards.

    The models are along the axis of rewards, in a chart per data set; one model has its data sets there.
    """
    for (dataset, model), rows in rows_by(table.rows, "dataset", "model").items():
        series = [
            Series(WAYS[row.labels[METHOD]], [row.amounts["violation"].mean or 0.0], [row.amounts["f1"]])
            for row in rows
            if WAYS[row.labels[METHOD]] not in NULLS  # the table has them
        ]
        name, x = f"{table.name}-f1-{dataset}-{model}", "wv, violation of a user's willingness"
        title = f"{dataset}, {model}"
        yield Chart(name, title, x, m.F1.heading, series, 100, measured=True, small=True)
    models = {row.labels["model"] for row in table.rows}
    along, split = ("model", "dataset") if len(models) > 1 else ("dataset", "model")
    yield from charts(table, split, along=along, figures="reward_mean", prefix=f"{table.name}-reward_mean")


OVERALL = Item(
    name="overall",
    title="Overall comparison",
    where="Table 1",
    about=(
        "Every model on every data set at price 1: each method chooses, a model is trained on its choice and "
        "tested. Reward: minus the mean validation loss of a user's samples, minus price · violation."
    ),
    labels=m.METHOD_LABEL,
    columns=(m.F1, m.VIOLATION, m.REWARD, m.SECONDS),
    blocks=lambda plan, model, dataset: [at_prices(plan, model, dataset, m.ALL_WAYS)],
    models="models",
    subtitle=", price 1",
    reference=lambda _: m.REFERENCE,
    charts=lambda table: [*_overall_charts(table)],
    beside=lambda plan, table: beside_rows(plan, table, "overall/{model}/{method}/{dataset}"),
    said=_overall_said,
)
MORE_METRICS = replace(
    OVERALL,
    name="more-metrics",
    title="Overall comparison, more metrics",
    where="Appendix, overall comparison with more performance evaluation",
    about="The models of the overall comparison, judged by precision, NDCG and MRR at 5.",
    columns=(m.PRECISION, m.NDCG, m.MRR),
    charts=lambda table: charts(table, "dataset", along="model", figures="ndcg", prefix=f"{table.name}-ndcg"),
    beside=lambda plan, table: beside_rows(plan, table, "more_metrics/{model}/{method}/{dataset}"),
    said=lambda *_: (),
)
PRICE = replace(
    OVERALL,
    name="price",
    title="Influence of the price",
    where="Appendix, influence of the balancing parameter λ",
    about="The overall comparison at several prices of a unit of unwillingness (the paper's λ).",
    labels={**m.PLACE, "price": "price", METHOD: "method"},
    columns=(m.REWARD, m.VIOLATION),
    blocks=lambda plan, model, dataset: [at_prices(plan, model, dataset, m.ALL_WAYS, plan.prices)],
    models="few_models",
    subtitle="",
    charts=lambda table: charts(
        table, "dataset", "model", along="price", x="price of a unit of unwillingness", figures="reward_mean"
    ),
    beside=lambda plan, table: beside_rows(
        plan,
        table,
        "lambda_reward/{price:.1f}/{model}/{method}/{dataset}",
        columns=[m.REWARD],
        models=plan.few_models,
    ),
    said=lambda _, table, __: m.verdict(table),
)

_SCRATCH_DATASETS = ("diginetica", "amazon-video-games")


def _speeds(plan: Plan, table: Table, _: Sequence[Flat]) -> Iterator[str]:
    """How many times faster IFRQE++ is, here and by the seconds that the paper prints."""
    for row in table.rows:
        dataset, model = row.labels["dataset"], row.labels["model"]
        rival = table.row(dataset=dataset, model=model, method_name=way_name(OURS))
        ours = rival and rival.amounts["seconds"].mean
        scratch = row.amounts["seconds"].mean
        if row.labels["method_name"] == way_name(SCR) and ours and scratch:
            yield (
                f"{dataset}, {model}: IFRQE++ is {scratch / ours:.0f} times as fast as SCR with "
                f"M = {plan.setting(SCR, dataset, 'rounds')} and L = {plan.explored(dataset)} (the paper's "
                f"seconds, M = {THEIR_M} and L = {THEIR_L}: {paper.scratch_ratio(dataset, model):.0f} times)."
            )
    ratios = [paper.scratch_ratio(dataset, model) for dataset in _SCRATCH_DATASETS for model in MODELS]
    yield (
        "The paper's text says “about 20.3 times”, which its own seconds do not give: their ratios go from "
        f"{min(ratios):.0f} to {max(ratios):,.0f}, with median {median(ratios):.0f} and mean "
        f"{mean(ratios):.0f}."
    )


SCRATCH = replace(
    OVERALL,
    name="scratch",
    title="Training from scratch (SCR)",
    where="Appendix, comparison with the method of “training from scratch”",
    about=(
        "SCR (nash, tables), a re-implementation, plays Algorithms 2 and 3 for true rewards: a model is "
        "trained on every joint selection that it explores, M · L of them. SCR (nash) fits values to L "
        "selections instead. Seconds count all that a choice rests on, and the final training."
    ),
    last=True,
    columns=(m.PRECISION, m.NDCG, m.MRR, m.F1, m.VIOLATION, m.REWARD, m.SECONDS, m.TRAININGS),
    blocks=lambda plan, model, dataset: [at_prices(plan, model, dataset, (SCR, FITTED, OURS, *NULLS))],
    models="scratch_models",
    datasets=_SCRATCH_DATASETS,
    charts=lambda table: charts(
        table, "dataset", along="model", figures="seconds", prefix=f"{table.name}-seconds", logarithmic=True
    ),
    beside=lambda plan, table: beside_rows(
        plan,
        table,
        "scratch/{dataset}/{model}/{method}",
        datasets=_SCRATCH_DATASETS,
        methods={"SCR": SCR, "IFRQE++": OURS},
    ),
    said=_speeds,
)


def _gains(plan: Plan, wide: Table, records: Sequence[Flat]) -> Iterator[str]:
    """What the plan's T, or the largest, adds to the reward of the smallest, paired by repeat; then nulls."""
    few, labels = min(plan.numbers_of_anchors), {**m.PLACE, "anchors": "T"}
    own = [record for record in records if record[METHOD] == way_name(OURS)]
    table = tabulate(own, labels, [m.REWARD], reference={"anchors": few}, corrected=False)
    for (dataset, model), rows in rows_by(table.rows, "dataset", "model").items():
        rewards = {row.labels["anchors"]: row.amounts["reward_mean"] for row in rows}
        usual = plan.anchors.get(dataset)
        many = usual if usual in rewards and usual != few else max(rewards)
        found = rewards[many]
        if found.difference is not None:
            sure = "no test" if found.p is None else f"p = {found.p:.2g}"
            gain = f"{found.difference:+.4f}".replace("-", MINUS)
            yield (
                f"{dataset}, {model}: the reward with T = {many} minus that with T = {few} is {gain} on "
                f"average ({plural(found.runs or 0, 'repeat')}, paired t-test: {sure})."
            )
    yield from m.without_influence(wide)


ANCHORS = Item(
    name="anchors",
    title="Number of anchors",
    where="Figure 2 (b), and the appendix",
    about=(
        "IFRQE++ and its nulls at price 1 with T anchors: reward, and seconds of anchors, game and final "
        "training. One anchor is solved like several."
    ),
    labels={**m.PLACE, "anchors": "T", METHOD: "method"},
    columns=(m.REWARD, m.VIOLATION, m.NDCG, m.SECONDS),
    blocks=lambda plan, model, dataset: [
        at_prices(plan, model, dataset, (OURS, *NULLS), labels={"anchors": number}, anchors=number)
        for number in plan.numbers_of_anchors
    ],
    models="anchor_models",
    subtitle=", price 1",
    reference=lambda _: m.REFERENCE,
    charts=lambda table: [
        chart
        for key in ("reward_mean", "seconds")
        for chart in charts(
            table, "dataset", "model", along="anchors", x="T, anchors", figures=key,
            prefix=f"{table.name}-{key}",
        )
    ],
    said=_gains,
    not_comparable=m.PICTURE_ONLY,
)  # fmt: skip


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
    """Whether it is looked at for all prices, with the models of the items of ours."""


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
            plan, model, dataset, each.ways, [price],
            labels={"difference": name, "price": price}, rewards_on=each.rewards_on, **each.method,
        )
        for name, each in DIFFERENCES.items()
        if model in each.models and dataset in each.datasets
        for price in (plan.prices if each.by_price and model in plan.one_model else (1.0,))
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
            is_written = base == BASES["cdae"]
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


def _characters(_: Plan, source: DataSource) -> Iterator[tuple[DataSource, Labels]]:
    for setting, (low, high, spread) in paper.numbers()["willingness_settings"].items():
        if setting != "default":
            sensitivity = (float(low), float(high), float(spread))
            yield replace(source, sensitivity=sensitivity), {"setting": setting}


WILLINGNESS = Item(
    name="willingness",
    title="Characters of unwillingness",
    where="Figure 3",
    about=(
        "The simulation with unwillingness σ(s · g + b), s uniform on [a1, a2] and b normal with spread a3: "
        "A = (0.6, 2, 1.2), B = (0.4, 2, 0.8), C = (0.6, 1, 1.5), D = (0.5, 1, 1). Price 1. Without "
        "Proactive, which trains for everything it tries."
    ),
    labels={**m.PLACE, "setting": "setting", METHOD: "method"},
    columns=(m.REWARD, m.VIOLATION),
    blocks=lambda plan, model, dataset: [at_prices(plan, model, dataset, m.CHEAP_WAYS)],
    models="few_models",
    datasets=(SIMULATION,),
    variants=_characters,
    subtitle=", price 1",
    reference=lambda _: m.REFERENCE,
    charts=lambda table: charts(
        table, "dataset", "model", along="setting", x="setting of (a1, a2, a3)", figures="reward_mean"
    ),
    said=lambda _, table, __: m.verdict(table),
    not_comparable=m.PICTURE_ONLY,
)


def _sparser(plan: Plan, source: DataSource) -> Iterator[tuple[DataSource, Mapping[str, float]]]:
    return ((replace(source, eta=eta), {"eta": eta}) for eta in plan.etas)


def _sizes(plan: Plan, _: Table) -> Iterator[Beside]:
    """How many interactions the simulation has."""
    column = Column("interactions", "interactions", decimals=0)
    known = plan.among([SIMULATION])
    for source, labels in (each for name in known for each in _sparser(plan, plan.source(name))):
        eta, rows = f"{labels['eta']:g}", size_of(source, Where())[2]
        theirs = paper.look_up("simulation_interactions_by_eta", eta)
        why = plan_reasons(plan) if plan.reduced else ()
        yield from beside({"η": eta}, column, theirs, Amount(float(rows), None), why)


SPARSITY = replace(
    WILLINGNESS,
    name="sparsity",
    title="Sparsity of the data",
    where="Appendix, influence of the data sparsity",
    about=(
        "The simulation with thresholds η: the larger, the fewer interactions. Price 1. Without "
        "Proactive, which trains for everything it tries. The paper prints the numbers of interactions, the "
        "rewards are a picture."
    ),
    labels={**m.PLACE, "eta": "η", METHOD: "method"},
    variants=_sparser,
    charts=lambda table: charts(table, "dataset", "model", along="eta", figures="reward_mean"),
    beside=_sizes,
    not_comparable="",
)


OUR_WAYS: Sequence[Way] = (
    ("random", ""), ("threshold", ""), ("occurrence", ""), ("worth", "nash"), ("worth", "welfare"),
    OURS, *NULLS,
)  # fmt: skip


def _frontier_said(plan: Plan, _: Table, records: Sequence[Flat]) -> Iterator[str]:
    yield from m.chance(plan)
    yield from m.nulls_of(records, FRONTIER.labels, m.NDCG)


def _within_budgets(plan: Plan, model: str, _: str) -> list[Block]:
    """All, each method within each budget, the largest first, and Nothing: in the order of the table."""
    budgets = sorted(plan.points, reverse=True)
    places = [(ALL, 1.0), *((way, point) for point in budgets for way in OUR_WAYS), (NOTHING, 0.0)]
    cells = [MethodCell(plan.method_of_ours(way, model), 1.0, point) for way, point in places]
    labels = [{METHOD: way_name(way), "kept": 100 * point} for way, point in places]
    return [list(zip(cells, labels, strict=True))]


FRONTIER = Item(
    name="frontier",
    title="Frontier: quality against violation",
    where="Ours",
    about=(
        "Each method discloses within a share of All's violation, whatever the price, so that methods are "
        "compared at the same cost to people. Worth, assent's own method, plays for each user's own reward "
        "(nash) or for the sum of all (welfare). IFRQE++ stands here with assent's influence and game."
    ),
    labels={**m.PLACE, "kept": "violation %", METHOD: "method"},
    columns=(m.NDCG, m.F1, m.VIOLATION),
    blocks=_within_budgets,
    reference=lambda _: {METHOD: way_name(("threshold", ""))},
    charts=lambda table: charts(
        table, "dataset", "model", along="kept", x="violation, % of All’s", figures="ndcg"
    ),
    said=_frontier_said,
    not_comparable=m.NO_FIGURE,
)
