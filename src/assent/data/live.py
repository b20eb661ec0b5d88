"""Problems of a live run: every interaction is decided on, the latest ones too.

A problem for experiments keeps each person's latest rows from all decisions. In a live run

- all rows are training rows, and each person's latest one also *judges*: it is the validation row that the
  others are valued by (`live_problem`). No model that values are measured with is trained on it;
- once all is decided, the settings and the length of the final training are found on disclosed rows alone:
  each person's latest disclosed row validates, the others train (`disclosed_split`);
- the final model is trained on all disclosed rows, and nothing is held out (`disclosed_whole`).

So a withheld row has no part in the final training, not even as a row that says when to stop.
"""

from dataclasses import replace

import numpy as np
import polars as pl

from assent.data.interactions import Interactions
from assent.data.problem import TRAIN, VALID, Problem, Protocol, Rows, build, in_order, with_unwillingness
from assent.support.arrays import Bools


def live_problem(interactions: Interactions, *, seed: int = 0, negatives: int = 99) -> Problem:
    """Return the problem whose training rows are all rows of a log that has unwillingness.

    Each person's latest row, if they have more than one, is a validation row too (`Problem.judges`).
    `negatives` are drawn as by `make_problem`.
    """
    kept = with_unwillingness(interactions)
    table = _latest_apart(in_order(kept.table))
    split = build(kept.name, table, Protocol.FULL, label="live", seed=seed, negatives=negatives)
    return undivided(split, table)


def disclosed_split(problem: Problem, selection: Bools) -> Problem:
    """Return the disclosed rows of a live problem, `selection[Z]`, with each person's latest one held out."""
    return _built(problem, _latest_apart(_table(problem, selection)))


def disclosed_whole(problem: Problem, selection: Bools) -> Problem:
    """Return the disclosed rows of a live problem, `selection[Z]`, all to train on."""
    return _built(problem, _table(problem, selection).with_columns(part=TRAIN))


def _table(problem: Problem, selection: Bools) -> pl.DataFrame:
    """The disclosed rows, in their order."""
    rows = problem.train[selection]
    columns = {"user": problem.user_ids[rows.users], "item": problem.item_ids[rows.items]}
    table = pl.DataFrame(columns, schema={"user": pl.String, "item": pl.String})
    # What somebody minds is no matter for a training: with it, a change of mind would change every key.
    return table.with_columns(unwillingness=0.0)


def _built(problem: Problem, table: pl.DataFrame) -> Problem:
    # A training draws the items itself that it ranks validation rows among.
    return build(problem.name, table, Protocol.FULL, label="disclosed", seed=problem.seed, negatives=1)


def _latest_apart(table: pl.DataFrame) -> pl.DataFrame:
    """Rows sorted by user and time, with their part: each person's last of several validates."""
    count, place = pl.len().over("user").cast(pl.Int64), pl.int_range(pl.len()).over("user")
    is_last = (count > 1) & (place == count - 1)
    return table.with_columns(part=pl.when(is_last).then(VALID).otherwise(TRAIN))


def undivided(split: Problem, table: pl.DataFrame) -> Problem:
    """Return the problem with all rows of its table as training rows, in their order; valid ones judge."""
    judges: Bools = table["part"].to_numpy() == VALID
    users, items = np.empty(len(judges), np.int64), np.empty(len(judges), np.int64)
    for rows, here in ((split.train, ~judges), (split.valid, judges)):
        users[here], items[here] = rows.users, rows.items
    return replace(
        split, train=Rows(users, items), unwillingness=table["unwillingness"].to_numpy(), judges=judges
    )
