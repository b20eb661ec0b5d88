"""Charts: methods or other series as lines and points with standard errors, as SVG, inline SVG and PNG.

Every chart has the same colours, markers, sizes, letters and legend. matplotlib takes long to load: only what
draws imports this module.
"""

import io
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from assent.results.records import ALL, ENDS, METHOD, NOTHING, WAYS, Flat, Way, metric_name, name, named
from assent.results.table import Amount, Column, Row, Table, rows_by, shown, tabulate
from assent.results.words import MINUS, THIN, fixed
from assent.results.writers import Html, tag
from assent.support.files import write_text, write_with
from assent.support.statistics import Interval

COLOURS: Mapping[str, str] = {
    "ink": "#1c2733", "rule": "#d5dbe3", "card": "#ffffff", "blue": "#0072b2", "green": "#00805d",
    "vermilion": "#c8501e", "purple": "#a3478b", "ochre": "#a87400", "grey": "#68717d",
}  # fmt: skip
"""The variables of the style sheet in its light theme. Inline SVG uses the variables."""


@dataclass(frozen=True)
class Look:
    """How a series is drawn. Methods differ in colour and marker, objectives in the dashes too."""

    colour: str
    marker: str
    dashes: str = "-"


LOOKS: Mapping[Way, Look] = {
    ("worth", "welfare"): Look("blue", "*"),
    ("worth", "nash"): Look("blue", "8", "--"),
    ("ifrqe++", "welfare"): Look("blue", "o"),
    ("ifrqe++", "nash"): Look("blue", "D", "--"),
    ("ifrqe++", "nash, zero"): Look("grey", "D", ":"),
    ("ifrqe++", "nash, permuted"): Look("grey", "D", "--"),
    ("ifrqe", "welfare"): Look("green", "s"),
    ("ifrqe", "nash"): Look("green", "p", "--"),
    ("threshold", ""): Look("vermilion", "v"),
    ("occurrence", ""): Look("ochre", "^"),
    ("random", ""): Look("grey", "X"),
    ("proactive", "nash"): Look("purple", "P"),
    ("scratch", "nash"): Look("purple", "<", "--"),
    ("scratch", "nash, tables"): Look("purple", ">", ":"),
    ALL: Look("ink", "h", ":"),
    NOTHING: Look("ink", "d", "none"),
}
_OTHER_LOOKS = (
    Look("purple", "P"),
    Look("purple", "<", "--"),
    Look("purple", ">", ":"),
    Look("grey", "H", ":"),
)
"""For methods without a look of their own."""


def any_look(number: int) -> Look:
    """Looks of series that are no methods: every colour once before one comes again."""
    colours, markers = ("blue", "vermilion", "green", "purple", "ochre", "grey", "ink"), "ovsP^XhDp<"
    dashes = "--" if number // len(colours) % 2 else "-"
    return Look(colours[number % len(colours)], markers[number % len(markers)], dashes)


class Canvas(NamedTuple):
    """A size that charts are drawn in. Pages have two, so that letters stay readable on a phone."""

    name: str
    width: int
    height: int
    font: int


CANVASES = (Canvas("wide", 800, 400, 14), Canvas("narrow", 400, 330, 13))
_LEGEND_ROW = 24


@dataclass(frozen=True)
class Series:
    """A method, or anything that has a name, at each `x` that it was measured at."""

    of: Way | str
    x: Sequence[float | str]
    y: Sequence[Amount]
    look: Look | None = None
    """None: the method's own, or one that no other series has."""
    strong: bool = False
    """Whether it stands out."""

    @property
    def label(self) -> str:
        """Its name in the legend."""
        return self.of if isinstance(self.of, str) else name(self.of)

    @property
    def known(self) -> list[tuple[float | str, Amount]]:
        """The points that have a mean."""
        return [(x, y) for x, y in zip(self.x, self.y, strict=True) if y.mean is not None]


@dataclass(frozen=True)
class Chart:
    """A figure; its name is that of its files."""

    name: str
    title: str
    x: str
    """What is along the axis."""
    y: str
    series: Sequence[Series]
    factor: float = 1.0
    """100 where fractions are shown as percent."""
    measured: bool = False
    """Whether `x` is measured as `y` is: points without a line, and ticks where they fit."""
    logarithmic: bool = False
    """Whether equal ratios of `y` are equally far apart."""
    small: bool = False
    """Whether it is one of many, which stand beside each other."""

    def write(self, folder: Path) -> list[Path]:
        """Write NAME.svg and NAME.png: those files."""
        vector, pixels = (folder / f"{self.name}.{kind}" for kind in ("svg", "png"))
        write_text(vector, self.svg())
        image = self._saved(self.canvases[0], format="png", dpi=144, metadata={"Software": None})
        write_with(pixels, lambda file: file.write(image))
        return [vector, pixels]

    def svg(self, canvas: Canvas | None = None) -> str:
        """The chart in one size as an SVG file, with its legend below."""
        unsaid = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        return self._saved(canvas or self.canvases[0], format="svg", metadata=unsaid).decode()

    def html(self, label: str = "") -> Html:
        """The chart in every size, for a page whose style sheet shows one; `label` says it in words."""
        sizes = (
            tag("div", _inline(self.svg(canvas), f"{self.name}-{canvas.name}"), class_=canvas.name)
            for canvas in self.canvases
        )
        said = label or f"{self.title}: {self.y} by {self.x}"
        return tag("div", *sizes, class_="drawing", role="img", aria_label=said)

    @property
    def canvases(self) -> Sequence[Canvas]:
        """The sizes that it is drawn in."""
        return CANVASES[1:] if self.small else CANVASES

    @property
    def looks(self) -> list[Look]:
        """The look of each series."""
        unknown = [each.of for each in self.series if isinstance(each.of, tuple) and each.of not in LOOKS]
        others = {way: _OTHER_LOOKS[n % len(_OTHER_LOOKS)] for n, way in enumerate(dict.fromkeys(unknown))}
        return [
            each.look or ({**LOOKS, **others}[each.of] if isinstance(each.of, tuple) else any_look(number))
            for number, each in enumerate(self.series)
        ]

    def _saved(self, canvas: Canvas, **how: Any) -> bytes:
        with mpl.rc_context(_style(canvas.font)):
            figure = Figure(dpi=72, layout="constrained")
            axes = figure.add_subplot()
            self._draw(axes)
            axes.set_xlabel(self.x)
            axes.set_ylabel(self.y)
            axes.set_title(self.title)
            axes.grid(axis="y")
            rows = _legend(figure, axes, canvas.width)
            # At 72 dots per inch a point is a unit of the SVG: letters have the size that is asked for.
            figure.set_size_inches(canvas.width / 72, (canvas.height + _LEGEND_ROW * rows) / 72)
            written = io.BytesIO()
            figure.savefig(written, **how)
        return written.getvalue()

    def _draw(self, axes: Axes) -> None:
        places = list(dict.fromkeys(x for series in self.series for x in series.x))
        names = [place for place in places if isinstance(place, str)]
        for number, (series, look) in enumerate(zip(self.series, self.looks, strict=True)):
            aside = 0.6 * ((number + 0.5) / len(self.series) - 0.5) if names else 0.0
            x = [(places.index(x) if isinstance(x, str) else x) + aside for x, _ in series.known]
            dashes = "none" if names or self.measured else look.dashes
            self._line(axes, series, x, look, dashes, ring=series.of == NOTHING)
        if not self.measured:
            numbers = [place for place in places if not isinstance(place, str)]
            _mark_places(axes, list(range(len(names))) if names else numbers, names or [*map(shown, places)])
        if names:
            axes.set_xlim(-0.5, len(names) - 0.5)
        if self.logarithmic:
            axes.set_yscale("log")
        else:
            axes.yaxis.set_major_locator(MaxNLocator(6))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}".replace("-", MINUS)))

    def _line(
        self, axes: Axes, series: Series, x: Sequence[float], look: Look, dashes: str, *, ring: bool = False
    ) -> None:
        """Draw the points of a series at `x`, in percent if so; a `ring` leaves others visible inside it."""
        colour, order = COLOURS[look.colour], 1 if ring else 4 if series.strong else 3
        y = [self.factor * (amount.mean or 0) for _, amount in series.known]
        errors = [self.factor * (amount.error or 0) for _, amount in series.known]
        axes.plot(
            x, y, color=colour, linestyle=dashes, linewidth=3 if series.strong else 1.8,
            marker="o" if ring else look.marker, markersize=16 if ring else 10 if series.strong else 9,
            markerfacecolor="none" if ring else colour, markeredgecolor=colour if ring else COLOURS["card"],
            zorder=order, label=series.label,
        )  # fmt: skip
        if any(errors):
            bars: Any = {"fmt": "none", "ecolor": colour, "elinewidth": 1.5, "capsize": 3.5}
            axes.errorbar(x, y, yerr=errors, zorder=order, **bars)


_SMALLEST_SPAN = 0.1
"""Of the best quality: the least that the scale shows, so that small differences do not look large."""


@dataclass(frozen=True)
class QualityChart(Chart):
    """Quality against violation, both fractions shown as percent: a line or a point per method."""

    factor: float = 100
    run: tuple[float, Interval] | None = None
    """Violation and quality of the run that is marked."""
    whole: bool = False
    """Whether the scale begins at 0."""

    def _draw(self, axes: Axes) -> None:
        for series, look in zip(self.series, self.looks, strict=True):
            x = [100 * float(x) for x in series.x]
            dashes = look.dashes if len(x) > 1 or series.of == ALL else "none"
            if series.of == ALL:
                level = 100 * (series.y[0].mean or 0)
                axes.axhline(level, color=COLOURS[look.colour], linestyle=look.dashes, linewidth=1.3)
            self._line(axes, series, x, look, dashes)
        if self.run:
            at, ink = (100 * self.run[0], 100 * self.run[1].mean), COLOURS["ink"]
            axes.plot(*at, "o", markersize=3, color=ink, zorder=6)
            ring: Any = {"markerfacecolor": "none", "markeredgecolor": ink, "markeredgewidth": 2}
            axes.plot(*at, "o", markersize=19, zorder=5, label="this run", **ring)
            bar: Any = {"fmt": "none", "ecolor": ink, "elinewidth": 2, "capsize": 5}
            axes.errorbar(*at, yerr=100 * self.run[1].half, zorder=5, **bar)
        if self.whole:
            axes.set_ylim(bottom=0)
        else:
            self._leave_out_nothing(axes)
        axes.set_xlim(-4, 104)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}{THIN}%"))

    def _leave_out_nothing(self, axes: Axes) -> None:
        """End the scale above Nothing where it would take more room than all the rest, and say so there."""
        nothing = next((series.y[0].mean for series in self.series if series.of == NOTHING), None)
        amounts = [each for series in self.series if series.of != NOTHING for _, each in series.known]
        levels = [(each.mean or 0) + side * (each.error or 0) for each in amounts for side in (-1, 1)]
        levels += [self.run[1].low, self.run[1].high] if self.run else []
        low, high = min(levels), max(levels)
        span = max(high - low, _SMALLEST_SPAN * high)
        if nothing is None or nothing >= low - span:
            return
        axes.set_ylim(100 * (high - 1.3 * span), 100 * (high + 0.1 * span))
        bottom, look = axes.get_ylim()[0], LOOKS[NOTHING]
        axes.plot(0, bottom, marker=look.marker, markersize=9, color=COLOURS[look.colour], clip_on=False)
        below = f"{fixed(100 * nothing, 1)}{THIN}%, below this scale"
        axes.annotate(below, (0, bottom), (10, 8), textcoords="offset points")


def quality_chart(
    records: Sequence[Flat], *, name: str = "", title: str = "", ours: Way | None = None, **more: Any
) -> QualityChart:
    """NDCG against violation: a line per method through its points of the frontier, All and Nothing last."""
    columns = [Column("violation_share", ""), Column("ndcg", "")]
    table = tabulate(named(records), {METHOD: "", "method": "", "objective": "", "point": ""}, columns)
    groups = rows_by(table.rows, "method", "objective")
    series = []
    for way in sorted(groups, key=lambda way: ENDS.index(way) + 1 if way in ENDS else 0):
        rows = sorted(groups[way], key=lambda row: row.labels["point"] or 0)
        violation = [row.amounts["violation_share"].mean or 0.0 for row in rows]
        quality = [row.amounts["ndcg"] for row in rows]
        series.append(Series((way[0], way[1] or ""), violation, quality, strong=way == ours))
    return QualityChart(
        name, title, "violation, share of All’s", metric_name("ndcg", records), series, **more
    )


@dataclass(frozen=True)
class RewardChart(Chart):
    """Rewards above Nothing's at each price, with standard errors.

    The line at 0 is Nothing's own. Around it the scale is linear, further away logarithmic.
    """

    def _draw(self, axes: Axes) -> None:
        axes.axhline(0, color=COLOURS[LOOKS[NOTHING].colour], linewidth=1.3, label=name(NOTHING))
        for series, look in zip(self.series, self.looks, strict=True):
            self._line(axes, series, [float(x) for x in series.x], look, look.dashes)
        prices = sorted({float(x) for series in self.series for x in series.x})
        if prices[0] > 0:
            axes.set_xscale("log")
        _mark_places(axes, prices, [*map(shown, prices)])
        sizes = sorted(abs(y.mean) for series in self.series for y in series.y if y.mean)
        least = 10 ** math.floor(math.log10(sizes[len(sizes) // 4])) if sizes else 1.0
        steps = max(0, math.ceil(math.log10(sizes[-1] / least))) if sizes else 0
        powers = [least * 10**step for step in range(1 + steps)]
        axes.set_yscale("symlog", linthresh=least)
        axes.yaxis.set_major_locator(FixedLocator([*(-power for power in powers[::-1]), 0.0, *powers]))
        axes.yaxis.set_minor_locator(NullLocator())
        signed = FuncFormatter(lambda value, _: f"{value:+g}".replace("-", MINUS) if value else "0")
        axes.yaxis.set_major_formatter(signed)
        axes.margins(y=0.08)


def reward_chart(rows: Sequence[Row], key: str, *, name: str, title: str, y: str) -> RewardChart:
    """The figure `key` of rows with a price and a `METHOD`, less that of Nothing at the same price."""
    groups = {WAYS.get(way, way): own for (way,), own in rows_by(rows, METHOD).items()}
    level = {row.labels["price"]: row.amounts[key].mean or 0.0 for row in groups.pop(NOTHING)}
    series = []
    for way, own in groups.items():
        found = {row.labels["price"]: row.amounts[key] for row in own}
        prices = sorted(found, key=float)
        above = [Amount((found[x].mean or 0.0) - level[x], found[x].error) for x in prices]
        series.append(Series(way, prices, above))
    return RewardChart(name, title, "price of a unit of unwillingness", y, series)


def charts(
    table: Table,
    *split: str,
    along: str,
    figures: str | Mapping[str, str],
    by: str = METHOD,
    x: str = "",
    y: str = "",
    prefix: str = "",
    title: str = "{}",
    logarithmic: bool = False,
) -> list[Chart]:
    """A chart per combination of the labels `split`, with the label `along` on its axis.

    `figures` is a key, drawn as one series per value of the label `by`, or the names of several keys, drawn
    as one series each, in the unit of the first one's column. `x` and `y` are the table's headings unless
    given. Files are called `prefix` (the table's name) and the combination.
    """
    key = figures if isinstance(figures, str) else next(iter(figures))
    column = next((each for each in table.columns if each.key == key), Column(key, key))
    return [
        Chart(
            "-".join([prefix or table.name, *map(shown, place)]),
            title.format(", ".join(map(shown, place))),
            x or table.labels[along],
            y or column.heading,
            _series(rows, figures, along=along, by=by),
            column.factor,
            logarithmic=logarithmic,
        )
        for place, rows in rows_by(table.rows, *split).items()
    ]


def _series(rows: Sequence[Row], figures: str | Mapping[str, str], *, along: str, by: str) -> list[Series]:
    if isinstance(figures, str):
        return [
            Series(
                WAYS.get(value, value) if by == METHOD else shown(value),
                [row.labels[along] for row in own],
                [row.amounts[figures] for row in own],
            )
            for (value,), own in rows_by(rows, by).items()
        ]
    x = [row.labels[along] for row in rows]
    return [Series(label, x, [row.amounts[key] for row in rows]) for key, label in figures.items()]


def _mark_places(axes: Axes, ticks: Sequence[float], labels: Sequence[str]) -> None:
    """A tick for everything that is along the axis."""
    text = dict(zip(ticks, labels, strict=True))
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: text.get(value, "")))


def _style(font: int) -> dict[Any, Any]:
    """Text as text and fixed ids, so that a page can restyle a chart and its bytes are always the same."""
    return {
        "svg.fonttype": "none",
        "svg.hashsalt": "assent",
        "text.parse_math": False,
        "font.family": "DejaVu Sans",
        "font.size": font,
        **dict.fromkeys(("axes.spines.right", "axes.spines.top"), False),
        "axes.axisbelow": True,
        "axes.edgecolor": COLOURS["grey"],
        "axes.facecolor": "none",
        "figure.facecolor": COLOURS["card"],
        "grid.color": COLOURS["rule"],
        "grid.linewidth": 1,
        **dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color"), COLOURS["ink"]),
    }


def _legend(figure: Figure, axes: Axes, width: int) -> int:
    """Put the legend below the axes, in as many columns as fit; how many rows it takes."""
    handles, labels = axes.get_legend_handles_labels()
    columns = max(1, min(4, width // (45 + 8 * max(map(len, labels)))))
    figure.legend(handles, labels, loc="outside lower left", ncols=columns, frameon=False, borderaxespad=0.2)
    return -(-len(labels) // columns)


def _inline(svg: str, prefix: str) -> Html:
    """An SVG file as part of a page: without prolog and size, ids and colours made the page's own.

    Ids need a prefix because both sizes stand in the page: references into the hidden one would draw nothing.
    """
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r' (width|height)="[\d.]+pt"', "", svg, count=2)
    svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\1{prefix}-", svg)
    for variable, colour in COLOURS.items():
        svg = svg.replace(colour, f"var(--{variable})")
    return Html(svg.replace("<svg ", '<svg aria-hidden="true" ', 1))
