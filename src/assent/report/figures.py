"""The figures, as SVG that takes its colours and fonts from the page's style sheet."""

import re
from collections.abc import Callable, Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from assent.arrays import Floats
from assent.report.data import ALL, NOTHING
from assent.report.drawing import CANVASES, COLOURS, LOOKS, Canvas, Look, looks, svg
from assent.report.html import Html, tag
from assent.report.lines import Line
from assent.report.numbers import THIN, fixed
from assent.report.words import METRIC, name

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
