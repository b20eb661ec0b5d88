"""The contract's tests find what is wrong with a recommender, and nothing where nothing is wrong."""

import inspect
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
import torch

from assent.models import Recommender
from assent.support.errors import AssentError
from assent.testing import RecommenderContract
from assent.testing.subject import CHANGES
from tests.models import broken


def failures(
    kind: type[Recommender] | str, folder: Path, only: Collection[str] = (), **attributes: Any
) -> dict[str, str]:
    """The tests (`only` these, if any are named) that fail on a recommender, with what they say."""
    tested = type("TestIt", (RecommenderContract,), {"model": kind, **attributes})()
    found = {}
    for name, test in inspect.getmembers(tested, inspect.ismethod):
        if not name.startswith("test_") or (only and name not in only):
            continue
        takes = inspect.signature(test).parameters
        for change in CHANGES if "change" in takes else [None]:
            place = folder / name / str(CHANGES.index(change) if change else 0)
            known = {"tmp_path": place, "change": change}
            with torch.random.fork_rng(devices=[]):
                try:
                    test(**{argument: known[argument] for argument in takes})
                except (AssertionError, AssentError, RuntimeError) as error:
                    found[name] = str(error)
    return found


SAME_BYTES = "test_the_same_seed_gives_the_same_bytes"
BY_ID = "test_everybody_starts_alike_whoever_else_there_is"
OTHER_SEED = "test_another_seed_starts_elsewhere"
LEARNS = "test_it_learns_more_than_popularity"
NO_TRACE = "test_what_is_withheld_leaves_no_trace"
SAVED = "test_a_saved_model_scores_the_same"
RESUMED = "test_a_resumed_training_ends_with_the_same_bytes"
FINISHED = "test_finishing_twice_changes_nothing"
WITHHOLDS = "test_a_user_who_withholds_everything_is_served"
WEIGHT_0 = "test_evidence_of_weight_0_is_absent"
GRADIENT = "test_scores_can_be_differentiated_by_the_weights_of_evidence"
INFLUENCE = "test_influence_is_the_dense_implicit_derivative"
SHAPES = "test_methods_give_what_they_should"
NO_DICE = "test_scoring_draws_no_random_numbers"


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (broken.NoMatrix, {SHAPES: "forward gave logits of shape", LEARNS: "forward gave logits of shape"}),
        (broken.OtherScores, {SHAPES: "score_all disagrees with forward"}),
        (
            broken.GlobalDice,
            {SAME_BYTES: "elsewhere than the seed", OTHER_SEED: "elsewhere than `draws`"},
        ),
        (broken.PositionalDice, {BY_ID: "by position"}),
        (broken.LoadedDice, {OTHER_SEED: "does not draw from `draws`"}),
        (broken.Constant, {LEARNS: "above popularity"}),
        (broken.Gossip, {NO_TRACE: "knows of withheld rows"}),
        (broken.Forgetful, {SAVED: "", RESUMED: ""}),
        (broken.Drifting, {FINISHED: ""}),
        (broken.AlwaysDropping, {NO_DICE: ""}),
        (broken.EveryRowCounts, {WEIGHT_0: "a row of weight 0 changes"}),
        (broken.CutWeights, {GRADIENT: "", INFLUENCE: "not close"}),
        (broken.EmptyMean, {WITHHOLDS: "not finite", GRADIENT: "not finite"}),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_what_is_wrong_is_found(kind: type[Recommender], expected: dict[str, str], tmp_path: Path) -> None:
    found = failures(kind, tmp_path, only=expected)
    assert found.keys() == expected.keys()
    for name, text in expected.items():
        assert text in found[name]


@pytest.mark.parametrize(
    ("kind", "alone"),
    [(broken.LoadedDice, {OTHER_SEED}), (broken.CutWeights, {GRADIENT, INFLUENCE})],
)
def test_nothing_else_is_said_to_be_wrong(kind: type[Recommender], alone: set[str], tmp_path: Path) -> None:
    assert failures(kind, tmp_path).keys() == alone


def test_a_model_that_reads_its_evidence_well_passes(tmp_path: Path) -> None:
    assert not failures(broken.Histories, tmp_path)


def test_settings_and_training_reach_the_model(tmp_path: Path) -> None:
    class Here(RecommenderContract):
        model = "mf"
        settings = {"dimension": 3}  # noqa: RUF012
        training = {"epochs": 1}  # noqa: RUF012

    trained = Here.learnt()[0]
    assert trained.model.settings.dimension == 3
    assert trained.epochs == 1
    assert failures("mf", tmp_path, only=[LEARNS], training={"epochs": 1, "learning_rate": 1e-6})


def test_a_subclass_that_names_no_model_is_told_so() -> None:
    class Bare(RecommenderContract):
        pass

    with pytest.raises(AssentError, match=r"^Bare: has no model; expected model = "):
        Bare().test_methods_give_what_they_should()


def test_it_runs_under_pytest_on_a_file_of_the_users_own(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from assent.models import MF\n\nclass Mine(MF):\n    name = 'mine'\n\n"
        "class Broken(Mine):\n    def initialise(self, draws):\n        pass\n"
    )
    (tmp_path / "test_mine.py").write_text(
        "import assent.testing\nfrom mine import Broken, Mine\n\n"
        "class TestMine(assent.testing.RecommenderContract):\n    model = Mine\n\n"
        "class TestNamed(assent.testing.RecommenderContract):\n    model = 'mine:Mine'\n\n"
        "class TestBroken(assent.testing.RecommenderContract):\n    model = Broken\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-k", "seed"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "1 failed, 5 passed" in ended.stdout
    assert "FAILED test_mine.py::TestBroken::test_another_seed_starts_elsewhere" in ended.stdout
    assert "initialise does not draw from `draws`" in ended.stdout


def test_pytest_is_needed_by_the_kit_alone() -> None:
    script = (
        "import sys; sys.modules['pytest'] = None\n"
        "import assent, assent.cli\n"
        "try:\n    import assent.testing\n"
        "except ImportError as error:\n    print(error)\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ended.stdout == "assent.testing needs pytest; install it with: pip install pytest\n"
