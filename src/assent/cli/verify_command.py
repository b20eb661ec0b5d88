"""`assent verify`: whether a run is what its fit wrote."""

from dataclasses import dataclass
from typing import Annotated

import typer

from assent.cli.command import OutputOptions, spread
from assent.cli.console import notice, say, watcher
from assent.cli.options import ProblemOptions, WishOptions
from assent.cli.run_commands import OwnModel, RunFolder
from assent.runs.verify import not_checked, verify
from assent.support.errors import AssentError


@dataclass(frozen=True)
class GivenLog(ProblemOptions):
    """The log of a run, where it is given."""

    data: Annotated[
        str | None,
        typer.Option(
            help="The log of the run; give the options of reading that the fit had.", show_default=False
        ),
    ] = None  # type: ignore[assignment]


@spread
def verify_command(
    run: RunFolder,
    *,
    again: Annotated[
        bool, typer.Option("--again", help="Train the final model again and compare its bytes.")
    ] = False,
    model: OwnModel = None,
    given: GivenLog,
    wishes: WishOptions,
    output: OutputOptions,
) -> None:
    """Check that a run's files are what the fit wrote, and that what they say follows from each other.

    The exit code is 1 if something is wrong, with a line for each finding.

    Examples:

    ```
    assent verify runs/steam
    assent verify runs/steam --data data/steam --again
    ```
    """
    output.check()
    if again and given.data is None:
        raise AssentError("--again: needs --data, the log of the run")
    progress = watcher()
    log, problem = given.make(progress, wishes)[:2] if given.data else (None, None)
    live = None if log is None else given.live(log, wishes)
    found = verify(run, log, problem, live=live, again=again, model=model, progress=progress)
    for each in found:
        say(str(each))
    output.write([{"file": each.file, "finding": each.what} for each in found])
    for sentence in not_checked(data=given.data is not None, again=again):
        notice(sentence)
    if found:
        raise typer.Exit(1)
    say(f"{run}: all that was checked is as the run wrote it.")
