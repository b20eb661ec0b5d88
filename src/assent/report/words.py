"""Numbers as the report writes them: fractions as percent, three significant digits, narrow spaces.

What the report calls things, and the headline: computed from the figures, as plain where they are bad.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

from assent.report.data import ALL, NOTHING, Kept, ReportData, Way, kept, mean, spread, standard_error

THIN = "\u202f"
"""Narrow space that does not break: between a number and its unit."""
MINUS = "\u2212"
NONE = "\u2013"
"""What stands where there is no number."""


def fixed(value: float, decimals: int) -> str:
    """`value` with that many decimals, thousands separated; never a negative zero."""
    text = f"{abs(value):,.{decimals}f}"
    return f"{MINUS}{text}" if value < 0 and any(digit in text for digit in "123456789") else text


def number(value: float, digits: int = 3) -> str:
    """So many significant digits; ∞ for infinity, powers of ten for the very small."""
    if math.isinf(value):
        return "∞" if value > 0 else f"{MINUS}∞"
    if value == 0:
        return "0"
    exponent = math.floor(math.log10(abs(value)))
    if exponent < -4:
        return f"{fixed(value / 10.0**exponent, 1)}·10{str(exponent).translate(_SUPERSCRIPTS)}"
    return fixed(value, max(0, digits - 1 - exponent))


def minded(unwillingness: float) -> str:
    """Two significant digits: little does not read as nothing, nor what is below 1 as "never"."""
    return ">0.99" if 0.995 <= unwillingness < 1 else number(unwillingness, 2)


def not_given(rest: object) -> str:
    """What stands behind an unwillingness that nobody gave; `rest` is what filled it in, where known."""
    return f"(not given: {rest})" if rest else "(not given)"


def share(fraction: float) -> str:
    """A share in whole percent; what is neither nothing nor everything never reads as 0 % or 100 %."""
    whole = round(100 * fraction)
    if whole == 0 and fraction > 1e-9:
        return f"<1{THIN}%"
    if whole == 100 and fraction < 1 - 1e-9:
        return f">99{THIN}%"
    return f"{whole}{THIN}%"


def percent(fraction: float, decimals: int = 0) -> str:
    """A fraction in percent."""
    return f"{fixed(100 * fraction, decimals)}{THIN}%"


def percent_with_error(fraction: float, error: float | None, decimals: int) -> str:
    """A fraction in percent with its standard error, where there is one."""
    if error is None:
        return percent(fraction, decimals)
    return f"{fixed(100 * fraction, decimals)}{THIN}±{THIN}{percent(error, decimals)}"


def decimals_for(values: Iterable[float]) -> int:
    """Decimals that give the largest of `values` three significant digits (at least 0, at most 3)."""
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    return min(3, max(0, 2 - math.floor(math.log10(largest)))) if largest else 1


def listed(words: Sequence[str]) -> str:
    """a; a and b; a, b and c."""
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1]))) if words else ""


def plural(n: int, singular: str) -> str:
    """A count with its noun: 1 seed, 4 seeds."""
    return f"{n:,} {singular}" if n == 1 else f"{n:,} {singular}s"


_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


METRIC = "NDCG@5"

_METHODS: Mapping[str, tuple[str, str]] = {
    "all": ("All", "uses everything, as recommenders do today."),
    "nothing": ("Nothing", "uses no interaction at all."),
    "random": ("Random", "draws lots."),
    "threshold": ("Threshold", "uses what its owner minds least, whatever it is worth."),
    "occurrence": ("Occurrence", "uses what many others have too and its owner minds little."),
    "ifrqe": ("IFRQE", "weighs what each interaction is estimated to be worth against what its owner minds."),
    "ifrqe++": ("IFRQE++", "weighs worth against unwillingness, with estimates from several trained models."),
    "proactive": ("Proactive", "learns by trial, a training each, what people would rather disclose."),
    "scratch": ("SCR", "tries selections out, a training each, to see what each interaction is worth."),
}
_OBJECTIVES: Mapping[str, str] = {
    "welfare": "counts what an interaction does for everybody.",
    "nash": "counts only what an interaction does for its owner.",
}
_CLEAR_LIFT = 1.1
"""Below this multiple of Nothing's quality, All's is too close to it for shares of it to mean much."""
_FLATTERY = 0.02
"""How far the share of All's quality may exceed the share of what All adds to Nothing, unsaid."""


def name(way: Way) -> str:
    """A method as readers see it, with its objective: IFRQE++ (welfare)."""
    method, objective = way
    label = _METHODS[method][0] if method in _METHODS else method
    return f"{label} ({objective})" if objective else label


def described(ways: Sequence[Way]) -> list[tuple[str, str]]:
    """Name and description of the methods and objectives that are known, each once."""
    methods, objectives = {way[0] for way in ways}, {way[1] for way in ways}
    return [
        *(text for method, text in _METHODS.items() if method in methods),
        *((f"({objective})", text) for objective, text in _OBJECTIVES.items() if objective in objectives),
    ]


def headline(data: ReportData) -> str:
    """The run in one sentence."""
    quality = kept(data.of(data.way), data.of(ALL))
    if data.way == ALL:
        return "Everything is used, also what people would rather not share"
    used = "Using nothing" if data.way == NOTHING else _used(mean(data.of(data.way), "violation_share"))
    if quality is None:
        return f"{used} cannot be judged: even with everything, no test item is found"
    return f"{used} {_effect(quality, spread(data))}"


def _used(violation_share: float) -> str:
    if violation_share == 0:
        return "Using only what people share freely"
    return f"Using {share(violation_share)} of what people would rather not share"


def _effect(quality: Kept, chance: float | None) -> str:
    """What happens to the quality; a rise that chance explains is not called one."""
    ratio, error = quality
    change = abs(ratio - 1)
    if change < 0.005 or 1 < ratio <= 1 + ((chance if error is None else error) or 0):
        return f"keeps the recommendation quality: {relative(ratio)} of it"
    if ratio > 1:
        return f"raises the recommendation quality by {percent(change, 1 if change < 0.01 else 0)}"
    if ratio >= 0.9:
        return f"keeps {relative(ratio)} of the recommendation quality"
    if ratio >= 0.5:
        return f"loses {percent(change)} of the recommendation quality"
    return f"loses most of the recommendation quality: only {share(ratio)} is left"


def relative(ratio: float) -> str:
    """A ratio to All's quality in percent, with a decimal where whole percents would hide the difference."""
    return percent(ratio, 1 if abs(ratio - 1) < 0.01 else 0)


def in_figures(data: ReportData) -> list[str]:
    """The sentences below the headline: the figures behind it, and what they are worth."""
    groups = [data.of(way) for way in (data.way, ALL, NOTHING)]
    means = [mean(records) for records in groups]
    decimals = decimals_for(100 * value for value in means)
    run, everything, nothing = (
        percent_with_error(value, standard_error(records), decimals)
        for value, records in zip(means, groups, strict=True)
    )
    reached = {
        ALL: f"{METRIC} is {everything} with everything and {nothing} with nothing.",
        NOTHING: f"{METRIC} is {nothing} with nothing, against {everything} with everything.",
    }
    return [
        reached.get(
            data.way,
            f"{METRIC} is {run}, against {everything} with everything and {nothing} with nothing.",
        ),
        *_within_error(data),
        *_lift(*means, way=data.way),
    ]


def _within_error(data: ReportData) -> list[str]:
    quality, chance = kept(data.of(data.way), data.of(ALL)), spread(data)
    if data.way == ALL or quality is None:
        return []
    change = abs(quality.ratio - 1)
    if quality.error is not None:
        within = "The difference from using everything is within one standard error."
        return [within] if change <= quality.error else []
    if chance is not None and change <= chance:
        return [f"With everything, it varies by ±{percent(chance, 1)} between seeds: this may be chance."]
    return []


def _lift(run: float, everything: float, nothing: float, *, way: Way) -> list[str]:
    """How much of what data adds remains: a share of All's quality flatters where Nothing does well too."""
    if everything < _CLEAR_LIFT * nothing:
        return [
            "With everything the recommender is hardly better than with nothing, "
            "so this data cannot show what disclosing is worth."
        ]
    if way in (ALL, NOTHING) or not everything > nothing:
        return []
    lift = (run - nothing) / (everything - nothing)
    if lift <= 0:
        return ["That is no better than using nothing."]
    if run / everything - lift < _FLATTERY:
        return []
    return [f"Of what using everything adds to using nothing, it keeps {share(lift)}."]
