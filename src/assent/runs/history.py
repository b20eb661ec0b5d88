"""What changed from run to run: for each person what they changed and what was decided anew, and the totals.

A run that follows another (`runs.update`) has two more files:

    update.json       the grade, the run before, what changed in numbers, what it cost, what still holds
                      withdrawn interactions
    history.parquet   one row per interaction that changed in this update or in one before: for its owner

Of what is withdrawn the history keeps that it was, and not what it was: item and earlier rows go. Of people
who withdraw everything nothing is kept.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import polars as pl

from assent.data.interactions import Interactions
from assent.report.data import measured_run
from assent.report.sections import in_words
from assent.results.words import number, plural
from assent.runs.calibration import MEASURED, MEASURED_IN, measured_by
from assent.runs.changes import PAIR, Changes
from assent.runs.folder import DISCLOSED, HISTORY, UPDATE, WITHHELD, Run, read_mapping
from assent.runs.manifest import RunFiles
from assent.support.errors import AssentError

_BEFORE: Final = {"unwillingness_before": pl.Float64, "state_before": pl.String}
_AFTER: Final = {"unwillingness_after": pl.Float64, "state_after": pl.String, "why": pl.String}
SCHEMA: Final = {
    "when": pl.String, "run": pl.String, "grade": pl.String, "user": pl.String, "item": pl.String,
    "title": pl.String, "event": pl.String, **_BEFORE, **_AFTER,
}  # fmt: skip
NO_HISTORY: Final = pl.DataFrame(schema=SCHEMA)


class Grade(StrEnum):
    """How an update is made, named in all that it writes and prints."""

    EXACT = "exact"
    """Byte for byte what a fit on the present data gives."""
    PROMPT = "prompt"
    """Values are kept, decisions are made anew. Items' vectors are kept too, or the model is trained anew
    with the settings of the run before."""


class Event(StrEnum):
    """What happened to an interaction."""

    ADDED = "added"
    MIND = "changed mind"
    WITHDRAWN = "withdrawn"
    DECIDED = "decided anew"
    """Its owner changed nothing: the decision changed because others did, or values were measured again."""


@dataclass(frozen=True)
class Step:
    """An update: from the run before to the decisions of now."""

    before: Run
    changes: Changes
    grade: Grade
    out: Path
    """The folder of the run that is made."""
    earlier: pl.DataFrame
    """What changed up to the run before."""
    runs_before: Sequence[Mapping[str, Any]]
    """The runs that the new one follows, the newest first: folder, mark, and the store of each."""
    holders_before: Sequence[str]
    """Folders of runs that still hold something that was withdrawn earlier."""
    fresh_seconds: float
    """Seconds that a fit from scratch took, as far as the run before knows."""

    @classmethod
    def between(cls, before: Run, log: Interactions, grade: Grade, out: Path) -> "Step":
        """Return the step from a run to the present log; all that the run's folder says is read here."""
        if out.resolve() == before.folder.resolve():
            stays = "the run before stays until the new one is whole"
            raise AssentError(f"{out}: the run that is updated; accepted: another folder, since {stays}")
        about = update_of(before) or {}
        fresh = float(about["cost"]["fresh_seconds"]) if about else before.manifest.seconds
        there, had = runs_before(before), about.get("still_hold_withdrawn", [])
        return cls(before, Changes.between(before, log), grade, out, history_of(before), there, had, fresh)

    def rows(self, selection: pl.DataFrame, sealed: pl.DataFrame) -> pl.DataFrame:
        """Return what this update changed, given the tables of the run that is made: `SCHEMA`."""
        old = _states(self.before.selection, self.before.sealed, "before")
        new = _states(selection, sealed, "after")
        both = old.join(new, on=PAIR, how="full", coalesce=True)
        is_new, is_gone = pl.col("state_before").is_null(), pl.col("state_after").is_null()
        is_given = pl.col("given_before") | pl.col("given_after")  # else a mean over others changed
        minds = is_given & (pl.col("unwillingness_before") != pl.col("unwillingness_after"))
        moved = pl.col("state_before") != pl.col("state_after")
        changed = both.filter(is_new | is_gone | minds | moved)
        rows = selection.join(changed, on=PAIR, how="semi")
        words = pl.Series("why", in_words(rows, self.before.settings["objective"]), dtype=pl.String)
        event = (
            pl.when(is_new).then(pl.lit(Event.ADDED.value))
            .when(is_gone).then(pl.lit(Event.WITHDRAWN.value))
            .when(minds).then(pl.lit(Event.MIND.value))
            .otherwise(pl.lit(Event.DECIDED.value))
        )  # fmt: skip
        told = changed.join(rows.select(*PAIR, words), on=PAIR, how="left").filter(~self._is_away)
        return (
            told.with_columns(
                when=pl.lit(now_in_utc()),
                run=pl.lit(self.out.name),
                grade=pl.lit(self.grade.value),
                event=event,
                item=pl.when(~is_gone).then("item"),
                title="title_after",
                unwillingness_before=pl.when(~is_gone).then("unwillingness_before"),
            )
            .select(*SCHEMA)
            .sort("user", "item", nulls_last=True)
        )

    def history(self, rows: pl.DataFrame, titles: pl.DataFrame) -> pl.DataFrame:
        """Return the history up to this update, which changed `rows`, the oldest first.

        `titles` are the present ones (item, title): an earlier one may come from a row that is gone.
        """
        earlier = self.earlier.filter(~self._is_away).join(self.changes.gone, on=PAIR, how="anti")
        named = earlier.drop("title").join(titles, on="item", how="left", maintain_order="left")
        return pl.concat([named.select(*SCHEMA), rows])

    @property
    def _is_away(self) -> pl.Expr:
        """Whose rows are of people who withdraw everything."""
        return pl.col("user").is_in(list(self.changes.withdrawn))

    def write(
        self,
        files: RunFiles,
        selection: pl.DataFrame,
        sealed: pl.DataFrame,
        *,
        seconds: float,
        fresh: float,
        alike: float | None = None,
        **more: Any,
    ) -> None:
        """Write `history.parquet` and `update.json`; `seconds` is what it took, `fresh` what a fit would.

        `alike` is what a fit with the same calibration would have taken, where one is kept.
        """
        rows = self.rows(selection, sealed)
        titles = pl.concat(each.select("item", "title") for each in (selection, sealed))
        files.write_table(HISTORY, self.history(rows, titles.unique("item", keep="first")))
        cost = {"seconds": seconds, "fresh_seconds": fresh, "same_calibration_seconds": alike}
        kept = measured_by(self.before)
        calibration = {"calibration": kept[MEASURED_IN], "calibration_of": kept.get(MEASURED)}
        about: dict[str, Any] = {**calibration, "entries": []}
        files.write_json(UPDATE, self._facts(rows, cost) | about | more)

    def _facts(self, rows: pl.DataFrame, cost: Mapping[str, Any]) -> dict[str, Any]:
        """The content of `update.json`, given what the update changed; counts, no ids."""
        moved = pl.col("state_before") != pl.col("state_after")
        decided = rows.filter(pl.col("state_before").is_not_null() & moved)
        own = decided["user"].is_in(self.changes.people)
        return {
            "grade": self.grade.value,
            "runs_before": [dict(each) for each in self.runs_before],
            "changes": {
                **self.changes.counts(),
                "rows_of_people_withdrawn": self.changes.rows_withdrawn(self.before),
            },
            "decisions": {
                "changed": decided.height,
                "of_people_who_changed": int(own.sum()),
                "of_others": int((~own).sum()),
                "people": decided["user"].n_unique(),
            },
            "cost": dict(cost),
            "still_hold_withdrawn": self._holders(rows),
        }

    def _holders(self, rows: pl.DataFrame) -> list[str]:
        """Folders of runs before, if these could read something that may not be read any more."""
        read = [DISCLOSED, WITHHELD]
        away = pl.col("state_before").is_in(read) & ~pl.col("state_after").is_in(read).fill_null(value=False)
        taken = bool(rows.filter(away).height or self.changes.withdrawn)
        return [each["folder"] for each in self.runs_before] if taken else list(self.holders_before)


def _states(selection: pl.DataFrame, sealed: pl.DataFrame, when: str) -> pl.DataFrame:
    """Every interaction with its unwillingness and its state: disclosed, withheld, never or closed."""
    state = pl.when("disclosed").then(pl.lit(DISCLOSED)).otherwise(pl.lit(WITHHELD))
    decided = selection.select(*PAIR, "title", "unwillingness", "given", state=state)
    unread = sealed.select(*PAIR, "title", "unwillingness", given=pl.lit(value=True), state="reason")
    table = pl.concat([decided, unread])
    return table.rename({name: f"{name}_{when}" for name in ("title", "unwillingness", "given", "state")})


def history_of(run: Run) -> pl.DataFrame:
    """Return all that changed up to a run: `SCHEMA`; empty where it follows none."""
    return run.table(HISTORY, SCHEMA) if HISTORY in run.manifest.files else NO_HISTORY


def update_of(run: Run) -> dict[str, Any] | None:
    """Return what `update.json` says; None where the run follows none."""
    return read_mapping(run.manifest, UPDATE) if UPDATE in run.manifest.files else None


def runs_before(run: Run) -> list[dict[str, Any]]:
    """Return a run and those that it follows, the newest first: folder, mark and store of each."""
    own = {"folder": str(run.folder.resolve()), "mark": run.manifest.mark, "store": run.manifest.store}
    about = update_of(run)
    return [own, *([] if about is None else about["runs_before"])]


def in_numbers(history: pl.DataFrame) -> pl.DataFrame:
    """Return one row per update, the oldest first: when, run, grade, people, and how many of each event."""
    moved = pl.col("state_before").is_not_null() & (pl.col("state_before") != pl.col("state_after"))
    counts = {event.value: (pl.col("event") == event.value).sum() for event in Event}
    return history.group_by("when", "run", "grade", maintain_order=True).agg(
        pl.col("user").n_unique().alias("people"), moved.sum().alias("decisions"), **counts
    )


def in_sentences(about: Mapping[str, Any]) -> list[str]:
    """Say in words what an update did, from its `update.json`."""
    changes, decisions, cost = about["changes"], about["decisions"], about["cost"]
    parts = {
        "added": "added", "changed": "with another unwillingness", "never": "never used from now on",
        "gone": "withdrawn",
    }  # fmt: skip
    told = [f"{plural(changes[key], 'interaction')} {words}" for key, words in parts.items() if changes[key]]
    if changes["people_withdrawn"]:
        people = f"{plural(changes['people_withdrawn'], 'person', 'people')} withdrawn altogether"
        rows = changes.get("rows_of_people_withdrawn")
        told.append(people if rows is None else f"{people}, with {plural(rows, 'interaction')}")
    own, others = decisions["of_people_who_changed"], decisions["of_others"]
    kept = ""
    if about["calibration"] is not None:
        kept = f", by the calibration of {measured_run(about['calibration'], about.get('calibration_of'))}"
    grade = about["grade"] + (", items trained anew" if about.get("vectors") == "trained" else "")
    sentences = [
        f"Grade: {grade}{kept}. {', '.join(told) or 'Nothing changed'}.",
        f"{plural(decisions['changed'], 'decision')} changed: {own:,} of people who changed something, "
        f"{others:,} of others.",
    ]
    alike = cost.get("same_calibration_seconds")
    fresh = f"from scratch about {number(cost['fresh_seconds'])}"
    if alike is not None:  # what the split takes was not measured again
        fresh = f"with the same calibration about {number(alike)}"
    sentences.append(f"It took {number(cost['seconds'])} seconds; a fit {fresh}.")
    if there := [folder for folder in about["still_hold_withdrawn"] if Path(folder).exists()]:
        stores = {each["store"] for each in about["runs_before"] if each["store"]}
        places = ", ".join([*there, *sorted(stores)])
        sentences.append(
            f"What is withdrawn, or never used from now on, is still in {places}; assent forget deletes it "
            "there."
        )
    return sentences


def now_in_utc() -> str:
    """Return the time as records have it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
