"""Figures of the items: series of means with standard errors over numbers or over names.

Rows of a table as the series of charts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from assent.methods import METHODS
from assent.report.data import NOTHING, Way
from assent.report.figures import CANVASES, COLOURS, Canvas, Look, drawn, looks, png, svg
from assent.report.html import Html
from assent.report.words import MINUS
from assent.report.words import name as way_name
from assent.reproduce.grid import Amount, Row, shown
from assent.support.files import write_text, write_with


@dataclass(frozen=True)
class Series:
    """A line: a method, or anything that has a name, at each `x` that it was measured at."""

    of: Way | str
    x: Sequence[float | str]
    y: Sequence[Amount]


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
        canvas = self.canvases[0]
        write_text(vector, svg(self._draw, canvas))
        write_with(pixels, lambda file: file.write(png(self._draw, canvas)))
        return [vector, pixels]

    def html(self) -> Html:
        """The figure as part of a page."""
        return drawn(self._draw, self.name, f"{self.title}: {self.y} by {self.x}", self.canvases)

    @property
    def canvases(self) -> Sequence[Canvas]:
        """The sizes that it is drawn in."""
        return CANVASES[1:] if self.small else CANVASES

    def _draw(self, axes: Axes) -> None:
        places = list(dict.fromkeys(x for series in self.series for x in series.x))
        names = [place for place in places if isinstance(place, str)]
        ways = [series.of for series in self.series if isinstance(series.of, tuple)]
        for number, series in enumerate(self.series):
            look = looks(ways)[series.of] if isinstance(series.of, tuple) else _any_look(number)
            aside = 0.6 * ((number + 0.5) / len(self.series) - 0.5) if names else 0.0
            is_nothing = series.of == NOTHING  # others lie upon it: a ring around them
            known = [
                (x, amount) for x, amount in zip(series.x, series.y, strict=True) if amount.mean is not None
            ]
            axes.errorbar(
                [(places.index(x) if isinstance(x, str) else x) + aside for x, _ in known],
                [self.factor * (amount.mean or 0) for _, amount in known],
                yerr=[self.factor * (amount.error or 0) for _, amount in known],
                color=COLOURS[look.colour],
                linestyle="none" if names or self.measured or look.dashes == "none" else look.dashes,
                linewidth=1.8,
                marker="o" if is_nothing else look.marker,
                markersize=16 if is_nothing else 9,
                markerfacecolor="none" if is_nothing else COLOURS[look.colour],
                markeredgecolor=COLOURS[look.colour if is_nothing else "card"],
                zorder=1 if is_nothing else 2,
                capsize=3.5,
                label=series.of if isinstance(series.of, str) else way_name(series.of),
            )
        if not self.measured:
            self._mark_places(axes, places, names)
        if self.logarithmic:
            axes.set_yscale("log")
        else:
            axes.yaxis.set_major_locator(MaxNLocator(6))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}".replace("-", MINUS)))
        axes.set_xlabel(self.x)
        axes.set_ylabel(self.y)
        axes.set_title(self.title)

    def _mark_places(self, axes: Axes, places: Sequence[float | str], names: Sequence[str]) -> None:
        """A tick for everything that is along the axis."""
        ticks = (
            list(range(len(names))) if names else [place for place in places if not isinstance(place, str)]
        )
        axes.xaxis.set_major_locator(FixedLocator(ticks))
        axes.xaxis.set_minor_locator(NullLocator())
        labels = dict(zip(ticks, names or map(shown, places), strict=True))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: labels.get(value, "")))
        if names:
            axes.set_xlim(-0.5, len(names) - 0.5)


def _any_look(number: int) -> Look:
    """Looks of what is no method, one after the other: a colour comes again when all have been."""
    colours, markers = ("blue", "vermilion", "green", "purple", "ochre", "grey", "ink"), "ovsP^XhDp<"
    return Look(
        colours[number % len(colours)],
        markers[number % len(markers)],
        "--" if number // len(colours) % 2 else "-",
    )


METHOD = "method_name"
"""The label of methods, which have looks of their own."""
WAYS: Mapping[str, Way] = {
    way_name(way): way
    for name, method in METHODS.items()
    for way in ([(name, each.value) for each in method.objectives] or [(name, "")])
}
"""Every method with each of its objectives, by the name that readers see."""


def rows_by(rows: Sequence[Row], *labels: str) -> dict[tuple[Any, ...], list[Row]]:
    """Rows that agree on these labels, in order of first appearance."""
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(row.labels[label] for label in labels), []).append(row)
    return found


def series_by(rows: Sequence[Row], label: str, *, along: str, key: str) -> list[Series]:
    """A series per value of a label: the figure `key` at each value of the label `along`."""
    return [
        Series(
            WAYS[value] if label == METHOD else shown(value),
            [row.labels[along] for row in own],
            [row.amounts[key] for row in own],
        )
        for (value,), own in rows_by(rows, label).items()
    ]


def series_of(rows: Sequence[Row], figures: Mapping[str, str], *, along: str) -> list[Series]:
    """A series per figure, by key and name, at each value of the label `along`."""
    x = [row.labels[along] for row in rows]
    return [Series(name, x, [row.amounts[key] for row in rows]) for key, name in figures.items()]
