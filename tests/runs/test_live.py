"""A live run: every row is decided on, the model is trained on all that is disclosed and on nothing else."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from assent.data.interactions import Interactions
from assent.data.live import live_problem
from assent.data.problem import Problem, Protocol, make_problem
from assent.data.simulate import simulate
from assent.game.budget import Budget
from assent.lab import Lab
from assent.methods import make_method
from assent.methods.worth import WorthMethod
from assent.results.records import METRICS
from assent.runs.folder import open_run
from assent.runs.plan import RunPlan
from assent.runs.run import fit, published
from assent.runs.verify import verify
from assent.support.errors import AssentError
from assent.training.stored import as_files
from tests.small import QUICK

PLANS = {
    "worth": RunPlan(method=WorthMethod(folds=2), budget=0.5, seeds=2),
    "ifrqe++": RunPlan(method=make_method("ifrqe++", anchors=2), price=0.05, seeds=1, reference=True),
    "threshold": RunPlan(method=make_method("threshold"), seeds=1),
}


@pytest.fixture(scope="module")
def log() -> Interactions:
    return simulate(preference="learnable", users=40, items=40, seed=2)


@pytest.fixture(scope="module")
def split(log: Interactions) -> Problem:
    return make_problem(log, Protocol.PAPER_TABLES, negatives=9)


@pytest.fixture(scope="module")
def live(log: Interactions) -> Problem:
    return live_problem(log, negatives=9)


@pytest.fixture(scope="module")
def whole(
    log: Interactions, split: Problem, live: Problem, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("live")
    for name, plan in PLANS.items():
        fit(log, split, folder / name, plan, QUICK, live=live)
    return {name: folder / name for name in PLANS}


@pytest.mark.parametrize("name", PLANS)
def test_every_row_is_decided_on(name: str, log: Interactions, whole: dict[str, Path]) -> None:
    run = open_run(whole[name])
    assert run.is_live
    assert run.selection.height == log.table.height
    decided = run.selection.join(run.held_out, on=["user", "item"], how="semi")
    assert decided.height == run.held_out.height
    assert 0 < decided["disclosed"].sum() < decided.height
    if name != "threshold":
        assert decided["value"].null_count() == 0


@pytest.mark.parametrize("name", PLANS)
def test_the_model_knows_all_that_is_disclosed(name: str, whole: dict[str, Path]) -> None:
    run = open_run(whole[name])
    disclosed = run.selection.filter("disclosed")
    assert run.trained.model.sizes.rows == disclosed.height
    assert run.trained.user_ids.tolist() == disclosed["user"].unique().sort().to_list()
    assert run.trained.item_ids.tolist() == disclosed["item"].unique().sort().to_list()


def test_the_published_model_is_a_function_of_the_disclosed_rows(
    log: Interactions, live: Problem, whole: dict[str, Path]
) -> None:
    """A log without the withheld rows gives the same bytes, whatever they were held out for."""
    run = open_run(whole["worth"])
    shown = run.selection.filter("disclosed").select("user", "item")
    alone = live_problem(
        replace(log, table=log.table.join(shown, on=["user", "item"], how="semi")), negatives=9
    )
    _, trained = published(Lab(alone, QUICK), alone, np.ones(len(alone.train), dtype=np.bool_))
    for name, content in as_files(trained, "model").items():
        assert (run.folder / name).read_bytes() == content


def test_the_decision_keeps_within_the_budget_of_all_rows(live: Problem, whole: dict[str, Path]) -> None:
    disclosed = open_run(whole["worth"]).selection["disclosed"].to_numpy()
    assert Budget.of(live, 0.5).allows(disclosed)
    assert live.violation(disclosed) > 0.45 * live.violation()


def test_sources_are_tried_on_the_split_alone(whole: dict[str, Path]) -> None:
    """The decision on all rows takes the weights of the sources from there."""
    run = open_run(whole["worth"])
    assert len(run.certificate["value_trials"]) == 2
    trained_for_one_seed = 2 + 1 + 6 + 1  # folds, everything, trials, the tested model
    assert run.records[0]["trainings"] == trained_for_one_seed


@pytest.mark.parametrize(
    ("name", "measured"),
    [("worth", ["worth", "nothing"]), ("ifrqe++", ["ifrqe++", "all", "nothing"])],
)
def test_everything_is_measured_only_where_asked_for(
    name: str, measured: list[str], whole: dict[str, Path]
) -> None:
    run = open_run(whole[name])
    assert list(dict.fromkeys(each["method"] for each in run.records)) == measured
    assert (run.quality["kept"] is None) == ("all" not in measured)


def test_figures_are_those_of_an_experiment_with_the_same_plan(
    log: Interactions, split: Problem, whole: dict[str, Path], tmp_path: Path
) -> None:
    lived = open_run(whole["worth"])
    plan = replace(PLANS["worth"], seeds=None)
    tested = fit(log, split, tmp_path / "experiment", plan, QUICK)
    assert not tested.is_live
    assert tested.selection.height == len(split.train)
    for key in (*METRICS, "violation", "reward_sum"):
        assert lived.records[0][key] == tested.records[0][key]


@pytest.mark.parametrize("name", PLANS)
def test_a_live_run_is_verified_down_to_the_bytes_of_its_model(
    name: str, log: Interactions, split: Problem, live: Problem, whole: dict[str, Path]
) -> None:
    assert verify(whole[name], log, split, live=live, again=True) == []


def test_verifying_a_live_run_needs_its_live_problem(
    log: Interactions, split: Problem, whole: dict[str, Path]
) -> None:
    with pytest.raises(AssentError, match="a live run; accepted: live too"):
        verify(whole["worth"], log, split)
    other = live_problem(log, negatives=9, seed=1)
    assert "of another problem" in str(verify(whole["worth"], log, split, live=other)[0])


@pytest.mark.parametrize("method", ["scratch", "proactive"])
def test_methods_that_try_by_training_are_for_experiments(
    method: str, log: Interactions, split: Problem, live: Problem, tmp_path: Path
) -> None:
    with pytest.raises(AssentError, match=r"a live run: .* accepted: an experiment"):
        fit(log, split, tmp_path / "run", RunPlan(make_method(method), price=0.1), QUICK, live=live)


def test_nothing_disclosed_publishes_a_model_that_knows_nothing(
    log: Interactions, split: Problem, live: Problem, tmp_path: Path
) -> None:
    run = fit(log, split, tmp_path / "run", RunPlan(make_method("nothing")), QUICK, live=live)
    assert not run.selection["disclosed"].any()
    assert not len(run.trained.item_ids)
    assert run.quality["above_nothing"] == {"mean": 0.0, "low": 0.0, "high": 0.0}


def test_the_latest_rows_are_valued_on_a_scale_with_the_others() -> None:
    """No model has learnt them by heart: unless that is allowed for, they seem worth many times more."""
    log = simulate(preference="learnable", users=150, items=60, noise=0.3, seed=1)
    live = live_problem(log, negatives=20)
    choice = WorthMethod(source="cross-fitted").within(Lab(live), 0.5)
    assert choice.values is not None
    assert live.judges is not None
    table = pl.DataFrame({"value": choice.values, "latest": live.judges, "disclosed": choice.selection})
    means = dict(table.group_by("latest").agg(pl.col("value").mean()).iter_rows())
    assert 0.5 < means[True] / means[False] < 2
    assert table.filter("latest")["value"].n_unique() > 20
