"""`assent reproduce`: the paper's tables and figures, run for real."""

import os
from collections.abc import Collection
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from assent.cli.command import LogJson, option
from assent.cli.compare_commands import check_result, no_file
from assent.cli.console import notice, say, show_table, watcher
from assent.cli.how import BASE, Asked, Jobs, On, Set, WorkOptions, checked, read_pairs
from assent.methods import merged
from assent.reproduce import (
    ITEMS,
    PAGE,
    Chapter,
    Reproduction,
    build_page,
    conclusions,
    read_records,
    reproduce,
    write_chapter,
    write_claims,
    write_records,
    write_verdicts,
)
from assent.reproduce.plan import DATASETS, MODELS, PAPER_METHODS, SCR, SIMULATION, Plan, Scale, full, quick
from assent.reproduce.profiles import Profile
from assent.results.words import plural
from assent.results.writers import terminal
from assent.support.errors import AssentError
from assent.support.files import write_text

EVERYTHING = "all"
_LINES, _COLUMNS = 20, 7
"""Largest table that is printed; the files have all of them."""
_FAILURES = 10
"""Largest number of failed cells that are printed."""
_option = partial(option, "Options")
_shown = partial(_option, show_default=True)


def reproduce_command(
    context: typer.Context,
    names: Annotated[
        str, typer.Argument(metavar="NAME", help=f"{EVERYTHING}, or of: {', '.join(ITEMS)} (commas between).")
    ],
    *,
    scale: Annotated[
        Scale, _shown("`quick`: all in half an hour at most; `full`: all users, models and repeats.")
    ] = Scale.QUICK,
    profile: Annotated[
        Profile,
        _shown("Training, influence and game: the paper's text, the authors' code, or assent's own."),
    ] = Profile.ASSENT,
    repeats: Annotated[int | None, _option("Default: 2 (quick), 10 (full).", min=1)] = None,
    jobs: Jobs = None,
    on: On = None,
    data_dir: Annotated[
        Path | None,
        _option("Folder with the data sets diginetica, steam, amazon_video_games. Default: ASSENT_DATA."),
    ] = None,
    datasets: Annotated[str, _shown("Which data sets.")] = ",".join(DATASETS),
    models: Annotated[str, _shown("Which recommenders.")] = ",".join(MODELS),
    users: Annotated[
        int | None,
        _option(
            "At most so many users of each data set, 100 or more: there must be 99 items to rank among.",
            min=100,
        ),
    ] = None,
    set_: Set = None,
    only: Annotated[
        list[str] | None,
        _option(
            "Compute only the cells with this label, such as method='IFRQE*', price=0.5 or repeat=1; again "
            "for others. What is shown stays the same.",
            metavar="NAME=PATTERN",
        ),
    ] = None,
    report_only: Annotated[
        bool, _option("Compute nothing: show what is there so far.", "--report-only")
    ] = False,
    records: Annotated[
        list[Path] | None,
        _option(
            "Compute nothing: show what the records.jsonl.gz of another run has; again for runs that add up.",
            metavar="FILE",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        _option(
            "Folder of cells, tables, figures and the page. Default: reproduced[-PROFILE]-SCALE; with "
            "--records, reproduced-records."
        ),
    ] = None,
    replace: Annotated[
        bool, _option("Write the page over one that is not of `assent reproduce`.", "--replace")
    ] = False,
    log_json: LogJson = False,
) -> None:
    """Run the paper's tables and figures again, and write them beside the paper's own numbers.

    Every record is kept in OUT/cells: a killed command goes on where it was, another setting computes only
    what it touches, and a second command beside it shares the work. The page also shows what was run in OUT
    before. A data set that is not there is left out; the page says where to get it.

    Examples:

    ```
    assent reproduce all --scale quick
    assent reproduce overall,price --scale full --models mf --datasets diginetica
    assent reproduce overall --profile paper --models mf --datasets diginetica --scale full --repeats 3
    assent reproduce overall --scale full --report-only
    assent reproduce price --scale full --only method="IFRQE*" --only price=0.5 --only repeat=1
    assent reproduce all --records docs/records/paper.jsonl.gz
    assent reproduce all --records one.jsonl.gz --records other.jsonl.gz --out both
    ```
    """
    if records:
        _refuse_plan(context)
        out = _folder(out or Path("reproduced-records"), replace=replace)
        found = read_records(records, ITEMS, _among(datasets, DATASETS, "--datasets"))
        asked = _asked(names, found.plan.profile)
    else:
        asked = _asked(names, profile)
        own = "" if profile is Profile.ASSENT else f"-{profile}"
        out = _folder(out or Path(f"reproduced{own}-{scale}"), replace=replace)
        plan = _plan(scale, profile, repeats, set_, datasets=datasets, models=models, users=users)
        with WorkOptions(jobs, on).executor() as executor:
            found = reproduce(
                [item for name, item in ITEMS.items() if name in asked or (out / name).is_dir()],
                plan,
                out,
                data=_data(data_dir),
                executor=executor,
                asked=asked,
                only=_only(only or []),
                counted=[*ITEMS.values()],
                compute=not report_only,
                progress=watcher(),
            )
    _tell(found, asked, out)


def _folder(out: Path, *, replace: bool) -> Path:
    """Refuse a folder that is a file or has somebody else's page."""
    no_file(out)
    check_result(out, PAGE, replace=replace)
    return out


def _tell(found: Reproduction, asked: Collection[str], out: Path) -> None:
    """Write the page, the files of the items that are asked for and the records; say what was found."""
    for sentence in (*found.notices, *found.added):
        notice(sentence)
    if not found.failed and not any(chapter.item.name in asked for chapter in found.chapters):
        notice(f"{out}: nothing to show, so no page was written.")
        raise typer.Exit(1)
    for chapter in found.chapters:
        if chapter.item.name in asked:
            _show(chapter, out / chapter.item.name)
            write_chapter(chapter, out)
    write_text(out / PAGE, build_page(found))
    write_verdicts(found, out)
    write_claims(found, out)
    write_records(found, out)
    for sentence in conclusions(found):
        say(sentence)
    if found.stale:
        notice(found.stale)
    for sentence in found.failed[:_FAILURES]:
        notice(f"Could not be computed: {sentence}")
    notice(f"Page: {out / PAGE}")
    if found.failed:
        notice(f"{plural(len(found.failed), 'cell')} failed; the page says which and why.")
        raise typer.Exit(1)


_OF_PLAN = (
    "scale", "profile", "repeats", "jobs", "on", "data_dir", "models", "users", "set_", "only",
    "report_only",
)  # fmt: skip
"""Parameters that records have answered."""


def _refuse_plan(context: typer.Context) -> None:
    """Refuse options that say what is run, where records say what was."""
    for name in _OF_PLAN:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            option_name = f"--{name.strip('_').replace('_', '-')}"
            raise AssentError(
                f"{option_name}: the file of --records says how it was run; accepted: one of both"
            )


def _asked(names: str, profile: Profile) -> list[str]:
    """The names of items in text like overall,price; those that the profile does not have are refused."""
    asked = [name.strip() for name in names.split(",")]
    for name in asked:
        if name not in (EVERYTHING, *ITEMS):
            raise AssentError(f"{name}: no item; accepted: {EVERYTHING}, {', '.join(ITEMS)}")
    if EVERYTHING in asked:
        return [name for name, item in ITEMS.items() if profile in item.profiles]
    for name in asked:
        if profile not in ITEMS[name].profiles:
            raise AssentError(f"{name}: accepted: --profile {' or '.join(ITEMS[name].profiles)}")
    return asked


def _only(wishes: list[str]) -> dict[str, list[str]]:
    """Patterns by name, from texts like price=0.5."""
    found: dict[str, list[str]] = {}
    for wish in wishes:
        name, sign, pattern = wish.partition("=")
        if not (name and sign and pattern):
            raise AssentError(f"--only {wish}: accepted: NAME=PATTERN, such as price=0.5")
        found.setdefault(name, []).append(pattern)
    return found


def _data(folder: Path | None) -> Path | None:
    """The folder of the data sets, if one is named."""
    named = folder or os.environ.get("ASSENT_DATA")
    return Path(named).resolve() if named else None


def _plan(
    scale: Scale,
    profile: Profile,
    repeats: int | None,
    overrides: list[str] | None,
    *,
    datasets: str,
    models: str,
    users: int | None,
) -> Plan:
    """What the options ask for."""
    plan = (quick if scale is Scale.QUICK else full)(repeats, profile)
    given = read_pairs(overrides or [], {})
    if "model" in given:
        raise AssentError("--set model: accepted: --models")
    plan = replace(
        plan,
        datasets=_among(datasets, DATASETS, "--datasets"),
        models=_among(models, MODELS, "--models"),
        users=plan.users if users is None else users,
        overrides=merged(plan.overrides, given),
        altered=list(overrides or []),
    )
    for model in plan.models:
        settings = checked(partial(plan.settings, model, SIMULATION), model)
        ways = (*PAPER_METHODS.values(), SCR, ("worth", "welfare"))
        methods = [checked(partial(plan.method, way, model, SIMULATION), model) for way in ways]
        Asked(settings, {key: value for key, value in given.items() if key not in BASE}, {}).check(methods)
    return plan


def _among(text: str, known: Collection[str], option: str) -> tuple[str, ...]:
    """Names from text, in the order of the known ones."""
    asked = {part.strip() for part in text.split(",")}
    for name in sorted(asked - set(known)):
        raise AssentError(f"{option} {name}: unknown; accepted: {', '.join(known)}")
    return tuple(name for name in known if name in asked)


def _show(chapter: Chapter, folder: Path) -> None:
    """Print an item's table, or where it is if it does not fit, and what it says."""
    table = chapter.table
    if len(table.rows) > _LINES or len(table.labels) + len(table.columns) > _COLUMNS:
        say(f"{table.title}: the table is in {folder / table.name}.md")
    else:
        show_table(*terminal(table))
    for sentence in chapter.said:
        say(f"{chapter.item.name}: {sentence}")
