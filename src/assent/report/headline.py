"""The headline and the lede of a report: computed from the figures, and as plain where they are bad."""

from assent.report.data import Kept, ReportData, kept, mean, spread, standard_error
from assent.results.records import ALL, NOTHING, Way
from assent.results.words import decimals_for, percent, share

_CLEAR_LIFT = 1.1
"""Below this multiple of Nothing's quality, All's is too close to it for shares of it to mean much."""
_FLATTERY = 0.02
"""How far the share of All's quality may exceed the share of what All adds to Nothing, unsaid."""


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
        percent(value, decimals, standard_error(records))
        for value, records in zip(means, groups, strict=True)
    )
    reached = {
        ALL: f"{data.metric} is {everything} with everything and {nothing} with nothing.",
        NOTHING: f"{data.metric} is {nothing} with nothing, against {everything} with everything.",
    }
    return [
        reached.get(
            data.way,
            f"{data.metric} is {run}, against {everything} with everything and {nothing} with nothing.",
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
