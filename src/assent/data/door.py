"""The door: what is said of each row, whether it may be read, and what stands for what nobody said."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np
import polars as pl

from assent.data.columns import Scale, no_values
from assent.data.interactions import OWN_COLUMN, Interactions, turned_away
from assent.data.rules import Quantity
from assent.data.unwillingness import (
    COLUMN,
    Answer,
    Arrivals,
    Consent,
    Kinds,
    Request,
    UnwillingnessSource,
    for_the_record,
    parse_source,
)
from assent.support.errors import AssentError

RESTS: Final = "own-mean, mean, or a number such as 0.5"
"""What `rest` accepts."""
_WEIGHT: Final = 2.0
"""Everybody's mean counts as much as so many of a person's own interactions."""


def assign(
    interactions: Interactions,
    source: str,
    seed: int = 0,
    rest: str | None = None,
    *,
    closed: float | None = None,
    scale: Scale | str = Scale.UNIT,
    allow_unmatched: bool = False,
    wishes_columns: Mapping[str, str] | None = None,
) -> Interactions:
    """Return a log in memory with the unwillingness of `source`, one of `SOURCES`; `seed` is for draws.

    `rest`, one of `RESTS`, is for interactions about which the source says nothing; without it they are an
    error. Rows of unwillingness 1, and above the limit `closed`, are sealed. Titles and categories stay as
    they were read; `read_interactions` with the source keeps those of such rows out too. `scale` is that of
    what the source says, and `wishes_columns` names the columns of a file of wishes by role. With
    `allow_unmatched`, rules and wishes may be about nothing that is in the log.
    """
    table = interactions.table

    def column() -> Answer:
        minded = interactions.minded
        return Answer(minded[COLUMN], minded["said"], minded["source"])

    rows = Arrivals(
        interactions.name,
        table["user"],
        table["item"],
        column if COLUMN in table.columns else None,
        lambda: Kinds.of_items(table["item"], interactions.items),
    )
    consent = Consent.asked(
        source,
        scale=scale,
        wishes_columns=wishes_columns,
        seed=seed,
        rest=rest,
        closed=closed,
        allow_unmatched=allow_unmatched,
    )
    return interactions.judged(judge(rows, consent))


def judge(rows: Arrivals, consent: Consent) -> pl.DataFrame:
    """The verdict on each row: its unwillingness, the source, when it was said, and why it is turned away.

    The reason is null for rows that may be read. A row is turned away by what is said of it alone, before
    anything is made of several rows: categories of items, means. If one row of a pair of user and item is
    turned away, all are.
    """
    asked = consent.source or OWN_COLUMN
    source, argument = parse_source(asked)
    request = Request(rows, argument, consent, is_partial=consent.has_gaps)
    if source.by_category and rows.has_own_categories:
        answer = _asked_twice(source, request)
    else:
        answer = source.ask(request)
    if consent.scale is not Scale.UNIT and not (source.is_scaled or rows.is_scaled):
        about = f"nothing is written on it, neither by {source.name} nor in {rows.name}"
        raise AssentError(f"scale={consent.scale}: {about}; accepted: {Scale.UNIT}")
    values = _largest_of_pairs(rows, rows.settled(answer.values))
    filled = values
    if not consent.gaps:
        kept = turned_away(values, consent.closed).is_null()
        filled = _merged(kept, fill_rest(rows.users.filter(kept), values.filter(kept), consent.rest), values)
    given, nobody = values.is_not_null(), pl.lit(None, pl.String)
    rest = nobody if consent.gaps else pl.lit(f"rest:{consent.rest}")
    label = pl.lit(for_the_record(asked)) if answer.source is None else answer.source
    said = answer.said if isinstance(answer.said, pl.Series) else pl.lit(answer.said, pl.String)
    never = pl.repeat(False, len(values), eager=True) if rows.never is None else rows.never()
    whose = pl.when(never).then(pl.lit(OWN_COLUMN)).when(given).then(label).otherwise(rest)
    when = pl.lit(said) if isinstance(said, pl.Series) else said
    if rows.later is not None:
        is_later, named = rows.later[COLUMN].is_not_null(), pl.lit(for_the_record(f"file:{consent.later}"))
        whose = pl.when(is_later).then(named).otherwise(whose)
        when = pl.when(is_later).then(rows.later["said"]).otherwise(when)
    return pl.select(
        filled.cast(pl.Float64).alias(COLUMN),
        whose.alias("source"),
        pl.when(given).then(when).otherwise(nobody).alias("said"),
        turned_away(filled, consent.closed).alias("reason"),
    )


def _asked_twice(source: UnwillingnessSource, request: Request) -> Answer:
    """What a source says by categories that stand in the rows.

    A row is first judged by its own cells alone. The rows that are not turned away give the categories of
    items, by which they are judged again; no other row has a part in these. A draw is
    not repeated where a row has categories of its own.
    """
    rows, closed = request.rows, request.consent.closed
    own = rows.categories()
    first = source.ask(replace(request, is_partial=True))
    has_any = own.lists.list.len().gather(own.of) > 0
    # What the rest closes gives no categories either.
    said = _with_number(first.values, request.consent.rest)
    said = said.zip_with(has_any, no_values(len(has_any), pl.Float64()))
    values = _largest_of_pairs(rows, rows.settled(said))
    kept = turned_away(values, closed).is_null()
    second = source.ask(replace(request, rows=rows.only(kept), is_repeated=True)).values
    if source.keeps_first:
        second = first.values.filter(kept).zip_with(has_any.filter(kept), second)
    return Answer(_merged(kept, second, values), first.said)


def _with_number(values: pl.Series, rest: str | None) -> pl.Series:
    """The values, the nulls filled if `rest` is a number."""
    if rest in (None, "mean", "own-mean"):
        return values
    return values.fill_null(Quantity("unwillingness", 1, RESTS).parse(rest, "rest"))


def _largest_of_pairs(rows: Arrivals, values: pl.Series) -> pl.Series:
    """The largest unwillingness of all rows of a pair, so that nobody becomes more willing: [n]"""
    table = pl.DataFrame({"user": rows.users, "item": rows.items, "value": values})
    if table.select("user", "item").is_duplicated().any():
        table = table.with_columns(pl.col("value").max().over("user", "item"))
    return table["value"]


def _merged(kept: pl.Series, some: pl.Series, others: pl.Series) -> pl.Series:
    """The values of `some`, one for each row of the mask `kept`, and those of `others` elsewhere: [n]"""
    merged = others.to_numpy(writable=True)
    merged[kept.to_numpy()] = some.to_numpy()
    return pl.Series(merged, nan_to_null=True)


def fill_rest(users: pl.Series, values: pl.Series, rest: str | None) -> pl.Series:
    """Fill the nulls of `values[Z]`, the unwillingness of interactions of `users[Z]`, by `rest`.

    With m the mean of all given values, and Σ_u the sum of the n_u values that user u gave, `rest` is:
        own-mean   (Σ_u + 2 m) / (n_u + 2): a person's own mean, shrunk towards everybody's
        mean       m
        a number   that number
    None raises if there is a null: who said nothing of an interaction did not say "use it freely". Means are
    kept below 1: only a person can say "never".
    """
    values = _with_number(values, rest)
    if not values.null_count():
        return values
    if rest is None:
        count = values.null_count()
        raise AssentError(
            f"unwillingness: {count} interactions have none; accepted: one each, or rest={RESTS}"
        )
    everybody = values.mean()
    if not isinstance(everybody, float):
        raise AssentError(f"rest={rest!r}: nobody gave any unwillingness; accepted: a number")
    if rest == "mean":
        filled = values.fill_null(everybody)
    else:
        table = pl.DataFrame({"user": users, "value": values})
        given, total = pl.col("value").count().over("user"), pl.col("value").sum().over("user")
        own = (total + _WEIGHT * everybody) / (given + _WEIGHT)
        filled = table.select(pl.col("value").fill_null(own))["value"]
    below = pl.Series(np.minimum(filled.to_numpy(), np.nextafter(1.0, 0.0)))
    return values.zip_with(values.is_not_null(), below)
