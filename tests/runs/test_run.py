"""A run: the same bytes whoever computes it, and however often it was killed."""

import multiprocessing
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from assent.data.interactions import Interactions
from assent.data.problem import Problem, Protocol, make_problem
from assent.data.simulate import simulate
from assent.evaluation.evaluate import evaluate
from assent.lab import Lab, Processes, Training
from assent.methods import make_method
from assent.methods.worth import WorthMethod
from assent.results.records import REFERENCES
from assent.runs.folder import FILES, OPTIONAL, WORK, open_run
from assent.runs.manifest import MANIFEST
from assent.runs.plan import RunPlan, describe
from assent.runs.run import fit
from assent.support.errors import AssentError
from assent.support.files import read_json
from assent.training import Settings
from tests.small import QUICK, Listener, timeless

WORTH = RunPlan(method=WorthMethod(folds=2), budget=0.5)
PLANS = {
    "worth": WORTH,
    "ifrqe++": RunPlan(method=make_method("ifrqe++", anchors=2), price=0.05),
    "frontier": RunPlan(
        method=make_method("threshold"), points=(0.5,), frontier_methods=(make_method("random"),)
    ),
    "tuned": RunPlan(method=make_method("threshold")),
}
TUNED = Settings.model_validate({"model_settings": {"dimension": 4}, "training": {"epochs": 4}})
"""The default model, whose settings are searched."""


def settings_of(name: str) -> Settings:
    return TUNED if name == "tuned" else QUICK


@pytest.fixture(scope="module")
def log() -> Interactions:
    return simulate(preference="learnable", users=40, items=40, seed=2)


@pytest.fixture(scope="module")
def problem(log: Interactions) -> Problem:
    return make_problem(log, Protocol.PAPER_TABLES, negatives=9)


def bytes_of(folder: Path) -> dict[str, Any]:
    """All that a run says, but for what a clock said: files as bytes, records without their seconds."""
    found: dict[str, Any] = {}
    for name in FILES:
        file = folder / name
        if name in ("metrics.json", "frontier.json") and file.exists():
            found[name] = timeless(read_json(file))
        elif name == "tuning.json":
            found[name] = timeless([*read_json(file).values()])
        elif name not in ("report.html", MANIFEST):  # which show seconds, and hashes of such files
            found[name] = file.read_bytes() if file.exists() else None
    return found


@pytest.fixture(scope="module")
def whole(log: Interactions, problem: Problem, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Each plan, run in this process."""
    folder = tmp_path_factory.mktemp("runs")
    for name, plan in PLANS.items():
        fit(log, problem, folder / name, plan, settings_of(name))
    return {name: folder / name for name in PLANS}


def test_a_run_leaves_its_files_alone(whole: dict[str, Path]) -> None:
    for name, folder in whole.items():
        files = {path.name for path in folder.iterdir()}
        assert files == {*FILES} - {*OPTIONAL} | ({"frontier.json"} if name == "frontier" else set())


def test_a_run_decides_trains_and_measures_as_its_parts_do(
    log: Interactions, problem: Problem, whole: dict[str, Path]
) -> None:
    run, lab = open_run(whole["worth"]), Lab(problem, QUICK)
    choice = WORTH.method.within(lab, 0.5)
    assert run.selection["disclosed"].to_list() == choice.selection.tolist()
    np.testing.assert_array_equal(run.selection["value"].to_numpy(), choice.values)
    np.testing.assert_array_equal(run.selection["uncertainty"].to_numpy(), choice.errors)
    [trained] = lab.train([Training(choice.selection)])
    figures = evaluate(problem, trained, choice.selection, price=WORTH.reward_price)
    assert {key: run.records[0][key] for key in figures} == figures
    assert [each["method"] for each in run.records] == ["worth", *REFERENCES]
    assert [each["trainings"] for each in run.records] == [choice.cost.trainings + 1, 1, 1]
    assert run.certificate.items() >= {"anchors_at_solution": 0, "reward_form": "sum"}.items()
    assert run.held_out.height == len(problem.valid) + len(problem.test)


@pytest.mark.parametrize("name", PLANS)
def test_two_workers_give_the_bytes_of_one_process(
    name: str, log: Interactions, problem: Problem, whole: dict[str, Path], tmp_path: Path
) -> None:
    with Processes(2) as processes:
        fit(log, problem, tmp_path / "run", PLANS[name], settings_of(name), executor=processes)
    assert bytes_of(tmp_path / "run") == bytes_of(whole[name])


def _fit(name: str, out: Path, workers: int) -> None:
    log = simulate(preference="learnable", users=40, items=40, seed=2)
    problem = make_problem(log, Protocol.PAPER_TABLES, negatives=9)
    if workers == 1:
        fit(log, problem, out, PLANS[name], settings_of(name))
        return
    with Processes(workers) as processes:
        fit(log, problem, out, PLANS[name], settings_of(name), executor=processes)


@pytest.mark.parametrize(("name", "workers"), [("worth", 1), ("frontier", 1), ("tuned", 1), ("worth", 2)])
def test_a_killed_fit_goes_on_to_the_same_bytes(
    name: str, workers: int, whole: dict[str, Path], tmp_path: Path
) -> None:
    """kill -9 at random moments after so many results are kept; what is kept is not computed again."""
    out, lots = tmp_path / "run", np.random.default_rng(workers)
    context = multiprocessing.get_context("forkserver")
    kept: dict[Path, int] = {}
    for results in (1, 3, 6) if workers == 1 else (4,):
        process = context.Process(target=_fit, args=(name, out, workers))
        process.start()
        while process.is_alive() and len(stamps(out)) < results:
            time.sleep(0.002)
        time.sleep(float(lots.uniform(0, 0.03)))
        process.kill()
        process.join()
        assert {file: stamp for file, stamp in stamps(out).items() if file in kept} == kept
        kept = stamps(out)
    assert kept
    assert not (out / "report.html").exists()
    _fit(name, out, 1)
    assert bytes_of(out) == bytes_of(whole[name])
    assert not (out / WORK).exists()


def stamps(out: Path) -> dict[Path, int]:
    """When each entry was written."""
    return {file: file.stat().st_mtime_ns for file in (out / WORK).glob("*.json")}


def test_a_run_that_was_killed_before_its_page_trains_nothing_twice(
    log: Interactions, problem: Problem, whole: dict[str, Path], tmp_path: Path
) -> None:
    class KilledError(Exception):
        pass

    class Killer(Listener):
        """Ends the run where its page is drawn."""

        def task(self, label: str, total: int) -> Any:
            if label == "report":
                raise KilledError
            return super().task(label, total)

    out = tmp_path / "run"
    with pytest.raises(KilledError):
        fit(log, problem, out, WORTH, QUICK, progress=Killer())
    assert (out / WORK).is_dir()
    assert not (out / "report.html").exists()
    with pytest.raises(AssentError, match="the run is not finished; repeat the command"):
        open_run(out)
    listener = Listener()
    fit(log, problem, out, WORTH, QUICK, progress=listener)
    trained = ("fold", "everything", "trial", "final", "all", "nothing", "influence", "training")
    assert [label for label in listener.labels if label.startswith(trained)] == []
    assert bytes_of(out) == bytes_of(whole["worth"])


def test_another_plan_does_not_go_on_from_it(log: Interactions, problem: Problem, tmp_path: Path) -> None:
    out = tmp_path / "run"
    fit(log, problem, out, PLANS["frontier"], QUICK)
    with pytest.raises(AssentError, match="holds a finished run"):
        fit(log, problem, out, PLANS["frontier"], QUICK)
    (out / MANIFEST).unlink()
    (out / WORK).mkdir()
    (out / WORK / f"{'0' * 32}.progress").touch()
    with pytest.raises(AssentError, match="unfinished run of other data or settings"):
        fit(log, problem, out, WORTH, QUICK)
    fit(log, problem, out, RunPlan(method=make_method("random")), QUICK, replace=True)
    assert open_run(out).records[0]["method"] == "random"


def test_the_description_has_all_that_a_run_depends_on(problem: Problem) -> None:
    base = describe(problem, RunPlan(), Settings())
    assert (base["method"], base["objective"]) == ("worth", "welfare")
    plans = [
        RunPlan(price=0.2),
        RunPlan(budget=0.4),
        RunPlan(budget=0.4, price=0.3),
        RunPlan(keep_quality=0.9),
        RunPlan(keep_quality=0.9, confidence=0.8),
        RunPlan(reference=True),
        RunPlan(seeds=2),
        RunPlan(seed=1),
        RunPlan(k=(10,)),
        RunPlan(unwillingness="random"),
        RunPlan(rest="own-mean"),
        RunPlan(points=(0.5,)),
        RunPlan(points=(0.5,), frontier_seeds=3),
        RunPlan(points=(0.5,), frontier_methods=(make_method("random"),)),
        RunPlan(method=make_method("ifrqe")),
        RunPlan(method=WorthMethod(folds=4)),
        RunPlan(method=make_method("worth", objective="nash")),
    ]
    described = [describe(problem, plan, Settings()) for plan in plans] + [
        describe(problem, RunPlan(), QUICK),
        describe(problem, RunPlan(), Settings(), live=problem),
    ]
    for number, each in enumerate(described):
        assert each != base
        assert each not in described[:number]
    assert describe(problem, RunPlan(), Settings()) == base


def test_a_low_price_that_decides_hardly_anything_is_told(
    log: Interactions, problem: Problem, tmp_path: Path
) -> None:
    plan = RunPlan(method=make_method("ifrqe"), price=1e-9)
    with pytest.warns(UserWarning, match=r"at price 1e-09 unwillingness decides 0.0% of the interactions"):
        fit(log, problem, tmp_path / "run", plan, QUICK)


def test_a_price_that_is_none_is_refused() -> None:
    with pytest.raises(AssentError, match="price -1: accepted"):
        RunPlan(price=-1)


def test_a_folder_may_be_a_string(log: Interactions, problem: Problem, tmp_path: Path) -> None:
    out = os.fspath(tmp_path / "run")
    run = fit(log, problem, out, RunPlan(method=make_method("nothing")), QUICK)
    assert [each["method"] for each in run.records] == ["nothing", "all"]
    assert open_run(out).folder == Path(out)
    assert not run.selection.filter(pl.col("disclosed")).height
    with pytest.raises(AssentError, match="no such run folder"):
        open_run(out + "-other")


def test_metrics_are_taken_at_every_k(log: Interactions, problem: Problem, tmp_path: Path) -> None:
    run = fit(log, problem, tmp_path / "run", RunPlan(method=make_method("threshold"), k=(3, 8)), QUICK)
    assert {each["k"] for each in run.records} == {3}
    assert all(each["hit"] <= each["hit@8"] for each in run.records)
    page = (tmp_path / "run" / "report.html").read_text()
    assert "@3" in page
