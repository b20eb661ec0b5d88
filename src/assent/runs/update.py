"""Changes of mind: from a run and the present log to the next run.

*exact*: the next run is byte for byte what a fit on the present log gives, with the plan and the settings of
the run before. What has not changed is taken from a store, if one is kept: trainings are named by what they
may see, so that a changed mind alone repeats no training on rows that are there as before. With
`keep_calibration`, the settings and weights that the run before found on its split are kept, and its quality;
the result is that of a fit with this calibration.

*prompt*: `runs.prompt`.
"""

import dataclasses
from pathlib import Path
from typing import Any

from assent.data.interactions import Interactions
from assent.data.live import live_problem
from assent.data.problem import Problem, Protocol, make_problem, make_problem_from_parts, parts_of
from assent.data.wishes import PLAIN
from assent.lab.executor import SERIAL, Executor
from assent.lab.store import Store
from assent.runs.calibration import Calibration
from assent.runs.folder import Run
from assent.runs.history import Grade, Step
from assent.runs.plan import RunPlan, plan_of, settings_of
from assent.runs.run import fit
from assent.runs.words import check_nothing_lost
from assent.support.errors import AssentError
from assent.support.progress import SILENT, Progress


def update(
    run: Run,
    log: Interactions,
    out: str | Path,
    *,
    problems: tuple[Problem, Problem] | None = None,
    keep_calibration: bool = False,
    wishes_in_log: bool = False,
    most_withdrawn: bool = False,
    store: Store | None = None,
    replace: bool = False,
    executor: Executor = SERIAL,
    progress: Progress = SILENT,
    **said: Any,
) -> Run:
    """Make the run that follows `run`, of the present `log`, into the folder `out`: grade exact.

    `problems` are the log's split and its live problem, made as for the fit; by default they are made with
    the run's protocol and seed. What a file of later wishes told the run has to be said again;
    `wishes_in_log` says that the log itself says it by now. A log that has next to nobody of the run is
    refused without `most_withdrawn`. `said` is what the plan records about the log:
    unwillingness, rest, closed. The run before stays as it is. A killed update goes on where it was when it
    is repeated.
    """
    if not run.is_live:
        raise AssentError(f"{run.folder}: an experiment; accepted: a live run, which decides on everything")
    check_nothing_lost(
        run, log, wishes_in_log=wishes_in_log, most_withdrawn=most_withdrawn, is_kept=keep_calibration
    )
    plan, settings = plan_of(run, **said), settings_of(run)
    calibration = Calibration.of(run) if keep_calibration else None
    if calibration is not None:  # a comparison of methods needs the split
        plan = dataclasses.replace(plan, points=(), frontier_methods=())
    split, live = problems or problems_of(run, log)
    _check_alike(run, live, plan)
    step = Step.between(run, log, Grade.EXACT, Path(out))
    return fit(
        log,
        split,
        out,
        plan,
        settings,
        live=live,
        calibration=calibration,
        after=step,
        store=store,
        replace=replace,
        executor=executor,
        progress=progress,
    )


def _check_alike(run: Run, live: Problem, plan: RunPlan) -> None:
    """Refuse a log that was read with less regard for people than the run's: without their limits."""
    before, now = run.settings["wishes"], live.wishes.summary()
    for name in ("groups", "users_with_budget", "users_with_floor"):
        if before[name] is not None and now[name] is None:
            kept = "has people's own limits or groups, and the present log was read without"
            raise AssentError(f"{run.folder}: {kept} ({name}); accepted: the same wishes as the fit had")
    limit = run.settings["closed"]
    if limit is not None and (plan.closed is None or plan.closed > limit):
        less = f"closed={plan.closed}: the run before had {limit:g}, above which nothing is read"
        raise AssentError(f"{less}; accepted: at most that")


def problems_of(run: Run, log: Interactions) -> tuple[Problem, Problem]:
    """Return the split and the live problem of a log, made as for a run without wishes of other kinds."""
    said = run.settings
    if said["wishes"] != PLAIN.summary():
        raise AssentError(f"{run.folder}: has limits or floors of people; accepted: problems=(split, live)")
    how = {"seed": said["split_seed"], "negatives": said["negatives_asked"]}
    given = said["protocol"].removeprefix("given, ")
    if given != said["protocol"]:
        split = make_problem_from_parts(*parts_of(log), Protocol(given), **how)
    else:
        split = make_problem(log, Protocol(given), **how)
    return split, live_problem(log, **how)
