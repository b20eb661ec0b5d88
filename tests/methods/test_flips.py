"""What one withheld row that is dropped from the log changes for others."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
import torch

from assent.data.interactions import Interactions
from assent.data.problem import Problem, Protocol, make_problem
from assent.data.simulate import simulate
from assent.lab import Lab, everything
from assent.lab.anchors import random_anchors
from assent.methods import make_method
from assent.support.arrays import Bools, Ints
from assent.training import Settings, disclose
from assent.training.disclosed import negatives
from assent.worth.estimate import WorthSettings, fold_trainings, model_of_everything
from assent.worth.paths import Effort, find_paths

SHORT = Settings.model_validate({"model_settings": {"dimension": 8}, "tune": "none"})
SHARE = 0.5


@pytest.fixture(scope="module")
def log() -> Interactions:
    return simulate(preference="learnable", users=200, items=800, rows=3000, noise=0.2, seed=1)


@pytest.fixture(scope="module")
def problem(log: Interactions) -> Problem:
    return make_problem(log, Protocol.PAPER_TABLES, negatives=20)


def one_less(
    log: Interactions, problem: Problem, withheld: Bools, count: int
) -> Iterator[tuple[Ints, Problem]]:
    """The training rows that are left when one is dropped, and the problem of the log without it.

    Every second one is the only training row of its item.
    """
    alone = (np.bincount(problem.train.items) == 1)[problem.train.items]
    for rows in (np.flatnonzero(withheld & alone), np.flatnonzero(withheld & ~alone)):
        for gone in rows[:: max(1, len(rows) // (count // 2))][: count // 2]:
            user = problem.user_ids[problem.train.users[gone]]
            item = problem.item_ids[problem.train.items[gone]]
            left = log.table.filter((pl.col("user") != str(user)) | (pl.col("item") != str(item)))
            without = make_problem(replace(log, table=left), Protocol.PAPER_TABLES, negatives=20)
            yield np.delete(np.arange(len(problem.train)), gone), without


def test_draws_for_other_rows_stay(log: Interactions, problem: Problem) -> None:
    """Lots of Random, anchors and folds; the first order and the negatives of training nearly so."""
    lab, settings = Lab(problem, SHORT), WorthSettings()
    rate = make_method("random", rate=0.6)
    chosen, limit = rate.at_price(lab, 0.1).selection, make_method("threshold").at_price(lab, 0.1).selection
    anchors, folds = random_anchors(lab, 3, rate=0.9), fold_trainings(lab, settings)
    whole = disclose(problem, everything(problem))
    sampled = whole.item_ids[negatives(whole, seed=0, epoch=0, count=2)]
    changed = []
    for left, without in one_less(log, problem, ~chosen, 10):
        other = Lab(without, SHORT)
        np.testing.assert_array_equal(without.row_keys, problem.row_keys[left])
        np.testing.assert_array_equal(rate.at_price(other, 0.1).selection, chosen[left])
        np.testing.assert_array_equal(make_method("threshold").at_price(other, 0.1).selection, limit[left])
        again = [*random_anchors(other, 3, rate=0.9), *fold_trainings(other, settings)]
        for before, after in zip([*anchors, *folds], again, strict=True):
            np.testing.assert_array_equal(after.selection, before.selection[left])
        data = disclose(without, everything(without))
        changed.append((data.item_ids[negatives(data, seed=0, epoch=0, count=2)] != sampled[left]).mean())
    assert np.mean(changed) < 0.02


def test_random_within_a_budget_moves_only_the_row_at_its_border(log: Interactions, problem: Problem) -> None:
    chosen = make_method("random").within(Lab(problem, SHORT), SHARE).selection
    for left, without in one_less(log, problem, ~chosen, 10):
        after = make_method("random").within(Lab(without, SHORT), SHARE).selection
        assert (after != chosen[left]).sum() <= 3


def test_few_pairs_are_drawn_otherwise(log: Interactions, problem: Problem) -> None:
    """Where there are too many pairs to follow, each has a lot of its own."""

    def pairs(of: Problem) -> set[tuple[str, str]]:
        found = find_paths(of.train, of.user_keys, of.item_keys, seed=0, effort=Effort(pairs=400))
        first, last = found.steps[0], found.steps[2]
        users, items = of.user_ids[of.train.users[first]], of.item_ids[of.train.items[last]]
        return set(zip(users.tolist(), items.tolist(), strict=True))

    before, kept = pairs(problem), []
    for _, without in one_less(log, problem, everything(problem), 10):
        kept.append(len(before & pairs(without)) / len(before))
    assert len(before) > 300
    assert np.mean(kept) > 0.97


def test_worth_by_structure_changes_its_mind_on_few_other_rows(log: Interactions, problem: Problem) -> None:
    method, flips = make_method("worth", source="structure"), []
    chosen = method.within(Lab(problem, SHORT), SHARE).selection
    for left, without in one_less(log, problem, ~chosen, 6):
        after = method.within(Lab(without, SHORT), SHARE).selection
        flips.append((after != chosen[left]).sum())
    assert np.mean(flips) < 0.01 * len(chosen)


def test_anchors_of_one_row_less_are_nearly_the_same_models(log: Interactions, problem: Problem) -> None:
    """They start from the same parameters, see nearly the same samples and stop after the same epoch."""
    training = model_of_everything(Lab(problem, SHORT), WorthSettings())
    [before] = Lab(problem, SHORT).train([training])
    scores = before.scores_of_all(torch.arange(len(before.user_ids)))
    for _, without in one_less(log, problem, everything(problem), 4):
        other = Lab(without, SHORT)
        [after] = other.train([model_of_everything(other, WorthSettings())])
        users, items = (
            torch.from_numpy(np.searchsorted(known, ids))
            for known, ids in ((before.user_ids, after.user_ids), (before.item_ids, after.item_ids))
        )
        found = after.scores_of_all(torch.arange(len(users)))[:, :-1]
        expected = scores[users][:, items]
        assert after.epochs == before.epochs == SHORT.training.epochs
        assert float((found - expected).std() / expected.std()) < 0.05
