"""What a report is made from, and the figures that several of its sections need."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from assent.game.prices import price_path
from assent.results.records import ALL, ENDS, NOTHING, Flat, Way, metric_name, way_of
from assent.support.arrays import Floats
from assent.support.errors import AssentError
from assent.support.statistics import mean_and_error, paired_difference

QUALITY = "ndcg"


@dataclass(frozen=True)
class ReportData:
    """A finished run."""

    dataset: str
    protocol: str
    settings: Mapping[str, object]
    """All settings, JSON-like and nested, with the method, objective, price, source and seeds."""
    method: str
    objective: str
    """What the run used; "" for methods without an objective."""
    records: Sequence[Flat]
    """One flat record per trained model (`results.records`): the run's method, All and Nothing."""
    frontier: Sequence[Flat]
    """The same with `point`, the budget as a share of All's violation; empty where it was not measured. All's
    and Nothing's records in it, where there are any, stand for theirs in the figure and the table."""
    selection: pl.DataFrame
    """The decision of the run's first record, one row per training interaction: user and item (String), title
    (String, may be null), category (List[String], may be empty), unwillingness (Float64 in [0, 1]), given
    (Boolean: by its owner, else as the setting `rest` says), disclosed (Boolean), value and price
    (Float64; the price is the break-even price, inf where disclosing costs nothing), reason (String), cost
    (Float64) and together (Int64; these three as in `game.reasons`). Those from value on are null where
    the method estimates nothing."""
    quality: Mapping[str, Any]
    """How good the recommendations are, with intervals (`runs.quality.Quality.facts`)."""
    certificate: Mapping[str, object] = field(default_factory=dict)
    """How far the decision can be trusted (`game.certificate`)."""

    @property
    def way(self) -> Way:
        """The run's method and objective."""
        return self.method, self.objective

    @property
    def estimated(self) -> bool:
        """Whether the method estimated what interactions are worth."""
        return self.selection["value"].null_count() < self.selection.height

    @property
    def metric(self) -> str:
        """The metric that words and charts speak of, with its k: NDCG@5."""
        return metric_name(QUALITY, self.records)

    @property
    def kept(self) -> "Kept | None":
        """The run's quality as a ratio to All's."""
        return kept(self.of(self.way), self.of(ALL))

    def of(self, way: Way) -> list[Flat]:
        """The run's records of one method and objective."""
        return [record for record in self.records if way_of(record) == way]


def check(data: ReportData) -> None:
    """Refuse data from which no report can be made."""
    for way in (ALL, NOTHING, data.way):
        if not data.of(way):
            raise AssentError(
                f"records: none of method {way[0]!r} with objective {way[1]!r}; "
                "a report needs the run's method, 'all' and 'nothing'"
            )
    if not data.selection.height:
        raise AssentError("selection: no rows; a report needs one per training interaction")


def reference(data: ReportData, way: Way) -> list[Flat]:
    """All's or Nothing's records: those measured with the frontier or else those of the run."""
    return [record for record in data.frontier if way_of(record) == way] or data.of(way)


def charted(data: ReportData) -> list[Flat]:
    """The records of the chart: the frontier, the run's method first, then methods that only the run has."""
    measured = [record for record in data.frontier if way_of(record) not in ENDS]
    known = {*ENDS, *map(way_of, measured)}
    own = [record for record in data.records if way_of(record) not in known]
    ends = [record for way in ENDS for record in reference(data, way)]
    return [*sorted(measured, key=lambda record: way_of(record) != data.way), *own, *ends]


def mean(records: Sequence[Flat], key: str = QUALITY) -> float:
    """Mean of a figure over records."""
    return mean_and_error([record[key] for record in records])[0]


class Kept(NamedTuple):
    """Quality as a ratio to All's, with the standard error of that ratio (None for one seed)."""

    ratio: float
    error: float | None


def kept(ours: Sequence[Flat], everything: Sequence[Flat]) -> Kept | None:
    """Ratio r of the mean NDCGs, with the error of (ours − r · All) / All; None if All's is 0."""
    base = mean(everything)
    if not base:
        return None
    ratio = mean(ours) / base
    first, second = (
        {record["seed"]: record[QUALITY] for record in records} for records in (ours, everything)
    )
    pairs = [(first[seed], ratio * second[seed]) for seed in sorted(first.keys() & second.keys())]
    error = paired_difference(*zip(*pairs, strict=True)).error if pairs else None
    return Kept(ratio, None if error is None else error / base)


def spread(data: ReportData) -> float | None:
    """Standard deviation of All's NDCG from seed to seed, relative to its mean; None where one seed is known.

    For a run of one seed this is the only measure of how much chance there is in its figures.
    """
    everything = [record[QUALITY] for record in reference(data, ALL)]
    base, error = mean_and_error(everything)
    return error * math.sqrt(len(everything)) / base if error is not None and base else None


_POINTS = 300
"""Points of the curve that is drawn."""


@dataclass(frozen=True)
class Predicted:
    """Predicted gain against violation along falling break-even prices, from nothing to All.

    `violation` is a share of All's, `gain` the sum of the disclosed values as a share of the largest that
    any selection has: it rises to 1 and falls where interactions follow that are estimated to do harm.
    """

    violation: Floats
    gain: Floats
    run: tuple[float, float]
    """The run's own (violation, gain)."""


def predicted_path(selection: pl.DataFrame) -> Predicted | None:
    """The path of a selection's estimates; None without estimates, or with nothing to gain or to pay."""
    values = selection["value"].fill_null(0.0).to_numpy()
    unwillingness = selection["unwillingness"].to_numpy()
    most, everything = values[values > 0].sum(), unwillingness.sum()
    if most == 0 or everything == 0:
        return None
    path = price_path(values, unwillingness)
    violation = np.concatenate([[0.0], path.paid / everything])
    gain = np.concatenate([[0.0], np.cumsum(values[path.order]) / most])
    shown = np.unique(np.linspace(0, len(values), _POINTS).astype(np.int64))
    disclosed = selection["disclosed"].to_numpy()
    run = (float(unwillingness[disclosed].sum() / everything), float(values[disclosed].sum() / most))
    return Predicted(violation[shown], gain[shown], run)
