"""Whether values that were measured before are too old to decide by: a sample is valued again.

Measuring values anew takes as many trainings as a fit. What is cheap are the paths between people (`worth`'s
structure), which need none. So a sample of the rows that are there in both logs is valued by paths in the log
of the exact run that measured them and in the present one. Where the paths over a row became more or fewer,
its value is taken to have changed in proportion:

    value now = value then · (paths now / mean now) / (paths then / mean then)

Rows of that log may be gone, so a prompt update keeps the paths of then in its table (`paths_then`). What
many small updates change thus adds up until the next exact one.

The rows with the highest value per unwillingness are then disclosed, for as much unwillingness as the run
discloses of the sample. The share of rows that this decides otherwise is what ageing changes. Beside it
stands the share that would be decided otherwise if each value were off by its own stated error.

After 1, 5 and 20 % of the rows of Diginetica changed, a fresh fit decided 0.8, 3.2 and 10 % of the others
otherwise, and this says 0.9, 4.4 and 14 %; on Steam 2.3, 3.6 and 6.4 %, and 1.0, 3.2 and 7.2 %.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from scipy.special import ndtri

from assent.data.interactions import Interactions
from assent.data.problem import Rows
from assent.game.estimates import Objective
from assent.game.prices import PricePath, break_even_prices
from assent.results.words import percent, plural
from assent.runs.changes import PAIR
from assent.runs.folder import Run
from assent.support.arrays import Bools, Floats, Ints, Keys, mix, string_keys
from assent.support.draws import Purpose, lots, some_by_lot
from assent.support.errors import AssentError
from assent.worth.paths import find_paths

PATHS: Final = "paths"
"""The column of a prompt update's table that has them."""
MOST = 0.05
"""Share of the decisions beyond which values are too old."""
_SAMPLE = 20_000
"""Rows that are valued again."""
_LEAST = 1e-3
"""Least paths over a row, in units of the mean."""


@dataclass(frozen=True)
class Drift:
    """How far the values of a run are from what the present log would give."""

    sampled: int
    """Rows that were valued again."""
    correlation: float
    """Rank correlation of their values then and now."""
    flipped: float
    """Share of them that would be decided otherwise."""
    noise: float
    """Share that would be decided otherwise if every value were off by its stated error."""
    unmeasured: float
    """Share of the present rows whose value was not measured."""
    most: float = MOST

    @property
    def is_too_old(self) -> bool:
        """Whether too many decisions rest on what is no more, or on values that nobody measured."""
        return self.flipped > self.most or self.unmeasured > 2 * self.most

    def summary(self) -> str:
        """Say it to people."""
        again = f"Valued again, {percent(self.flipped, 1)} of {plural(self.sampled, 'interaction')} would be "
        told = (
            f"{again}decided otherwise; {percent(self.noise, 1)} if values were off by their stated errors."
        )
        new = f"The values of {percent(self.unmeasured, 1)} were not measured."
        verdict = "too old to decide by" if self.is_too_old else "still good to decide by"
        return f"{told} {new} The values are {verdict}."


def drift(run: Run, log: Interactions, *, most: float = MOST, then: pl.DataFrame | None = None) -> Drift:
    """Return how far the values of a run have aged since the last exact one.

    `most` is the share of decisions that may change, `then` what `paths_then` returns for the run, if it is
    known. A run whose method estimates nothing has no values that age.
    """
    table = run.selection
    if "expected" in table.columns:
        table = table.filter(~pl.col("expected"))
    here = log.table.select(PAIR)
    known = table.join(here, on=PAIR, how="semi", maintain_order="left")
    unmeasured = 1 - known.height / here.height if here.height else 0.0
    if then is None:
        then = paths_then(run)
    if then is None:
        return Drift(0, 1.0, 0.0, 0.0, 0.0, most)
    if known.is_empty():
        return Drift(0, 1.0, 0.0, 0.0, unmeasured, most)
    now, seed = _paths(here, run), run.settings["seed"]
    keys = _keys(known)
    drawn = some_by_lot(keys, _SAMPLE, seed, Purpose.DRIFT)
    some, keys = known[drawn], keys[drawn]
    both = some.drop(PATHS, strict=False).join(then, on=PAIR, how="left", maintain_order="left")
    both = both.join(now, on=PAIR, how="left", maintain_order="left", suffix="_now")
    values, minded = both["value"].to_numpy(), both["unwillingness"].to_numpy()
    disclosed = both["disclosed"].to_numpy()
    aged = values * both["paths_now"].to_numpy() / both["paths"].to_numpy()
    errors = both["uncertainty"].fill_null(0.0).to_numpy() * ndtri(lots(keys, seed, Purpose.DRIFT, 1))
    paid = float(minded[disclosed].sum())
    kept, other, noisy = (_within(each, minded, paid) for each in (values, aged, values + errors))
    return Drift(
        sampled=len(values),
        correlation=_rank_correlation(values, aged),
        flipped=_apart(kept, other),
        noise=_apart(kept, noisy),
        unmeasured=unmeasured,
        most=most,
    )


def paths_then(run: Run) -> pl.DataFrame | None:
    """Return the paths over every row in the log of the last exact run, in units of their mean.

    The columns are user, item and `PATHS`, which is null for rows that are newer. None if the run has no
    values.
    """
    table = run.selection
    if table["value"].null_count() == table.height:
        return None
    if PATHS in table.columns:
        return table.select(*PAIR, PATHS)
    if run.settings.get("base") is not None:
        raise AssentError(f"{run.folder}: does not say what its values rest on; accepted: grade exact")
    return _paths(table.select(PAIR), run)


def _paths(pairs: pl.DataFrame, run: Run) -> pl.DataFrame:
    """The paths over every row, in units of their mean, as they count for the objective of a run."""
    (user_keys, users), (item_keys, items) = (_indexed(pairs[name]) for name in PAIR)
    found = find_paths(Rows(users, items), user_keys, item_keys, seed=run.settings["seed"])
    paths = found.own() if run.settings["objective"] == Objective.NASH else found.social()
    mean = float(paths.mean()) if len(paths) else 0.0
    shares = np.maximum(paths / mean, _LEAST) if mean > 0 else np.ones(len(paths))
    return pairs.with_columns(pl.Series(PATHS, shares))


def _keys(pairs: pl.DataFrame) -> Keys:
    """A key per row, made of its ids: [n]."""
    (user_keys, users), (item_keys, items) = (_indexed(pairs[name]) for name in PAIR)
    return mix(user_keys[users], item_keys[items])


def _indexed(ids: pl.Series) -> tuple[Keys, Ints]:
    """The keys of the sorted distinct ids, and the place of each row's id among them."""
    return string_keys(ids.unique().sort()), (ids.rank("dense") - 1).cast(pl.Int64).to_numpy()


def _within(values: Floats, minded: Floats, most: float) -> Bools:
    """The rows of the highest value per unwillingness, for so much unwillingness: [n]."""
    path = PricePath.of(break_even_prices(values, minded), minded)
    chosen = np.zeros(len(values), dtype=np.bool_)
    chosen[path.order[: int(np.searchsorted(path.paid, most, side="right"))]] = True
    return chosen


def _apart(one: Bools, other: Bools) -> float:
    return float((one != other).mean()) if len(one) else 0.0


def _rank_correlation(one: Floats, other: Floats) -> float:
    """Spearman's; 1 where nothing varies."""
    from scipy.stats import spearmanr

    if len(one) < 2 or np.ptp(one) == 0 or np.ptp(other) == 0:
        return 1.0
    return float(spearmanr(one, other).statistic)
