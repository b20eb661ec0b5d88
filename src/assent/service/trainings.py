"""What a job makes: training or updating on the log as it stands, and the model with its decisions."""

import shutil
import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from time import time
from typing import Any, Final

import polars as pl
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from assent.data.interactions import NEVER, Interactions, turned_away
from assent.data.live import live_problem
from assent.data.problem import Protocol, make_problem
from assent.lab.executor import Executor
from assent.methods import make_method
from assent.runs.folder import Run, open_run
from assent.runs.manifest import MANIFEST
from assent.runs.plan import RunPlan
from assent.runs.prompt import Vectors, prompt_update
from assent.runs.run import fit
from assent.service import jobs, models
from assent.service.database import ConflictError, Database, insert_many
from assent.service.effective import Effective
from assent.service.jobs import Taken
from assent.service.ledger import last_number, moment_text
from assent.service.settings import ServiceSettings
from assent.service.tables import Decision, Interaction, Item, ItemCategory, Model, Person
from assent.support.files import read_own
from assent.support.progress import Whole

_ROWS: Final = 20_000
"""Decisions in one statement."""
_TRIES: Final = 5
"""How often a model is written if people are erased while it is."""
_NUMBERS: Final = ("value", "cost", "price", "worth_owner", "worth_everybody")


def read_log(session: Session, settings: ServiceSettings) -> tuple[Interactions, int]:
    """Return the log with what is in force for each interaction, and the last event that it knows.

    The session has to see one moment. Items are those of rows that may be read.
    """
    upto, effective = last_number(session), Effective(settings)
    asked = select(
        Person.user,
        Item.item,
        Interaction.at,
        effective.unwillingness,
        effective.source,
        effective.said,
    )
    asked = (
        asked.select_from(Interaction)
        .join(Person, Person.id == Interaction.person_id)
        .join(Item, Item.id == Interaction.item_id)
    )
    rows = [tuple(row) for row in session.execute(effective.joined(asked))]
    kinds = {"user": pl.String, "item": pl.String, "time": pl.Float64,
             "unwillingness": pl.Float64, "source": pl.String, "said": pl.Float64}  # fmt: skip
    table = pl.DataFrame(rows, kinds, orient="row").sort("user", "time", "item")
    sources = {"platform": "column", "unsaid": f"rest:{settings.unsaid:g}"}
    verdicts = table.select(
        "unwillingness",
        pl.col("source").replace_strict(sources, default="wish", return_dtype=pl.String),
        pl.col("said").map_elements(lambda at: moment_text(at)[:19] + "Z", return_dtype=pl.String),
    ).with_columns(reason=turned_away(table["unwillingness"], settings.closed))
    known = Interactions("service", table.select("user", "item", "time"), _catalogue(session))
    read = known.judged(verdicts)
    return replace(
        read, items=read.items.join(read.table.select("item").unique(), on="item", how="semi")
    ), upto


def _catalogue(session: Session) -> pl.DataFrame:
    """Return what is known of items: item, title, category."""
    kinds = {"item": pl.String, "title": pl.String}
    items = pl.DataFrame(
        [tuple(row) for row in session.execute(select(Item.item, Item.title))], kinds, orient="row"
    )
    asked = (
        select(Item.item, ItemCategory.category)
        .join(Item, Item.id == ItemCategory.item_id)
        .order_by(ItemCategory.item_id, ItemCategory.place)
    )
    pairs = pl.DataFrame(
        [tuple(row) for row in session.execute(asked)],
        {"item": pl.String, "category": pl.String},
        orient="row",
    )
    lists = pairs.group_by("item", maintain_order=True).agg("category")
    found = items.join(lists, on="item", how="left").with_columns(pl.col("category").fill_null([]))
    return found.sort("item")


def plan_of(settings: ServiceSettings) -> RunPlan:
    """Return what a training is asked to do."""
    return RunPlan(
        method=make_method(settings.method),
        price=settings.price,
        budget=settings.budget,
        keep_quality=settings.keep_quality,
        seed=settings.seed,
        seeds=settings.seeds,
        k=(settings.k,),
        unwillingness="service",
        closed=settings.closed,
        points=settings.frontier,
        frontier_seeds=1,
    )


def train(
    database: Database, settings: ServiceSettings, taken: Taken, watch: Whole, executor: Executor
) -> int:
    """Train on the present log, and write the model with its decisions; return its id."""
    log_now, upto = _present(database, settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        problem = make_problem(log_now, Protocol.PAPER_TABLES, seed=settings.seed)
        live = live_problem(log_now, seed=settings.seed)
        out = _new_folder(settings, taken)
        run = fit(log_now, problem, out, plan_of(settings), live=live, executor=executor, progress=watch)
    return write_model(database, run, taken, upto=upto)


def update(
    database: Database, settings: ServiceSettings, taken: Taken, watch: Whole, executor: Executor
) -> int:
    """Decide anew on the present log by what the last training measured, and train the model by it.

    Return the model's id. Where settings ask for kept vectors, nothing is trained.
    """
    with database.reading() as session:
        base = models.last_trained(session)
        if base is None:
            raise ConflictError("update: there is no training to go on from; accepted: a training")
        parent, folder, trained_upto = base.id, base.folder, base.trained_upto
    log_now, upto = _present(database, settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before = open_run(settings.runs / folder)
        run = prompt_update(
            before,
            log_now,
            _new_folder(settings, taken),
            vectors=Vectors(settings.update_vectors),
            check=False,
            executor=executor,
            progress=watch,
        )
    if settings.update_vectors == "trained":
        trained_upto = upto
    return write_model(database, run, taken, upto=upto, parent=parent, trained_upto=trained_upto)


def _present(database: Database, settings: ServiceSettings) -> tuple[Interactions, int]:
    with database.snapshot() as session:
        return read_log(session, settings)


def _new_folder(settings: ServiceSettings, taken: Taken) -> Path:
    """Return where a job's run goes; what lost workers left of it is deleted."""
    for left in settings.runs.glob(f"job-{taken.id}-*"):
        shutil.rmtree(left, ignore_errors=True)
    return settings.runs / f"job-{taken.id}-{taken.token}"  # as in `pruning`


def write_model(
    database: Database,
    run: Run,
    taken: Taken,
    *,
    upto: int,
    parent: int | None = None,
    trained_upto: int | None = None,
) -> int:
    """Write the row of a finished run and its decisions, in one transaction; return the model's id.

    If somebody is erased meanwhile it is written again, without them: the training is not repeated for that.
    """
    known = upto if trained_upto is None else trained_upto
    for _ in range(_TRIES - 1):
        with suppress(IntegrityError):
            return _written(database, run, taken, upto, parent, known)
    return _written(database, run, taken, upto, parent, known)


def _written(
    database: Database, run: Run, taken: Taken, upto: int, parent: int | None, trained_upto: int
) -> int:
    with database.writing() as session:
        jobs.hold(session, taken)
        model = Model(
            job_id=taken.id,
            created=time(),
            kind=taken.kind,
            parent_id=parent,
            folder=run.folder.name,
            manifest_hash=sha256(read_own(run.folder / MANIFEST)).hexdigest(),
            model_hash=run.manifest.files["model.safetensors"],
            decisions_hash=run.manifest.decisions,
            upto=upto,
            trained_upto=trained_upto,
            facts=facts_of(run),
        )
        session.add(model)
        session.flush()
        people = dict(session.execute(select(Person.user, Person.id)).all())
        items = dict(session.execute(select(Item.item, Item.id)).all())
        rows: list[dict[str, Any]] = []
        for row in _decisions(run):
            user, item = row.pop("user"), row.pop("item")
            if user in people and item in items:  # erased since
                rows.append({"model_id": model.id, "person_id": people[user], "item_id": items[item], **row})
            if len(rows) == _ROWS:
                insert_many(session, {Decision: rows})
                rows = []
        insert_many(session, {Decision: rows})
        return model.id


def _decisions(run: Run) -> Iterator[dict[str, Any]]:
    finite = [pl.when(pl.col(name).is_finite()).then(name).alias(name) for name in _NUMBERS]
    decided = run.selection.select(
        "user",
        "item",
        "unwillingness",
        "reason",
        "together",
        *finite,
        state=pl.when("disclosed").then(pl.lit("used")).otherwise(pl.lit("withheld")),
    )
    yield from decided.iter_rows(named=True)
    nothing = dict.fromkeys(("reason", "together", *_NUMBERS))
    for row in run.sealed.select("user", "item", "unwillingness", state="reason").iter_rows(named=True):
        yield {**row, **nothing}


def facts_of(run: Run) -> dict[str, Any]:
    """Return figures of a run for operators, as JSON."""
    mine, point = run.records[0], run.quality["operating_point"]
    disclosed = run.selection.filter("disclosed")
    total = float(run.selection["unwillingness"].sum())
    return {
        "people": run.selection["user"].n_unique(),
        "items": run.selection["item"].n_unique(),
        "interactions": run.selection.height,
        "disclosed": disclosed.height,
        "never": int((run.sealed["reason"] == NEVER).sum()),
        "closed": int((run.sealed["reason"] != NEVER).sum()),
        "violation_share": float(disclosed["unwillingness"].sum()) / total if total else 0.0,
        "budget": point["budget"],
        "price": point["price"],
        "keep_quality": point["keep_quality"],
        "closed_limit": run.settings["closed"],
        "method": run.settings["method"],
        "k": run.settings["k"][0],
        "vectors": run.settings.get("vectors", Vectors.TRAINED.value),
        "seconds": mine.get("seconds"),
        "quality": dict(run.quality),
        "frontier": run.frontier,
    }
