"""What an update may not lose unnoticed: words that the run before was told beside its log, and its people.

A run whose log was read with such a file has `words.json`. It counts, and names no ids:

    source   of the rows whose unwillingness the file says
    rows     how many it withdraws of people who have others
    people   how many it withdraws altogether

The next run is made from a log that is read anew, and what is not said is not known: without the file,
everything that it withdraws would be back. Rows that the run has can be compared one by one. Of what is
withdrawn nothing is kept, so that words are taken for forgotten where fewer rows and people that the run does
not have are withdrawn now, and others have come that no present word is about.
"""

from dataclasses import dataclass
from typing import Any

import polars as pl

from assent.data.interactions import Interactions
from assent.data.rules import EVERYTHING_ELSE
from assent.results.words import plural
from assent.runs.changes import PAIR
from assent.runs.folder import WORDS, Run, read_mapping
from assent.support.errors import AssentError

_FEW = 0.1
"""Share of a run's people; of a log that has fewer, it is asked whether it is the right one."""


def words_of(log: Interactions) -> dict[str, Any] | None:
    """Return the content of `words.json`; None where no file of later wishes was read."""
    if log.told is None:
        return None
    away = log.told.withdrawn
    has_others = away["user"].is_in(log.pairs["user"].implode())
    rows, people = away.filter(has_others), away.filter(~has_others)["user"].n_unique()
    return {"source": log.told.source, "rows": rows.height, "people": people}


@dataclass(frozen=True)
class Forgotten:
    """How much of what a run was told is not said any more."""

    source: str
    never: int
    """Rows that were never by the file and may be used now."""
    minded: int
    """Rows that had another unwillingness by the file."""
    rows: int
    """At most so many withdrawn rows are back."""
    people: int
    """Of at most so many people who withdrew altogether something is back."""

    @classmethod
    def between(cls, run: Run, log: Interactions) -> "Forgotten | None":
        """Return what the present log forgets of the words that a run was told; None for nothing."""
        if WORDS not in run.manifest.files:
            return None
        noted = read_mapping(run.manifest, WORDS)
        tables = (run.selection, run.held_out, run.sealed)
        before = pl.concat(each.select(*PAIR, "source", was="unwillingness") for each in tables)
        before = before.unique(PAIR, keep="first")
        now = pl.concat(each.select(*PAIR, "unwillingness") for each in (log.minded, log.sealed))
        nothing = pl.DataFrame(schema=dict.fromkeys(PAIR, pl.String))
        minded, away = (nothing, nothing) if log.told is None else (log.told.minded, log.told.withdrawn)
        unsaid = now.join(minded, on=PAIR, how="anti")
        told = before.filter(source=noted["source"]).join(unsaid, on=PAIR)
        other = told.filter(pl.col("was") != pl.col("unwillingness"))
        never = other.filter(was=1.0).height
        came = unsaid.join(before, on=PAIR, how="anti")
        known = pl.col("user").is_in(before["user"].implode())
        still = away.filter(known, pl.col("item") != EVERYTHING_ELSE).join(before, on=PAIR, how="anti").height
        gone = away.filter(~known).join(came, on="user", how="anti")["user"].n_unique()
        found = cls(
            noted["source"],
            never,
            other.height - never,
            max(0, min(noted["rows"] - still, came.filter(known).height)),
            max(0, min(noted["people"] - gone, came.filter(~known)["user"].n_unique())),
        )
        return found if found.never or found.minded or found.rows or found.people else None

    def summary(self) -> str:
        """One sentence for people, without its end."""
        withdrawn = {
            f"up to {plural(self.rows, 'withdrawn interaction')}": self.rows,
            f"up to {plural(self.people, 'withdrawn person', 'withdrawn people')}": self.people,
        }
        back = " and ".join(words for words, count in withdrawn.items() if count)
        told = {
            f"{plural(self.never, 'interaction')} said to be never would be used again": self.never,
            f"{plural(self.minded, 'interaction')} would be minded otherwise": self.minded,
            f"{back} would be back": bool(back),
        }
        return ", ".join(words for words, count in told.items() if count)


def check_nothing_lost(
    run: Run, log: Interactions, *, wishes_in_log: bool, most_withdrawn: bool, is_kept: bool
) -> None:
    """Refuse a log that was read without the words that a run was told, or that is about other people.

    The log may say the words itself (`wishes_in_log`), and nearly everybody may have withdrawn
    (`most_withdrawn`), if the caller says so. `is_kept` is whether what the run measured is kept.
    """
    found = None if wishes_in_log else Forgotten.between(run, log)
    if found is not None:
        raise AssentError(
            f"{run.folder}: was read with the wishes of {found.source}, and the present log without all of "
            f"them: {found.summary()}; accepted: a log read with wishes=FILE that says them too, or "
            "wishes_in_log=True, if the log itself says them now"
        )
    people = pl.concat(each["user"] for each in (run.selection, run.held_out, run.sealed)).unique()
    here = [log.pairs["user"], *([] if log.told is None else [log.told.withdrawn["user"]])]
    known, left = (int(people.is_in(each.implode()).sum()) for each in (pl.concat(here), here[0]))
    if known < _FEW * len(people) and not most_withdrawn:
        raise AssentError(
            f"{log.name}: has {known:,} of the {plural(len(people), 'person', 'people')} in {run.folder}; "
            "accepted: the log of the same people, or most_withdrawn=True, if the others are withdrawn"
        )
    if not left and is_kept:
        raise AssentError(
            f"{log.name}: has nobody who is in {run.folder}, so that nothing measured there can be kept; "
            "accepted: grade exact without keep_calibration, or a fit"
        )
