"""How every picture is drawn: colours, markers, sizes, letters, the legend.

The figures, as SVG that takes its colours and fonts from the page's style sheet.

The picture of a comparison: reward against price, a line per method.
"""

import io
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from assent.report.data import ALL, NOTHING, Line, Record, Way, way_of
from assent.report.html import Html, tag
from assent.report.words import METRIC, MINUS, THIN, fixed, name
from assent.support.arrays import Floats

COLOURS: Mapping[str, str] = {
    "ink": "#1c2733",
    "rule": "#d5dbe3",
    "card": "#ffffff",
    "blue": "#0072b2",
    "green": "#00805d",
    "vermilion": "#c8501e",
    "purple": "#a3478b",
    "ochre": "#a87400",
    "grey": "#68717d",
}
"""What each variable of the style sheet is in its light theme; the figures' colours become variables."""


@dataclass(frozen=True)
class Look:
    """How a method is drawn: methods differ in colour and marker, objectives in the dashes too."""

    colour: str
    marker: str
    dashes: str = "-"


LOOKS: Mapping[Way, Look] = {
    ("ifrqe++", "welfare"): Look("blue", "o"),
    ("ifrqe++", "nash"): Look("blue", "D", "--"),
    ("ifrqe", "welfare"): Look("green", "s"),
    ("ifrqe", "nash"): Look("green", "p", "--"),
    ("threshold", ""): Look("vermilion", "v"),
    ("occurrence", ""): Look("ochre", "^"),
    ("random", ""): Look("grey", "X"),
    ("proactive", "nash"): Look("purple", "P"),
    ("scratch", "nash"): Look("purple", "<", "--"),
    ALL: Look("ink", "h", ":"),
    NOTHING: Look("ink", "d", "none"),
}
_OTHER_LOOKS = (
    Look("purple", "P"),
    Look("purple", "<", "--"),
    Look("purple", ">", ":"),
    Look("grey", "H", ":"),
)
"""For methods that have no look of their own."""


@dataclass(frozen=True)
class Canvas:
    """One of the sizes that every figure is drawn in, so that its letters stay readable on a phone."""

    name: str
    width: int
    height: int
    font: int


CANVASES = (Canvas("wide", 800, 400, 14), Canvas("narrow", 400, 330, 13))
_LEGEND_ROW = 24


def looks(ways: Sequence[Way]) -> Mapping[Way, Look]:
    """The look of each method, also of those that have none of their own."""
    others = [way for way in ways if way not in LOOKS]
    return {**LOOKS, **{way: _OTHER_LOOKS[n % len(_OTHER_LOOKS)] for n, way in enumerate(others)}}


def svg(draw: Callable[[Axes], None], canvas: Canvas) -> str:
    """The drawing in one size as an SVG file, with its legend below."""
    unsaid = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    return _saved(draw, canvas, format="svg", metadata=unsaid).decode()


def png(draw: Callable[[Axes], None], canvas: Canvas) -> bytes:
    """The same as a PNG file, two dots for each unit of the canvas."""
    return _saved(draw, canvas, format="png", dpi=144, metadata={"Software": None})


def _saved(draw: Callable[[Axes], None], canvas: Canvas, **how: Any) -> bytes:
    with mpl.rc_context(_style(canvas.font)):
        figure = Figure(dpi=72, layout="constrained")
        axes = figure.add_subplot()
        draw(axes)
        axes.grid(axis="y")
        rows = _legend(figure, axes, canvas.width)
        # At 72 dots per inch a point is a unit of the SVG: letters come out in the size that is asked for.
        figure.set_size_inches(canvas.width / 72, (canvas.height + _LEGEND_ROW * rows) / 72)
        written = io.BytesIO()
        figure.savefig(written, **how)
    return written.getvalue()


def _style(font: int) -> dict[Any, Any]:
    """Text as text and fixed ids: what a page needs to restyle a figure, the same every time."""
    return {
        "svg.fonttype": "none",
        "svg.hashsalt": "assent",
        "text.parse_math": False,
        "font.family": "DejaVu Sans",
        "font.size": font,
        "axes.spines.right": False,
        "axes.spines.top": False,
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


_SMALLEST_SPAN = 0.1
"""Of the best quality: what the scale shows at least, so that small differences do not look large."""


def measured_figure(lines: Sequence[Line], run: Line, *, label: str) -> Html:
    """Quality against violation: a line or a point per method, All's level, and the run marked."""
    look_of = looks([line.way for line in lines])

    def draw(axes: Axes) -> None:
        for line in lines:
            _plot(axes, line, look_of[line.way], ours=line.way == run.way)
        _mark(axes, 100 * run.violation[0], 100 * run.quality[0])
        _leave_out_nothing(axes, [*lines, run])
        _percent_axes(axes, METRIC)

    return drawn(draw, "measured", label)


def frontier_svg(lines: Sequence[Line], title: str) -> str:
    """The same of a frontier without a run, as a file of its own: SVG."""
    look_of = looks([line.way for line in lines])

    def draw(axes: Axes) -> None:
        for line in lines:
            _plot(axes, line, look_of[line.way], ours=False)
        _leave_out_nothing(axes, lines)
        _percent_axes(axes, METRIC)
        axes.set_title(title)

    return svg(draw, CANVASES[0])


def _plot(axes: Axes, line: Line, look: Look, *, ours: bool) -> None:
    """One method, the run's own in front and stronger."""
    x, y = [100 * share for share in line.violation], [100 * quality for quality in line.quality]
    colour, order = COLOURS[look.colour], 4 if ours else 3
    if line.way == ALL:
        axes.axhline(y[0], color=colour, linestyle=look.dashes, linewidth=1.3)
    axes.plot(
        x,
        y,
        color=colour,
        linestyle=look.dashes if len(x) > 1 or line.way == ALL else "none",
        linewidth=3 if ours else 1.8,
        marker=look.marker,
        markersize=10 if ours else 9,
        markeredgecolor=COLOURS["card"],
        zorder=order,
        label=name(line.way),
    )
    errors = [100 * (error or 0) for error in line.error]
    if any(errors):
        axes.errorbar(x, y, yerr=errors, fmt="none", ecolor=colour, elinewidth=1.5, capsize=3.5, zorder=order)


def _leave_out_nothing(axes: Axes, lines: Sequence[Line]) -> None:
    """Let the scale end above Nothing where it would take more room than all the rest, and say so there."""
    levels = [
        quality + side * (error or 0)
        for line in lines
        if line.way != NOTHING
        for quality, error in zip(line.quality, line.error, strict=True)
        for side in (-1, 1)
    ]
    nothing = next(line.quality[0] for line in lines if line.way == NOTHING)
    low, high = min(levels), max(levels)
    span = max(high - low, _SMALLEST_SPAN * high)
    if nothing >= low - span:
        return
    axes.set_ylim(100 * (high - 1.3 * span), 100 * (high + 0.1 * span))
    bottom = axes.get_ylim()[0]
    look = LOOKS[NOTHING]
    axes.plot(0, bottom, marker=look.marker, markersize=9, color=COLOURS[look.colour], clip_on=False)
    axes.annotate(
        f"{fixed(100 * nothing, 1)}{THIN}%, below this scale",
        (0, bottom),
        (10, 8),
        textcoords="offset points",
    )


def predicted_figure(violation: Floats, gain: Floats, run: tuple[float, float], *, label: str) -> Html:
    """Predicted gain against violation along falling break-even prices (fractions), and the run on it."""

    def draw(axes: Axes) -> None:
        axes.plot(
            100 * violation,
            100 * gain,
            color=COLOURS["blue"],
            linewidth=2.4,
            label="predicted, falling price",
        )
        _plot(axes, Line(ALL, violation[-1:].tolist(), gain[-1:].tolist(), [None]), LOOKS[ALL], ours=False)
        _mark(axes, 100 * run[0], 100 * run[1])
        _percent_axes(axes, "predicted gain")

    return drawn(draw, "predicted", label)


def _mark(axes: Axes, x: float, y: float) -> None:
    """A ring around the run's own point."""
    ink = COLOURS["ink"]
    axes.plot(x, y, "o", markersize=3, color=ink, zorder=6)
    axes.plot(
        x,
        y,
        "o",
        markersize=19,
        markerfacecolor="none",
        markeredgecolor=ink,
        markeredgewidth=2,
        zorder=5,
        label="this run",
    )


def _percent_axes(axes: Axes, label: str) -> None:
    """Violation from left to right, in percent, against what `label` says, in percent too."""
    axes.set_xlim(-4, 104)
    axes.set_xlabel("violation, share of All’s")
    axes.set_ylabel(label)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}{THIN}%"))


def drawn(draw: Callable[[Axes], None], key: str, label: str, canvases: Sequence[Canvas] = CANVASES) -> Html:
    """The drawing in every size, one of which the style sheet shows; `label` is what it says in words."""
    sizes = (
        tag("div", _inline(svg(draw, canvas), f"{key}-{canvas.name}"), class_=canvas.name)
        for canvas in canvases
    )
    return tag("div", *sizes, class_="drawing", role="img", aria_label=label)


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


def rewards_svg(rows: Sequence[Record], title: str, form: str) -> str:
    """Each method's mean reward above Nothing's at every price of one model, with standard errors: SVG.

    `rows` have method, objective, price, reward and reward_error. Nothing's reward is the same at every
    price: it is the line at 0. Around that the scale is linear, further away logarithmic.
    """
    ways = [way for way in dict.fromkeys(map(way_of, rows)) if way != NOTHING]
    level = {row["price"]: row["reward"] for row in rows if way_of(row) == NOTHING}
    look_of = looks(ways)

    def draw(axes: Axes) -> None:
        axes.axhline(0, color=COLOURS[LOOKS[NOTHING].colour], linewidth=1.3, label=name(NOTHING))
        for way in ways:
            look, points = (
                look_of[way],
                sorted(
                    (row["price"], row["reward"] - level[row["price"]], row["reward_error"])
                    for row in rows
                    if way_of(row) == way
                ),
            )
            prices, above, errors = zip(*points, strict=True)
            axes.errorbar(
                prices,
                above,
                yerr=[error or 0 for error in errors],
                color=COLOURS[look.colour],
                linestyle=look.dashes,
                linewidth=1.8,
                marker=look.marker,
                markersize=9,
                markeredgecolor=COLOURS["card"],
                capsize=3.5,
                label=name(way),
            )
        if min(level) > 0:
            axes.set_xscale("log")
        axes.xaxis.set_major_locator(FixedLocator(sorted(level)))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        _show_small_and_large(axes, [row["reward"] - level[row["price"]] for row in rows])
        axes.set_xlabel("price of a unit of unwillingness")
        axes.set_ylabel(f"reward ({form}) above Nothing’s")
        axes.set_title(title)

    return svg(draw, CANVASES[0])


def _show_small_and_large(axes: Axes, above: Sequence[float]) -> None:
    """Let what is gained be seen beside what is lost, which at high prices is a hundred times as much."""
    sizes = [abs(value) for value in above if value]
    least = 10 ** math.floor(math.log10(sorted(sizes)[len(sizes) // 4])) if sizes else 1.0
    powers = [
        least * 10**step for step in range(1 + max(0, math.ceil(math.log10(max(sizes, default=1) / least))))
    ]
    axes.set_yscale("symlog", linthresh=least)
    axes.yaxis.set_major_locator(FixedLocator([-power for power in powers[::-1]] + [0.0, *powers]))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(_signed))
    axes.margins(y=0.08)


def _signed(value: float, _: object) -> str:
    return f"{value:+g}".replace("-", MINUS) if value else "0"
