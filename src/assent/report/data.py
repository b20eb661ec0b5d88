"""What a report is made from, and the figures that several of its sections need."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from assent.results.records import ALL, ENDS, NOTHING, Flat, Way, metric_name, way_of
from assent.results.words import share
from assent.support.errors import AssentError
from assent.support.statistics import Interval, mean_and_error

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
    """One flat record per model that was measured (`results.records`): the run's method with each seed,
    Nothing, and All where it was measured."""
    frontier: Sequence[Flat]
    """The same with `point`, the budget as a share of All's violation; empty where it was not measured. All's
    and Nothing's records in it, where there are any, stand for theirs in the figure and the table."""
    selection: pl.DataFrame
    """What was decided, one row per interaction: user and item (String), title
    (String, may be null), category (List[String], may be empty), unwillingness (Float64 in [0, 1]), given
    (Boolean: by its owner, else as the setting `rest` says), disclosed (Boolean), value and price
    (Float64; the price is the break-even price, inf where disclosing costs nothing), reason (String), cost
    (Float64) and together (Int64; these three as in `game.reasons`). Those from value on are null where
    the method estimates nothing."""
    quality: Mapping[str, Any]
    """How good the recommendations are, with intervals, and the operating point (a run's `quality.json`)."""
    certificate: Mapping[str, object] = field(default_factory=dict)
    """How far the decision can be trusted (`game.certificate`)."""

    @property
    def way(self) -> Way:
        """The run's method and objective."""
        return self.method, self.objective

    @property
    def is_live(self) -> bool:
        """Whether every interaction was decided on; False for an experiment."""
        return self.settings.get("live") is not None

    @property
    def estimated(self) -> bool:
        """Whether the method estimated what interactions are worth."""
        return self.selection["value"].null_count() < self.selection.height

    @property
    def measured_in(self) -> str | None:
        """The earlier run that measured the quality; None: this one."""
        return self.quality.get("measured_in")

    @property
    def measurement(self) -> str | None:
        """Which earlier run measured the quality, when, and how much that one disclosed; None: this one."""
        if self.measured_in is None:
            return None
        about = self.quality.get("measured")
        run = measured_run(self.measured_in, about)
        return run if about is None else f"{run}, at {share(about['share'])}"

    @property
    def metric(self) -> str:
        """The metric that words and charts speak of, with its k: NDCG@5."""
        return metric_name(QUALITY, self.records)

    @property
    def kept(self) -> Interval | None:
        """The run's quality as a ratio to All's; None where that was not measured, or is 0."""
        return Interval(**self.quality["kept"]) if self.quality["kept"] else None

    @property
    def reached(self) -> Interval:
        """The run's quality."""
        return Interval(**self.quality["reached"])

    @property
    def above_nothing(self) -> Interval:
        """The run's quality, less Nothing's."""
        return Interval(**self.quality["above_nothing"])

    @property
    def minded(self) -> tuple[float, float]:
        """The sum of all unwillingness that is disclosed, and of all."""
        disclosed = self.selection.filter("disclosed")
        return float(disclosed["unwillingness"].sum()), float(self.selection["unwillingness"].sum())

    @property
    def violation_share(self) -> float:
        """The share of all unwillingness that is disclosed; 0 where nobody minds anything."""
        disclosed, everything = self.minded
        return disclosed / everything if everything else 0.0

    def of(self, way: Way) -> list[Flat]:
        """The run's records of one method and objective."""
        return [record for record in self.records if way_of(record) == way]


def measured_run(mark: str, about: Mapping[str, Any] | None) -> str:
    """Name the run that measured: its folder, its mark and its day, as far as they are known."""
    if about is None:
        return f"an earlier run ({mark})"
    day = "" if about["when"] is None else f" of {about['when'][:10]}"
    return f"the run {about['run']} ({mark}){day}"


def check(data: ReportData) -> None:
    """Refuse data from which no report can be made."""
    for way in (NOTHING, data.way):
        if not data.of(way):
            raise AssentError(
                f"records: none of method {way[0]!r} with objective {way[1]!r}; "
                "a report needs the run's method and 'nothing'"
            )
    if not data.selection.height:
        raise AssentError("selection: no rows; a report needs one per interaction that was decided on")


def reference(data: ReportData, way: Way) -> list[Flat]:
    """All's or Nothing's records: those measured with the frontier or else those of the run."""
    return [record for record in data.frontier if way_of(record) == way] or data.of(way)


def charted(data: ReportData) -> list[Flat]:
    """The records of the chart: the frontier, the run's method first, then All and Nothing.

    Where All's quality is known, the quality of each record is a share of it.
    """
    measured = [record for record in data.frontier if way_of(record) not in ENDS]
    ends = [record for way in ENDS for record in reference(data, way)]
    records = [*sorted(measured, key=lambda record: way_of(record) != data.way), *ends]
    base = 1.0 if data.kept is None else mean(reference(data, ALL))
    return [{**record, QUALITY: record[QUALITY] / base if base else 0.0} for record in records]


def mean(records: Sequence[Flat], key: str = QUALITY) -> float:
    """Mean of a figure over records."""
    return mean_and_error([record[key] for record in records])[0]
