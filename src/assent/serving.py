"""Answers about one person from a run's model and selection table."""

from typing import Any

import numpy as np
import polars as pl
import torch

from assent.evaluation.metrics import top_candidates
from assent.support.arrays import positions
from assent.support.errors import AssentError
from assent.training import Trained


def rows_of_user(selection: pl.DataFrame, user: str, *, needed: bool = True) -> pl.DataFrame:
    """The user's rows of a run's selection table; somebody without is refused, unless none are `needed`."""
    rows = selection.filter(pl.col("user") == user)
    if needed and rows.is_empty():
        example = selection["user"][0]
        raise AssentError(f"--user {user}: not in this run; accepted: ids of its data, such as {example}")
    return rows


def recommendations(trained: Trained, selection: pl.DataFrame, user: str, k: int) -> list[dict[str, Any]]:
    """The k best items for a user that she has not disclosed: user, item, title, score.

    Somebody who disclosed nothing gets what the model would give to anybody.
    """
    disclosed = rows_of_user(selection, user).filter(pl.col("disclosed"))["item"]
    place = positions(trained.user_ids, np.array([user], dtype=np.str_))
    scores = trained.scores_of_all(torch.from_numpy(place)).double().numpy()[:, :-1].copy()
    scores[0, positions(trained.item_ids, disclosed.to_numpy().astype(np.str_))] = -np.inf
    best = top_candidates(scores, place, k=min(k, scores.shape[1]), seed=0)[0]
    titles = dict(selection.select("item", "title").unique("item").iter_rows())
    chosen = [(str(trained.item_ids[i]), float(scores[0, i])) for i in best if i >= 0]
    return [{"user": user, "item": item, "title": titles.get(item), "score": score} for item, score in chosen]
