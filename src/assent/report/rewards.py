"""The picture of a comparison: reward against price, a line per method."""

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from assent.report.data import NOTHING, Record, way_of
from assent.report.drawing import CANVASES, COLOURS, LOOKS, looks, svg
from assent.report.numbers import MINUS
from assent.report.words import name


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
