"""The examples of README and docs run.

A page's blocks run in order in one folder, which has a small log.csv and wishes.csv: the lines that README
shows, and simulated ones. Python blocks share their names. A block with a title is a file of that name; one
of Python is imported unless a command of the page runs it. Commands of console blocks run with few epochs.
"""

import io
import runpy
import shlex
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from assent.data.named import NAMED
from assent.data.simulate import simulate
from assent.data.unwillingness import REGISTRY
from tests.conftest import Assent
from tests.docs.pages import PAGES, ROOT, Block, blocks, name

FAST = ["--jobs", "1", "--set", "training.epochs=3"]
"""Added to commands that train."""
TRAIN = ("fit", "frontier", "compare", "lds")
RUN = {
    page: found
    for page in PAGES
    if (found := [b for b in blocks(page) if b.language in ("python", "console") or b.title])
}


def shown(file: str) -> str:
    """A file as README shows it."""
    return next(block.code for block in blocks(ROOT / "README.md") if block.title == file)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with README's files, extended to enough rows; forgets what examples import and register."""
    log = simulate(users=60, items=140, seed=0)
    table = log.table.join(log.items, on="item", how="left", maintain_order="left")
    more = table.select(
        "user", "item", "title", category=pl.col("category").list.first(), time=pl.lit("2026-05-01")
    )
    whole = shown("log.csv") + more.write_csv(include_header=False)
    (tmp_path / "log.csv").write_text(whole, encoding="utf-8")
    renamed = whole.replace("user,item", "member,film", 1)
    (tmp_path / "films.csv").write_text(renamed, encoding="utf-8")
    wishes = log.table.select("user", "item", "unwillingness").head(400).write_csv(include_header=False)
    (tmp_path / "wishes.csv").write_text(shown("wishes.csv") + wishes, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    registries: list[tuple[dict[str, Any], dict[str, Any]]] = [(NAMED, {**NAMED}), (REGISTRY, {**REGISTRY})]
    yield tmp_path
    for registry, entries in registries:
        registry.clear()
        registry.update(entries)
    for module in set(sys.modules) - before:
        if str(getattr(sys.modules[module], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[module]


def test_readme_shows_files_as_they_look() -> None:
    assert len(shown("log.csv").splitlines()) == 8
    assert len(shown("wishes.csv").splitlines()) == 5


@pytest.mark.parametrize("page", RUN, ids=name)
def test_examples_run(page: Path, folder: Path, assent: Assent) -> None:
    names: dict[str, Any] = {"__name__": "example"}
    commands = [command for block in RUN[page] for command in block.commands()]
    for block in RUN[page]:
        if block.language == "console":
            for command in block.commands():
                run_command(command, assent)
        elif block.title and block.language != "python":
            if not (folder / block.title).exists():
                (folder / block.title).write_text(block.code, encoding="utf-8")
        elif block.title:
            (folder / block.title).write_text(block.code, encoding="utf-8")
            if f"python {block.title}" not in commands:
                import_module(Path(block.title).stem)
        else:
            run_python(block, names, name(page))


def run_python(block: Block, names: dict[str, Any], place: str) -> None:
    with redirect_stdout(io.StringIO()):
        exec(compile(block.code, place, "exec"), names)


def run_command(command: str, assent: Assent) -> None:
    program, *words = shlex.split(command)
    if program == "python":
        with redirect_stdout(io.StringIO()):
            runpy.run_path(words[0], run_name="__main__")
        return
    assert program == "assent", f"{command}: only assent and python run here; write it in a block of sh"
    code, _, err = assent(*words, *(FAST if words[0] in TRAIN else []))
    assert code == 0, f"{command}: {err}"
