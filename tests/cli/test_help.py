"""The help as it is read on a terminal: its examples can be copied, its stars are stars."""

import inspect
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import pytest
import typer

from assent.cli import app
from assent.data.unwillingness import SOURCES
from tests.conftest import Assent


def functions(name: str, module: str, function: str) -> Iterator[tuple[tuple[str, ...], Callable[..., Any]]]:
    """Return the words that call each command of an entry, and its function."""
    found = getattr(import_module(f"assent.cli.{module}"), function)
    if not isinstance(found, typer.Typer):
        yield (name,), found
        return
    for command in found.registered_commands:
        assert command.name
        assert command.callback
        yield (name, command.name), command.callback


COMMANDS = {
    words: function for name, where in app.COMMANDS.items() for words, function in functions(name, *where[:2])
}


def examples(command: tuple[str, ...]) -> list[str]:
    """The example lines as they stand in the source."""
    lines = (inspect.getdoc(COMMANDS[command]) or "").splitlines()
    return [line.strip() for line in lines[lines.index("Examples:") :] if line.strip().startswith("assent ")]


def test_all_commands_are_here() -> None:
    words = {" ".join(command) for command in COMMANDS}
    assert words == {
        "demo", "fit", "update", "history", "forget", "frontier", "compare", "lds", "reproduce",
        "recommend", "explain", "export", "verify", "simulate", "settings", "store", "data describe", "train",
        "serve", "work", "ledger", "backup", "restore", "keys create", "keys list", "keys rotate",
        "keys revoke",
    }  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_example_stands_alone(command: tuple[str, ...], assent: Assent) -> None:
    code, out, _ = assent(*command, "--help")
    assert code == 0
    assert examples(command)
    assert any(" ".join(["assent", *command]) in example for example in examples(command))
    shown = [line.strip() for line in out.splitlines()]
    assert [line for line in shown if line.startswith("assent ")] == examples(command)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_example_begins_a_line_of_80_columns(command: tuple[str, ...], assent: Assent) -> None:
    _, out, _ = assent(*command, "--help", columns=80)
    begun = [line.strip() for line in out.splitlines() if line.strip().startswith("assent ")]
    assert len(begun) == len(examples(command))
    assert all(whole.startswith(line) for line, whole in zip(begun, examples(command), strict=True))


@pytest.mark.parametrize("command", ["fit", "frontier", "lds"])
def test_stars_are_stars(command: str, assent: Assent) -> None:
    _, out, _ = assent(command, "--help")
    shown = " ".join(out.replace("│", " ").split())
    assert "category:Action=0.9,*=0.2, " in shown
    assert SOURCES in shown


def test_the_module_is_the_command() -> None:
    found = subprocess.run(
        [sys.executable, "-m", "assent", "--help"], capture_output=True, text=True, check=True
    )
    assert "frontier" in found.stdout
