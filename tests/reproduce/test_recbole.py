"""RecBole's CDAE and DIN, written out: they learn from disclosed rows, and know every item."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from assent.evaluation.evaluate import HeldOut
from assent.lab import Lab, Store, everything
from assent.methods import make_method
from assent.models.losses import Loss
from assent.reproduce.recbole import WRITTEN, WrittenOut, train_written
from assent.training import Settings
from tests.small import small_problem

PROBLEM = small_problem(40, 120)
MODELS = pytest.mark.parametrize("name", WRITTEN)


@MODELS
def test_what_is_withheld_changes_no_parameter(name: str) -> None:
    selection = everything(PROBLEM)
    selection[::3] = False
    rows = PROBLEM.train.items.copy()
    rows[~selection] = rows[~selection][::-1]
    other = type(PROBLEM.train)(PROBLEM.train.users, rows)
    moved = replace(PROBLEM, train=other)
    one, two = (
        train_written(name, each, selection, seed=0, epochs=3).state_dict() for each in (PROBLEM, moved)
    )
    assert all(torch.equal(one[key], two[key]) for key in one)


@MODELS
def test_it_learns_who_has_what(name: str) -> None:
    problem = replace(PROBLEM, valid=PROBLEM.train[:20], valid_candidates=PROBLEM.train.items[:20, None])
    model = train_written(name, problem, everything(problem), seed=0, epochs=8)
    people = torch.arange(problem.n_users)
    logits = model.scores(people, torch.arange(problem.n_items).expand(len(people), -1))
    own = logits[problem.train.users, problem.train.items].mean()
    assert own > logits.mean()
    assert logits.shape == (problem.n_users, problem.n_items)


def test_the_history_of_din_is_in_no_order_and_one_item_at_a_time_is_scored_alike() -> None:
    selection = everything(PROBLEM)
    model = train_written("din", PROBLEM, selection, seed=0, epochs=2)
    people, items = torch.arange(6), torch.arange(12).view(6, 2)
    both = model.scores(people, items)
    alone = torch.cat([model.scores(people, items[:, [column]]) for column in (0, 1)], dim=1)
    assert torch.allclose(both, alone, atol=1e-5)
    nobody = train_written("din", PROBLEM, ~selection | (PROBLEM.train.users > 0), seed=0, epochs=1)
    assert torch.isfinite(nobody.scores(people, items)).all()


@MODELS
def test_its_figures_are_those_of_the_selection(name: str, tmp_path: Path) -> None:
    lab = Lab(PROBLEM, Settings(model=name), 0, Store(tmp_path / "store"))
    facts = WrittenOut(make_method("random", name, rate=0.5), 2.0).run(lab).facts
    whole = WrittenOut(make_method("all", name), 2.0).run(lab).facts
    assert 0 < facts["violation"] < whole["violation"] == PROBLEM.violation()
    assert facts["f1"] * 3 == pytest.approx(facts["precision"] * 5)
    trained = train_written(name, PROBLEM, everything(PROBLEM), seed=0)
    ranked = HeldOut.TEST.of(PROBLEM).metrics(PROBLEM, trained, (5,))
    assert whole["ndcg"] == pytest.approx(np.mean(ranked["ndcg"]))
    losses = HeldOut.VALIDATION.of(PROBLEM).losses(PROBLEM, trained, Loss.BCE)
    samples = HeldOut.VALIDATION.of(PROBLEM).samples(PROBLEM.n_users)
    mean = (losses / np.maximum(samples, 1)).mean()
    assert whole["reward_mean"] == pytest.approx(-mean - 2 * PROBLEM.violation())
