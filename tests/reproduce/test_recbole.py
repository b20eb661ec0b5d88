"""RecBole's CDAE, written out: it learns from disclosed rows, and knows every item."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from assent.evaluation.evaluate import HeldOut
from assent.lab import Lab, Store, everything
from assent.methods import make_method
from assent.models.losses import Loss
from assent.reproduce.recbole import WrittenCDAE, WrittenOut, train_written
from assent.training import Settings
from tests.small import small_problem

PROBLEM = small_problem(40, 120)


def test_what_is_withheld_changes_no_parameter() -> None:
    selection = everything(PROBLEM)
    selection[::3] = False
    rows = PROBLEM.train.items.copy()
    rows[~selection] = rows[~selection][::-1]
    other = type(PROBLEM.train)(PROBLEM.train.users, rows)
    moved = replace(PROBLEM, train=other)
    one, two = (
        train_written(WrittenCDAE, each, selection, seed=0, epochs=3).state_dict()
        for each in (PROBLEM, moved)
    )
    assert all(torch.equal(one[key], two[key]) for key in one)


def test_it_learns_who_has_what() -> None:
    problem = replace(PROBLEM, valid=PROBLEM.train[:20], valid_candidates=PROBLEM.train.items[:20, None])
    model = train_written(WrittenCDAE, problem, everything(problem), seed=0, epochs=8)
    people = torch.arange(problem.n_users)
    logits = model.scores(people, torch.arange(problem.n_items).expand(len(people), -1))
    own = logits[problem.train.users, problem.train.items].mean()
    assert own > logits.mean()
    assert logits.shape == (problem.n_users, problem.n_items)


def test_its_figures_are_those_of_the_selection(tmp_path: Path) -> None:
    lab = Lab(PROBLEM, Settings(model="cdae"), 0, Store(tmp_path / "store"))
    facts = WrittenOut(make_method("random", "cdae", rate=0.5), 2.0).run(lab).facts
    whole = WrittenOut(make_method("all", "cdae"), 2.0).run(lab).facts
    assert 0 < facts["violation"] < whole["violation"] == PROBLEM.violation()
    assert facts["f1"] * 3 == pytest.approx(facts["precision"] * 5)
    trained = train_written(WrittenCDAE, PROBLEM, everything(PROBLEM), seed=0)
    ranked = HeldOut.TEST.of(PROBLEM).metrics(PROBLEM, trained, (5,))
    assert whole["ndcg"] == pytest.approx(np.mean(ranked["ndcg"]))
    judged = HeldOut.VALIDATION.of(PROBLEM)
    losses = judged.losses(PROBLEM, trained, Loss.BCE)
    mean = (losses / np.maximum(judged.samples(PROBLEM.n_users), 1)).mean()
    assert whole["reward_mean"] == pytest.approx(-mean - 2 * PROBLEM.violation())
