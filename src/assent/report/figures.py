"""The figures, as SVG that takes its colours and fonts from the page's style sheet."""

import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from assent.arrays import Floats
from assent.report.data import ALL, NOTHING, Way
from assent.report.html import Html, tag
from assent.report.lines import Line
from assent.report.numbers import THIN, fixed
from assent.report.words import METRIC, name

_COLOURS: Mapping[str, str] = {
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


_LOOKS: Mapping[Way, Look] = {
    ("ifrqe++", "welfare"): Look("blue", "o"),
    ("ifrqe++", "nash"): Look("blue", "D", "--"),
    ("ifrqe", "welfare"): Look("green", "s"),
    ("ifrqe", "nash"): Look("green", "p", "--"),
    ("threshold", ""): Look("vermilion", "v"),
    ("occurrence", ""): Look("ochre", "^"),
    ("random", ""): Look("grey", "X"),
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
class _Canvas:
    """One of the sizes that every figure is drawn in, so that its letters stay readable on a phone."""

    name: str
    width: int
    height: int
    font: int


_CANVASES = (_Canvas("wide", 800, 400, 14), _Canvas("narrow", 400, 330, 13))
_LEGEND_ROW = 24
_SMALLEST_SPAN = 0.1
"""Of the best quality: what the scale shows at least, so that small differences do not look large."""


def measured_figure(lines: Sequence[Line], run: Line, *, label: str) -> Html:
    """Quality against violation: a line or a point per method, All's level, and the run marked."""
    looks = _looks([line.way for line in lines])

    def draw(axes: Axes) -> None:
        for line in lines:
            _plot(axes, line, looks[line.way], ours=line.way == run.way)
        _mark(axes, 100 * run.violation[0], 100 * run.quality[0])
        _leave_out_nothing(axes, [*lines, run])
        axes.set_ylabel(METRIC)

    return _drawn(draw, "measured", label)


def frontier_svg(lines: Sequence[Line], title: str) -> str:
    """The same of a frontier without a run, as a file of its own: SVG."""
    looks = _looks([line.way for line in lines])

    def draw(axes: Axes) -> None:
        for line in lines:
            _plot(axes, line, looks[line.way], ours=False)
        _leave_out_nothing(axes, lines)
        axes.set_ylabel(METRIC)
        axes.set_title(title)

    return _svg(draw, _CANVASES[0])


def _plot(axes: Axes, line: Line, look: Look, *, ours: bool) -> None:
    """One method, the run's own in front and stronger."""
    x, y = [100 * share for share in line.violation], [100 * quality for quality in line.quality]
    colour, order = _COLOURS[look.colour], 4 if ours else 3
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
        markeredgecolor=_COLOURS["card"],
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
    look = _LOOKS[NOTHING]
    axes.plot(0, bottom, marker=look.marker, markersize=9, color=_COLOURS[look.colour], clip_on=False)
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
            color=_COLOURS["blue"],
            linewidth=2.4,
            label="predicted, falling price",
        )
        _plot(axes, Line(ALL, violation[-1:].tolist(), gain[-1:].tolist(), [None]), _LOOKS[ALL], ours=False)
        _mark(axes, 100 * run[0], 100 * run[1])
        axes.set_ylabel("predicted gain")

    return _drawn(draw, "predicted", label)


def _mark(axes: Axes, x: float, y: float) -> None:
    """A ring around the run's own point."""
    ink = _COLOURS["ink"]
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


def _looks(ways: Sequence[Way]) -> Mapping[Way, Look]:
    others = [way for way in ways if way not in _LOOKS]
    return {**_LOOKS, **{way: _OTHER_LOOKS[n % len(_OTHER_LOOKS)] for n, way in enumerate(others)}}


def _drawn(draw: Callable[[Axes], None], key: str, label: str) -> Html:
    """The drawing in every size, one of which the style sheet shows; `label` is what it says in words."""
    sizes = (
        tag("div", _inline(_svg(draw, canvas), f"{key}-{canvas.name}"), class_=canvas.name)
        for canvas in _CANVASES
    )
    return tag("div", *sizes, class_="drawing", role="img", aria_label=label)


def _svg(draw: Callable[[Axes], None], canvas: _Canvas) -> str:
    """The drawing in one size as an SVG file, with its axes in percent and its legend below."""
    with mpl.rc_context(_style(canvas.font)):
        figure = Figure(dpi=72, layout="constrained")
        axes = figure.add_subplot()
        draw(axes)
        axes.set_xlim(-4, 104)
        axes.set_xlabel("violation, share of All’s")
        axes.grid(axis="y")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}{THIN}%"))
        rows = _legend(figure, axes, canvas.width)
        # At 72 dots per inch a point is a unit of the SVG: letters come out in the size that is asked for.
        figure.set_size_inches(canvas.width / 72, (canvas.height + _LEGEND_ROW * rows) / 72)
        written = io.BytesIO()
        figure.savefig(written, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    return written.getvalue().decode()


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
        "axes.edgecolor": _COLOURS["grey"],
        "axes.facecolor": "none",
        "figure.facecolor": _COLOURS["card"],
        "grid.color": _COLOURS["rule"],
        "grid.linewidth": 1,
        **dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color"), _COLOURS["ink"]),
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
    for variable, colour in _COLOURS.items():
        svg = svg.replace(colour, f"var(--{variable})")
    return Html(svg.replace("<svg ", '<svg aria-hidden="true" ', 1))
