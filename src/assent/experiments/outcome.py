"""The files of a comparison: every record, the standings as tables for people and programs, pictures."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from assent.experiments.standings import mark, sentences, standings, wins
from assent.files import write_json, write_text, write_with
from assent.metrics import RewardForm
from assent.report import rewards_svg
from assent.report.data import Record, Way, way_of
from assent.report.words import name
from assent.settings import Settings

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
