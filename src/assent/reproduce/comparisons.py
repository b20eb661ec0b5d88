"""Items that compare methods: Table 1, its metrics and prices, SCR, anchors, simulations, the frontier."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import mean, median

from assent.reproduce import item as m
from assent.reproduce import paper
from assent.reproduce.beside import Beside, beside, beside_rows, plan_reasons
from assent.reproduce.item import Block, Item, Labels, at_prices
from assent.reproduce.plan import (
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
