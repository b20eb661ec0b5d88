"""What a reproduction writes: the files of its items, the verdicts, and one page with all of it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import resources
from itertools import groupby
from pathlib import Path

import polars as pl

from assent.report.page import page
from assent.reproduce import paper
from assent.reproduce.beside import Beside, data_reasons
from assent.reproduce.claims import rule, summary
from assent.reproduce.item import Chapter
from assent.reproduce.run import Reproduction
from assent.reproduce.verdicts import MEANING, counts, judge, shares
from assent.results import writers
from assent.results.words import MINUS, NONE, fixed, plural
from assent.results.writers import Html, bullets, fewer_runs, grid, header, html, row_labels, section, tag
from assent.support.files import write_with

PAGE = "index.html"
VERDICTS, CLAIMS = "verdicts.csv", "claims.csv"
PROTOCOL = (
    "Split: the last interaction of each user is the test row, the one before it the validation row, each "
    "ranked among 99 sampled items. The paper's text says 70/10/20, but its tables fit this split.",
    "Reward: the mean loss of a user's validation samples, as in the paper's tables; eq. 1 says their sum.",
    "A repeat draws anew: unwillingness of the real data, sampled items, anchors, initial parameters.",
    "The code that the authors published computes rewards on test losses and trains on withheld positives as "
    "negatives, unlike the paper's text. Here no model sees what is withheld, and rewards are those of "
    "validation rows but in the profile authors.",
    "“Nothing” withholds everything. The paper does not show it; where it is best, no method beats using "
    "nothing.",
    "“wv”, the willingness violation, is the unwillingness of all that a user discloses, summed, in the mean "
    "over users. “Price” is what a unit of it costs in the reward: the paper's λ.",
    "“(nash)”: users play for their own reward each, as in the paper; “(welfare)”: for the sum of all. The "
    "paper's Base is All here; its MF, NeuMF, LightGCN, DIN and CDAE are mf, neumf, lightgcn, din and cdae.",
)
_SHORT = 40
"""Largest number of lines of a table that is open at first."""
_OPEN = {"open": ""}


def write_chapter(chapter: Chapter, out: Path) -> list[Path]:
    """Write an item's files into OUT/NAME: tables, figures, records, the paper's numbers."""
    folder = out / chapter.item.name
    files = writers.write(chapter.table, folder)
    files += [file for chart in chapter.charts for file in chart.write(folder)]
    files.append(folder / "records.parquet")
    write_with(files[-1], pl.DataFrame(chapter.records, infer_schema_length=None).write_parquet)
    if chapter.beside:
        columns = ("figure", "paper", "paper_error", "ours", "error", "runs", "difference")
        lines = [
            {
                **each.labels,
                **{name: getattr(each, name) for name in columns},
                "not_comparable": " ".join(each.why),
            }
            for each in chapter.beside
        ]
        files.append(folder / "beside-the-paper.csv")
        write_with(files[-1], pl.DataFrame(lines, infer_schema_length=None).write_csv)
    return files


def build_page(found: Reproduction) -> str:
    """The whole page as one HTML file that loads nothing."""
    plan = found.plan
    kicker = "assent reproduce · Recommendation with User Active Disclosing Willingness"
    links = [tag("a", each.item.title, href=f"#{each.item.name}") for each in found.chapters]
    opening = tag(
        "header",
        tag("p", kicker, class_="kicker"),
        tag("h1", f"The paper's tables and figures, run again ({plan.scale} scale, profile {plan.profile})."),
        tag("p", _summary(found), class_="lede"),
        tag("nav", bullets(links), aria_label="Contents") if len(links) > 1 else "",
    )
    altered = [f"Settings of the user's own: {', '.join(plan.altered)}."] if plan.altered else []
    protocol = bullets(
        [*plan.profile.about, *PROTOCOL, *plan.reduced, *plan.fewer, *altered, found.provenance]
    )
    failed = bullets(f"Could not be computed: {sentence}" for sentence in found.failed)
    return page(
        f"assent reproduces the paper: {plan.scale} scale, profile {plan.profile}, "
        f"{plural(plan.repeats, 'repeat')}",
        opening,
        _claims(found),
        _verdicts(found),
        _against_itself(),
        _data_section(found),
        section("How it was run", protocol),
        section("What went wrong", failed) if found.failed else "",
        *(_chapter(chapter, plan.repeats) for chapter in found.chapters),
        script=resources.files("assent.reproduce").joinpath("sort.js").read_text(encoding="utf-8"),
    )


def _summary(found: Reproduction) -> str:
    numbers = [each for chapter in found.chapters for each in chapter.beside]
    measured = sum(each.ours is not None for each in numbers)
    return (
        f"{plural(found.plan.repeats, 'repeat')}; computing took {duration(found.seconds)} of one core. "
        f"{measured} of the {len(numbers)} numbers that the paper has of these items, models and data "
        f"sets stand beside ours. {counts(judge(found.plan, found.chapters, found.counted))}"
    )


def _verdicts(found: Reproduction) -> Html:
    """Every number with its verdict: a table per verdict, largest differences first."""
    judged = judge(found.plan, found.chapters, found.counted)
    parts = []
    for verdict, meaning in MEANING.items():
        own = [each for each in judged if each.verdict is verdict]
        if not own:
            continue
        top = [header(name, class_="label") for name in ("item", "place", "figure")]
        lines = [
            tag(
                "tr",
                *row_labels([each.item, ", ".join(each.number.labels.values()), each.number.figure]),
                *_three(replace(each.number, why=()), {}, found.plan.repeats),
                tag("td", each.because or NONE),
            )
            for each in own
        ]
        label = f"{verdict.capitalize()} ({len(own)})"
        headings = [*top, "paper", "ours", "difference", "because"]
        table = grid(headings, [lines], label, "figures beside sortable")
        parts.append(tag("details", tag("summary", label), tag("p", meaning), table))
    said = [tag("p", sentence) for sentence in (counts(judged), *shares(judged))]
    how = tag("p", "Largest differences come first. A heading sorts by its column.")
    return section("Verdicts", *said, how, *parts, id="verdicts") if judged else tag("p", "")


def _claims(found: Reproduction) -> Html:
    """Every claim of the paper with its verdict."""
    ruled = rule(found.plan, found.chapters)
    top = [header(name, class_="label") for name in ("where", "the paper says", "verdict", "because")]
    lines = [
        tag("tr", *row_labels([each.claim.where, each.claim.says, each.ruling.value, each.because]))
        for each in ruled
    ]
    said = summary(ruled)
    return section("Claims", tag("p", said), grid(top, [lines], "Claims", "figures sentences"), id="claims")


def _against_itself() -> Html:
    """What the paper prints that cannot all be true, whatever is measured."""
    known = paper.contradictions()
    lines = [
        tag("tr", *row_labels([" · ".join(path), f"{(paper.look_up(*path) or (0.0,))[0]:g}", sentence]))
        for path, sentence in known.items()
    ]
    label = f"Numbers that the paper contradicts itself ({len(known)})"
    top = [header(name, class_="label") for name in ("where", "number", "because")]
    table = tag("details", tag("summary", label), grid(top, [lines], label, "figures sentences"))
    about = "Computed from the paper's tables alone: its tables of the same thing, and what one row implies."
    same, rows = paper.shared_errors()
    errors = (
        f"In {same} of {rows} rows the standard errors of precision, NDCG and MRR in the appendix are, digit "
        "by digit, those of F1, wv and reward in Table 1. They cannot be both, so a mark of two such errors "
        "is not to be relied on."
    )
    return section("The paper against itself", tag("p", about), tag("p", errors), table, id="contradictions")


def conclusions(found: Reproduction) -> list[str]:
    """How many numbers and claims have which verdict, in sentences."""
    judged = judge(found.plan, found.chapters, found.counted)
    return [counts(judged), *shares(judged), summary(rule(found.plan, found.chapters))]


def write_claims(found: Reproduction, out: Path) -> Path:
    """Write OUT/claims.csv: every claim of the paper with its verdict."""
    lines = [
        {
            "verdict": each.ruling.value,
            "where": each.claim.where,
            "claim": each.claim.says,
            "because": each.because,
        }
        for each in rule(found.plan, found.chapters)
    ]
    write_with(out / CLAIMS, pl.DataFrame(lines).write_csv)
    return out / CLAIMS


def write_verdicts(found: Reproduction, out: Path) -> Path:
    """Write OUT/verdicts.csv: every number of the paper with ours, the difference and the verdict."""
    lines = [
        {
            "verdict": each.verdict.value,
            "item": each.item,
            "place": ", ".join(each.number.labels.values()),
            "figure": each.number.figure,
            "paper": each.number.paper,
            "ours": each.number.ours,
            "difference": each.number.difference,
            "because": each.because,
        }
        for each in judge(found.plan, found.chapters, found.counted)
    ]
    write_with(out / VERDICTS, pl.DataFrame(lines, infer_schema_length=None).write_csv)
    return out / VERDICTS


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
    item, done = chapter.item, len(chapter.records)
    partial = [] if done == chapter.wanted else [f"{done} of {chapter.wanted} cells are there so far."]
    title, is_short = chapter.table.title, len(chapter.table.rows) <= _SHORT
    figures: list[Html] = []
    for small, some in groupby(chapter.charts, lambda chart: chart.small):
        drawn = [tag("figure", chart.html()) for chart in some]
        figures += [tag("div", *drawn, class_="multiples")] if small else drawn
    return section(
        item.title,
        tag("p", f"{item.where} · assent reproduce {item.name}", class_="note"),
        tag("p", item.about),
        bullets([*partial, *chapter.said]),
        *figures,
        tag("details", tag("summary", title), html(chapter.table, title), **_OPEN if is_short else {}),
        _beside(chapter.beside, repeats) if chapter.beside else "",
        tag("p", item.not_comparable) if item.not_comparable else "",
        id=item.name,
    )


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
