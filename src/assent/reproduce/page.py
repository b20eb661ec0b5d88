"""The page of a reproduction: each item with its tables and figures, and the paper's numbers beside ours."""

from collections.abc import Mapping, Sequence
from itertools import groupby

from assent.report.page import page
from assent.reproduce import paper
from assent.reproduce.paper import Beside, data_reasons
from assent.reproduce.run import Chapter, Reproduction
from assent.results.words import MINUS, NONE, fixed, plural
from assent.results.writers import Html, bullets, fewer_runs, grid, header, html, row_labels, section, tag

PROTOCOL = (
    "Split: the last interaction of each user is the test row, the one before it the validation row, each "
    "ranked among 99 sampled items. The paper's text says 70/10/20, but its tables fit this split.",
    "Reward: the mean loss of a user's validation samples, as in the paper's tables; eq. 1 says their sum.",
    "Base models are trained with assent's own settings, chosen on validation rows. At the full scale, the "
    "number of anchors, the prices and the embedding size are the paper's.",
    "A repeat draws anew: unwillingness of the real data, sampled items, anchors, initial parameters.",
    "The code that the authors published computes rewards on test losses and trains on withheld positives as "
    "negatives, unlike the paper's text. Here rewards are those of validation rows, and no model sees what "
    "is withheld.",
    "“Nothing” withholds everything. The paper does not show it; where it is best, no method beats using "
    "nothing.",
    "“wv”, the willingness violation, is the unwillingness of all that a user discloses, summed, in the mean "
    "over users. “Price” is what a unit of it costs in the reward: the paper's λ.",
    "“(nash)”: users play for their own reward each, as in the paper; “(welfare)”: for the sum of all. The "
    "paper's Base is All here; its MF, NeuMF, LightGCN, DIN and CDAE are mf, neumf, lightgcn, din and cdae.",
)


_SHORT = 40
"""Largest number of lines of a table that is open at first."""


def build_page(found: Reproduction) -> str:
    """The whole page as one HTML file that loads nothing."""
    plan = found.plan
    kicker = "assent reproduce · Recommendation with User Active Disclosing Willingness"
    links = [tag("a", each.item.title, href=f"#{each.item.name}") for each in found.chapters]
    opening = tag(
        "header",
        tag("p", kicker, class_="kicker"),
        tag("h1", f"The paper's tables and figures, run again ({plan.scale} scale)."),
        tag("p", _summary(found), class_="lede"),
        tag("nav", bullets(links), aria_label="Contents") if len(links) > 1 else "",
    )
    altered = [f"Settings of the user's own: {', '.join(plan.altered)}."] if plan.altered else []
    protocol = bullets([*PROTOCOL, *plan.reduced, *plan.fewer, *altered, found.provenance])
    failed = bullets(f"Could not be computed: {sentence}" for sentence in found.failed)
    return page(
        f"assent reproduces the paper: {plan.scale} scale, {plural(plan.repeats, 'repeat')}",
        opening,
        _data_section(found),
        section("How it was run", protocol),
        section("What went wrong", failed) if found.failed else "",
        *(_chapter(chapter, plan.repeats) for chapter in found.chapters),
    )


def _summary(found: Reproduction) -> str:
    numbers = [each for chapter in found.chapters for each in chapter.findings.beside]
    measured = [each for each in numbers if each.ours is not None]
    comparable = sum(not each.why for each in measured)
    return (
        f"{plural(found.plan.repeats, 'repeat')}; computing took {duration(found.seconds)} of one core. "
        f"{len(measured)} of the {len(numbers)} numbers that the paper has of these items, models and data "
        f"sets stand beside ours; {comparable} of them can be compared directly, and the others say why not."
    )


def duration(seconds: float) -> str:
    """Seconds in words."""
    if seconds < 100:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 6000 else f"{seconds / 3600:.1f} hours"


def _data_section(found: Reproduction) -> Html:
    sizes = found.plan.sizes
    names = ("data set", "users", "items", "interactions", "paper’s users", "paper’s items", "paper’s inter.")
    lines = [
        tag("tr", header(name, scope="row"), *(tag("td", f"{n:,}") for n in (*ours, *paper.sizes(name))))
        for name, ours in sizes.items()
    ]
    notes = bullets(f"{name}: {reason}" for name in sizes for reason in data_reasons(found.plan, name))
    absent = (tag("p", sentence) for sentence in found.notices)
    return section("Data", grid(names, [lines], "Data", "figures"), notes, *absent)


def _chapter(chapter: Chapter, repeats: int) -> Html:
    item, findings, done = chapter.item, chapter.findings, len(chapter.records)
    partial = [] if done == chapter.wanted else [f"{done} of {chapter.wanted} cells are there so far."]
    title, is_short = findings.table.title, len(findings.table.rows) <= _SHORT
    figures: list[Html] = []
    for small, some in groupby(findings.charts, lambda chart: chart.small):
        drawn = [tag("figure", chart.html()) for chart in some]
        figures += [tag("div", *drawn, class_="multiples")] if small else drawn
    return section(
        item.title,
        tag("p", f"{item.where} · assent reproduce {item.name}", class_="note"),
        tag("p", item.about),
        bullets([*partial, *findings.said]),
        *figures,
        tag("details", tag("summary", title), html(findings.table, title), **_OPEN if is_short else {}),
        _beside(findings.beside, repeats) if findings.beside else "",
        tag("p", item.not_comparable) if item.not_comparable else "",
        id=item.name,
    )


_OPEN = {"open": ""}


def _beside(numbers: Sequence[Beside], repeats: int) -> Html:
    """The paper's numbers beside ours: a line per place, three columns per figure.

    A difference that does not count has the numbers of its reasons, which are listed below the table.
    """
    figures = list(dict.fromkeys(each.figure for each in numbers))
    why = dict.fromkeys(why for each in numbers if each.ours is not None for why in each.why)
    reasons = {sentence: place for place, sentence in enumerate(why, 1)}
    places: dict[tuple[tuple[str, str], ...], dict[str, Beside]] = {}
    for each in numbers:
        places.setdefault(tuple(each.labels.items()), {})[each.figure] = each
    top: list[str] = [header(name, class_="label") for name, _ in next(iter(places))]
    top += [f"{figure}: {part}" for figure in figures for part in ("paper", "ours", "difference")]
    lines = []
    for place, row in places.items():
        cells = [cell for figure in figures for cell in _three(row.get(figure), reasons, repeats)]
        lines.append(tag("tr", *row_labels([value for _, value in place]), *cells))
    label = f"The paper's numbers beside ours ({len(numbers)})"
    explained = [
        tag("p", "Why numbers cannot be compared, by the number at their difference:"),
        tag("ol", *(tag("li", sentence) for sentence in reasons)),
    ]
    table = grid(top, [lines], label, "figures beside")
    return tag("details", tag("summary", label), table, *(explained if reasons else []), **_OPEN)


def _three(each: Beside | None, reasons: Mapping[str, int], repeats: int) -> list[Html]:
    """Paper, ours, difference with the numbers of the reasons why it misleads."""
    if each is None:
        return [tag("td", NONE)] * 3
    theirs = _number(each.paper, each.paper_error, paper.decimals(each.paper, each.decimals))
    ours = _number(each.ours, each.error, each.decimals) + fewer_runs(each.runs, repeats)
    difference = [NONE]
    if each.difference is not None:
        why = ", ".join(str(reasons[sentence]) for sentence in each.why)
        signed = f"{each.difference:+,.{each.decimals}f}".replace("-", MINUS)
        difference = [signed, *([tag("sup", why)] if why else [])]
    return [tag("td", theirs), tag("td", ours), tag("td", *difference)]


def _number(value: float | None, error: float | None, decimals: int) -> str:
    if value is None:
        return NONE
    return fixed(value, decimals) + ("" if error is None else f" ±{error:.3f}")
