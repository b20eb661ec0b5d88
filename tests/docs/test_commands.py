"""Commands in README, docs and help name commands and options that exist."""

import inspect
import re
import shlex
from collections.abc import Iterator
from functools import cache
from importlib import import_module

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from assent.cli.app import COMMANDS, app
from tests.docs.pages import PAGES, ROOT, blocks, name

_SPAN = re.compile(r"`((?:assent|make) [a-z][^`]*)`")


def written() -> Iterator[tuple[str, str]]:
    """Every command in a block or in a line of text, with the place where it stands."""
    for page in PAGES:
        if "lab" in page.parts or page.name == "CHANGELOG.md":
            continue  # history
        for block in blocks(page):
            if block.language in ("console", "sh"):
                yield from ((name(page), command) for command in block.commands())
        text = " ".join(page.read_text(encoding="utf-8").split())
        yield from ((name(page), found) for found in _SPAN.findall(text))
    for command, found in COMMANDS.items():
        function = getattr(import_module(f"assent.cli.{found.module}"), found.function)
        for line in (inspect.getdoc(function) or "").splitlines():
            if line.strip().startswith("assent "):
                yield f"assent {command} --help", line.strip()


WRITTEN = sorted(set(written()))


def test_files_that_are_named_exist() -> None:
    places = (ROOT, ROOT / "src/assent", ROOT / "benchmarks", *(ROOT / "src/assent").iterdir())
    for page in PAGES:
        if "lab" in page.parts:
            continue  # history
        titles = {block.title for block in blocks(page)}
        for file in re.findall(r"`([a-z_/]+\.py)\b", page.read_text(encoding="utf-8")):
            found = file in titles or any((place / file).is_file() for place in places)
            assert found, f"{name(page)}: no such file: {file}"


@cache
def options_of(words: tuple[str, ...]) -> set[str] | None:
    """The options of the command that `words` begin with; None if there is no such command."""
    command = get_command(app)
    context = command.make_context("assent", [], resilient_parsing=True)
    options = {option for each in command.params for option in each.opts}
    for word in words:
        if not isinstance(command, TyperGroup):
            break
        found = command.get_command(context, word)
        if found is None:
            return options if word.startswith("--") else None
        command = found
        options = {option for each in command.params for option in (*each.opts, *each.secondary_opts)}
    return {*options, "--help"}


@pytest.mark.parametrize(("place", "command"), WRITTEN, ids=" ".join)
def test_commands_and_options_exist(place: str, command: str) -> None:
    program, *words = shlex.split(command, comments=True)
    if program == "make":
        targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert words[0] in targets, f"{place}: make has no target {words[0]}"
    elif program == "assent" and words[0] != "COMMAND":
        options = options_of(tuple(words))
        assert options is not None, f"{place}: no such command: {command}"
        used = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert used <= options, f"{place}: no such option: {used - options}"
