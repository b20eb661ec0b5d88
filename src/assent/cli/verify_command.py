"""`assent verify`: whether a run, or the ledger of a service, is what was written."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from assent.cli.command import OutputOptions, spread
from assent.cli.console import notice, say, watcher
from assent.cli.options import ProblemOptions, WishOptions
from assent.cli.run_commands import OwnModel, grade_of
from assent.results.words import plural
from assent.runs.folder import open_run
from assent.runs.verify import not_checked, verify
from assent.service.ledger_check import check_files
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
    run: Annotated[
        Path,
        typer.Argument(
            help="A folder that assent fit made, or a file that assent ledger wrote.", show_default=False
        ),
    ],
    *,
    receipt: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="A receipt to find in the ledger; may be repeated.", show_default=False
        ),
    ] = None,
    head: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HEAD",
            help="A head of the ledger that you kept, as this command printed it; may be repeated.",
            show_default=False,
        ),
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Train the final model again and compare its bytes.")
    ] = False,
    model: OwnModel = None,
    given: GivenLog,
    wishes: WishOptions,
    output: OutputOptions,
) -> None:
    """Check that a run's files are what the fit wrote, and that what they say follows from each other.

    Of a ledger, every altered, missing or reordered line is found, and receipts and heads that you kept are
    looked up in it. The exit code is 1 if something is wrong, with a line for each finding.

    Examples:

    ```
    assent verify runs/steam
    assent verify runs/steam --data data/steam --again
    assent verify ledger.jsonl --receipt receipt.json --head 0123...cdef
    ```
    """
    output.check()
    if run.is_file():
        if again or model or given.data:
            raise AssentError(f"{run}: a ledger; accepted: --receipt and --head alone")
        _check_ledger(run, receipt or [], head or [], output)
        return
    if receipt or head:
        raise AssentError(
            f"{run}: a receipt or a head needs a ledger; accepted: a file that assent ledger wrote"
        )
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
    for sentence in grade_of(open_run(run, model)):
        say(sentence)


def _check_ledger(ledger: Path, receipts: list[Path], heads: list[str], output: OutputOptions) -> None:
    """Check a ledger, receipts and heads, and print what was found."""
    summary, found = check_files(ledger, receipts, heads)
    for each in found:
        say(str(each))
    output.write([{"file": each.where, "finding": each.what} for each in found])
    if found:
        raise typer.Exit(1)
    say(f"{ledger}: {plural(summary.leaves, 'event')} in {plural(summary.seals, 'seal')}, all as written.")
    say(f"Head: {summary.head}. Only a head that you kept, or a receipt, shows that the end is missing.")
    if receipts:
        say(f"{plural(len(receipts), 'receipt')} found in it.")
    if heads:
        say(f"{plural(len(heads), 'head')} found in it.")
