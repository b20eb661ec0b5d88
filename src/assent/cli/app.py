"""The commands, one function each; the work itself is elsewhere."""

from importlib.metadata import version
from typing import Annotated

import typer

from assent.cli import (
    compare_command,
    data_commands,
    fit_commands,
    judge_commands,
    reproduce_command,
    run_commands,
)
from assent.cli.console import out, run_guarded

app = typer.Typer(
    name="assent",
    help="Recommendation that asks before it uses.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.command("demo")(fit_commands.demo)
app.command("fit")(fit_commands.fit_command)
app.command("frontier")(judge_commands.frontier_command)
app.command("compare")(compare_command.compare_command)
app.command("lds")(judge_commands.lds_command)
app.command("reproduce")(reproduce_command.reproduce_command)
app.command("recommend")(run_commands.recommend)
app.command("explain")(run_commands.explain)
app.command("simulate")(data_commands.simulate_command)
app.command("settings")(fit_commands.settings_command)
app.add_typer(data_commands.app, name="data")


@app.callback(invoke_without_command=True)
def _root(
    show_version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False,
) -> None:
    if show_version:
        out.print(f"assent {version('assent')}", highlight=False)
        raise typer.Exit


def main() -> None:
    """Entry point of the `assent` command."""
    run_guarded(lambda: app(standalone_mode=True))
