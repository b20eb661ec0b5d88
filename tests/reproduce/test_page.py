"""The page in words, and in a real browser."""

import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from html import unescape
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from matplotlib.image import imread

from assent.reproduce import ITEMS, Plan, Reproduction, build_page
from assent.reproduce.beside import Beside
from assent.reproduce.item import Chapter
from assent.reproduce.paper import decimals
from assent.results.plot import COLOURS, Chart, Series
from assent.results.table import tabulate
from assent.results.words import MINUS, fixed

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
in_browser = pytest.mark.skipif(BROWSER is None, reason="needs a browser: no chromium in PATH")
BOX = (1000, 500)
"""Pixels that a chart gets on the sheet of charts."""
TALL, LINE = 8000, 100
"""Pixels of the tallest picture that is taken, and of what must not be blank."""
LEGIBLE = 0.02
"""Share of dark pixels where there are letters: what the thinnest digit, alone in its box, has at least."""
Pixels = npt.NDArray[np.float32]


def browse(html: Path, *what: str, width: int, height: int) -> str:
    """What headless Chromium prints when it opens a page and does `what`."""
    assert BROWSER
    command = [
        BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
        f"--user-data-dir={html.parent}", f"--window-size={width},{height}", *what, html.as_uri(),
    ]  # fmt: skip
    return subprocess.run(command, check=True, capture_output=True, timeout=60, text=True).stdout


def shoot(html: Path, *, width: int, height: int) -> Pixels:
    """What it shows of a page: [height, width, 3] in 0..1."""
    picture = html.with_suffix(f".{width}.png")
    browse(html, f"--screenshot={picture}", width=width, height=height)
    return np.asarray(imread(picture), dtype=np.float32)[:, :, :3]


def shares(pixels: Pixels, colour: str, within: float = 0.08) -> float:
    """Share of the pixels that have nearly this colour."""
    wanted = np.array([int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)])
    return float((np.abs(pixels - wanted).max(axis=2) < within).mean())


def test_the_page_has_every_item_and_every_number_of_the_paper_beside_ours(
    page: str, found: Reproduction
) -> None:
    for each in found.chapters:
        assert f'id="{each.item.name}"' in page
        assert each.item.title.replace("'", "&#x27;") in page
        for number in each.beside:
            written = fixed(number.paper, decimals(number.paper, number.decimals))
            assert f"<td>{written}" in page
            for sentence in number.why if number.ours is not None else ():
                assert sentence.replace("'", "&#x27;") in page
        assert f'<a href="#{each.item.name}">' in page
    first = [each.charts[0] for each in found.chapters if each.charts]
    assert page.count("<svg ") == sum(len(chart.canvases) for chart in first)
    assert page.count('class="multiples"') == sum(chart.small for chart in first)
    assert "<details><summary>The paper" not in page  # shown, however long
    assert all(sentence.replace("'", "&#x27;") in page for sentence in found.plan.reduced)
    assert "://" not in re.sub(r'xmlns(:\w+)?="[^"]*"|Get it from \S+|RecBole&#x27;s file from \S+', "", page)
    in_profile = {name for name, item in ITEMS.items() if found.plan.profile in item.profiles}
    assert in_profile | {"verdicts", "claims", "contradictions"} == set(
        re.findall(r'<section id="([\w-]+)"', page)
    )


def test_reasons_stand_at_the_difference_that_they_belong_to() -> None:
    numbers = [
        Beside({"model": "MF"}, "F1", 4.7, 0.1, 5.0, 0.2, 2, 3),
        Beside({"model": "MF"}, "wv", 2.0, None, 1.0, None, 2, 2, ("first",)),
        Beside({"model": "MF"}, "reward", -2.0, None, -1.0, None, 2, 3, ("second", "first")),
        Beside({"model": "DIN"}, "F1", 4.1, None, None, None, 2, why=("of what was not measured",)),
    ]
    chapter = Chapter(ITEMS["overall"], [], 0, tabulate([], {}, []), beside=numbers)
    html = build_page(Reproduction(Plan(repeats=3), [chapter], [], [], [], 0.0))
    assert "<td>5.00 ±0.200</td><td>+0.30</td>" in html
    assert f"<td>1.00, 2 runs</td><td>{MINUS}1.00<sup>1</sup></td>" in html
    assert "<td>+1.00<sup>2, 1</sup></td>" in html
    assert "<ol><li>first</li><li>second</li></ol>" in html


@in_browser
def test_verdicts_are_sorted_by_the_heading_that_is_clicked(page: str, tmp_path: Path) -> None:
    asking = (
        "<script>for (const table of document.querySelectorAll('table.sortable')) {"
        "table.tHead.rows[0].cells[3].querySelector('button').click();"
        "document.title += [...table.tBodies[0].rows].map((row) => row.cells[3].textContent).join('|') + ';'"
        "}</script></body>"
    )
    html = tmp_path / "sorted.html"
    html.write_text(page, encoding="utf-8")  # the page's own policy lets its own script run
    assert "<button>paper</button>" in browse(html, "--dump-dom", width=900, height=600)
    free = re.sub(
        r"script-src &#x27;sha256-[^;\"]*|script-src 'sha256-[^;\"]*", "script-src 'unsafe-inline'", page
    )
    html.write_text(free.replace("</body>", asking), encoding="utf-8")
    title = re.search(r"<title>(.*?)</title>", browse(html, "--dump-dom", width=900, height=600), re.DOTALL)
    assert title
    columns = title[1].partition("repeat")[2].lstrip("s").split(";")[:-1]
    assert columns
    for column in columns:
        papers = [float(each.split()[0].replace(MINUS, "-").replace(",", "")) for each in column.split("|")]
        assert papers == sorted(papers)


@in_browser
def test_the_page_is_drawn_on_a_desk_and_on_a_phone(page: str, tmp_path: Path) -> None:
    for width in (1100, 500):
        for top, seen in slices(page, tmp_path, width):
            lines = seen[: len(seen) // LINE * LINE].reshape(-1, LINE * width, 3)
            blank = [top + LINE * place for place, line in enumerate(lines) if line.std() < 0.01]
            assert not blank, f"{width} pixels wide: blank at {blank}"
            if len(lines):  # the last slice may be the page's lower edge alone
                assert shares(seen[::3], COLOURS["card"]) > 0.3
                assert shares(seen[::3], COLOURS["ink"]) > 0.002
            # Nothing sticks out: the right edge is the page's ground all the way down.
            assert seen[:, -3:].std() < 0.01


def slices(page: str, folder: Path, width: int) -> Iterator[tuple[int, Pixels]]:
    """The whole page from top to bottom, in pictures that a browser can take: where each begins, and it."""
    html = folder / "page.html"
    asking = "<script>document.title=document.body.scrollHeight</script></body>"
    html.write_text(page.replace("Content-Security-Policy", "Ignored").replace("</body>", asking))
    (height,) = re.findall(r"<title>(\d+)</title>", browse(html, "--dump-dom", width=width, height=TALL))
    for top in range(0, int(height), TALL):
        html.write_text(page.replace("<body>", f'<body style="margin-top: -{top}px">'))
        yield top, shoot(html, width=width, height=min(TALL, int(height) - top))


@in_browser
def test_no_chart_is_empty_or_unreadable(found: Reproduction, tmp_path: Path) -> None:
    charts = [chart for each in found.chapters for chart in each.charts]
    assert len(charts) > 20
    for start in range(0, len(charts), TALL // BOX[1]):
        some = charts[start : start + TALL // BOX[1]]
        for chart, (plot, letters) in zip(some, plots(some, tmp_path), strict=True):
            words = {chart.title, chart.x, chart.y, *(series.label for series in chart.series)} - {""}
            assert words <= {text for text, _ in letters}
            for text, seen in letters:  # thin strokes are not quite as dark as ink
                assert shares(seen, COLOURS["ink"], 0.3) > LEGIBLE, f"{chart.name}: {text!r} is not written"
            for number, (series, look) in enumerate(zip(chart.series, chart.looks, strict=True)):
                if not is_covered(chart, number):
                    assert shares(plot, COLOURS[look.colour]) > 0, f"{chart.name}: {series.of} is not drawn"


def plots(charts: Sequence[Chart], folder: Path) -> Iterator[tuple[Pixels, list[tuple[str, Pixels]]]]:
    """What each chart looks like above its legend, and each of its texts; all taken in one picture."""
    boxes, scales = [], []
    for chart in charts:
        file = folder / f"{chart.name}.svg"
        file.write_text(chart.svg())
        boxes.append(f'<img src="{file.name}" style="display:block;height:{BOX[1]}px">')
        (tall,) = re.findall(r'<svg [^>]*viewBox="0 0 [\d.]+ ([\d.]+)"', file.read_text())
        scales.append(BOX[1] / float(tall))
    html = folder / "sheet.html"
    html.write_text(f"<body style='margin:0;background:#ffffff'>{''.join(boxes)}</body>")
    sheet = shoot(html, width=BOX[0], height=BOX[1] * len(charts))
    for number, (chart, scale) in enumerate(zip(charts, scales, strict=True)):
        whole = sheet[number * BOX[1] : (number + 1) * BOX[1]]
        letters = []
        for text, box in places_of((folder / f"{chart.name}.svg").read_text()):
            left, top, right, bottom = (max(0, round(scale * edge)) for edge in box)
            letters.append((text, whole[top:bottom, left:right]))
        yield whole[: int(scale * chart.canvases[0].height)], letters


def places_of(svg: str) -> list[tuple[str, tuple[float, float, float, float]]]:
    """Each text of a chart, and where its first, middle or last letters are: left, top, right, bottom."""
    texts = re.findall(
        r'<text style="font-size: ([\d.]+)px;[^"]*text-anchor: (\w+);[^"]*" x="([-\d.]+)" y="([-\d.]+)"'
        r' transform="rotate\(-(0|90) [^>]*>([^<]*)</text>',
        svg,
    )
    assert len(texts) == svg.count("<text ")
    found = []
    for size, anchor, *at, turned, text in texts:
        letter, x, y = float(size), *map(float, at)
        before, after = {"start": (0, 1), "middle": (1, 1), "end": (1, 0)}[anchor]
        box = (
            (x - letter, y - after * letter, x, y + before * letter)
            if turned == "90"
            else (x - before * letter, y - letter, x + after * letter, y)
        )
        found.append((unescape(text), box))
    return found


def points(series: Series) -> list[tuple[float | str, float]]:
    return [(x, y.mean) for x, y in zip(series.x, series.y, strict=True) if y.mean is not None]


def is_covered(chart: Chart, number: int) -> bool:
    """Whether every point of a series lies under one of a later series; names have a place of their own."""
    known = [y for series in chart.series for _, y in points(series)]
    own, above = points(chart.series[number]), [p for s in chart.series[number + 1 :] for p in points(s)]
    near = 0.05 * (max(known) - min(known))
    return all(
        not isinstance(x, str)
        and any(
            isinstance(other, float | int) and abs(x - other) < 0.05 and abs(y - level) <= near
            for other, level in above
        )
        for x, y in own
    )
