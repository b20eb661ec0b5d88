"""The tables of a run: what was decided on each interaction, and which interactions measured quality."""

import numpy as np
import polars as pl

from assent.data.interactions import Interactions
from assent.data.problem import Problem
from assent.game.players import players_of
from assent.game.prices import break_even_prices
from assent.game.reasons import Reasons, reasons_of
from assent.methods import Choice
from assent.support.arrays import Bools


def selection_table(
    log: Interactions, problem: Problem, choice: Choice, budget: float | None = None
) -> pl.DataFrame:
    """One row per training interaction: what it is, whether it is disclosed, and why.

    `budget` is the share of All's violation that was to be kept within.
    """
    return described(decisions_table(problem, choice, budget), log)


def decisions_table(problem: Problem, choice: Choice, budget: float | None = None) -> pl.DataFrame:
    """The same without what the log says of each interaction."""
    nothing = np.full(len(problem.train), None)
    numbers = {
        "value": choice.values,
        "uncertainty": choice.errors,
        "worth_owner": choice.worth_owner,
        "error_owner": choice.error_owner,
        "worth_everybody": choice.worth_everybody,
        "error_everybody": choice.error_everybody,
    }
    prices = None if choice.values is None else break_even_prices(choice.values, problem.unwillingness)
    why = _reasons(problem, choice, budget)
    return pl.DataFrame(
        {
            "user": problem.user_ids[problem.train.users],
            "item": problem.item_ids[problem.train.items],
            "unwillingness": problem.unwillingness,
            "disclosed": choice.selection,
            **{name: nothing if each is None else each for name, each in numbers.items()},
            "price": nothing if prices is None else prices,
            "reason": nothing if why is None else why.reasons,
            "cost": nothing if why is None else why.costs,
            "together": nothing if why is None else why.together,
        },
        schema_overrides={
            **dict.fromkeys((*numbers, "price", "cost"), pl.Float64),
            "reason": pl.String,
            "together": pl.Int64,
        },
    )


def _reasons(problem: Problem, choice: Choice, budget: float | None) -> Reasons | None:
    """What decided on each training interaction; None where nothing was weighed against a price."""
    if choice.values is None or choice.price is None:
        return None
    players, filled = players_of(problem, choice.price), budget is not None
    return reasons_of(players, choice.values, choice.selection, filled=filled, drawn=choice.drawn)


def held_out_table(log: Interactions, problem: Problem) -> pl.DataFrame:
    """One row per interaction that measured quality in the split: what it is and what it was held out for."""
    parts = {"validation": problem.valid, "test": problem.test}
    table = pl.DataFrame(
        {
            "user": np.concatenate([problem.user_ids[rows.users] for rows in parts.values()]),
            "item": np.concatenate([problem.item_ids[rows.items] for rows in parts.values()]),
            "held_out_for": [part for part, rows in parts.items() for _ in range(len(rows))],
        },
        schema_overrides={"held_out_for": pl.String},
    )
    return described(table, log)


def selection_of(problem: Problem, table: pl.DataFrame) -> Bools:
    """Return what a run's table discloses of a problem's training rows, in their order: [Z]."""
    rows = {"user": problem.user_ids[problem.train.users], "item": problem.item_ids[problem.train.items]}
    decided = table.select("user", "item", "disclosed")
    found = pl.DataFrame(rows, {"user": pl.String, "item": pl.String}).join(
        decided, on=["user", "item"], how="left", maintain_order="left"
    )
    return found["disclosed"].to_numpy()


def described(table: pl.DataFrame, log: Interactions) -> pl.DataFrame:
    """The rows of `table` (user, item and more) with what the log says of each.

    That is the unwillingness, unless the table has it, where it comes from, when it was said, whether it was
    given, and the title and the categories of the item.
    """
    minded = log.minded.with_columns(given=~pl.col("source").str.starts_with("rest:"))
    if "unwillingness" in table.columns:
        minded = minded.drop("unwillingness")
    about = table.join(minded, on=["user", "item"], how="left", maintain_order="left")
    about = about.join(log.items, on="item", how="left", maintain_order="left")
    return about.with_columns(pl.col("category").fill_null([]))
