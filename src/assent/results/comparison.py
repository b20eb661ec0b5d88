"""A comparison of methods: how often one is above the others, in sentences, and the files of `compare`."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import polars as pl

from assent.evaluation.metrics import RewardForm
from assent.results.records import METHOD, NOTHING, Flat, Way, figure_keys, k_of, name, named, way_of
from assent.results.table import Amount, Column, Row, Table, metric_columns, rows_by, shown, tabulate
from assent.results.words import plural
from assent.results.writers import in_markdown, markdown
from assent.support.files import write_json, write_text, write_with
from assent.support.statistics import FEWEST
from assent.training import Settings

_LISTED = 6
"""Largest number of places that a sentence lists."""


@dataclass(frozen=True)
class Wins:
    """In how many places a table's reference is at or above a rival, and significantly above or below."""

    places: int
    at_or_above: int
    significantly_above: int
    below: Sequence[str]
    """The places where it is significantly below."""


def wins(table: Table, key: str) -> dict[str, Wins]:
    """By rival of the table's reference; a place counts where both have the figure `key` (large is good)."""
    found = {}
    for (rival,), rows in rows_by(table.rows, METHOD).items():
        paired = [row for row in rows if row.amounts[key].difference is not None]
        signs = [row.amounts[key].sign[:1] for row in paired]
        level = sum((row.amounts[key].difference or 0.0) <= 0 for row in paired)
        below = [_place(table, row) for row, sign in zip(paired, signs, strict=True) if sign == "↑"]
        if paired:
            found[rival] = Wins(len(paired), level, signs.count("↓"), below)
    return found


def sentences(table: Table, key: str) -> Iterator[str]:
    """How often the reference is above each rival, and where withholding everything is best."""
    (reference,) = (table.reference or {}).values()
    for rival, each in wins(table, key).items():
        where = f" ({'; '.join(each.below)})" if each.below else ""
        sure = f"significantly above in {each.significantly_above}, significantly below in {len(each.below)}"
        tested = f", {sure}{where}" if table.repeats >= FEWEST else ""
        yield (
            f"{reference} is at or above {rival} in {each.at_or_above} of "
            f"{plural(each.places, 'place')}{tested}."
        )
    best, whole = nothing_wins(table, key)
    if best:
        where = f" ({'; '.join(_place(table, row) for row in best)})" if len(best) <= _LISTED else ""
        yield (
            f"Nothing wins in {len(best)} of {plural(whole, 'place')}: no method has a larger mean reward "
            f"there than withholding everything{where}."
        )


def nothing_wins(table: Table, key: str) -> tuple[list[Row], int]:
    """Nothing's rows where no mean is larger, and how many places have all methods, which alone count."""
    methods = {row.labels[METHOD] for row in table.rows if row.amounts[key].mean is not None}
    best, whole = [], 0
    for rows in rows_by(table.rows, *(label for label in table.labels if label != METHOD)).values():
        means = {row.labels[METHOD]: row.amounts[key].mean for row in rows}
        known = {method: mean for method, mean in means.items() if mean is not None}
        if known.keys() == methods:
            whole += 1
            if known.get(name(NOTHING)) == max(known.values()):
                best += [row for row in rows if row.labels[METHOD] == name(NOTHING)]
    return best, whole


def _place(table: Table, row: Row) -> str:
    """A row's labels but for its method, those of which the table has several values."""
    labels = [label for label in table.labels if label != METHOD]
    several = [label for label in labels if len({each.labels[label] for each in table.rows}) > 1] or labels
    return ", ".join(
        f"{table.labels[label]} {shown(row.labels[label])}" if label == "price" else shown(row.labels[label])
        for label in several
    )


@dataclass(frozen=True)
class Comparison:
    """Methods at prices: the records, and which method is tested against the others by which reward."""

    records: Sequence[Flat]
    form: RewardForm
    reference: Way
    notes: Sequence[str] = ()
    """What readers have to know of how it was made."""
    settings: Sequence[Settings] = ()
    """Of each model."""

    @cached_property
    def table(self) -> Table:
        """One row per data set, model, price and method.

        `reward` is the figure that is tested; `ahead` is the reference's reward minus the row's, paired by
        seed.
        """
        return self._tabulated(
            Column("reward", f"reward ({self.form})", decimals=3, better=1),
            Column("ahead", "ahead by", decimals=3, signed=True),
            Column("violation_share", "violation %", 100, 1, spread=False),
            *(replace(column, better=0) for column in metric_columns("ndcg", self.records)),
            Column("trainings", "trainings", decimals=0, spread=False),
            Column("seconds", "seconds", decimals=1, spread=False),
        )

    def _tabulated(self, *columns: Column) -> Table:
        place = {"dataset": "data set", "model": "model", "price": "price"}
        table = tabulate(
            [each | {"reward": each[f"reward_{self.form}"]} for each in named(self.records)],
            place | {METHOD: "method"},
            columns,
            reference={METHOD: name(self.reference)},
            corrected=False,
            title=self.title,
        )
        rows = []
        for row in chain.from_iterable(rows_by(table.rows, *place).values()):
            reward = row.amounts["reward"]
            is_known, ahead = reward.difference is not None, 0.0 - (reward.difference or 0.0)
            amount = Amount(ahead, reward.difference_error, reward.runs) if is_known else Amount(None)
            rows.append(replace(row, amounts={**row.amounts, "ahead": amount}))
        return replace(table, rows=rows)

    @property
    def _ways(self) -> dict[str, Way]:
        return {name(way): way for way in map(way_of, self.records)}

    def standings(self) -> list[dict[str, Any]]:
        """The rows as flat records: labels, means and standard errors of every figure, and the test."""
        figures = (Column(key, key) for key in figure_keys(self.records))
        table = self._tabulated(Column("reward", "reward", decimals=None, better=1), *figures)
        found, ways = [], self._ways
        for row in table.rows:
            labels = dict(row.labels)
            method, objective = ways[labels.pop(METHOD)]
            line = labels | {"method": method, "objective": objective, "runs": row.runs}
            for key, amount in row.amounts.items():
                line |= {key: amount.mean, f"{key}_error": amount.error}
            tested = row.amounts["reward"]
            found.append(line | {"p": tested.p, "best": tested.best, "k": k_of(self.records)})
        return found

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
        ahead = f"Ahead by: the reward of {name(self.reference)} minus the row's."
        return [ahead, self.table.legend, *sentences(self.table, "reward"), *self.notes]

    def shown(self, *labels: str) -> Table:
        """The table without labels that its title or its reader knows."""
        kept = {key: heading for key, heading in self.table.labels.items() if key not in labels}
        return replace(self.table, labels=kept)

    def write(self, folder: Path) -> list[Path]:
        """Write compare.csv, .json and .md and a picture per model: those files."""
        from assent.results.plot import reward_chart

        standings, ways = self.standings(), self._ways
        csv, json, text = (folder / f"compare.{kind}" for kind in ("csv", "json", "md"))
        further = [key for key in standings[0] if "@" in key]
        frame = pl.DataFrame(standings, infer_schema_length=None).select(*_COLUMNS, *further)
        write_with(csv, frame.write_csv)
        contents = {
            "reward": self.form.value,
            "reference": name(self.reference),
            "notes": list(self.notes),
            "settings": {each.model: each.model_dump(mode="json") for each in self.settings},
            "standings": standings,
            "wins": [
                {
                    **dict(zip(("method", "objective"), ways[rival], strict=True)),
                    "places": each.places,
                    "at_or_above": each.at_or_above,
                    "significantly_above": each.significantly_above,
                    "significantly_below": len(each.below),
                }
                for rival, each in wins(self.table, "reward").items()
            ],
            "records": [dict(record) for record in self.records],
        }
        write_json(json, contents)
        said = "\n".join(f"- {in_markdown(sentence)}" for sentence in self.said)
        write_text(text, f"# {self.title}\n\n{markdown(self.shown('dataset'))}\n\n{said}\n")
        pictures = []
        for (dataset, model), rows in rows_by(self.table.rows, "dataset", "model").items():
            picture = f"compare-{re.sub(r'[^A-Za-z0-9_.+]+', '-', model)}"
            y = f"reward ({self.form}) above Nothing’s"
            chart = reward_chart(rows, "reward", name=picture, title=f"{dataset}, {model}", y=y)
            pictures.append(folder / f"{picture}.svg")
            write_text(pictures[-1], chart.svg())
        return [csv, json, text, *pictures]


_COLUMNS = (
    "dataset", "model", "price", "method", "objective", "runs", "reward", "reward_error", "ahead",
    "ahead_error", "p", "best", "reward_sum", "reward_sum_error", "reward_mean", "reward_mean_error",
    "violation", "violation_share", "ndcg", "ndcg_error", "f1", "f1_error", "seconds", "trainings", "k",
)  # fmt: skip
"""Of compare.csv; metrics at further k follow."""
