"""What the measured frontier says, one sentence per fact.

How far the decision can be trusted, one sentence per fact of its certificate.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from assent.models.losses import Loss
from assent.report.data import (
    ALL,
    Gap,
    Points,
    Record,
    ReportData,
    Way,
    budgeted_ways,
    by_point,
    gap,
    kept,
    reference,
)
from assent.report.html import Html, bullets, tag
from assent.report.words import METRIC, fixed, listed, name, number, percent, plural, share

_NEARLY_ALL = 0.95
"""Share of All's quality that a reader may take for "nearly as good"."""

_FEW_SEEDS = 3
"""Up to so many seeds, a standard error is itself little more than a guess."""


def frontier_facts(data: ReportData) -> list[str]:
    """How the run's method compares with All and with every other method, and what that rests on."""
    ours = by_point(data.frontier, data.way)
    rivals = [way for way in budgeted_ways(data.frontier) if way != data.way]
    if not ours:
        return [f"This frontier was measured for {listed([name(way) for way in rivals])} only."]
    everything = reference(data, ALL)
    return [
        _keeping(data.way, ours, everything),
        *_above_all(data.way, ours, everything),
        *(_against(data.way, ours, rival, by_point(data.frontier, rival)) for rival in rivals),
        _certainty(len({record["seed"] for points in ours.values() for record in points})),
    ]


def _keeping(way: Way, ours: Points, everything: Sequence[Record]) -> str:
    """Down to which point the quality stays nearly All's, without a gap above it."""
    lowest = None
    for point, records in ours.items():
        quality = kept(records, everything)
        if quality is None or quality.ratio < _NEARLY_ALL:
            break
        lowest = point
    goal = f"{share(_NEARLY_ALL)} of All’s quality"
    if lowest is None:
        return f"{name(way)} falls below {goal} already at {share(max(ours))} of All’s violation."
    return f"{name(way)} keeps at least {goal} down to {share(lowest)} of All’s violation."


def _above_all(way: Way, ours: Points, everything: Sequence[Record]) -> list[str]:
    """Where using less is better than using everything."""
    ahead = _signed(_gaps(ours, dict.fromkeys(ours, everything)), 1)
    return [f"It is better than using everything at {_places(ahead)}."] if ahead else []


def _against(way: Way, ours: Points, rival: Way, theirs: Points) -> str:
    """Where the run's method is ahead of another, level with it, or behind."""
    gaps = _gaps(ours, theirs)
    if not gaps:
        return f"{name(rival)} was measured at other points or seeds and cannot be compared."
    parts = []
    for sign, word in ((1, "ahead"), (0, "level"), (-1, "behind")):
        if here := _signed(gaps, sign):
            where = "every point" if len(here) == len(gaps) > 1 else _places(here)
            parts.append(f"{word} at {where}{_largest(here) if sign else ''}")
    return f"Against {name(rival)}: {'; '.join(parts)}."


def _gaps(ours: Points, theirs: Points) -> dict[float, Gap]:
    found = {point: gap(records, theirs[point]) for point, records in ours.items() if point in theirs}
    return {point: each for point, each in found.items() if each is not None}


def _signed(gaps: Mapping[float, Gap], sign: int) -> dict[float, Gap]:
    return {point: each for point, each in gaps.items() if each.sign == sign}


def _places(gaps: Mapping[float, Gap]) -> str:
    return listed([share(point) for point in gaps])


def _largest(gaps: Mapping[float, Gap]) -> str:
    """The largest difference, and where it is if there are several."""
    point = max(gaps, key=lambda each: abs(gaps[each].difference))
    points = f"{fixed(100 * abs(gaps[point].difference), 1)} points of {METRIC}"
    return f" (most at {share(point)}, by {points})" if len(gaps) > 1 else f" (by {points})"


def _certainty(n_seeds: int) -> str:
    if n_seeds == 1:
        return "All this was measured with one seed, so chance may explain any of these differences."
    few = ", which are few" if n_seeds <= _FEW_SEEDS else ""
    return (
        "Ahead, better or behind means: by more than one standard error of the difference, "
        f"over {plural(n_seeds, 'seed')}{few}."
    )


def trust_section(data: ReportData) -> Html:
    """The certificate in words; nothing where there is none."""
    facts = certificate_facts(data.certificate)
    return tag("section", tag("h2", "How far to trust the decision"), bullets(facts)) if facts else Html("")


def certificate_facts(certificate: Mapping[str, object]) -> list[str]:
    """What the certificate says, in sentences; figures that it lacks are left out."""
    figures = {key: value for key, value in certificate.items() if isinstance(value, int | float)}
    facts = []
    for level, whom in (("value_social", "everybody"), ("value_own", "its owner")):
        reliability = certificate.get(level)
        if isinstance(reliability, Mapping):
            facts.append(_values(whom, reliability))
    trials = certificate.get("value_trials")
    if isinstance(trials, Sequence):
        facts += [_trial(each) for each in trials]
    rounds = certificate.get("rounds_nearest")
    n_anchors = len(rounds) if isinstance(rounds, Sequence) else 0
    if "largest_gain" in figures:
        facts.append(_gains(figures, n_anchors, is_welfare=certificate.get("objective") == "welfare"))
    if "anarchy_cost" in figures:
        facts.append(_anarchy(figures))
    if isinstance(rounds, Sequence) and n_anchors > 1:
        counts = [f"{count} for anchor {t}" for t, count in enumerate(rounds, 1) if count]
        placed = int(figures.get("anchors_at_solution", 0))
        last = f" ({plural(placed, 'anchor')} of {n_anchors} placed where the solution lay)" if placed else ""
        facts.append(
            f"Anchor {certificate['nearest_anchor']} is the nearest to what was decided{last}. Of "
            f"{plural(sum(rounds), 'joint selection')} that were looked at, so many lay nearest to each: "
            f"{listed(counts)}."
        )
    if "true_reward" in figures:
        facts.append(_rewards(figures, certificate))
    if figures.get("floors_missed"):
        users = plural(int(figures["floors_missed"]), "user")
        facts.append(f"Of {users} fewer interactions are disclosed than the floor asks for.")
    if figures.get("budgets_exceeded"):
        facts.append(f"{plural(int(figures['budgets_exceeded']), 'budget')} of single users are exceeded.")
    return facts


def _values(whom: str, reliability: Mapping[str, float]) -> str:
    """How reliable the values on one level are (`worth.shrinkage`)."""
    explained, measurement = reliability["explained"], reliability["measurement"]
    if not explained and not measurement:
        return (
            f"What an interaction is worth to {whom} could not be told from noise by measuring it: so far "
            "all count the same."
        )
    return (
        f"What an interaction is worth to {whom} was measured twice, with a correlation of "
        f"{reliability['agreement']:.2f}. Its place among the others explains "
        f"{percent(explained, 0)} of the differences; what was measured beyond that counts "
        f"{percent(measurement, 0)}. A value may be off by {number(reliability['error'])} loss units."
    )


_SOURCES = {
    "unwillingness": "unwillingness alone",
    "measured": "what was measured",
    "structure": "the paths between people",
}
"""What is tried (`value.trial.Kind`), in words."""


def _trial(trial: Mapping[str, Any]) -> str:
    """What came of trying each source of values within one budget (`value.trial.Trial.facts`)."""
    ranked = sorted(_SOURCES, key=lambda kind: -trial[kind]["ndcg"])
    ranks = listed([f"{_SOURCES[kind]} {percent(trial[kind]['ndcg'], 1)}" for kind in ranked])
    counts = listed([f"{_SOURCES[kind]} {share(trial[kind]['weight'])}" for kind in ranked])
    alone = trial["unwillingness"]["weight"] == 1
    verdict = "None is for certain better than unwillingness alone, which decides there"
    return (
        f"Within {percent(trial['budget'], 0)} of the violation, models were trained on what each source of "
        f"values would choose, and ranked validation rows with an NDCG@5 of: {ranks}. "
        f"{verdict if alone else f'So there these count: {counts}'}.{_unheard(trial)}"
    )


def _unheard(trial: Mapping[str, Any]) -> str:
    """Why structure does not count although it ranks better than unwillingness, if others do."""
    structure, alone = trial["structure"], trial["unwillingness"]
    if structure["weight"] or structure["ndcg"] <= alone["ndcg"] or alone["weight"] == 1:
        return ""
    return " The paths between people, not ahead of unwillingness alone for certain, are not heard."


AIMED_AT = 0.01
"""The largest gain by deviating, as a share of the mean reward, that a solution should leave."""


def _gains(figures: Mapping[str, float], n_anchors: int, *, is_welfare: bool) -> str:
    """What could be gained by deviating; one anchor's best responses leave nothing to gain."""
    own = f" {_own_gains(figures)}" if is_welfare and "largest_own_gain" in figures else ""
    gain = "add to the sum of all rewards" if is_welfare else "gain"
    if n_anchors == 1 and not figures["largest_gain"]:
        return (
            f"One anchor values everything: nobody could {gain} by deciding otherwise alone, by "
            f"construction.{own}"
        )
    part = figures.get("largest_gain_share", 0.0)
    missed = f", more than the {percent(AIMED_AT, 0)} that is aimed at" if part > AIMED_AT else ""
    share = f" ({percent(part, 2)} of the mean reward{missed})" if "largest_gain_share" in figures else ""
    unsure = int(figures.get("gains_estimated", 0))
    but = f" Of {plural(unsure, 'user')} this is an estimate." if unsure else ""
    return (
        f"Nobody could {gain} more than {number(figures['largest_gain'])} loss units by deciding otherwise "
        f"alone{share}; on average {number(figures['mean_gain'])}.{but}{own}"
    )


def _own_gains(figures: Mapping[str, float]) -> str:
    """What people give up who decide for the good of all."""
    if not figures["own_gainers"]:
        return "Nor could anybody gain for herself."
    return (
        f"For herself alone {plural(int(figures['own_gainers']), 'user')} could gain, at most "
        f"{number(figures['largest_own_gain'])} loss units, on average of all "
        f"{number(figures['mean_own_gain'])}: so much is given for others."
    )


def _anarchy(figures: Mapping[str, float]) -> str:
    ratio = f", {number(figures['price_of_anarchy'])} times the cost" if "price_of_anarchy" in figures else ""
    return (
        f"If each decided for herself at {_price(figures)}, all together would lose "
        f"{number(figures['anarchy_cost'])} of predicted reward per person against the best for "
        f"all{ratio} (the price of anarchy)."
    )


def _price(figures: Mapping[str, float]) -> str:
    """The price that was decided at, which a budget finds for itself."""
    return f"a price of {number(figures['price'])}" if "price" in figures else "this price"


def _rewards(figures: Mapping[str, float], certificate: Mapping[str, object]) -> str:
    at = f" at {_price(figures)}" if "price" in figures else ""
    true = f"The true reward{at} after training is {number(figures['true_reward'])} per person"
    if {"reward_loss", "reward_form"} <= certificate.keys():
        kind = "" if certificate["reward_loss"] == Loss.BCE else f" {certificate['reward_loss']}"
        true += f", by the {certificate['reward_form']} of her{kind} losses"
    if "predicted_reward" not in figures:
        return f"{true}; nothing was predicted."
    off = f", {percent(figures['prediction_error'], 1)} off" if "prediction_error" in figures else ""
    return f"{true}; {number(figures['predicted_reward'])} was predicted{off}."
