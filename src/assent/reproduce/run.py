"""A reproduction: the cells of the items that are asked for, then their tables, figures and the page.

    OUT/cells/            every finished record, shared by all items and scales
    OUT/data/             what was read of large original files
    OUT/NAME/             tables (csv, parquet, md, tex), figures (svg, png), records and the paper's numbers
    OUT/index.html        all of it on one page
    OUT/verdicts.csv      a verdict on every number of the paper

A killed run goes on where it was; another process may work in the same folder at the same time.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

from assent.lab.executor import SERIAL, Executor
from assent.lab.lab import Lab
from assent.lab.store import Entry, Store, digest
from assent.report.page import page
from assent.reproduce import paper
from assent.reproduce.item import Cell, Chapter, Item, Kind
from assent.reproduce.paper import Beside, data_reasons
from assent.reproduce.plan import DataSource, Plan, Where, problem_of, size_of
from assent.reproduce.verdicts import MEANING, counts, judge
from assent.results import writers
from assent.results.words import MINUS, NONE, fixed, plural
from assent.results.writers import Html, bullets, fewer_runs, grid, header, html, row_labels, section, tag
from assent.runs.measure import Cell as MethodCell
from assent.runs.measure import run_groups
from assent.support.errors import AssentError
from assent.support.files import write_with
from assent.support.progress import SILENT, Progress, phases
from assent.support.runtime import code_state
from assent.training import Settings

CELLS = "cells"
DATA = "data"
PAGE = "index.html"
VERDICTS = "verdicts.csv"
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
_SECONDS = 30.0
"""Between two looks into the store."""


class Waiting(NamedTuple):
    """A cell that may not be there yet."""

    kind: Kind
    find: Callable[[], Entry | None]
    rows: int
    """How many rows its data set has."""


@dataclass
class TimeLeft:
    """Seconds until all `waiting` cells are there, at `jobs` of them at once; None while none is known.

    A cell is expected to take what a row of those that are there took, of its kind or else of the most
    similar. The first of those that wait are being computed, since the last one came.
    """

    waiting: Sequence[Waiting]
    jobs: int
    clock: Callable[[], float] = time.monotonic
    _spent: defaultdict[Kind, float] = field(default_factory=lambda: defaultdict(float))
    _rows: Counter[Kind] = field(default_factory=Counter)
    _looked: float | None = None
    _came: float = 0.0

    def __call__(self) -> float | None:
        """The seconds, as of now; who has come is looked up now and then."""
        now = self.clock()
        if self._looked is None or now - self._looked >= _SECONDS:
            self._look(now)
        if not self._rows:
            return None
        expected, jobs = [self._expected(cell) for cell in self.waiting], max(self.jobs, 1)
        begun = sum(min(seconds, now - self._came) for seconds in expected[:jobs])
        return (sum(expected) - begun) / jobs

    def _look(self, now: float) -> None:
        still = []
        for cell in self.waiting:
            if (kept := cell.find()) is None:
                still.append(cell)
                continue
            for length in range(len(cell.kind) + 1):
                self._spent[cell.kind[:length]] += kept.seconds
                self._rows[cell.kind[:length]] += cell.rows
        if self._looked is None or len(still) < len(self.waiting):
            self._came = now
        self._looked, self.waiting = now, still

    def _expected(self, cell: Waiting) -> float:
        kinds = (cell.kind[:length] for length in range(len(cell.kind), -1, -1))
        known = next(kind for kind in kinds if self._rows[kind])
        return self._spent[known] / self._rows[known] * cell.rows


@dataclass(frozen=True)
class _Group:
    tasks: tuple[Cell, ...]
    """All of one lab."""

    @property
    def label(self) -> str:
        return self.tasks[0].label

    def lab(self, shared: "Cells") -> Lab:
        return shared.lab(self.tasks[0])


@dataclass(frozen=True)
class Cells:
    """Where cells are kept, and where their data is."""

    store: Store
    where: Where

    def lab(self, cell: Cell) -> Lab:
        """Return the lab of a cell."""
        return _lab(cell.source, cell.settings, cell.seed, self.store, self.where)

    def find(self, cell: Cell) -> Entry | None:
        """Return a cell's entry, if it is there."""
        return self.store.get(cell.key(self.lab(cell)))

    def found(self, cells: Sequence[Cell]) -> list[tuple[Cell, Entry]]:
        """Return those of the cells that are there, in order."""
        looked = ((cell, self.find(cell)) for cell in cells)
        return [(cell, entry) for cell, entry in looked if entry is not None]

    def compute(
        self, cells: Sequence[Cell], *, executor: Executor = SERIAL, progress: Progress = SILENT
    ) -> list[str]:
        """Compute what is missing; another process may do so at the same time.

        Returns which cells could not be computed and why, in sentences: the others are computed still.
        """
        once = list({digest(cell.key(self.lab(cell))): cell for cell in cells}.values())
        by_lab: dict[Any, list[Cell]] = {}
        for cell in once:
            is_alone = cell.alone or (isinstance(cell.task, MethodCell) and cell.task.method.retrains)
            if self.find(cell) is None:
                place = id(cell) if is_alone else (cell.source, cell.settings, cell.seed)
                by_lab.setdefault(place, []).append(cell)
        groups = [_Group(tuple(members)) for members in by_lab.values()]
        waiting = [
            Waiting(cell.kind, partial(self.find, cell), len(self.lab(cell).problem.train)) for cell in once
        ]
        left = TimeLeft(waiting, min(executor.workers, len(groups)))
        return run_groups(
            groups, self, executor=executor, label="cells", go_on=True, left=left, progress=progress
        )


@cache
def _lab(source: DataSource, settings: Settings, seed: int, store: Store, where: Where) -> Lab:
    return Lab(problem_of(source, seed, where), settings, seed, store)


@dataclass(frozen=True)
class Reproduction:
    """What a run found."""

    plan: Plan
    chapters: Sequence[Chapter]
    missing: Sequence[str]
    """What could not be run, and why, in sentences."""
    kept: Sequence[str]
    """Items of which the folder has files, but no records for these options."""
    failed: Sequence[str]
    """Cells that could not be computed, and why, in sentences."""
    seconds: float
    """What computing all cells took, summed over processes and runs."""
    states: Mapping[str, int] = field(default_factory=dict)
    """How many cells each state of assent's own code has computed, the most first."""

    @property
    def notices(self) -> list[str]:
        """What is not shown, in sentences."""
        others = [
            f"{name} was run in this folder with other options; its files are kept." for name in self.kept
        ]
        return [*(f"Not run: {sentence}" for sentence in self.missing), *others]

    @property
    def provenance(self) -> str:
        """Which state of the code has computed the cells and which one shows them, in a sentence or two."""
        by = ", ".join(f"{name} ({plural(cells, 'cell')})" for name, cells in self.states.items())
        said = f"Computed by state {by or NONE} of assent's source, version {version('assent')}."
        return f"{said} {self.stale}".strip()

    @property
    def stale(self) -> str:
        """That cells come from another state of the code than the present one, where they do."""
        now = code_state()
        if self.states.keys() <= {now}:
            return ""
        others = sum(cells for name, cells in self.states.items() if name != now)
        return (
            f"{others} of {sum(self.states.values())} cells come from another state of assent's source than "
            f"the present one ({now}), which may compute otherwise; to compute all anew, choose another "
            "folder."
        )


def reproduce(
    items: Sequence[Item],
    plan: Plan,
    out: Path,
    *,
    data: Path | None,
    executor: Executor = SERIAL,
    asked: Collection[str] | None = None,
    compute: bool = True,
    progress: Progress = SILENT,
) -> Reproduction:
    """Compute what is missing and say what was found; without `compute`, of what is there already.

    Nothing is computed for items whose names are not `asked` for: they are shown as far as this plan's
    records are there. Items that the plan's profile does not have are left out.
    """
    items = [item for item in items if plan.profile in item.profiles]
    where = Where(data, out / DATA)
    with phases(progress, {"reading data sets": 1, "computing": 50}) as phase:
        with phase("reading data sets"):
            plan, missing = _with_data(plan, where, progress)
        cells = Cells(Store(out / CELLS), where)
        wanted: list[tuple[Item, list[Cell]]] = []
        for item in items:
            try:
                wanted.append((item, item.cells(plan)))
            except AssentError as error:
                missing.append(str(error))
        failed: list[str] = []
        with phase("computing"):
            if compute:
                cells.store.sweep()
                late = sorted(wanted, key=lambda each: each[0].last)
                own = [cell for item, some in late if asked is None or item.name in asked for cell in some]
                failed = cells.compute(own, executor=executor, progress=progress)
    chapters, kept_files = [], []
    everything: dict[Path, Entry] = {}
    for item, some in wanted:
        found = cells.found(some)
        everything |= {kept.file: kept for _, kept in found}
        records = [{**kept.facts, **cell.labels, "seed": cell.seed} for cell, kept in found]
        if records:
            chapters.append(item.chapter(plan, records, len(some)))
        elif asked is not None and item.name not in asked:
            kept_files.append(item.name)
        elif some:
            missing.append(f"{item.name}: none of its {len(some)} cells is there.")
        else:
            missing.append(f"{item.name}: has none of the models and data sets that are asked for and there.")
    seconds = sum(kept.seconds for kept in everything.values())
    states = Counter(kept.code for kept in everything.values())
    return Reproduction(plan, chapters, missing, kept_files, failed, seconds, dict(states.most_common()))


def _with_data(plan: Plan, where: Where, progress: Progress) -> tuple[Plan, list[str]]:
    """The plan with those of its data sets that are there, and what is wrong with the others."""
    sizes, missing = {}, []
    with progress.task("reading data sets", len(plan.datasets)) as advance:
        for name in plan.datasets:
            try:
                sizes[name] = size_of(plan.source(name), where)
            except AssentError as error:
                missing.append(str(error))
            advance()
    return replace(plan, datasets=tuple(sizes), sizes=sizes), missing


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
        _verdicts(found),
        _data_section(found),
        section("How it was run", protocol),
        section("What went wrong", failed) if found.failed else "",
        *(_chapter(chapter, plan.repeats) for chapter in found.chapters),
    )


def _summary(found: Reproduction) -> str:
    numbers = [each for chapter in found.chapters for each in chapter.beside]
    measured = sum(each.ours is not None for each in numbers)
    return (
        f"{plural(found.plan.repeats, 'repeat')}; computing took {duration(found.seconds)} of one core. "
        f"{measured} of the {len(numbers)} numbers that the paper has of these items, models and data "
        f"sets stand beside ours. {counts(judge(found.plan, found.chapters))}"
    )


def _verdicts(found: Reproduction) -> Html:
    """Every number with its verdict: a table per verdict, largest differences first."""
    judged = judge(found.plan, found.chapters)
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
        table = grid([*top, "paper", "ours", "difference", "because"], [lines], label, "figures beside")
        parts.append(tag("details", tag("summary", label), tag("p", meaning), table))
    return section("Verdicts", tag("p", counts(judged)), *parts, id="verdicts") if judged else tag("p", "")


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
        for each in judge(found.plan, found.chapters)
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
