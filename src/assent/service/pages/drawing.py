"""Small charts as SVG, drawn on the server: no script, no inline style, the colours of the stylesheet."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, log10
from typing import Final

from markupsafe import Markup

_WIDTH: Final = 440
_HEIGHT: Final = 270
_LEFT: Final = 58
_RIGHT: Final = 20
_TOP: Final = 18
_BOTTOM: Final = 48


@dataclass(frozen=True)
class Point:
    """One measured point, with its interval where it is known."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Axis:
    """What an axis shows."""

    label: str
    low: float
    high: float
    percent: bool = False
    whole: bool = False
    """Whether only whole numbers have a meaning."""

    def ticks(self) -> list[float]:
        """Return round values within the axis."""
        span = self.high - self.low
        rough = 10.0 ** floor(log10(span / 4))
        step = next(rough * m for m in (1, 2, 2.5, 5, 10) if span / (rough * m) <= 5)
        if self.whole:
            step = max(1.0, -floor(-step))
        first = -floor(-self.low / step + 1e-9)
        return [round(k * step, 12) for k in range(first, floor(self.high / step + 1e-9) + 1)]

    def written(self, value: float) -> str:
        """Return a value as it stands at the axis."""
        return f"{value:.3g} %".replace(" ", " ") if self.percent else f"{value:g}"


def axis_of(label: str, values: Sequence[float], *, percent: bool = False) -> Axis:
    """Return an axis that holds all values with some room."""
    low, high = min(values), max(values)
    room = (high - low) * 0.08 or abs(high) * 0.1 or 1.0
    return Axis(label, max(0.0, low - room) if low >= 0 else low - room, high + room, percent)


def chart(
    title: str, points: Sequence[Point], x: Axis, y: Axis, *, here: Point | None = None, here_label: str = ""
) -> Markup:
    """Return a line through points in the order of x, with intervals, and a marked point."""
    points = sorted(points, key=lambda point: point.x)

    def across(value: float) -> float:
        return _LEFT + (value - x.low) / (x.high - x.low) * (_WIDTH - _LEFT - _RIGHT)

    def down(value: float) -> float:
        return _HEIGHT - _BOTTOM - (value - y.low) / (y.high - y.low) * (_HEIGHT - _TOP - _BOTTOM)

    def text(at_x: float, at_y: float, words: str, anchor: str, kind: str = "") -> Markup:
        return Markup('<text x="{:.1f}" y="{:.1f}" text-anchor="{}" class="{}">{}</text>').format(
            at_x, at_y, anchor, kind, words
        )

    parts = [
        Markup('<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}">').format(
            _WIDTH, _HEIGHT, title
        )
    ]
    for tick in y.ticks():
        at = down(tick)
        parts.append(
            Markup('<line class="grid" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/>').format(
                _LEFT, _WIDTH - _RIGHT, at, at
            )
        )
        parts.append(text(_LEFT - 8, at + 4, y.written(tick), "end"))
    floor_at = _HEIGHT - _BOTTOM
    parts.append(
        Markup('<line class="axis" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(
            _LEFT, _WIDTH - _RIGHT, floor_at, floor_at
        )
    )
    parts += [text(across(tick), floor_at + 18, x.written(tick), "middle") for tick in x.ticks()]
    parts.append(text(_WIDTH - _RIGHT, _HEIGHT - 8, x.label, "end"))
    parts.append(text(4, _TOP - 4, y.label, "start"))
    banded = [
        (point.x, point.low, point.high)
        for point in points
        if point.low is not None and point.high is not None
    ]
    if len(banded) > 1:
        edge = [(across(at), down(high)) for at, _, high in banded]
        edge += [(across(at), down(low)) for at, low, _ in reversed(banded)]
        parts.append(Markup('<polygon class="band" points="{}"/>').format(_joined(edge)))
    if len(points) > 1:
        line = [(across(point.x), down(point.y)) for point in points]
        parts.append(Markup('<polyline class="line" points="{}"/>').format(_joined(line)))
    parts += [
        Markup('<circle class="dot" cx="{:.1f}" cy="{:.1f}" r="4"/>').format(across(point.x), down(point.y))
        for point in points
    ]
    if here is not None:
        at_x, at_y = across(here.x), down(here.y)
        parts.append(Markup('<circle class="here" cx="{:.1f}" cy="{:.1f}" r="7"/>').format(at_x, at_y))
        is_right = at_x > _WIDTH * 0.6
        shift, anchor = (-12, "end") if is_right else (12, "start")
        parts.append(text(at_x + shift, at_y - 10, here_label, anchor, "mark"))
    parts.append(Markup("</svg>"))
    return Markup("").join(parts)


def _joined(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
