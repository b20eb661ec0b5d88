"""Answers about one person, from a run's model and its selection table (user, item, title, disclosed, …)."""

from typing import Any

import polars as pl

from assent.support.errors import AssentError
from assent.training import Trained


def rows_of_user(selection: pl.DataFrame, user: str, *, needed: bool = True) -> pl.DataFrame:
    """Return the user's rows of a selection table; raise if there are none and some are `needed`."""
    rows = selection.filter(pl.col("user") == user)
    if needed and rows.is_empty():
        example = selection["user"][0]
        raise AssentError(f"user {user}: not in this run; accepted: ids of its data, such as {example}")
    return rows


def recommendations(trained: Trained, selection: pl.DataFrame, user: str, k: int) -> list[dict[str, Any]]:
    """Return the k best items that the user has not disclosed, as records of user, item, title and score.

    A user who disclosed nothing gets what the model gives to an unknown user.
    """
    disclosed = rows_of_user(selection, user).filter(pl.col("disclosed"))
    best = trained.recommend(user, k, exclude=disclosed)
    titles = dict(selection.select("item", "title").unique("item").iter_rows())
    return [
        {"user": user, "item": item, "title": titles.get(item), "score": score}
        for _, item, score, _ in best.iter_rows()
    ]
