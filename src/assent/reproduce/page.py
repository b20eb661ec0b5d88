"""The page of a reproduction: each item with its tables and figures, and the paper's numbers beside ours."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from assent.report.page import page
from assent.reproduce import paper
from assent.reproduce.paper import Beside, data_reasons
from assent.reproduce.plan import Plan
from assent.reproduce.run import Chapter, Reproduction
from assent.results.plot import Chart
from assent.results.words import MINUS, NONE, fixed, plural
from assent.results.writers import (
    Html,
    bullets,
    fewer_runs,
    grid,
    header,
    html,
    join,
    paragraph,
    row_labels,
    tag,
)  # fmt: skip

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


def build_page(found: Reproduction) -> str:
    """The whole page as one HTML file that loads nothing."""
    plan = found.plan
    title = f"assent reproduces the paper: {plan.scale} scale, {plural(plan.repeats, 'repeat')}"
    kicker = "assent reproduce · Recommendation with User Active Disclosing Willingness"
    return page(
        title,
        tag(
            "header",
            tag("p", kicker, class_="kicker"),
            tag("h1", f"The paper's tables and figures, run again ({plan.scale} scale)."),
            tag("p", _summary(found), class_="lede"),
            _contents(found),
        ),
        _data_section(found),
        tag(
            "section",
            tag("h2", "How it was run"),
            bullets([*PROTOCOL, *plan.reduced, *plan.fewer, *_altered(plan), found.provenance]),
        ),
        _trouble(found),
        *(_section(chapter, plan.repeats) for chapter in found.chapters),
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


def _altered(plan: Plan) -> list[str]:
    """What the user has set otherwise."""
    return [f"Settings of the user's own: {', '.join(plan.altered)}."] if plan.altered else []


def _contents(found: Reproduction) -> Html:
    """Links to the items, where there are several."""
    if len(found.chapters) < 2:
        return join([])
    links = (tag("a", each.item.title, href=f"#{each.item.name}") for each in found.chapters)
    return tag("nav", bullets(links), aria_label="Contents")


def duration(seconds: float) -> str:
    """Seconds in words."""
    if seconds < 100:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 6000 else f"{seconds / 3600:.1f} hours"


def _data_section(found: Reproduction) -> Html:
    lines = [
        tag("tr", header(name, scope="row"), *(tag("td", f"{n:,}") for n in (*ours, *paper.sizes(name))))
        for name, ours in found.plan.sizes.items()
    ]
    names = ("data set", "users", "items", "interactions", "paper’s users", "paper’s items", "paper’s inter.")
    notes = [
        f"{name}: {sentence}" for name in found.plan.sizes for sentence in data_reasons(found.plan, name)
    ]
    absent = [paragraph(sentence) for sentence in found.notices]
    return tag("section", tag("h2", "Data"), grid(names, [lines], "Data", "figures"), bullets(notes), *absent)


def _trouble(found: Reproduction) -> Html:
    """Cells that are not there because they failed."""
    said = [f"Could not be computed: {sentence}" for sentence in found.failed]
    return tag("section", tag("h2", "What went wrong"), bullets(said)) if said else join([])


def _section(chapter: Chapter, repeats: int) -> Html:
    item, findings = chapter.item, chapter.findings
    done = len(chapter.records)
    partial = [] if done == chapter.wanted else [f"{done} of {chapter.wanted} cells are there so far."]
    return tag(
        "section",
        tag("h2", item.title),
        tag("p", f"{item.where} · assent reproduce {item.name}", class_="note"),
        paragraph(item.about),
        bullets([*partial, *findings.said]),
        *_figures(findings.charts),
        _folded(findings.table.title, len(findings.table.rows), html(findings.table, findings.table.title)),
        _beside(findings.beside, repeats) if findings.beside else join([]),
        paragraph(findings.not_comparable) if findings.not_comparable else join([]),
        id=item.name,
    )


def _figures(charts: Sequence[Chart]) -> Iterator[Html]:
    """The figures; small ones beside each other."""
    for small, some in groupby(charts, lambda chart: chart.small):
        figures = [tag("figure", chart.html()) for chart in some]
        yield tag("div", *figures, class_="multiples") if small else join(figures)


def _folded(title: str, lines: int, *parts: Html) -> Html:
    """A table of ours under its title, closed where it is long."""
    is_open = {"open": ""} if lines <= _SHORT else {}
    return tag("details", tag("summary", title), *parts, **is_open)


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
    listed = tag("ol", *(tag("li", sentence) for sentence in reasons))
    explained = [paragraph("Why numbers cannot be compared, by the number at their difference:"), listed]
    return _folded(label, 0, grid(top, [lines], label, "figures beside"), *(explained if reasons else []))


def _three(each: Beside | None, reasons: Mapping[str, int], repeats: int) -> Iterator[Html]:
    """Paper, ours, difference with the numbers of the reasons why it misleads."""
    if each is None:
        yield from (tag("td", NONE) for _ in range(3))
        return
    yield tag("td", _number(each.paper, each.paper_error, paper.decimals(each.paper, each.decimals)))
    yield tag("td", _number(each.ours, each.error, each.decimals) + fewer_runs(each.runs, repeats))
    if each.difference is None:
        yield tag("td", NONE)
        return
    signed = f"{each.difference:+,.{each.decimals}f}".replace("-", MINUS)
    why = ", ".join(str(reasons[sentence]) for sentence in each.why)
    yield tag("td", signed, *([tag("sup", why)] if why else []))


def _number(value: float | None, error: float | None, decimals: int) -> str:
    if value is None:
        return NONE
    return fixed(value, decimals) + ("" if error is None else f" ±{error:.3f}")


_SHORT = 40
"""Largest number of lines of a table that is open at first."""
