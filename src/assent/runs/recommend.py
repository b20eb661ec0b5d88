"""What a run recommends to whom: the lists of some people or of everybody, and the file they are written to.

A list rests on what its owner discloses (`basis` "own": the model's scores), or, where they disclose nothing
or are unknown, on what everybody discloses ("general": the items that most people disclose). What a person
has had is not shown to them, whatever they said of it: the disclosed item is no news, and the withheld one
would betray on their screen what they keep to themselves.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import polars as pl

from assent.data.formats import TABLES, kind_of, read_table
from assent.data.roles import Roles
from assent.results.writers import inert
from assent.runs.folder import DISCLOSED, KINDS, Recommending
from assent.support.errors import AssentError
from assent.support.files import refuse_to_overwrite, write_with

OWN: Final = "own"
GENERAL: Final = "general"


def recommend(
    run: Recommending, users: str | Sequence[str] | None = None, k: int = 10, *, include: Sequence[str] = ()
) -> pl.DataFrame:
    """Return the k best items for each of `users`, None for everybody in the run.

    The table has the columns user, item, title, rank (1 is the best), score and basis, in the order of
    `users`; everybody is in the order of ids. The score is the model's logit where the basis is "own", and
    the share of people who disclose the item where it is "general". Items that a person has had are not shown
    to them, unless `include` names their kind, of `KINDS`. No score rests on what is not disclosed.
    """
    if wrong := [kind for kind in include if kind not in KINDS]:
        raise AssentError(f"include={wrong[0]!r}: accepted: {', '.join(KINDS)}")
    had = run.had()
    if users is None:
        asked = had.select(pl.col("user").unique().sort()).collect()["user"]
    else:
        listed = [users] if isinstance(users, str) else list(users)
        asked = pl.Series("user", listed, dtype=pl.String).unique(maintain_order=True)
        had = had.filter(pl.col("user").is_in(listed))
    hidden = had.filter(~pl.col("kind").is_in(list(include))).select("user", "item").collect()
    known = asked.is_in(run.trained.user_ids.tolist())
    people = {OWN: asked.filter(known), GENERAL: asked.filter(~known)}
    lists = {OWN: _own_lists, GENERAL: _general_lists}
    found = pl.concat(
        lists[basis](run, theirs, k, hidden).with_columns(basis=pl.lit(basis))
        for basis, theirs in people.items()
        if len(theirs) or basis == OWN  # whoever is known is found without a count of all
    )
    order = asked.to_frame("user").with_row_index("place")
    titles = _disclosed(run).select("item", "title").unique("item", keep="any").collect()
    return (
        found.join(order, on="user")
        .sort("place", "rank")
        .join(titles, on="item", how="left", maintain_order="left")
        .select("user", "item", "title", "rank", "score", "basis")
    )


def popularity(run: Recommending) -> pl.DataFrame:
    """Return every item that somebody discloses, in the order of ids, and the share of people who do.

    The shares are of those who disclose anything.
    """
    disclosed = _disclosed(run)
    people = max(1, disclosed.select(pl.col("user").n_unique()).collect().item())
    counts = disclosed.group_by("item").agg(share=pl.col("user").n_unique() / people)
    return counts.sort("item").collect()


def _disclosed(run: Recommending) -> pl.LazyFrame:
    return run.had().filter(pl.col("kind") == DISCLOSED)


def _own_lists(run: Recommending, people: pl.Series, k: int, hidden: pl.DataFrame) -> pl.DataFrame:
    """Return the best items by the model's scores; one that nobody discloses any more is not among them."""
    known = pl.DataFrame({"item": run.trained.item_ids}, {"item": pl.String})
    left = known.join(_disclosed(run).select("item").unique().collect(), on="item", how="anti")
    nobody = people.to_frame("user").join(left, how="cross")
    return run.trained.recommend(people.to_list(), k, exclude=pl.concat([hidden, nobody]))


def _general_lists(run: Recommending, people: pl.Series, k: int, hidden: pl.DataFrame) -> pl.DataFrame:
    """Return the items that most people disclose."""
    from assent.training.ranking import best_items

    popular = popularity(run)
    items, shares = popular["item"].to_list(), popular["share"].to_numpy()

    def scores_of(here: slice) -> np.ndarray:
        return np.broadcast_to(shares, (here.stop - here.start, len(shares)))

    return best_items(people, np.array(items, dtype=np.str_), k, scores_of, hidden)


def read_people(file: Path) -> list[str]:
    """Return the ids in the column of users of a table: csv, tsv, JSON lines or parquet."""
    table = read_table(file, TABLES)
    return table.ids(Roles({}, "a column called {role}").find_needed(table, "user")).to_list()


_WRITERS: Final[Mapping[str, Callable[[pl.DataFrame], Callable[..., object]]]] = {
    ".csv": lambda table: inert(table).write_csv,
    ".parquet": lambda table: table.write_parquet,
    ".jsonl": lambda table: table.write_ndjson,
}
"""How a table is written, by the end of the file's name."""


def check_target(file: Path, *, replace: bool) -> None:
    """Refuse a file that recommendations cannot or may not be written to."""
    if kind_of(file) not in _WRITERS:
        raise AssentError(f"{file}: accepted: a name that ends in {', '.join(_WRITERS)}")
    refuse_to_overwrite(file, replace=replace)


def write_recommendations(table: pl.DataFrame, file: str | Path, *, replace: bool = False) -> None:
    """Write a table of recommendations as csv, parquet or JSON lines, by the end of the file's name.

    The file is for this user alone. In csv, text that a spreadsheet would compute has an apostrophe before
    it; the other kinds have every id as it is.
    """
    file = Path(file)
    check_target(file, replace=replace)
    write_with(file, _WRITERS[kind_of(file)](table), private=True)
