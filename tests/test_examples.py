"""The examples run, and say what they should."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch

import assent
import own_recommender
from assent.models import model_class
from assent.testing import RecommenderContract
from assent.training.stored import evidence_of

EXAMPLES = Path(own_recommender.__file__).parent
LINE = re.compile(
    r"(\S+) +discloses ([\d,]+) of ([\d,]+) interactions, (\d+)% of the unwillingness: NDCG@5 (\S+)\n"
)


class TestMine(RecommenderContract):
    model = own_recommender.Mine


def test_a_user_is_what_they_disclosed() -> None:
    """The formula of the example, in a plain loop."""
    trained, data = TestMine.learnt()
    model = trained.model
    assert isinstance(model, own_recommender.Mine)
    histories = model.prepare(evidence_of(data.rows))
    theirs = data.rows.items[data.rows.users == 5]
    expected = sum((model.read[item] for item in theirs.tolist()), torch.zeros(16)) / (1 + len(theirs))
    torch.testing.assert_close(histories[5], expected)
    score = expected @ model.offered[7] + model.liked[7, 0]
    torch.testing.assert_close(trained.scores_of_all(torch.tensor([5]))[0, 7], score)


def told(output: str) -> dict[str, tuple[int, int, int, float]]:
    """What the example printed, by method: disclosed, of so many, share of the unwillingness, NDCG@5."""
    found = LINE.findall(output)
    assert "".join(match.group() for match in LINE.finditer(output)) == output
    return {
        method: (int(kept.replace(",", "")), int(rows.replace(",", "")), int(share), float(ndcg))
        for method, kept, rows, share, ndcg in found
    }


def test_own_recommender_with_worth(capsys: pytest.CaptureFixture[str]) -> None:
    own_recommender.main(users=60, items=40, epochs=5)
    lines = told(capsys.readouterr().out)
    assert lines.keys() == {"all", "worth"}
    assert lines["all"][:3] == (lines["all"][1], lines["all"][1], 100)
    kept, rows, share, _ = lines["worth"]
    assert 0 < kept < rows
    assert 0 < share <= 50


def test_a_run_of_it_is_found_again_in_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the model reads of the disclosed interactions comes back with it."""
    monkeypatch.chdir(EXAMPLES)
    assert model_class("own_recommender:Mine") is own_recommender.Mine
    log = assent.simulate(preference="learnable", users=60, items=40, seed=0)
    problem = assent.make_problem(log, "full", negatives=20)
    settings = assent.Settings.model_validate(
        {
            "model": "own_recommender:Mine",
            "model_settings": {"dimension": 3},
            "training": {"epochs": 5},
        }
    )
    plan = assent.RunPlan(method=assent.make_method("threshold"), price=0.1)
    before = assent.fit(log, problem, tmp_path / "run", plan, settings)
    after = assent.open_run(tmp_path / "run", settings.model)
    assert after.settings["model_settings"] == {"dimension": 3, "decay": 0.02}
    everybody = torch.arange(len(before.trained.user_ids) + 1)
    scores = before.trained.scores_of_all(everybody)
    assert torch.equal(after.trained.scores_of_all(everybody), scores)
    assert after.trained.rows is not None
    assert len(after.trained.rows) == np.count_nonzero(before.selection["disclosed"])
    assert len(after.recommend(str(log.table["user"][0]), 5)) == 5
