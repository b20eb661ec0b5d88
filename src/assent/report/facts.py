"""What the figures of a run say, a sentence per fact: the headline, the frontier, how far to trust all this.

All sentences are computed from the figures, and are as plain where these are bad.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from assent.report.data import QUALITY, ReportData, mean, reference
from assent.results.records import ALL, ENDS, METHOD, NOTHING, name, named, way_of
from assent.results.table import Amount, Column, rows_by, tabulate
from assent.results.words import decimals_for, listed, number, percent, plural, share
from assent.support.statistics import Interval

_LOSS_OF_REWARDS = "bce"
"""Any other loss is named beside a reward; `models.losses` would load torch."""

_CLEAR_LIFT = 1.1
"""Below this multiple of Nothing's quality, All's is too close to it for shares of it to mean much."""
_COARSE = 0.9
"""Share of All's quality: where chance alone could hide a fall below it, that is said."""
_NEARLY_ALL = 0.95
"""Share of All's quality that a reader may take for "nearly as good"."""
_FEW_SEEDS = 3
"""Up to so many seeds, a standard error is itself little more than a guess."""
AIMED_AT = 0.01
"""The largest gain by deviating, as a share of the mean reward, that a solution should leave."""
_HARDLY = 0.0005
"""Share by which people would be worse off that is not worth a sentence."""
_SIMPLE = {0.25: "a quarter", 0.5: "half", 0.75: "three quarters"}
_OF_TEN = ("none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def headline(data: ReportData) -> str:
    """The run in one sentence; figures of an earlier run are named as such."""
    kept, above = data.kept, data.above_nothing
    if data.way == ALL:
        return "Everything is used, also what people would rather not share"
    earlier = "" if data.measurement is None else f", as measured in {data.measurement}"
    if data.way == NOTHING:
        nothing = "Nothing is used of what people did"
        return nothing if kept is None else f"Using nothing {_effect(kept)}{earlier}"
    used = f"Using {share(data.violation_share)} of what people would rather not share"
    if data.violation_share == 0:
        used = "Using only what people share freely"
    return f"{used} {_compared(data, kept, above)}{earlier}"


def _compared(data: ReportData, kept: Interval | None, above: Interval) -> str:
    """What the recommendations are like, against those from everything or else from nothing."""
    if above.high < 0:
        return "makes recommendations worse than using nothing does"
    if above.low <= 0:
        return "does not make recommendations measurably better than using nothing does"
    if kept is None:
        return f"makes recommendations {better_than_nothing(data)} using nothing does"
    return _effect(kept)


def _effect(kept: Interval) -> str:
    """What happens to the quality; a difference that chance explains is not called one."""
    change = abs(kept.mean - 1)
    if kept.low <= 1 <= kept.high:
        if kept.low >= _COARSE:
            return "makes no measurable difference to the quality of recommendations"
        return f"keeps about {relative(kept.mean)} of the quality of recommendations, as far as can be told"
    if kept.mean > 1:
        return f"raises the quality of recommendations by {percent(change, 1 if change < 0.01 else 0)}"
    if kept.mean >= _COARSE:
        return f"keeps {relative(kept.mean)} of the quality of recommendations"
    if kept.mean >= 0.5:
        return f"loses {percent(change)} of the quality of recommendations"
    return f"loses most of the quality of recommendations: only {share(kept.mean)} is left"


def better_than_nothing(data: ReportData) -> str:
    """How good the recommendations are against Nothing's: `4.2 times as good as`, `35 % better than`."""
    nothing = data.reached.mean - data.above_nothing.mean
    if nothing <= 0:
        return "that fit, which"
    times = data.reached.mean / nothing
    return f"{number(times, 2)} times as good as" if times >= 2 else f"{percent(times - 1)} better than"


def relative(ratio: float) -> str:
    """A ratio to All's quality in percent, with a decimal where whole percents would hide the difference."""
    return percent(ratio, 1 if abs(ratio - 1) < 0.01 else 0)


def between(interval: Interval) -> str:
    """The limits of an interval of shares, which are at least 0, in percent."""
    low, high = max(0.0, interval.low), max(0.0, interval.high)
    decimals = 1 if high - low < 0.02 else 0
    return f"between {percent(low, decimals)} and {percent(high, decimals)}"


def in_figures(data: ReportData) -> list[str]:
    """The sentences below the headline: the figures behind it, and what the run was asked for."""
    figures = _without_all(data) if data.kept is None else _with_all(data, data.kept)
    return [*figures, *_limits_broken(data), *_operating_point(data), *how_old(data)]


def how_old(data: ReportData) -> list[str]:
    """How old the values and items of a prompt update are, and that its quality was measured before."""
    said = data.quality.get("age")
    return [] if said is None else [f"{said} The quality was measured for that run."]


def _limits_broken(data: ReportData) -> list[str]:
    """How many people's own limits and floors are not kept."""
    missed, exceeded = (data.certificate.get(key) for key in ("floors_missed", "budgets_exceeded"))
    facts = []
    if isinstance(exceeded, int) and exceeded:
        facts.append(f"More is used of {plural(exceeded, 'person', 'people')} than they allow.")
    if isinstance(missed, int) and missed:
        facts.append(f"Less is used of {plural(missed, 'person', 'people')} than they ask for.")
    return facts


def _operating_point(data: ReportData) -> list[str]:
    """What the run was asked to keep to."""
    if data.way in ENDS:
        return []
    asked = data.quality["operating_point"]
    budget, keep = asked["budget"], asked["keep_quality"]
    if keep is not None:
        tenths = round(10 * asked["confidence"])
        cases = f"{_OF_TEN[tenths]} of ten cases"
        if abs(10 * asked["confidence"] - tenths) > 1e-9:
            cases = f"{100 * asked['confidence']:g} of 100 cases"
        goal = f"the least that keeps {share(keep)} of the quality, in {cases}"
        facts = [f"The run was to disclose {goal}: at most {_part(budget)} of what people mind."]
        if data.kept is not None and data.kept.mean < keep:
            facts.append(
                f"On the rows that measure it, it kept {relative(data.kept.mean)}, less than was aimed at. "
                f"With {plural(data.quality['people'], 'person', 'people')} such a search is noisy."
            )
        return facts
    if budget is not None:
        return [f"The run was to disclose at most {_part(budget)} of what people mind."]
    if not data.estimated:
        return []
    price = f"a price of {number(asked['price'])}"
    return [f"The run was to disclose what is worth {price} for each unit of unwillingness."]


def _part(fraction: float) -> str:
    return _SIMPLE.get(fraction) or share(fraction)


def _with_all(data: ReportData, kept: Interval) -> list[str]:
    """Shares of All's quality: the run's interval, and what Nothing would have."""
    everything, nothing = mean(data.of(ALL)), mean(data.of(NOTHING))
    what = "the quality" if data.way == ALL else "it"
    left = f"Using nothing would keep {share(nothing / everything)} of {what}."
    facts = [] if data.way in ENDS else [f"The quality is {between(kept)} of that with everything."]
    if data.way not in ENDS and kept.low <= 1 <= kept.high and kept.low < _COARSE:
        facts.append(
            f"So chance may hide that up to {percent(1 - max(0.0, kept.low))} is lost; "
            "more people or more seeds would tell."
        )
    if everything < _CLEAR_LIFT * nothing:
        left = (
            "With everything the recommender is hardly better than with nothing, "
            "so this data cannot show what disclosing is worth."
        )
    return [*facts, *([] if data.way == NOTHING and everything >= _CLEAR_LIFT * nothing else [left])]


def _without_all(data: ReportData) -> list[str]:
    """The run's quality and Nothing's."""
    reached, nothing = data.reached, data.reached.mean - data.above_nothing.mean
    decimals = decimals_for([100 * reached.mean, 100 * nothing])
    limits = " and ".join(percent(max(0.0, each), decimals) for each in (reached.low, reached.high))
    figure = f"The quality is {percent(reached.mean, decimals)}, between {limits}"
    against = "" if data.way == NOTHING else f", against {percent(nothing, decimals)} with nothing"
    if data.of(ALL):
        return [f"{figure}{against}.", "Even a model of everything finds no test item."]
    unmeasured = (
        "What using everything would give was not measured: it takes a model of what people withhold."
    )
    return [f"{figure}{against}.", unmeasured]


def frontier_facts(data: ReportData) -> list[str]:
    """How the run's method compares with All and with every other method, and what that rests on."""
    measured = [record for record in data.frontier if way_of(record) not in ENDS]
    own = [record for record in measured if way_of(record) == data.way]
    if not own:
        rivals = dict.fromkeys(name(way_of(record)) for record in measured)
        return [f"This frontier was measured for {listed([*rivals])} only."]
    base = mean(reference(data, ALL))
    if not base:
        return ["Even with everything, no test item is found: there is nothing to compare."]
    ours, points = name(data.way), sorted({record["point"] for record in own}, reverse=True)
    everywhere = [{**record, "point": point} for point in points for record in reference(data, ALL)]
    table = tabulate(
        named([*everywhere, *measured]),
        {METHOD: "", "point": ""},
        [Column(QUALITY, "", better=1)],
        reference={METHOD: ours},
        corrected=False,
    )
    found: dict[str, dict[float, Amount]] = {}
    for (method,), rows in rows_by(table.rows, METHOD).items():
        found[method] = {row.labels["point"]: row.amounts[QUALITY] for row in rows}
    is_near = [(found[ours][point].mean or 0.0) / base >= _NEARLY_ALL for point in points]
    near = is_near.index(False) if False in is_near else len(points)
    goal = f"{share(_NEARLY_ALL)} of All’s quality"
    keeps = f"{ours} keeps at least {goal} down to {share(points[near - 1])} of All’s violation."
    fails = f"{ours} falls below {goal} already at {share(points[0])} of All’s violation."
    above = [share(point) for point in points if _ahead(found[name(ALL)][point]) == 1]
    return [
        keeps if near else fails,
        *([f"It is better than using everything at {listed(above)}."] if above else []),
        *(_against(rival, found[rival], base) for rival in found if rival not in (ours, name(ALL))),
        _certainty(len({record["seed"] for record in own})),
    ]


def _against(rival: str, amounts: Mapping[float, Amount], base: float) -> str:
    """Where the run's method is ahead of another, level, or behind; by how much of All's quality at most."""
    points = sorted(amounts, reverse=True)
    known = {point: amounts[point] for point in points if amounts[point].difference is not None}
    if not known:
        return f"{rival} was measured at other points or seeds and cannot be compared."
    parts = []
    for sign, word in ((1, "ahead"), (0, "level"), (-1, "behind")):
        gaps = {point: abs(each.difference or 0) for point, each in known.items() if _ahead(each) == sign}
        if gaps:
            where = listed([*map(share, gaps)]) if len(gaps) < len(known) or len(gaps) == 1 else "every point"
            most = max(gaps, key=lambda point: gaps[point])
            place = f"most at {share(most)}, " if len(gaps) > 1 else ""
            by = f" ({place}by {percent(gaps[most] / base, 1)} of All’s quality)" if sign else ""
            parts.append(f"{word} at {where}{by}")
    return f"Against {rival}: {'; '.join(parts)}."


def _ahead(theirs: Amount) -> int:
    """1 where ours is ahead of theirs by more than the standard error, −1 behind, 0 level.

    For one seed, which has no error, the difference alone decides.
    """
    difference, error = theirs.difference or 0.0, theirs.difference_error or 0.0
    return int(-difference > error) - int(difference > error)


def _certainty(n_seeds: int) -> str:
    if n_seeds == 1:
        return "All this was measured with one seed, so chance may explain any of these differences."
    few = ", which are few" if n_seeds <= _FEW_SEEDS else ""
    return (
        "Ahead, better or behind means: by more than one standard error of the difference, "
        f"over {plural(n_seeds, 'seed')}{few}."
    )


def trust_facts(data: ReportData) -> list[str]:
    """How far to trust the run, for people who do not know the methods; what is not known is left out."""
    seeds, people = len(data.quality["seeds"]), plural(data.quality["people"], "person", "people")
    times = "once" if seeds == 1 else f"{plural(seeds, 'time')}, each with other random numbers"
    counted = "count both kinds of chance"
    if seeds == 1:
        counted = "count chance between people, but not what other random numbers would have given"
    facts = [f"The quality was measured on {people}, {times}. The limits around it {counted}."]
    if shards := data.settings.get("shards"):
        facts.append(
            f"People were dealt into {shards} shards by their ids, and each shard was decided on by itself. "
            "One model was trained on what all of them disclose."
        )
    if data.measured_in is not None:
        facts.append(f"That was in {data.measurement}. What has changed since is not in these figures.")
    certificate = data.certificate
    reliability = certificate.get("value_own" if data.objective == "nash" else "value_social")
    if isinstance(reliability, Mapping):
        facts.append(_agreement(reliability))
    trials = certificate.get("value_trials")
    if isinstance(trials, Sequence) and trials:
        facts.append(_tried_out(trials))
    figures = {key: value for key, value in certificate.items() if isinstance(value, int | float)}
    if "largest_gain" in figures:
        facts += _nobody_gains(figures, is_welfare=data.objective == "welfare")
    if figures.get("price_of_anarchy", 0.0) > 1 + _HARDLY:
        more = percent(figures["price_of_anarchy"] - 1, 1)
        facts.append(f"If everybody decided for themselves alone, people together would be {more} worse off.")
    if "prediction_error" in figures:
        facts.append(
            "What people get out of these decisions was forecast before a model was trained on them. The "
            f"forecast was {percent(figures['prediction_error'], 1)} off."
        )
    wishes = data.settings.get("wishes")
    asked = isinstance(wishes, Mapping) and (
        wishes.get("users_with_budget") or wishes.get("users_with_floor")
    )
    if asked and not _limits_broken(data):
        facts.append("The limits that people set for themselves are all kept.")
    return facts


def _agreement(reliability: Mapping[str, float]) -> str:
    """How far to trust what each interaction is said to be worth."""
    if not reliability["explained"] and not reliability["measurement"]:
        return (
            "What each interaction is worth was measured, but one could not be told from another: chance was "
            "larger than the differences."
        )
    levels = ((0.2, "hardly agree"), (0.6, "agree in part"), (math.inf, "agree well"))
    agree = next(words for limit, words in levels if reliability["agreement"] < limit)
    return (
        f"What each interaction is worth was measured twice, on different data. The two {agree}. So what is "
        "said of a single interaction is a rough guess; what is said of many together is known far better."
    )


_WAYS_TO_CHOOSE = {
    "unwillingness": "by what people mind least",
    "measured": "by what was measured to help most",
    "structure": "by what connects people most",
}
"""Ways of choosing that are tried out (`worth.trial.Kind`), for people who do not know the methods."""


def _tried_out(trials: Sequence[Mapping[str, Any]]) -> str:
    """Which ways of choosing were tried out, and which of them decide."""
    ways, budgets = listed([*_WAYS_TO_CHOOSE.values()]), dict[str, list[str]]()
    for trial in trials:
        counts = {kind: round(trial[kind]["weight"], 2) for kind in _WAYS_TO_CHOOSE}
        most = [_WAYS_TO_CHOOSE[kind] for kind, count in counts.items() if count == max(counts.values())]
        how = f"the choice {most[0]} {'counts alone' if max(counts.values()) == 1 else 'counts most'}"
        if len(most) > 1:
            how = f"the choices {listed(most)} count alike"
        budgets.setdefault(how, []).append(_part(trial["budget"]))
    decides = "; ".join(
        f"within {listed(within)} of what people mind, {how}" for how, within in budgets.items()
    )
    return (
        f"Three ways of choosing were tried out: {ways}. Models were trained on what each would choose, "
        "and ranked what people did next. Only what was reliably better than the first has a part in the "
        f"decisions: {decides}."
    )


def _nobody_gains(figures: Mapping[str, float], *, is_welfare: bool) -> list[str]:
    """Whether other decisions of one person would be better, by the estimates."""
    whom = "for all together" if is_welfare else "for themselves"
    facts = [f"By these estimates nobody could make things better {whom} by deciding otherwise."]
    if figures.get("largest_gain_share", 0.0) > AIMED_AT:
        facts = [
            f"By these estimates somebody could still make things better {whom} by deciding otherwise: by "
            f"up to {percent(figures['largest_gain_share'], 1)} of what a person gets."
        ]
    if is_welfare and figures.get("own_gainers"):
        people = f"{int(figures['own_gainers']):,}"
        facts.append(
            f"Other decisions would be better for {people} people themselves: what is used of them helps "
            "others more than them."
        )
    return facts


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
    price = f"a price of {number(figures['price'])}" if "price" in figures else "this price"
    if "anarchy_cost" in figures:
        ratio = figures.get("price_of_anarchy")
        times = "" if ratio is None else f", {number(ratio)} times the cost"
        facts.append(
            f"If people decided for themselves at {price}, all together would lose "
            f"{number(figures['anarchy_cost'])} of predicted reward per person against the best for "
            f"all{times} (the price of anarchy)."
        )
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
            f"Measuring could not tell what an interaction is worth to {whom} from noise: as far as it goes, "
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
"""The sources that are tried (`worth.trial.Kind`), in words."""


def _trial(trial: Mapping[str, Any]) -> str:
    """How each source of values did in the trial of one budget (`worth.trial.Trial.facts`)."""
    ranked = sorted(_SOURCES, key=lambda kind: -trial[kind]["ndcg"])
    ranks = listed([f"{_SOURCES[kind]} {percent(trial[kind]['ndcg'], 1)}" for kind in ranked])
    counts = listed([f"{_SOURCES[kind]} {share(trial[kind]['weight'])}" for kind in ranked])
    paths, alone = trial["structure"], trial["unwillingness"]
    verdict = f"So there these count: {counts}."
    if alone["weight"] == 1:
        verdict = "None is significantly better than unwillingness alone, which decides there."
    elif not paths["weight"] and paths["ndcg"] > alone["ndcg"]:
        verdict += (
            " The paths between people, not significantly better than unwillingness alone, have weight 0."
        )
    return (
        f"Within {percent(trial['budget'], 0)} of the violation, models were trained on what each source of "
        f"values would choose, and ranked validation rows with an NDCG@5 of: {ranks}. {verdict}"
    )


def _gains(figures: Mapping[str, float], n_anchors: int, *, is_welfare: bool) -> str:
    """What could be gained by deviating; one anchor's best responses leave nothing to gain."""
    own = ""
    if is_welfare and "largest_own_gain" in figures:
        own = " Nor could anybody gain for themselves."
        if figures["own_gainers"]:
            own = (
                f" For themselves alone {plural(int(figures['own_gainers']), 'user')} could gain, at most "
                f"{number(figures['largest_own_gain'])} loss units, {number(figures['mean_own_gain'])} on "
                "average of all users: so much is given for others."
            )
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


def _rewards(figures: Mapping[str, float], certificate: Mapping[str, object]) -> str:
    at = f" at a price of {number(figures['price'])}" if "price" in figures else ""
    true = f"The true reward{at} after training is {number(figures['true_reward'])} per person"
    if {"reward_loss", "reward_form"} <= certificate.keys():
        kind = "" if certificate["reward_loss"] == _LOSS_OF_REWARDS else f" {certificate['reward_loss']}"
        true += f", by the {certificate['reward_form']} of their{kind} losses"
    if "predicted_reward" not in figures:
        return f"{true}; nothing was predicted."
    off = f", {percent(figures['prediction_error'], 1)} off" if "prediction_error" in figures else ""
    return f"{true}; {number(figures['predicted_reward'])} was predicted{off}."
