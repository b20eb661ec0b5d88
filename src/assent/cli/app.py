"""The commands by name. A command's module is loaded when the command is run, so that `--help` is fast."""

import sys
from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from assent.cli.console import run_guarded, say
from assent.support.errors import AssentError
from assent.support.runtime import LIBRARIES, WORK, check_address_space


class Lazy(NamedTuple):
    """Where a command is, and what it does in a line."""

    module: str
    function: str
    help: str


COMMANDS = {
    "demo": Lazy("fit_commands", "demo", "The whole way on simulated data, with a report."),
    "fit": Lazy("fit_commands", "fit_command", "Choose what is worth disclosing, train on that, report."),
    "train": Lazy("large_commands", "train_command", "Decide and train on a log larger than memory."),
    "update": Lazy("update_commands", "update_command", "Decide and train anew after changes of mind."),
    "frontier": Lazy("compare_commands", "frontier_command", "Measure quality against violation."),
    "compare": Lazy("compare_commands", "compare_command", "Compare methods at prices by true rewards."),
    "lds": Lazy(
        "compare_commands", "lds_command", "Print how well each influence estimator orders selections."
    ),
    "reproduce": Lazy("reproduce_command", "reproduce_command", "Run the paper's tables and figures again."),
    "recommend": Lazy(
        "serve_commands", "recommend_command", "Print or write the items that are recommended to people."
    ),
    "explain": Lazy("run_commands", "explain", "Print what was used of a user's interactions, and why."),
    "history": Lazy("update_commands", "history_command", "Print what changed when for a person."),
    "forget": Lazy(
        "update_commands",
        "forget_command",
        "Delete what still holds withdrawn interactions.",
    ),
    "export": Lazy(
        "serve_commands",
        "export_command",
        "Write the model for programs that serve it: vectors, ONNX, an index.",
    ),
    "verify": Lazy(
        "verify_command",
        "verify_command",
        "Check that a run's files, or a ledger, are what the fit wrote.",
    ),
    "serve": Lazy(
        "service_commands", "serve_command", "Serve the API and the pages of people and operators."
    ),
    "work": Lazy("service_commands", "work_command", "Train and publish what the service asks for."),
    "keys": Lazy("service_commands", "keys_command", "Create, list, rotate and revoke a platform's keys."),
    "ledger": Lazy("service_commands", "ledger_command", "Write the service's ledger to a file."),
    "backup": Lazy("service_commands", "backup_command", "Copy the service's database and runs to a folder."),
    "restore": Lazy("service_commands", "restore_command", "Fill a new database from a backup."),
    "simulate": Lazy("data_commands", "simulate_command", "Write a simulated log with unwillingness."),
    "settings": Lazy("fit_commands", "settings_command", "List every setting, with its default."),
    "store": Lazy("data_commands", "store_command", "Say how large a store is, and prune it."),
    "data": Lazy("data_commands", "app", "Look at data."),
}
"""Every command; a new one is a function and an entry here."""


_ONCE = (
    "--unwillingness", "--wishes", "--rest", "--closed", "--scale", "--columns", "--wishes-columns",
    "--user-budget",
)  # fmt: skip
"""Options that say what people mind, or where that stands."""


class CarefulCommand(TyperCommand):
    """A command that refuses wishes which are given twice: of other options, the last one counts."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the options."""
        given = [arg.partition("=")[0] for arg in args]
        for name in _ONCE:
            if given.count(name) > 1:
                raise AssentError(f"{name}: given {given.count(name)} times; accepted: once")
        return super().parse_args(ctx, args)


class LazyGroup(TyperGroup):
    """A group that loads a command when it is run; its help needs the table alone."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command; while help is written, a stand-in with its line."""
        if cmd_name not in COMMANDS:
            return None
        found = COMMANDS[cmd_name]
        if ctx.obj == "help":
            return TyperCommand(cmd_name, help=found.help)
        check_address_space(LIBRARIES + WORK)
        loaded: Any = getattr(import_module(f"assent.cli.{found.module}"), found.function)
        check_address_space(WORK)
        if isinstance(loaded, typer.Typer):
            return get_command(loaded)
        one = typer.Typer(rich_markup_mode="markdown", pretty_exceptions_enable=False, add_completion=False)
        one.command(cmd_name, cls=CarefulCommand)(loaded)
        return get_command(one)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the list of commands."""
        ctx.obj = "help"
        super().format_help(ctx, formatter)


app = typer.Typer(
    name="assent",
    cls=LazyGroup,
    help="Recommendation that asks before it uses.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    add_completion=False,
)


@app.callback(invoke_without_command=True)
def _root(
    show_version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False,
) -> None:
    if show_version:
        say(f"assent {version('assent')}")
        raise typer.Exit


def main() -> None:
    """Run the `assent` command."""
    as_json = "--log-json" in sys.argv[1:]  # before anything can be wrong with the other options
    run_guarded(lambda: sys.exit(app(standalone_mode=not as_json)), as_json=as_json)
