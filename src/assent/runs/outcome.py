"""What a comparison says: means with errors, paired tests against one method, and who wins where.

The files of a comparison: every record, the standings as tables for people and programs, pictures.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from assent.evaluation.metrics import RewardForm
from assent.report import rewards_svg
from assent.report.data import NOTHING, Record, Way, way_of
from assent.report.words import name
from assent.runs.records import FIGURES
from assent.support.files import write_json, write_text, write_with
from assent.support.statistics import FEWEST, paired_difference, summarise
from assent.training import Settings

LEVELS = ((0.01, "**"), (0.05, "*"))
"""Largest p of each mark."""
PLACE = ("dataset", "model", "price")
"""What the records of one place of the comparison agree on."""


def mark(p: float | None) -> str:
    """How sure a difference is: ** for p ≤ 0.01, * for p ≤ 0.05, nothing otherwise."""
    return next((sign for level, sign in LEVELS if p is not None and p <= level), "")


def standings(records: Sequence[Record], form: RewardForm, reference: Way) -> list[dict[str, Any]]:
    """One row per place and method, place by place: means and errors over seeds, and how the reference does.

    `ahead` is the reward of the reference minus that of the row's method, paired by seed, `ahead_error` its
    standard error and `p` the paired t test's; None in the rows of the reference itself. `best` says whether
    no other mean reward of the place is larger.
    """
    figure = f"reward_{form}"
    summary = summarise(records, by=[*PLACE, "method", "objective"], keys=FIGURES)
    rows = [row | _standing(row, summary, records, figure, reference) for row in summary]
    places = list(dict.fromkeys(map(_place, rows)))
    return sorted(rows, key=lambda row: places.index(_place(row)))


def _standing(
    row: Record, summary: Sequence[Record], records: Sequence[Record], figure: str, reference: Way
) -> dict[str, Any]:
    """What a row of the summary says beyond its own figures."""
    ours, theirs = (_by_seed(records, _place(row), way, figure) for way in (reference, way_of(row)))
    found = paired_difference(list(ours.values()), [theirs[seed] for seed in ours])
    ahead = (None, None, None) if way_of(row) == reference else (found.mean, found.error, found.p)
    return {
        "reward": row[figure],
        "reward_error": row[f"{figure}_error"],
        **dict(zip(("ahead", "ahead_error", "p"), ahead, strict=True)),
        "best": row[figure] >= max(each[figure] for each in summary if _place(each) == _place(row)),
    }


def wins(rows: Sequence[Record], reference: Way) -> list[dict[str, Any]]:
    """Per rival: in how many places the reference is at or above it, significantly above, and below."""
    rivals = dict.fromkeys(way_of(row) for row in rows if way_of(row) != reference)
    found = []
    for rival in rivals:
        theirs = [row for row in rows if way_of(row) == rival]
        found.append(
            {
                "method": rival[0],
                "objective": rival[1],
                "places": len(theirs),
                "at_or_above": sum(row["ahead"] >= 0 for row in theirs),
                "significantly_above": sum(row["ahead"] > 0 and bool(mark(row["p"])) for row in theirs),
                "significantly_below": sum(row["ahead"] < 0 and bool(mark(row["p"])) for row in theirs),
            }
        )
    return found


def sentences(rows: Sequence[Record], reference: Way) -> list[str]:
    """The same in words, and where withholding everything has the best reward."""
    is_tested = max((row["runs"] for row in rows), default=0) >= FEWEST
    said = [
        f"{name(reference)} is at or above {name(way_of(each))} in {each['at_or_above']} of "
        f"{each['places']} places"
        + (
            f", significantly above in {each['significantly_above']}, "
            f"significantly below in {each['significantly_below']}."
            if is_tested
            else "."
        )
        for each in wins(rows, reference)
    ]
    said.append(
        "Significant is p ≤ 0.05 of a paired t-test over repeats, each place for itself: not corrected for "
        "how many there are."
        if is_tested
        else f"Not tested: that takes {FEWEST} repeats."
    )
    best = [row for row in rows if way_of(row) == NOTHING and row["best"]]
    if best:
        where = ", ".join(f"{row['model']} at price {row['price']:g}" for row in best)
        said.append(
            f"Nothing wins: no method has a larger mean reward than withholding everything ({where})."
        )
    return said


def _place(record: Record) -> tuple[Any, ...]:
    return tuple(record[label] for label in PLACE)


def _by_seed(records: Sequence[Record], place: tuple[Any, ...], way: Way, figure: str) -> dict[int, float]:
    return {each["seed"]: each[figure] for each in records if _place(each) == place and way_of(each) == way}


_COLUMNS = (
    "dataset", "model", "price", "method", "objective", "runs", "reward", "reward_error", "ahead",
    "ahead_error", "p", "best", "reward_sum", "reward_sum_error", "reward_mean", "reward_mean_error",
    "violation", "violation_share", "ndcg", "ndcg_error", "f1", "f1_error", "seconds", "trainings",
)  # fmt: skip
"""Of the CSV file."""
MARKS = "Means ± standard errors; * p ≤ 0.05, ** p ≤ 0.01 of the paired t-test; ‹ the best mean reward."


@dataclass(frozen=True)
class Outcome:
    """A finished comparison."""

    records: Sequence[Record]
    form: RewardForm
    reference: Way
    notes: Sequence[str] = ()
    """What readers have to know of how it was made."""
    settings: Sequence[Settings] = ()
    """Of each model."""

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One per model, price and method."""
        return standings(self.records, self.form, self.reference)

    @property
    def title(self) -> str:
        """Data set, reward and repeats."""
        seeds = sorted({record["seed"] for record in self.records})
        return (
            f"{self.records[0]['dataset']}, reward ({self.form}), {len(seeds)} repeats from seed {seeds[0]}"
        )

    @property
    def said(self) -> list[str]:
        """What follows, in sentences, then the notes."""
        return [*sentences(self.rows, self.reference), *self.notes]

    def write(self, folder: Path) -> list[Path]:
        """Write compare.csv, .json and .md and a picture per model: those files."""
        rows = self.rows
        csv, json, markdown = (folder / f"compare.{kind}" for kind in ("csv", "json", "md"))
        write_with(csv, pl.DataFrame(rows, infer_schema_length=None).select(_COLUMNS).write_csv)
        contents = {
            "reward": self.form.value,
            "reference": name(self.reference),
            "notes": list(self.notes),
            "settings": {each.model: each.model_dump(mode="json") for each in self.settings},
            "standings": rows,
            "wins": wins(rows, self.reference),
            "records": [dict(record) for record in self.records],
        }
        write_json(json, contents)
        write_text(markdown, self._markdown())
        pictures = []
        for model in dict.fromkeys(record["model"] for record in self.records):
            picture = folder / f"compare-{re.sub(r'[^A-Za-z0-9_.+]+', '-', model)}.svg"
            mine = [row for row in rows if row["model"] == model]
            write_text(picture, rewards_svg(mine, f"{self.records[0]['dataset']}, {model}", self.form))
            pictures.append(picture)
        return [csv, json, markdown, *pictures]

    def _markdown(self) -> str:
        header = [
            "model", "price", "method", f"reward ({self.form})", f"{name(self.reference)} ahead by",
            "violation %", "NDCG@5 %", "trainings", "seconds",
        ]  # fmt: skip
        lines = [header, ["---", "--:", "---", *["--:"] * 6], *map(_line, self.rows)]
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        said = "\n".join(f"- {sentence}" for sentence in [*self.said, MARKS.replace("*", r"\*")])
        return f"# {self.title}\n\n{table}\n\n{said}\n"


def reward_text(row: Record) -> str:
    """A row's mean reward with its error; ‹ where it is the best."""
    return f"{_with_error(row['reward'], row['reward_error'])} {'‹' if row['best'] else ' '}"


def ahead_text(row: Record) -> str:
    """How far the reference is ahead of a row, with its error and a mark of how sure that is."""
    if row["ahead"] is None:
        return ""
    return f"{_with_error(row['ahead'], row['ahead_error'], '+')} {mark(row['p']):2}"


def _line(row: Record) -> list[str]:
    """A row of the Markdown table."""
    return [
        row["model"],
        f"{row['price']:g}",
        name(way_of(row)),
        reward_text(row).strip(),
        ahead_text(row).strip().replace("*", r"\*"),
        f"{100 * row['violation_share']:.1f}",
        _with_error(100 * row["ndcg"], None if row["ndcg_error"] is None else 100 * row["ndcg_error"]),
        f"{row['trainings']:.0f}",
        f"{row['seconds']:.1f}",
    ]


def _with_error(value: float, error: float | None, sign: str = "") -> str:
    text = f"{value:{sign}.3f}"
    return text if error is None else f"{text} ±{error:.3f}"
