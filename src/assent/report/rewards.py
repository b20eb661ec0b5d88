"""The picture of a comparison: reward against price, a line per method."""

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
    price: it is the line at 0.
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
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}".replace("-", MINUS)))
        axes.set_xlabel("price of a unit of unwillingness")
        axes.set_ylabel(f"reward ({form}) above Nothing’s")
        axes.set_title(title)

    return svg(draw, CANVASES[0])
