"""Which column of a table plays which role, and pairs of user and item."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import polars as pl

from assent.data.columns import Table, listed, quoted
from assent.support.errors import AssentError

GUESSES: Final[dict[str, tuple[str, ...]]] = {
    "user": ("userid", "user", "uid", "customerid", "visitorid", "reviewerid", "sessionid"),
    "item": ("itemid", "item", "iid", "productid", "movieid", "asin", "articleid", "trackid", "businessid"),
    "time": ("timestamp", "time", "datetime", "date", "ts", "eventtime", "createdat", "unixreviewtime"),
    "unwillingness": ("unwillingness", "beta"),
    "willingness": (),
    "category": ("category", "categories", "genre", "genres", "class"),
    "title": ("title", "itemtitle", "itemname", "movietitle", "productname", "appname"),
    "split": ("split",),
    "rating": ("rating", "ratings", "stars", "starrating", "score", "overall"),
}
"""Roles of columns, and the usual names of each, best first: letters and digits only, in lower case.

A column that is only called split is taken for the split if each of its values is one of `PARTS`. Willingness
is never guessed: a column that seems to hold it is refused until its role is named.
"""
_SAYS: Final = re.compile(
    r"""
    (?P<yes> willing | consent | agree | permi(?:ssion|t) | (?<!ad)opt(?:s|ed)?_?in(?![a-z])
           | (?: (?<![a-z]) | (?<=un) | (?<=is) | (?<=has) | (?<=not) ) allow(?!ance) )
  | (?P<no> (?<!ad)opt(?:s|ed)?_?out(?![a-z]) | refus | reject | declin | withdr | revok | oppos | dissent
          | forbid | prohibit | object(?:s|ed|ion) | (?<![a-z])den(?:y|ie) )
  | (?P<not> (?<![a-z])(?:no|non|not|never|without)_ | (?<![a-z])(?:no|non|not)(?=willing|consent|permi|allow)
           | (?:un|dis)_?(?=willing|consent|permi|agree|allow) )
    """,
    re.VERBOSE,
)
"""What words of a column's name say: yes, no, or the reverse of the rest. A no at the end is a number."""


def plain(name: str) -> str:
    """The letters and digits of a column's name, in lower case."""
    return re.sub("[^a-z0-9]", "", name.lower())


def says_willing(name: str) -> bool | None:
    """Whether a large number in a column of this name says that a person does not mind; False: that they do.

    None if the name tells neither.
    """
    words = re.sub("(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+", "_", name).lower()
    said = [match.lastgroup for match in _SAYS.finditer(words)]
    if not {"yes", "no"} & {*said}:
        return None
    return (len(said) - said.count("yes")) % 2 == 0


@dataclass(frozen=True)
class Roles:
    """Columns that the caller named, by role, and how the caller names one: a format of `role` and `name`."""

    named: Mapping[str, str]
    example: str
    accepted: tuple[str, ...] = tuple(GUESSES)
    """The roles that there are."""

    def __post_init__(self) -> None:
        for role, name in self.named.items():
            if role not in self.accepted:
                how = self.naming(role, name)
                raise AssentError(f"{how}: unknown role {role!r}; accepted: {', '.join(self.accepted)}")

    def naming(self, role: str, name: str) -> str:
        """How the caller names a column."""
        return self.example.format(role=role, name=name)

    def find(self, table: Table, role: str, also: tuple[str, ...] = ()) -> str | None:
        """The column of `table` that plays a role: the named one, else the best guess, else None."""
        return next(iter(self.may_be(table, role, also)), None)

    def may_be(self, table: Table, role: str, also: tuple[str, ...] = ()) -> list[str]:
        """The columns of `table` that may play a role: the named one, else all guesses, best first."""
        named = self.named.get(role)
        if named is None:
            names = {plain(name): name for name in reversed(table.names)}
            return [names[guess] for guess in (*GUESSES[role], *also) if guess in names]
        if named not in table.names:
            how = self.naming(role, named)
            raise AssentError(f"{table.origin}: no column {named!r} ({how}); columns: {listed(table.names)}")
        return [named]

    def find_needed(self, table: Table, role: str, also: tuple[str, ...] = ()) -> str:
        """The column of `table` that plays a role; an `AssentError` if there is none."""
        found = self.find(table, role, also)
        if found is None:
            accepted = f"{', '.join((*GUESSES[role], *also))} in any spelling such as {role.title()}_ID"
            accepted += f", or name it with {self.naming(role, 'NAME')}"
            which = f"which column is the {role}? columns: {listed(table.names)}"
            raise AssentError(f"{table.origin}: {which}; accepted: {accepted}")
        return found

    def find_minded(self, table: Table) -> tuple[str, bool] | None:
        """The column of unwillingness, and whether it holds the reverse, willingness; None if there is none.

        A column whose name says one is not read as the other, and one that seems to hold willingness is not
        overlooked: both are errors.
        """
        named = [role for role in ("unwillingness", "willingness") if role in self.named]
        if len(named) > 1:
            both = " and ".join(self.naming(role, self.named[role]) for role in named)
            raise AssentError(f"{table.origin}: {both}; accepted: one of them")
        for role in named:
            name = self.find(table, role)
            assert name is not None
            is_guess = plain(name) in GUESSES["unwillingness"]
            if role == "unwillingness" and says_willing(name):
                raise self._is_reverse(table, name, "unwillingness", "willingness")
            if role == "willingness" and (is_guess or says_willing(name) is False):
                raise self._is_reverse(table, name, "willingness", "unwillingness")
            return name, role == "willingness"
        found = self.find(table, "unwillingness")
        if found is None or plain(found) != "unwillingness":  # beta may be anything
            for name in table.names:
                if says_willing(name):
                    raise self._is_reverse(table, name, "unwillingness", "willingness")
        return None if found is None else (found, False)

    def _is_reverse(self, table: Table, name: str, role: str, other: str) -> AssentError:
        about = f"column {quoted(name)} seems to say the reverse of {role}"
        accepted = f"read it as {other} with {self.naming(other, name)}"
        return AssentError(f"{table.origin}: {about}; accepted: {accepted}")


def refuse_repeated_pairs(users: pl.Series, items: pl.Series, table: Table, accepted: str) -> None:
    """Raise if a pair of user and item is on several rows of a table."""
    rows = pl.DataFrame({"user": users, "item": items}).with_row_index("row")
    repeated = rows.filter(rows.select("user", "item").is_duplicated())
    if repeated.height:
        _, user, item = repeated.row(0)
        first, second = (table.number(row) for row in repeated.filter(user=user, item=item)["row"].head(2))
        both = f"rows {first} and {second} both have user {quoted(user)} and item {quoted(item)}"
        count = repeated.height - repeated.n_unique(["user", "item"])
        raise AssentError(f"{table.origin}: {both} ({count} such repetitions in all); accepted: {accepted}")
