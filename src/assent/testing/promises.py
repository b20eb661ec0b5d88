"""The three promises from a file to a model: edits of a log that may change nothing, and what may not change.

    Never is never                   edits of rows of unwillingness 1
    Closed above a limit             edits of rows above the limit
    Withheld stays out of the model  edits of withheld rows, given the decisions

`everything` runs the whole way of a live run for the first two: reader, split, method, tuning, training,
evaluation; then the decisions on all rows, the published model, recommendations. `model_given` runs it with
given decisions for the third. Each step can be replaced, so that tests can show that a leaky one is found.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

import numpy as np
import polars as pl

from assent.data.interactions import Interactions
from assent.data.live import live_problem
from assent.data.problem import Problem, make_problem
from assent.data.readers import read_interactions
from assent.evaluation.evaluate import evaluate
from assent.lab import Lab, Training
from assent.lab.tuning import tuned
from assent.methods import Method, make_method
from assent.runs.run import published
from assent.support.arrays import Bools, Floats
from assent.support.files import as_json
from assent.training import Settings
from assent.training.stored import as_files

CLOSED = 0.8
"""The limit of the promise that has one."""
PEOPLE, ITEMS, ROWS = 24, 30, 9
Files = dict[str, bytes]
Pairs = frozenset[tuple[str, str]]


class Promise(StrEnum):
    """A promise, by the rows that it is about."""

    NEVER = "never"
    CLOSED = "closed"
    WITHHELD = "withheld"


@dataclass(frozen=True)
class Way:
    """The steps from a file to a model, any of which may be replaced."""

    settings: Settings
    method: Method = field(default_factory=lambda: make_method("worth", source="structure"))
    read: Callable[..., Interactions] = read_interactions
    split: Callable[[Interactions], Problem] = lambda log: make_problem(log, "paper-tables", negatives=5)
    undivided: Callable[[Interactions], Problem] = lambda log: live_problem(log, negatives=5)


def some_log(seed: int) -> pl.DataFrame:
    """Draw a log with titles and categories; one row in six is never, one in six above `CLOSED`.

    The last two rows of a person can be looked at, so that edits of other rows leave the split as it is.
    """
    rng = np.random.default_rng(seed)
    items = np.concatenate([rng.permutation(ITEMS)[:ROWS] for _ in range(PEOPLE)])
    unwillingness = rng.uniform(0, CLOSED, PEOPLE * ROWS)
    kind, is_last = rng.random(PEOPLE * ROWS), np.tile(np.arange(ROWS) >= ROWS - 2, PEOPLE)
    unwillingness[(kind < 1 / 3) & ~is_last] = (CLOSED + 1) / 2
    unwillingness[(kind < 1 / 6) & ~is_last] = 1.0
    return pl.DataFrame(
        {
            "user": np.repeat([f"u{u:02}" for u in range(PEOPLE)], ROWS),
            "item": [f"i{item:02}" for item in items],
            "title": [f"Title {item}" for item in items],
            "category": [f"c{item % 4}" for item in items],
            "time": [str(each) for each in np.tile(np.arange(ROWS), PEOPLE)],
            "unwillingness": unwillingness,
        }
    )


def edited(table: pl.DataFrame, which: Bools, promise: Promise, rng: np.random.Generator) -> pl.DataFrame:
    """Edit some of the rows `which[rows]` at random: drop them, change cells, add rows, change the order.

    Cells of rows that are turned away may become any nonsense.
    """
    chosen = which & (rng.random(len(which)) < rng.choice([0.1, 0.5, 1.0]))
    dropped = chosen & (rng.random(len(which)) < 0.3)
    is_unread = promise is not Promise.WITHHELD
    nonsense = ["", "?", "never", "\u202e=1+1", "1e999"]
    changes: dict[str, list[object]] = {
        "item": [f"new {rng.integers(9)}-{row}" for row in range(len(which))],
        "title": [str(rng.choice(["Secret", "", "<b>"])) for _ in which],
        "category": [str(rng.choice(["c9", "", "c1|c2"])) for _ in which],
        "unwillingness": [_unwillingness(promise, rng) for _ in which],
    }
    if is_unread:
        changes["time"] = [str(rng.choice(nonsense)) for _ in which]
    for column, values in changes.items():
        hit = chosen & (rng.random(len(which)) < 0.6)
        table = table.with_columns(
            pl.when(pl.Series(hit)).then(pl.Series(values, dtype=table.schema[column])).otherwise(column)
            .alias(column)
        )  # fmt: skip
    table = table.filter(~pl.Series(dropped))
    owners = ["!first", "u03", "u07", "~last"][: rng.integers(5)]
    added = pl.DataFrame(
        {
            "user": owners,
            "item": [f"added {rng.integers(99)}-{each}" for each in owners],
            "title": ["Added"] * len(owners),
            "category": ["c7"] * len(owners),
            "time": [str(rng.choice(nonsense)) if is_unread else "-1" for _ in owners],
            "unwillingness": [_unwillingness(promise, rng) for _ in owners],
        },
        schema=table.schema,
    )
    together = pl.concat([added, table])
    return together if rng.random() < 0.5 else together[rng.permutation(together.height)]


def _unwillingness(promise: Promise, rng: np.random.Generator) -> float:
    match promise:
        case Promise.NEVER:
            return 1.0
        case Promise.CLOSED:
            return float(rng.choice([np.nextafter(CLOSED, 1), 0.95, np.nextafter(1, 0), 1.0]))
        case Promise.WITHHELD:
            return float(rng.choice([0.0, 0.3, 0.9, 1.0]))


def rows_of(promise: Promise, table: pl.DataFrame, disclosed: Pairs) -> Bools:
    """Which rows a promise is about; `disclosed` are the pairs that were decided to be: [rows]."""
    unwillingness: Floats = table["unwillingness"].to_numpy()
    if promise is Promise.NEVER:
        return np.equal(unwillingness, 1)
    if promise is Promise.CLOSED:
        return unwillingness > CLOSED
    return np.array([pair not in disclosed for pair in table.select("user", "item").iter_rows()])


def _read(table: pl.DataFrame, folder: Path, way: Way, closed: float | None) -> Interactions:
    file = folder / "log.csv"
    table.write_csv(file)
    return way.read(file, closed=closed)


def everything(table: pl.DataFrame, folder: Path, way: Way, closed: float | None) -> tuple[Files, Pairs]:
    """Go the whole way; return all that promises 1 and 3 are about, as bytes, and what is disclosed."""
    log = _read(table, folder, way, closed)
    problem, live = way.split(log), way.undivided(log)
    lab = Lab(problem, way.settings)
    tried = way.method.within(lab, 0.5)
    found = tuned(lab, tried.selection)
    [tested] = lab.train([Training(tried.selection, settings=found.settings)])
    choice = way.method.as_found(tried).within(replace(lab, problem=live), 0.5)
    _, trained = published(lab, live, choice.selection)
    best = trained.recommend(live.user_ids.tolist(), 3)
    shown = best.join(log.items, on="item", how="left", maintain_order="left")
    pairs = _pairs(live)
    files = as_files(trained, "model") | {
        **as_files(tested, "tested"),
        "decisions": as_json([[*pair, bool(o)] for pair, o in zip(pairs, choice.selection, strict=True)]),
        "values": b"".join(each.values.tobytes() for each in (tried, choice) if each.values is not None),
        "figures": as_json(evaluate(problem, tested, tried.selection, price=0.1)),
        "recommendations": json.dumps(shown.to_dicts()).encode(),
    }
    return files, frozenset(pair for pair, o in zip(pairs, choice.selection, strict=True) if o)


def model_given(table: pl.DataFrame, folder: Path, way: Way, disclosed: Pairs) -> Files:
    """Go the way with given decisions; return the model's files."""
    live = way.undivided(_read(table, folder, way, None))
    chosen = np.array([pair in disclosed for pair in _pairs(live)])
    return as_files(published(Lab(live, way.settings), live, chosen)[1], "model")


def _pairs(problem: Problem) -> list[tuple[str, str]]:
    """User and item of every training row."""
    users, items = problem.user_ids[problem.train.users], problem.item_ids[problem.train.items]
    return list(zip(users.tolist(), items.tolist(), strict=True))


def differences(promise: Promise, way: Way, folder: Path, *, edits: int, seed: int = 0) -> list[str]:
    """Edit a log so many times; return what changed that may not change: "edit 3: model.json", ...

    Every tenth edit starts from a new log.
    """
    found: list[str] = []
    closed = CLOSED if promise is Promise.CLOSED else None
    for number in range(edits):
        rng = np.random.default_rng((seed, number))
        if number % 10 == 0:
            table = some_log(seed + number)
            before, disclosed = everything(table, folder, way, closed)
        changed = edited(table, rows_of(promise, table, disclosed), promise, rng)
        if promise is Promise.WITHHELD:
            expected = {name: before[name] for name in ("model.safetensors", "model.json")}
            after = model_given(changed, folder, way, disclosed)
        else:
            expected, (after, _) = before, everything(changed, folder, way, closed)
        found += [f"edit {number}: {name}" for name in expected if after.get(name) != expected[name]]
    return found
