"""The page in words, and in a real browser."""

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from matplotlib.image import imread

from assent.experiments.reproduce import ITEMS, Reproduction
from assent.experiments.reproduce.beside import Beside
from assent.experiments.reproduce.charts import Chart, Series
from assent.experiments.reproduce.grid import Amount, Column
from assent.experiments.reproduce.page import _beside, _figure
from assent.report.drawing import CANVASES, COLOURS, LOOKS, svg
from assent.report.numbers import MINUS

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
in_browser = pytest.mark.skipif(BROWSER is None, reason="needs a browser: no chromium in PATH")
BOX = (800, 500)
"""Pixels that a chart gets on the sheet of charts."""
Pixels = npt.NDArray[np.float64]


def shoot(html: Path, *, width: int, height: int) -> Pixels:
    """What headless Chromium shows of a page: [height, width, 3] in 0..1."""
    picture = html.with_suffix(f".{width}.png")
    assert BROWSER
    command = [
        BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
        f"--user-data-dir={html.parent}", f"--window-size={width},{height}", f"--screenshot={picture}",
        html.as_uri(),
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return np.asarray(imread(picture), dtype=np.float64)[:, :, :3]


def shares(pixels: Pixels, colour: str) -> float:
    """Share of the pixels that have nearly this colour."""
    wanted = np.array([int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)])
    return float((np.abs(pixels - wanted).max(axis=2) < 0.08).mean())


def test_the_page_has_every_item_and_every_number_of_the_paper_beside_ours(
    page: str, found: Reproduction
) -> None:
    for each in found.chapters:
        assert f'id="{each.item.name}"' in page
        assert each.item.title.replace("'", "&#x27;") in page
        for number in each.findings.beside:
            written = f"{number.paper:.{number.decimals}f}".replace("-", MINUS)
            assert f"<td>{written}" in page
            for sentence in number.why if number.ours is not None else ():
                assert sentence.replace("'", "&#x27;") in page
    assert page.count("<svg ") == 2 * sum(bool(each.findings.charts) for each in found.chapters)
    assert all(sentence.replace("'", "&#x27;") in page for sentence in found.plan.reduced)
    assert "://" not in re.sub(r'xmlns(:\w+)?="[^"]*"|Get it from \S+', "", page)
    assert set(ITEMS) == set(re.findall(r'<section id="([\w-]+)"', page))


def test_reasons_stand_at_the_difference_that_they_belong_to() -> None:
    numbers = [
        Beside({"model": "MF"}, "F1", 4.7, 0.1, 5.0, 0.2, 2, 3),
        Beside({"model": "MF"}, "wv", 2.0, None, 1.0, None, 2, 2, ("first",)),
        Beside({"model": "MF"}, "reward", -2.0, None, -1.0, None, 2, 3, ("second", "first")),
        Beside({"model": "DIN"}, "F1", 4.1, None, None, None, 2, why=("of what was not measured",)),
    ]
    html = _beside(numbers, 3)
    assert "<td>5.00 (0.200)</td><td>+0.30</td>" in html
    assert f"<td>1.00, 2 runs</td><td>{MINUS}1.00<sup>1</sup></td>" in html
    assert "<td>+1.00<sup>2, 1</sup></td>" in html
    assert "<ol><li>first</li><li>second</li></ol>" in html


def test_a_figure_of_fewer_runs_than_planned_says_so() -> None:
    column = Column("good", "good", decimals=1)
    assert _figure(Amount(0.5, 0.1, runs=2), column, 3) == "<td>0.5 (0.1), 2 runs</td>"
    assert _figure(Amount(0.5, 0.1, runs=3), column, 3) == "<td>0.5 (0.1)</td>"


@in_browser
def test_the_page_is_drawn_on_a_desk_and_on_a_phone(page: str, tmp_path: Path) -> None:
    html = tmp_path / "page.html"
    html.write_text(page)
    for width in (1100, 500):
        seen = shoot(html, width=width, height=4000)
        lines = seen.reshape(40, -1, 3)
        assert all(line.std() > 0.01 for line in lines)  # nothing is blank
        assert shares(seen, COLOURS["card"]) > 0.3
        assert shares(seen, COLOURS["ink"]) > 0.002
        # Nothing sticks out: the right edge is the page's ground all the way down.
        assert seen[:, -3:].std() < 0.01


@in_browser
def test_no_chart_is_empty_or_unreadable(found: Reproduction, tmp_path: Path) -> None:
    charts = [chart for each in found.chapters for chart in each.findings.charts[-1:]]
    boxes = []
    for number, chart in enumerate(charts):
        file = tmp_path / f"{number}.svg"
        file.write_text(svg(chart._draw, CANVASES[0]))
        boxes.append(f'<img src="{file.name}" style="display:block;width:{BOX[0]}px;height:{BOX[1]}px">')
    html = tmp_path / "sheet.html"
    html.write_text(f"<body style='margin:0;background:#ffffff'>{''.join(boxes)}</body>")
    sheet = shoot(html, width=BOX[0], height=BOX[1] * len(charts))
    for number, chart in enumerate(charts):
        box = sheet[number * BOX[1] : (number + 1) * BOX[1]]
        plot = box[int(0.1 * BOX[1]) : int(0.7 * BOX[1]), int(0.12 * BOX[0]) :]
        assert shares(box, COLOURS["ink"]) > 0.001, f"{chart.name}: no letters"
        colours = {
            LOOKS[series.of].colour if isinstance(series.of, tuple) else "blue" for series in chart.series
        }
        assert any(shares(plot, COLOURS[each]) > 0 for each in colours), f"{chart.name}: no marks"


def test_a_chart_draws_every_series_that_has_a_value() -> None:
    some, none = Amount(0.5, 0.1), Amount(None, None)
    series = [Series(("random", ""), ["a", "b"], [some, none]), Series("other", ["a", "b"], [some, some])]
    drawn = svg(Chart("name", "title", "x", "y", series)._draw, CANVASES[0])
    assert all(f">{label}<" in drawn for label in ("title", "x", "y", "a", "b", "Random", "other"))
