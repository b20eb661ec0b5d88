"""How every picture is drawn: colours, markers, sizes, letters, the legend."""

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from assent.report.data import ALL, NOTHING, Way

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
