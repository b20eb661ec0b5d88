"""`assent update`, `assent history` and `assent forget`: changes of mind."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import polars as pl
import typer

from assent.cli.command import OutputOptions, spread
from assent.cli.console import notice, say, show_table, watcher
from assent.cli.how import StoreOption, WorkOptions
from assent.cli.options import ProblemOptions, WishOptions
from assent.cli.run_commands import OwnModel, RunFolder
from assent.data.interactions import OWN_COLUMN, Interactions
from assent.data.problem import Protocol
from assent.data.rules import read_wishes
from assent.data.wishes import PLAIN
from assent.lab.executor import Executor
from assent.lab.store import Store
from assent.report.facts import headline, how_old
from assent.results.words import minded, plural
from assent.runs.claim import check_out
from assent.runs.drift import Drift
from assent.runs.folder import MARKER, REPORT, Run, open_run
from assent.runs.forget import forget
from assent.runs.history import Event, Grade, history_of, in_numbers, in_sentences, update_of
from assent.runs.manifest import MANIFEST
from assent.runs.prompt import Vectors, prompt_update
from assent.runs.run import report_of
from assent.runs.update import update
from assent.support.errors import AssentError
from assent.support.progress import Progress, phases


@dataclass(frozen=True)
class PresentLog(ProblemOptions):
    """The log as it is now."""

    data: Annotated[
        str,
        typer.Option(
            help="The whole log as it is now; give the options of reading that the fit had.",
            show_default=False,
        ),
    ] = ""


@spread
def update_command(
    run: RunFolder,
    *,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The run folder to make. Default: RUN-2, RUN-3, ... beside it.", show_default=False
        ),
    ] = None,
    grade: Annotated[
        Grade,
        typer.Option(
            help="`exact`: what a fit on the present log gives. `prompt`: at once, with RUN's values and "
            "settings."
        ),
    ] = Grade.EXACT,
    vectors: Annotated[
        Vectors,
        typer.Option(
            help="Of grade prompt: `kept`, RUN's vectors of items, and people folded in; or `trained`, a "
            "training on what is disclosed now, as long as RUN's and with its settings."
        ),
    ] = Vectors.KEPT,
    keep_calibration: Annotated[
        bool,
        typer.Option(
            "--keep-calibration",
            help="Keep the settings and weights that RUN found on its split, and its measured quality.",
        ),
    ] = False,
    wishes_in_log: Annotated[
        bool,
        typer.Option(
            "--wishes-in-log",
            help="What RUN was told with --wishes stands in the log itself by now. Without it, words that "
            "would be lost are an error.",
        ),
    ] = False,
    most_withdrawn: Annotated[
        bool,
        typer.Option(
            "--most-withdrawn",
            help="Nearly everybody has withdrawn. Without it, a log of other people is an error.",
        ),
    ] = False,
    store: StoreOption = None,
    model: OwnModel = None,
    work: WorkOptions,
    given: PresentLog,
    wishes: WishOptions,
    output: OutputOptions,
) -> None:
    """Decide and train anew after changes of mind: new interactions, other wishes, withdrawals.

    RUN stays as it is. The new run says what changed for whom, and why. A killed update goes on where it was
    when the same command is given again. Where the values of RUN are too old to decide by, an exact update
    follows a prompt one.

    Examples:

    ```
    assent update runs/shop --data log.csv
    assent update runs/shop --data log.csv --wishes today.csv --grade prompt
    assent update runs/shop --data log.csv --wishes today.csv --grade prompt --vectors trained
    assent update runs/shop --data log.csv --keep-calibration --store runs/store --out runs/shop-2
    ```
    """
    output.check()
    if not given.data:
        raise AssentError("--data: missing; accepted: the whole log as it is now")
    opened = open_run(run, model)
    folder = _next_to(run) if out is None else out
    if folder.resolve() == run.resolve():
        stays = "which stays until the new one is whole"
        raise AssentError(f"--out {out}: the run that is updated, {stays}; accepted: another folder")
    check_out(folder, replace=output.replace)
    if grade is Grade.PROMPT and (keep_calibration or store):
        raise AssentError("--grade prompt: keeps the calibration and stores nothing; accepted: without both")
    if grade is Grade.EXACT and vectors is not Vectors.KEPT:
        raise AssentError("--vectors: an exact update trains everything; accepted: with --grade prompt")
    given, progress = _as_fitted(given, opened), watcher()
    weights = {"reading": 1.0, "updating": 20.0 if grade is Grade.EXACT else 2.0}
    with phases(progress, weights) as phase, work.executor() as executor:
        with phase("reading"):
            log, source = given.log(progress), given.unwillingness or OWN_COLUMN
            said = {"unwillingness": source, "rest": given.rest, "closed": given.closed}
            problems = None
            if grade is Grade.EXACT:
                problems = given.split(log, progress, wishes), given.live(log, wishes)
            given.tell(log)

        def exact(before: Run, out: Path, *, keep: bool, kept: Store | None = None) -> Run:
            return update(
                before,
                log,
                out,
                problems=problems,
                keep_calibration=keep,
                wishes_in_log=wishes_in_log,
                most_withdrawn=most_withdrawn,
                store=kept,
                replace=output.replace,
                executor=executor,
                progress=progress,
                **said,
            )

        with phase("updating"):
            if grade is Grade.EXACT:
                kept = None if store is None else Store(store)
                made = [exact(opened, folder, keep=keep_calibration, kept=kept)]
            else:
                prompt = partial(
                    prompt_update,
                    vectors=vectors,
                    wishes_in_log=wishes_in_log,
                    most_withdrawn=most_withdrawn,
                    replace=output.replace,
                )
                made = [_prompted(prompt, opened, log, folder, wishes, executor, progress)]
                if _is_too_old(made[0]):
                    _show_update(made[0])
                    notice("Values are too old to decide by: an exact update follows.")
                    made.append(exact(made[0], _next_to(folder), keep=False))
    _show_update(made[-1])
    output.write([update_of(each) or {} for each in made])


def _prompted(
    update: Callable[..., Run],
    run: Run,
    log: Interactions,
    out: Path,
    wishes: WishOptions,
    executor: Executor,
    progress: Progress,
) -> Run:
    """Make a prompt update, with people's own limits where the run has some."""
    asked = None if run.settings["wishes"] == PLAIN.summary() else partial(read_wishes, **vars(wishes))
    with progress.task("prompt update", 1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # values that are too old: an exact update follows
        return update(run, log, out, wishes=asked, executor=executor, progress=progress)


def _is_too_old(run: Run) -> bool:
    aged = run.quality["drift"]
    return aged is not None and Drift(**aged).is_too_old


def _as_fitted(given: PresentLog, run: Run) -> PresentLog:
    """The options with the split, the limit and the rest of the run that is updated."""
    said = run.settings
    if given.unwillingness is None and said["unwillingness"] != OWN_COLUMN:
        source = f"the fit took unwillingness from {said['unwillingness']}"
        raise AssentError(f"--unwillingness: missing, and {source}; accepted: where it comes from now")
    return replace(
        given,
        protocol=Protocol(said["protocol"].removeprefix("given, ")),
        seed=said["split_seed"],
        negatives=said["negatives_asked"],
        closed=said["closed"] if given.closed is None else given.closed,
        rest=said["rest"] if given.rest is None else given.rest,
    )


def _next_to(run: Path) -> Path:
    """The first folder of RUN-2, RUN-3, ... that is not there, or has an unfinished run."""
    place = run.resolve()
    stem, _, number = place.name.rpartition("-")
    base, first = (stem, int(number) + 1) if stem and number.isdecimal() else (place.name, 2)
    while (found := place.with_name(f"{base}-{first}")).exists() and not _is_unfinished(found):
        first += 1
    return found if run.is_absolute() or run.name in ("", ".", "..") else run.with_name(found.name)


def _is_unfinished(folder: Path) -> bool:
    return (folder / MARKER).exists() and not (folder / MANIFEST).exists()


def _show_update(run: Run) -> None:
    about = update_of(run)
    assert about is not None
    for sentence in in_sentences(about):
        say(sentence)
    found = report_of(run)
    for sentence in (f"{headline(found)}.", *how_old(found)):
        say(sentence)
    if aged := run.quality.get("drift"):
        say(Drift(**aged).summary())
    notice(f"Run: {run.folder}, report: {run.folder / REPORT}")


@spread
def history_command(
    run: RunFolder,
    *,
    user: Annotated[str | None, typer.Option(help="Whose. Default: everybody's, in numbers.")] = None,
    model: OwnModel = None,
    output: OutputOptions,
) -> None:
    """Print what changed when for a person, in all updates up to RUN.

    Examples:

    ```
    assent history runs/shop-2
    assent history runs/shop-2 --user ann
    ```
    """
    output.check()
    opened = open_run(run, model)
    if user is None:
        totals = in_numbers(history_of(opened))
        lines = [[str(cell) for cell in row] for row in totals.rows()]
        show_table(f"what changed up to {run}", totals.columns, lines)
        output.write(totals.to_dicts())
        return
    table = history_of(opened).filter(pl.col("user") == user)
    if table.is_empty():
        known = any((each["user"] == user).any() for each in (opened.selection, opened.sealed))
        if not known:
            raise AssentError(f"user {user}: not in this run; accepted: an id that the log has")
        say(f"Nothing has changed for {user} since the first run.")
    else:
        rows = [_told(row) for row in table.to_dicts()]
        columns = ["interaction", "what", "before", "now", "when"]
        show_table(f"what changed for {user}", columns, rows, ruled=True)
    output.write(table.to_dicts(), private=True)


def _told(row: dict[str, Any]) -> list[str | tuple[str, ...]]:
    """A line of the table: a long reason stands below the interaction, whose column may be folded."""
    before, after = (_state(row, when) for when in ("before", "after"))
    item = row["title"] or row["item"] or "(withdrawn)"
    when = (row["when"][:16].replace("T", " "), f"{row['run']} ({row['grade']})")
    why = [row["why"]] if row["why"] and row["event"] != Event.WITHDRAWN.value else []
    return [(item, *why), row["event"], before, after, when]


def _state(row: dict[str, Any], when: str) -> tuple[str, ...]:
    state, value = row[f"state_{when}"], row[f"unwillingness_{when}"]
    told = [] if state is None else [state]
    return (*told, *([] if value is None else [minded(value)]))


@spread
def forget_command(
    run: RunFolder,
    *,
    store: StoreOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Delete without asking.")] = False,
    model: OwnModel = None,
    output: OutputOptions,
) -> None:
    """Delete what still holds withdrawn interactions: the runs that RUN follows, and their store.

    Then every file that is left is searched for the ids of what is gone. The exit code is 1 if one is found.

    Examples:

    ```
    assent forget runs/shop-2
    assent forget runs/shop-2 --store runs/store --yes
    ```
    """
    output.check()
    opened = open_run(run, model)
    if not yes:
        typer.confirm(
            f"Delete all runs that {run} follows, and what only they needed of the store?", abort=True
        )
    found = forget(opened, None if store is None else Store(store))
    say(
        f"Deleted: {plural(len(found.runs), 'run')}, {plural(found.entries, 'entry', 'entries')} of the "
        f"store. Gone are {plural(found.pairs, 'interaction')}, and everything of "
        f"{plural(found.people, 'person', 'people')}."
    )
    say(f"Searched {plural(found.searched, 'file')}; something of that was found in {len(found.found)}.")
    for file in found.found:
        say(file)
    for place in found.untouched:
        say(f"Not touched, since it is not there or holds something else now: {place}")
    if found.calibration is not None:
        say(f"The settings and weights of run {found.calibration} are kept, which knew what is gone.")
    notice("Other updates of the same run, exports, lists and backups are yours to delete.")
    output.write([vars(found)])
    if found.found:
        raise typer.Exit(1)
