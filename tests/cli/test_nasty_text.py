"""Ids, titles, categories and file names that would act on a terminal are shown escaped, everywhere."""

import re
from pathlib import Path

import polars as pl
import pytest
from rich.console import Console
from typer.testing import CliRunner

from assent.cli import console
from assent.cli.app import app
from assent.data.simulate import simulate
from tests.cli.conftest import QUICK
from tests.conftest import Assent

NASTY = {
    "\x1b[31mred\x1b[0m": r"\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07": r"\x1b]0;title\x07",
    "bell\x07": r"bell\x07",
    "back\x08space": r"back\x08space",
    "two\nlines": r"two\nlines".replace(r"\n", r"\x0a"),
    "over\rwritten": r"over\x0dwritten",
    "next\x85line": r"next\x85line",
    "para\u2029graph": r"para\u2029graph",
    "over\u202eride": r"over\u202eride",
    "iso\u2066late\u2069": r"iso\u2066late\u2069",
    "zero\u200bwidth": r"zero\u200bwidth",
    "tag\U000e0041": r"tag\U000e0041",
    "[bold]markup[/bold]": "[bold]markup[/bold]",
    "[/]": "[/]",
    ":smile:": ":smile:",
    "می\u200cخواهم": "می\u200cخواهم",
    "Amélie 🎬": "Amélie 🎬",
}
"""What is given, and how it is shown."""
ACTING = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2060-\u2069\u200b\U000e0041]")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in which everybody has an id, and every item a title and a category, of the table."""
    log = simulate(preference="learnable", users=20, items=40, seed=0)
    texts = list(NASTY)
    table = log.table.join(log.items, on="item", how="left", maintain_order="left")
    number = pl.col("user").rank("dense") - 1
    item = pl.col("item").rank("dense") - 1
    table = table.with_columns(
        user=number.map_elements(lambda k: f"{texts[k % len(texts)]} {k}", return_dtype=pl.String),
        title=item.map_elements(lambda k: f"{texts[k % len(texts)]} {k}", return_dtype=pl.String),
        category=item.map_elements(lambda k: [texts[k % len(texts)]], return_dtype=pl.List(pl.String)),
    )
    folder = tmp_path_factory.mktemp("nasty")
    table.write_parquet(folder / "log.parquet")
    given = [f"{folder / 'log.parquet'}", "--out", f"{folder / 'run'}", *QUICK, "--tune", "none"]
    done = CliRunner().invoke(app, ["fit", *given])
    assert done.exit_code == 0, done.output
    return folder / "run"


@pytest.mark.parametrize("place", range(len(NASTY)))
def test_explain_and_recommend_show_titles_and_ids(place: int, run: Path, assent: Assent) -> None:
    given, shown = list(NASTY.items())[place]
    user = f"{given} {place}"
    for command in ("explain", "recommend"):
        code, out, err = assent(command, run, "--user", user)
        assert (code, err) == (0, "")
        assert f" {shown} {place}" in out
        assert not ACTING.search(out)
    titles = pl.read_parquet(run / "selection.parquet").filter(pl.col("user") == user)["title"]
    _, out, _ = assent("explain", run, "--user", user)
    for title in titles:
        text, _, number = title.rpartition(" ")
        assert f"{NASTY[text]} {number}" in out


@pytest.mark.parametrize("given", NASTY, ids=list(map(repr, NASTY)))
def test_errors_are_one_line_that_does_nothing(given: str, run: Path, tmp_path: Path, assent: Assent) -> None:
    code, out, err = assent("explain", run, "--user", f"nobody{given}.")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert not ACTING.search(err)
    assert "nobody" in err
    file = tmp_path / f"{given.replace('/', '')}.csv"
    code, _, err = assent("fit", file, "--out", tmp_path / "run")
    assert code == 2
    assert err.count("\n") == 1
    assert not ACTING.search(err)


def test_progress_shows_labels_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = Console(record=True, force_terminal=True, width=120)
    monkeypatch.setattr(console, "err", seen)
    with console.TerminalProgress().task("[bold]a[/bold] :smile: \x1b[31m", 3) as advance:
        advance()
    text = seen.export_text()
    assert r"[bold]a[/bold] :smile: \x1b[31m" in text


def test_tables_of_the_console_hold_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    cells: list[list[str | tuple[str, ...]]] = [[given, (given, "below")] for given in NASTY]
    console.show_table("[bold]:smile:\x1b[0m", ["[i]one[/i]", ":smile:"], cells, texts=(":smile:",))
    out = capsys.readouterr().out
    assert r"[bold]:smile:\x1b[0m" in out
    assert "[i]one[/i]" in out
    assert not ACTING.search(out)
    for shown in NASTY.values():
        assert out.count(shown) >= 2
