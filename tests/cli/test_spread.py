"""A dataclass among a command's parameters: an option for each field, and the whole for the command."""

from dataclasses import dataclass
from typing import Annotated

import typer
from typer.testing import CliRunner

from assent.cli.command import spread


@dataclass(frozen=True)
class Place:
    town: Annotated[str, typer.Argument()]
    street: Annotated[str, typer.Option(help="Where exactly.")] = "High Street"


@dataclass(frozen=True)
class Person(Place):
    age: int = 30


def run(*words: str) -> str:
    app = typer.Typer()

    @app.command()
    @spread
    def visit(*, often: bool = False, who: Person) -> None:
        """Go there."""
        print(who, often)

    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    return result.output


def test_fields_are_options_and_inherited_ones_too() -> None:
    person = Person("Ely", "Fore Hill", 41)
    assert run("Ely", "--street", "Fore Hill", "--age", "41", "--often").strip() == f"{person} True"


def test_defaults_are_those_of_the_fields() -> None:
    assert run("Ely").strip() == f"{Person('Ely')} False"


def test_help_has_what_the_fields_say() -> None:
    shown = run("--help")
    assert "Go there." in shown
    assert "Where exactly." in shown
    assert "--who" not in shown
