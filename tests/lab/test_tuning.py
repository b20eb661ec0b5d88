"""The search for settings: what it finds, what it looks at, what it leaves alone."""

import numpy as np
import polars as pl
import pytest

from assent.data.problem import Problem
from assent.lab import Lab, Store, everything
from assent.lab.tuning import tuned
from assent.models import MFSettings
from assent.testing.subject import CHANGES, Change, problem_of, split_log
from assent.training import Settings, Tune
from tests.small import small_problem, trained_in


@pytest.fixture(scope="module")
def problem() -> Problem:
    return small_problem(users=120)


def settings(tune: Tune = Tune.QUICK, model: str = "ials", **given: float) -> Settings:
    small = {"model_settings": {"dimension": 8, **given}, "training": {"epochs": 4}}
    return Settings.model_validate({"model": model, "tune": tune, **small})


def test_it_finds_about_the_best_of_what_it_tried_and_changes_no_more_than_it_must(problem: Problem) -> None:
    """A strength that wipes everything out is left behind."""
    found = tuned(Lab(problem, settings()), everything(problem))
    now, scores = settings().model_settings.model_dump(), [each["ndcg"] for each in found.attempts]
    tried = [{**each["settings"], "ndcg": each["ndcg"]} for each in found.attempts]
    assert scores[0] < 0.99 * max(scores[:5])  # the value before is not good enough
    for name, new in (("strength", tried[:5]), ("unobserved", tried[5:])):
        attempts = [*new, *(each for each in tried[:5] if each["strength"] == now["strength"])]
        enough = 0.99 * max(each["ndcg"] for each in attempts)
        apart = {abs(np.log(each[name] / now[name])): each for each in attempts if each["ndcg"] >= enough}
        now[name] = apart[min(apart)][name]
    assert found.settings.model_settings.model_dump() == now
    assert found.settings.tune is Tune.NONE
    assert found.settings.training == settings().training
    assert found.cost.trainings == len(found.attempts) == 8


@pytest.mark.parametrize("model", ["mf", "ials"])
def test_what_was_given_is_not_searched(problem: Problem, model: str) -> None:
    found = tuned(Lab(problem, settings(model=model, strength=0.3)), everything(problem))
    assert getattr(found.settings.model_settings, "strength") == 0.3  # noqa: B009
    assert {each["settings"]["strength"] for each in found.attempts} <= {0.3}
    assert {each["settings"]["dimension"] for each in found.attempts} <= {8}


def test_settings_that_were_given_and_defaults_of_the_same_value_are_told_apart(problem: Problem) -> None:
    """One is searched and the other is not, so that no result of one may be taken for the other's."""
    usual = settings().model_settings.model_dump()
    given = settings(strength=usual["strength"], unobserved=usual["unobserved"])
    assert given.model_settings == settings().model_settings
    assert Lab(problem, given).key != Lab(problem, settings()).key
    again = Settings.model_validate_json(settings().model_dump_json())
    assert again == settings()
    assert len(tuned(Lab(problem, again), everything(problem)).attempts) == 8
    assert not tuned(Lab(problem, given), everything(problem)).attempts


def test_settings_of_a_model_say_which_model() -> None:
    assert Settings(model_settings=MFSettings(dimension=4)).model == "mf"


def test_without_tuning_settings_stay_as_they_are(problem: Problem) -> None:
    store = Store.temporary()
    found = tuned(Lab(problem, settings(Tune.NONE), store=store), everything(problem))
    assert found.settings == settings(Tune.NONE)
    assert not found.attempts
    assert trained_in(store) == 0


def test_settings_with_which_training_diverges_lose(problem: Problem) -> None:
    """The error of an attempt is noted, and the search goes on."""
    given = {"model": "mf", "model_settings": {"dimension": 8}, "training": {"learning_rate": 1e30}}
    found = tuned(Lab(problem, Settings.model_validate(given)), everything(problem))
    assert {each["ndcg"] for each in found.attempts} == {0.0}
    assert "learning_rate" in found.attempts[0]["error"]
    assert found.settings.model_settings == Settings.model_validate(given).model_settings


def test_a_thorough_search_tries_more(problem: Problem) -> None:
    quick, thorough = (
        tuned(Lab(problem, settings(tune)), everything(problem)) for tune in (Tune.QUICK, Tune.THOROUGH)
    )
    assert len(thorough.attempts) > len(quick.attempts)
    assert max(each["ndcg"] for each in thorough.attempts) >= max(each["ndcg"] for each in quick.attempts)


def test_all_seeds_share_one_search(problem: Problem) -> None:
    store = Store.temporary()
    first = tuned(Lab(problem, settings(), 0, store), everything(problem))
    done = trained_in(store)
    assert tuned(Lab(problem, settings(), 1, store), everything(problem)).settings == first.settings
    assert trained_in(store) == done


def test_a_handful_of_rows_is_not_searched_on(problem: Problem) -> None:
    few = np.arange(len(problem.train)) < 20
    assert not tuned(Lab(problem, settings()), few).attempts


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_withheld_does_not_change_the_settings(change: Change) -> None:
    """The search sees what is disclosed and the validation rows: the same attempts end the same."""
    table = split_log(seed=0, share=0.6)
    changed = change(table, np.random.default_rng(1))
    before, after = (
        tuned(Lab(*_with_settings(each)), problem_of(each)[1]).attempts for each in (table, changed)
    )
    assert before
    assert before == after


def _with_settings(table: pl.DataFrame) -> tuple[Problem, Settings]:
    return problem_of(table)[0], settings()
