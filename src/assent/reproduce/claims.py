"""What the paper claims in its abstract and in section 5, each with a verdict.

A claim is held against the tables of a reproduction. Where the paper's own tables already say otherwise, it
is contradicted, whatever is measured here. What a claim needs and nobody has measured leaves it open.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import mean, median

from assent.reproduce import paper
from assent.reproduce.item import F1, REWARD, SECONDS, VIOLATION, Chapter
from assent.reproduce.plan import NULLS, OURS, PAPER_METHODS, SCR, Plan
from assent.results.records import METHOD
from assent.results.records import name as way_name
from assent.results.table import Row, Table, rows_by
from assent.results.words import listed, percent, plural


class Ruling(StrEnum):
    """What is known of a claim."""

    CONFIRMED = "confirmed"
    """It holds in what was measured here."""
    REFUTED = "not confirmed"
    """It does not hold in what was measured here."""
    CONTRADICTED = "contradicted"
    """The paper's own tables say otherwise."""
    OPEN = "open"
    """What it needs was not measured."""


Found = tuple[Ruling, str]
Tables = Mapping[str, Table]
"""The tables of the items that were run, by the item's name."""
_UNMEASURED: Found = (Ruling.OPEN, "Not measured.")
_OURS = way_name(OURS)
_NAMES = {theirs: way_name(way) for theirs, way in PAPER_METHODS.items()}
_SIMULATION, _DIGINETICA, _STEAM, _AMAZON = "simulation", "diginetica", "steam", "amazon_video"


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper."""

    where: str
    says: str
    judge: Callable[[Tables], Found]


@dataclass(frozen=True)
class Ruled:
    """A claim with its verdict."""

    claim: Claim
    ruling: Ruling
    because: str


def rule(plan: Plan, chapters: Sequence[Chapter]) -> list[Ruled]:
    """Return a verdict on every claim, by the tables of the chapters.

    A smaller version of the experiment confirms and refutes nothing.
    """
    tables = {} if plan.reduced else {chapter.item.name: chapter.table for chapter in chapters}
    return [Ruled(claim, *claim.judge(tables)) for claim in CLAIMS]


def summary(ruled: Sequence[Ruled]) -> str:
    """How many claims have each verdict, in a sentence."""
    number = {ruling: sum(each.ruling is ruling for each in ruled) for ruling in Ruling}
    parts = ", ".join(f"{count} {ruling}" for ruling, count in number.items())
    return f"Of {plural(len(ruled), 'claim')} of the paper: {parts}."


def _places(table: Table) -> Iterator[dict[str, Row]]:
    """The rows of each place by method: data set, model and whatever else a table tells apart."""
    for rows in rows_by(table.rows, *(label for label in table.labels if label != METHOD)).values():
        yield {str(row.labels[METHOD]): row for row in rows}


def _value(row: Row, figure: str) -> float:
    return row.amounts[figure].mean or 0.0


def _most(table: Table | None, figure: str, rivals: Iterable[str], *, larger: bool = True) -> Found:
    """Whether IFRQE++ is at or beyond all rivals in a figure at more than half of the places."""
    known, won = 0, 0
    for place in _places(table) if table else ():
        there = [place[name] for name in rivals if name in place]
        if _OURS in place and there:
            sign = 1 if larger else -1
            own, others = _value(place[_OURS], figure), [_value(row, figure) for row in there]
            known += 1
            won += all(sign * own >= sign * other for other in others)
    if not known:
        return _UNMEASURED
    ruling = Ruling.CONFIRMED if 2 * won > known else Ruling.REFUTED
    return ruling, f"At {won} of {plural(known, 'place')}."


def _rivals(*names: str) -> list[str]:
    return [_NAMES[name] for name in names]


def _of_table(found: Found, theirs: tuple[int, int]) -> Found:
    """Add what the paper's own table says: at how many of its places."""
    return found[0], f"{found[1]} In the paper's own table: {theirs[0]} of {theirs[1]}."


def _theirs(figure: str, rivals: Sequence[str], *, larger: bool = True) -> tuple[int, int]:
    """At how many places of the paper's Table 1 IFRQE++ is at or beyond all rivals, and of how many."""
    won = places = 0
    for methods in paper.numbers()["overall"].values():
        for dataset in methods["Base"]:
            own, others = (
                [float(methods[name][dataset][figure][0]) for name in names]
                for names in (["IFRQE++"], rivals)
            )
            sign = 1 if larger else -1
            won += all(sign * own[0] >= sign * other for other in others)
            places += 1
    return won, places


def _willingness(tables: Tables) -> Found:
    rivals = ("Base", "Random", "Threshold")
    found = _most(tables.get("overall"), VIOLATION.key, _rivals(*rivals), larger=False)
    return _of_table(found, _theirs("wv", rivals, larger=False))


def _best_reward(tables: Tables) -> Found:
    rivals = [name for name in PAPER_METHODS if name != "IFRQE++"]
    found = _most(tables.get("overall"), REWARD.key, _rivals(*rivals))
    return _of_table(found, _theirs("reward", rivals))


def _significant(tables: Tables) -> Found:
    """Whether the rewards of all that the paper compares with are significantly below, where tested."""
    tested = [
        row.amounts[REWARD.key]
        for place in (_places(tables["overall"]) if "overall" in tables else ())
        for name, row in place.items()
        if name in _NAMES.values() and row.amounts[REWARD.key].p is not None
    ]
    if not tested:
        return _UNMEASURED
    sure = sum(each.sign.startswith("↓") for each in tested)
    ruling = Ruling.CONFIRMED if sure == len(tested) else Ruling.REFUTED
    return ruling, f"The reward is significantly above a rival's in {sure} of {len(tested)} tests."


def _drop(_: Tables) -> Found:
    models, datasets = paper.numbers()["overall"], paper.numbers()["datasets"]
    own = mean(paper.gain(model, data, "f1") for model in models for data in datasets)
    return _against(-0.0802, own, "F1 changes")


def _rise(dataset: str, said: float) -> Callable[[Tables], Found]:
    def judge(_: Tables) -> Found:
        own = mean(paper.gain(model, dataset, "reward") for model in paper.numbers()["overall"])
        return _against(said, own, "the reward changes")

    return judge


def _against(said: float, own: float, what: str) -> Found:
    """Whether the paper's tables say what its text says of them."""
    if paper.agree(own, said):
        return Ruling.CONFIRMED, f"In the paper's Table 1 {what} by {percent(own, 1)} on average."
    return Ruling.CONTRADICTED, f"In the paper's own Table 1 {what} by {percent(own, 1)} on average."


def _improved(_: Tables) -> Found:
    """That F1 of MF is even improved on Diginetica and Amazon."""
    gains = {data: paper.gain("MF", data, "f1") for data in (_DIGINETICA, _AMAZON)}
    said = listed([f"{data} {percent(each, 1)}" for data, each in gains.items()])
    if all(each > 0 for each in gains.values()):
        return Ruling.CONFIRMED, f"F1 of IFRQE++ in the paper's Table 1: {said}."
    return Ruling.CONTRADICTED, f"In the paper's own Table 1, F1 of IFRQE++ with MF changes: {said}."


def _quality(tables: Tables) -> Found:
    """That quality is not sacrificed too much: at most a tenth of F1, in the median."""
    shares = [
        _value(place[_OURS], F1.key) / _value(place[_NAMES["Base"]], F1.key)
        for place in (_places(tables["overall"]) if "overall" in tables else ())
        if {_OURS, _NAMES["Base"]} <= place.keys() and _value(place[_NAMES["Base"]], F1.key)
    ]
    if not shares:
        return _UNMEASURED
    ruling = Ruling.CONFIRMED if median(shares) >= 0.9 else Ruling.REFUTED
    return ruling, f"IFRQE++ keeps {percent(median(shares))} of All's F1 in the median of the places."


def _beyond_random(tables: Tables) -> Found:
    table = tables.get("overall")
    found = _most(table, REWARD.key, _rivals("Random"))
    null = _most(table, REWARD.key, [way_name(NULLS[0])])
    if null[0] is Ruling.OPEN:
        return found
    return found[0], f"{found[1]} It is at or above the same method without influence: {null[1].lower()}"


def _seconds(item: str, rival: str, least: float, said: str) -> Callable[[Tables], Found]:
    """Whether a rival takes at least half as many times as long as the paper says, in the median."""

    def judge(tables: Tables) -> Found:
        ratios = [
            _value(place[rival], SECONDS.key) / _value(place[_OURS], SECONDS.key)
            for place in (_places(tables[item]) if item in tables else ())
            if {rival, _OURS} <= place.keys() and _value(place[_OURS], SECONDS.key)
        ]
        if not ratios:
            return Ruling.OPEN, said or "Not measured."
        ruling = Ruling.CONFIRMED if median(ratios) >= least / 2 else Ruling.REFUTED
        spread = f"{min(ratios):.1f} to {max(ratios):.1f}, median {median(ratios):.1f}"
        times = spread if len(ratios) > 1 else f"{ratios[0]:.1f}"
        return ruling, f"{rival} takes {times} times as long. {said}".strip()

    return judge


def _own_seconds() -> str:
    """What the paper's own seconds say of SCR."""
    scratch = paper.numbers()["scratch"]
    ratios = [
        rows["SCR"]["seconds"] / rows["IFRQE++"]["seconds"]
        for models in scratch.values()
        for rows in models.values()
    ]
    return f"The ratios of the paper's own seconds: median {median(ratios):.0f}, mean {mean(ratios):.0f}."


def _scratch(tables: Tables) -> Found:
    """That SCR takes 20.3 times as long, which the paper's own seconds do not give."""
    return Ruling.CONTRADICTED, _seconds("scratch", way_name(SCR), 20.3, _own_seconds())(tables)[1]


def _approximated(tables: Tables) -> Found:
    """That the error of IFRQE++ is small, and that predicting no change is not as good."""
    rows = tables["approximation"].rows if "approximation" in tables else []
    if not rows:
        return _UNMEASURED
    errors = [(_value(row, "error_ifrqe++"), _value(row, "error_unchanged")) for row in rows]
    idle = sum(unchanged <= own for own, unchanged in errors)
    largest = max(own for own, _ in errors)
    said = (
        f"The largest error is {percent(largest, 1)}; predicting no change is at least as accurate at {idle} "
        f"of {plural(len(rows), 'place')}."
    )
    return (Ruling.CONFIRMED if largest <= 0.2 and 2 * idle <= len(rows) else Ruling.REFUTED), said


def _more_accurate(tables: Tables) -> Found:
    rows = tables["approximation"].rows if "approximation" in tables else []
    if not rows:
        return _UNMEASURED
    better = sum(_value(row, "error_ifrqe++") < _value(row, "error_ifrqe") for row in rows)
    ruling = Ruling.CONFIRMED if better == len(rows) else Ruling.REFUTED
    return ruling, f"At {better} of {plural(len(rows), 'place')}."


def _by_anchors(table: Table, figure: str) -> Iterator[list[float]]:
    """A figure of IFRQE++ along T, place by place."""
    own = [row for row in table.rows if row.labels[METHOD] == _OURS]
    for rows in rows_by(own, "dataset", "model").values():
        ordered = sorted(rows, key=lambda row: float(row.labels["anchors"]))
        if len(ordered) > 1:
            yield [_value(row, figure) for row in ordered]


def _more_anchors(tables: Tables) -> Found:
    paths = [*_by_anchors(tables["anchors"], REWARD.key)] if "anchors" in tables else []
    if not paths:
        return _UNMEASURED
    worst = sum(path[0] == min(path) for path in paths)
    ruling = Ruling.CONFIRMED if 2 * worst > len(paths) else Ruling.REFUTED
    return ruling, f"One anchor has the least reward at {worst} of {plural(len(paths), 'place')}."


def _more_time(tables: Tables) -> Found:
    paths = [*_by_anchors(tables["anchors"], SECONDS.key)] if "anchors" in tables else []
    if not paths:
        return _UNMEASURED
    slower = sum(path[-1] > path[0] for path in paths)
    ruling = Ruling.CONFIRMED if slower == len(paths) else Ruling.REFUTED
    return ruling, f"The most anchors take longer than one at {slower} of {plural(len(paths), 'place')}."


def _two_best(tables: Tables) -> Found:
    """That IFRQE and IFRQE++ are the two best in settings A to D."""
    known = won = 0
    names = [name for theirs, name in _NAMES.items() if theirs != "Proactive"]
    for place in _places(tables["willingness"]) if "willingness" in tables else ():
        there = {name: _value(place[name], REWARD.key) for name in names if name in place}
        if {_OURS, _NAMES["IFRQE"]} <= there.keys():
            known += 1
            won += {_OURS, _NAMES["IFRQE"]} == set(sorted(there, key=lambda name: there[name])[-2:])
    if not known:
        return _UNMEASURED
    return (Ruling.CONFIRMED if 2 * won > known else Ruling.REFUTED), f"At {won} of {plural(known, 'place')}."


_ABSTRACT, _OVERALL = "Abstract", "Section 5.2"
CLAIMS: Sequence[Claim] = (
    Claim(
        _ABSTRACT,
        "Influence functions lower the time of exploring recommendation quality (appendix: 20.3 times).",
        _scratch,
    ),
    Claim(_ABSTRACT, "Quality and willingness are balanced well: best rewards.", _best_reward),
    Claim(_OVERALL, "wv is usually better than the base model's and the heuristics'.", _willingness),
    Claim(_OVERALL, "Recommendation quality is not sacrificed too much.", _quality),
    Claim(_OVERALL, "On average, F1 drops by about 8.02 %.", _drop),
    Claim(_OVERALL, "With MF on Diginetica and Amazon, F1 is even improved.", _improved),
    Claim(_OVERALL, "The reward is the best on most data sets and base models.", _best_reward),
    Claim(_OVERALL, "The base model's reward rises by 12.4 % on the simulation.", _rise(_SIMULATION, 0.124)),
    Claim(_OVERALL, "… by 11.1 % on Diginetica.", _rise(_DIGINETICA, 0.111)),
    Claim(_OVERALL, "… by 14.6 % on Steam.", _rise(_STEAM, 0.146)),
    Claim(_OVERALL, "… by 21.3 % on Amazon Video.", _rise(_AMAZON, 0.213)),
    Claim(_OVERALL, "Blindly sampling selections (Random) does not work as well.", _beyond_random),
    Claim(
        _OVERALL,
        "Training is on average 13.5 times faster than Proactive's.",
        _seconds("overall", _NAMES["Proactive"], 13.5, ""),
    ),
    Claim(
        _OVERALL,
        "IFRQE++ is better than IFRQE in more cases.",
        lambda tables: _of_table(
            _most(tables.get("overall"), REWARD.key, _rivals("IFRQE")), _theirs("reward", ["IFRQE"])
        ),
    ),
    Claim("Table 1", "The improvements are significant under a paired t-test.", _significant),
    Claim("Section 5.3", "The validation loss is approximated well: within 15.2 and 1.2 %.", _approximated),
    Claim("Section 5.3", "IFRQE++ is more accurate than IFRQE on both data sets.", _more_accurate),
    Claim("Section 5.4", "One anchor is not satisfying; more anchors improve the reward.", _more_anchors),
    Claim("Section 5.4", "More anchors take more time.", _more_time),
    Claim("Section 5.5", "IFRQE++ and IFRQE are usually the best two for every character.", _two_best),
)  # fmt: skip
"""In the order of the paper."""
