"""Answers about one person from a finished run."""

from typing import Any

import numpy as np
import polars as pl
import torch

from assent.errors import AssentError
from assent.evaluation import places
from assent.metrics import top_candidates
from assent.training import Trained


def rows_of_user(run: "Run", user: str) -> pl.DataFrame:
    """The user's rows of the selection table; an unknown user is refused."""
    rows = selection.filter(pl.col("user") == user)
    if rows.is_empty():
        example = selection["user"][0]
        raise AssentError(
            f"--user {user}: unknown in {run.folder}; accepted: ids of its data, such as {example}"
        )
    return rows


@torch.no_grad()
def recommendations(trained: Trained, selection: pl.DataFrame, user: str, k: int) -> list[dict[str, Any]]:
    """The k best items for a user that she has not disclosed: item, title, score.

    Somebody who disclosed nothing gets what the model would give to anybody.
    """
    rows = rows_of_user(selection, user)
    place = places(trained.user_ids, np.array([user], dtype=np.str_))
    scores = trained.model.score_all(torch.from_numpy(place)).double().numpy()[:, :-1].copy()
    disclosed = rows.filter(pl.col("disclosed"))["item"].to_numpy().astype(np.str_)
    known = places(trained.item_ids, disclosed)
    scores[0, known] = -np.inf
    best = top_candidates(scores, np.zeros(1, dtype=np.int64), k=min(k, scores.shape[1]), seed=0)[0]
    titles = dict(selection.select("item", "title").unique("item").iter_rows())
    chosen = [(str(trained.item_ids[i]), float(scores[0, i])) for i in best if i >= 0]
    return [{"user": user, "item": item, "title": titles.get(item), "score": score} for item, score in chosen]
