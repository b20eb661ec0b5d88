"""RecBole's CDAE, written out: it learns from disclosed rows, and knows every item."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from assent.lab import Lab, Store, everything
from assent.methods import make_method
from assent.reproduce.recbole import WrittenOut, train_cdae
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
    one, two = (train_cdae(each, selection, seed=0, epochs=3).state_dict() for each in (PROBLEM, moved))
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_it_learns_who_has_what() -> None:
    model = train_cdae(PROBLEM, everything(PROBLEM), seed=0, epochs=8).eval()
    with torch.no_grad():
        logits = model(torch.arange(PROBLEM.n_users))
    own = logits[PROBLEM.train.users, PROBLEM.train.items].mean()
    assert own > logits.mean()
    assert logits.shape == (PROBLEM.n_users, PROBLEM.n_items)


def test_its_figures_are_those_of_the_selection(tmp_path: Path) -> None:
    lab = Lab(PROBLEM, Settings(model="mf"), 0, Store(tmp_path / "store"))
    facts = WrittenOut(make_method("random", "mf", rate=0.5), 2.0).run(lab).facts
    whole = WrittenOut(make_method("all", "mf"), 2.0).run(lab).facts
    assert 0 < facts["violation"] < whole["violation"] == PROBLEM.violation()
    assert facts["f1"] * 3 == pytest.approx(facts["precision"] * 5)
    assert facts["reward_mean"] < -2 * facts["violation"]
