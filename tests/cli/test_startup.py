"""Commands that need no model load no torch, and the list of commands agrees with the commands."""

import inspect
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import polars as pl
import pytest
import typer

from assent.cli.app import COMMANDS
from tests.conftest import Assent

SLOW = ("torch", "polars", "scipy", "matplotlib")
"""Libraries that take long to load."""


def loaded_by(*arguments: str) -> set[str]:
    """Give a command in a process of its own: the modules that it has loaded at the end."""
    script = f"""
import sys
from assent.cli.app import main
sys.argv = {["assent", *arguments]!r}
try:
    main()
finally:
    print("", *sys.modules, sep="\\n", file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout
    return set(done.stderr.split())


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_the_command_alone_loads_nothing_slow(option: str) -> None:
    modules = loaded_by(option)
    assert "assent.cli.app" in modules
    assert not modules & set(SLOW)


def test_explaining_loads_neither_torch_nor_what_draws_or_tests(run_folder: Path) -> None:
    user = pl.read_parquet(run_folder / "selection.parquet")["user"][0]
    modules = loaded_by("explain", str(run_folder), "--user", user)
    assert "polars" in modules
    assert not modules & {"torch", "matplotlib", "scipy.stats"}


def words(text: str) -> set[str]:
    """The words of a sentence that carry its sense."""
    return {word for word in re.findall(r"[a-z]{4,}", text.lower().replace("’", "'")) if word not in LITTLE}


LITTLE = {"what", "this", "that", "with", "when", "they", "them", "have", "from"}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_says_of_each_command_what_its_help_says(name: str, assent: Assent) -> None:
    entry = COMMANDS[name]
    found = getattr(import_module(f"assent.cli.{entry.module}"), entry.function)
    told = found.info.help if isinstance(found, typer.Typer) else inspect.getdoc(found)
    assert told
    assert words(entry.help) <= words(told)
    code, shown, _ = assent(name, "--help")
    assert code == 0
    assert f"assent {name}" in shown
    assert told.splitlines()[0].replace("`", "") in " ".join(shown.split())


def test_the_help_lists_every_command_with_its_line(assent: Assent) -> None:
    code, shown, _ = assent("--help")
    assert code == 0
    for name, entry in COMMANDS.items():
        assert re.search(rf"│ {name} +{re.escape(entry.help)} +│", shown)


def test_an_unknown_command_is_refused(assent: Assent) -> None:
    code, out, err = assent("magic")
    assert (code, out) == (2, "")
    assert "magic" in err
