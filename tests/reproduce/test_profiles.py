"""Profiles are the paper's table of settings, or what the authors published, and every one can be run."""

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from assent.evaluation.evaluate import HeldOut
from assent.methods.ifrqe import IFRQE
from assent.reproduce import ITEMS, Plan, Profile, build_page, full, quick, reproduce
from assent.reproduce.item import VIOLATION, without_influence
from assent.reproduce.paper import numbers
from assent.reproduce.plan import DATASETS, MODELS, NULLS, OURS, PAPER_METHODS
from assent.reproduce.profiles import STEPS
from assent.results.records import name as way_name
from assent.results.table import tabulate
from tests.conftest import Assent


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("dataset", DATASETS)
def test_the_papers_profile_has_the_papers_settings(model: str, dataset: str) -> None:
    plan, theirs = full(profile=Profile.PAPER), numbers()["settings"]
    place = theirs["columns"].index(DATASETS[dataset])
    settings = plan.settings(model, dataset)
    training = settings.training
    assert (training.epochs, training.learning_rate) == (theirs["epochs"][place], 0.01)
    assert training.batch(10**6) == theirs["batch_size"][place] // 2
    assert (training.schedule, training.keep, training.initialisation) == ("constant", "last", "xavier")
    of_model: dict[str, Any] = settings.model_settings.model_dump()
    assert of_model["dimension"] == theirs["embedding_size"][place]
    penalties = ("strength", "decay", "perceptron_prior", "attention_decay", "input_strength", "tie")
    assert not any(of_model.get(each) for each in (*penalties, "bias_prior", "hidden_bias_decay"))
    assert of_model.get("form", "plain") == "plain"
    game = cast(IFRQE, plan.method(OURS, model, dataset))
    assert (game.table.rounds, game.table.samples) == (theirs["M"][place], theirs["L"][place])
    assert game.model_dump()["anchors"] == theirs["T"][place]
    influence = game.influence_for(model)
    assert (influence.lissa_steps, influence.estimator) == (theirs["N_J"][place], "lissa")
    assert (influence.divisor, influence.centred, influence.loss) == ("all", False, "bce")
    assert game.anchor_rate == pytest.approx(1 - theirs["drop_ratio"][place])


def test_the_authors_profile_departs_by_named_settings() -> None:
    paper, authors = (full(profile=each) for each in (Profile.PAPER, Profile.AUTHORS))
    random = [plan.setting(PAPER_METHODS["Random"], "diginetica", "rate") for plan in (paper, authors)]
    assert random == [0.9, 0.98]
    training = authors.settings("mf", "steam").training
    assert (training.epochs, training.keep, training.evaluate_every) == (50, "reward", 1)
    game = cast(IFRQE, authors.method(OURS, "mf", "diginetica"))
    assert (game.strategy, game.table.step, game.table.samples) == ("published", 0.08, 1000)
    assert (game.n_anchors, game.anchor_rate) == (3, 0.85)
    assert authors.settings("cdae", "diginetica").training.batch_unit == "people"
    assert authors.settings("neumf", "diginetica").training.initialisation == "own"
    lissa = cast(IFRQE, authors.method(OURS, "mf", "amazon-video-games")).influence_for("mf")
    assert (lissa.lissa_steps, lissa.lissa_damping, lissa.lissa_scale) == (5, 0.1, 200)
    assert [plan.profile.rewards_on for plan in (paper, authors)] == [HeldOut.VALIDATION, HeldOut.TEST]
    said = " ".join(Profile.AUTHORS.about)
    for setting in ("random.rate", "training.keep=reward", "strategy=published", "anchor_rate"):
        assert f"`{setting}`" in said


def test_assents_profile_is_what_it_is_without_one() -> None:
    assert full().profile is Profile.ASSENT
    assert full().settings("mf", "steam").training.schedule == "cosine"
    assert cast(IFRQE, full().method(OURS, "mf", "steam")).strategy == "factored"


def test_what_the_user_sets_comes_before_the_profile() -> None:
    plan = replace(full(profile=Profile.PAPER), overrides={"training": {"epochs": 7}, "table": {"step": 0.5}})
    assert plan.settings("mf", "steam").training.epochs == 7
    assert plan.settings("mf", "steam").training.schedule == "constant"
    assert cast(IFRQE, plan.method(OURS, "mf", "steam")).table.step == 0.5


def test_gamma_is_swept_with_nulls_and_without_a_choice() -> None:
    plan = replace(quick(1, Profile.PAPER), models=("mf",), datasets=("diginetica",))
    cells = ITEMS["gamma"].cells(plan)
    assert {cell.labels["step"] for cell in cells} == set(STEPS)
    assert {*map(way_name, NULLS)} <= {cell.labels["method_name"] for cell in cells}
    assert plan.reduced[-1] == "Tables learn in M = 2 rounds of L = 200 samples."


@pytest.mark.parametrize("profile", [Profile.PAPER, Profile.AUTHORS])
def test_a_profile_runs_from_end_to_end(profile: Profile, plan: Plan, data: Path, tmp_path: Path) -> None:
    short = {"training": {"epochs": 2}, "model_settings": {"dimension": 4}}
    small = replace(
        plan, profile=profile, datasets=("diginetica",), repeats=1, anchors={"diginetica": 2},
        overrides={**plan.overrides, **short, "table": {"samples": 5, "rounds": 2}, "anchors": 2},
    )  # fmt: skip
    found = reproduce([ITEMS["overall"], ITEMS["gamma"]], small, tmp_path, data=data)
    assert not found.failed
    overall, gamma = found.chapters
    assert [len(overall.table.rows), len(gamma.table.rows)] == [9, 4 * len(profile.steps)]
    page = build_page(found)
    assert f"profile {profile}" in page
    assert all(sentence.replace("'", "&#x27;") in page for sentence in profile.about)


def test_rewards_of_test_rows_are_other_rewards(plan: Plan) -> None:
    cells = [
        next(iter(ITEMS["overall"].cells(replace(plan, profile=each))))
        for each in (Profile.PAPER, Profile.AUTHORS)
    ]
    kinds = [cast(Any, cell.task).rewards_on for cell in cells]
    assert kinds == [HeldOut.VALIDATION, HeldOut.TEST]


def test_where_influence_did_nothing_is_said() -> None:
    ours, (zero, permuted) = way_name(OURS), map(way_name, NULLS)
    rewards = {"steam": (-1.0, -1.1, -0.9), "diginetica": (-1.0, -1.2, -1.0)}
    lines = [
        {"dataset": dataset, "method_name": method, "seed": 0, "reward_mean": reward, "violation": 1.0}
        for dataset, values in rewards.items()
        for method, reward in zip((ours, zero, permuted), values, strict=True)
    ]
    labels = {"dataset": "data set", "method_name": "method"}
    columns = [*ITEMS["overall"].columns[2:3], VIOLATION]
    table = tabulate(lines, labels, columns, reference={"method_name": ours})
    assert [*without_influence(table)] == [
        f"{ours} is not better than {permuted} at 2 of 2 places: no gain from influence is shown "
        "there (steam; diginetica)."
    ]


def test_items_of_other_profiles_are_refused(assent: Assent) -> None:
    code, _, err = assent("reproduce", "gamma")
    assert code != 0
    assert "gamma: accepted: --profile paper or authors" in err
