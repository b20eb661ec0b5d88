"""What all methods have in common, and what each of them is."""

from collections.abc import Iterator
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import polars as pl
import pytest
from pydantic import BaseModel, ValidationError

from assent.data.problem import Problem, Rows, make_problem
from assent.data.simulate import simulate
from assent.data.wishes import Wishes
from assent.game.budget import Budget
from assent.game.estimates import Objective
from assent.game.paper import Strategy, TableSettings, solve_table
from assent.game.prices import break_even_prices, price_path
from assent.game.solve import solve
from assent.influence.inverse import Estimator, InfluenceSettings
from assent.lab import Lab
from assent.lab.anchors import InfluenceAt, effects_in, random_anchors
from assent.lab.store import digest
from assent.methods import METHODS, Choice, Method, influence_settings, make_method, merged, method_settings
from assent.methods.ifrqe import IFRQE
from assent.methods.worth import WorthMethod
from assent.runs.compare import compare, parse_methods
from assent.runs.measure import Cell
from assent.support.arrays import Bools, Ints, mix
from assent.support.draws import Purpose
from assent.support.errors import AssentError
from assent.worth.estimate import Source
from assent.worth.trial import Kind, Trial
from tests.game.small_games import is_within
from tests.methods.cases import ANCHORED, EVERY, VALUING, afresh, at_anchors, lab_of, over, quick, same, told
from tests.small import QUICK, entries, small_problem, trained_in

BUDGETS = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0)


@pytest.fixture(scope="module")
def problem() -> Problem:
    return small_problem(60, 80, seed=1, negatives=19)


@pytest.fixture(scope="module")
def lab(problem: Problem) -> Lab:
    return lab_of(problem)


def share(problem: Problem, selection: Bools) -> float:
    """Of All's violation."""
    return problem.violation(selection) / problem.violation()


@over(EVERY)
@pytest.mark.parametrize("price", [0.0, 0.3])
def test_a_choice_is_a_selection_of_the_training_rows(method: Method, price: float, lab: Lab) -> None:
    for choice in (method.at_price(lab, price), method.within(lab, 0.4)):
        assert choice.selection.shape == (len(lab.problem.train),)
        assert choice.selection.dtype == np.bool_
        assert (choice.values is not None) == (method.name in {each.name for each in VALUING})
        if choice.values is not None:
            assert choice.values.shape == choice.selection.shape
            assert np.isfinite(choice.values).all()
        if choice.errors is not None:
            assert choice.errors.shape == choice.selection.shape
            assert (choice.errors >= 0).all()
    assert method.at_price(lab, price).price == price
    assert (method.within(lab, 0.4).price is None) == (not method.objectives)


@over([method for method in EVERY if method.name != "all"])
def test_a_budget_is_kept_and_used_as_far_as_single_interactions_allow(method: Method, lab: Lab) -> None:
    problem = lab.problem
    selections = [method.within(lab, budget).selection for budget in BUDGETS]
    shares = [share(problem, selection) for selection in selections]
    assert shares == sorted(shares)
    for budget, used, selection in zip(BUDGETS, shares, selections, strict=True):
        assert is_within(budget, problem.train.users, problem.unwillingness, selection)
        most = Budget.of(problem, budget)
        unused = (most.share * most.minded - most.paid(selection)).max()
        if method.name != "nothing":
            kept_back = (problem.unwillingness.max() + max(0.0, unused)) / problem.unwillingness.sum()
            assert used > budget - kept_back - 1e-9


@over(EVERY)
def test_a_seed_decides_everything(method: Method, lab: Lab) -> None:
    fresh = afresh(lab)
    assert same(method.within(fresh, 0.3), method.within(lab, 0.3))
    assert same(method.at_price(fresh, 0.3), method.at_price(lab, 0.3))


def test_a_question_does_not_change_later_answers(lab: Lab) -> None:
    first = [method.within(lab, 0.3) for method in EVERY]
    for method in EVERY:
        method.at_price(lab, 0.7)
        method.within(lab, 0.6)
    for method, before in zip(EVERY, first, strict=True):
        assert same(method.within(lab, 0.3), before)


def trained_for(method: Method) -> tuple[int, int]:
    """How many models a method trains at least and at most, whatever is decided."""
    match method:
        case WorthMethod():
            return method.folds + 1 + 2, method.folds + 1 + 6  # trials that select the same are one
        case IFRQE():
            return method.n_anchors, method.n_anchors
        case _:
            return 0, 0


@over([method for method in EVERY if not method.retrains])
def test_what_is_known_is_trained_once(method: Method, lab: Lab) -> None:
    fresh = afresh(lab)
    costs = []
    for budget in (0.2, 0.8):
        costs += [method.within(fresh, budget).cost, method.at_price(fresh, budget).cost]
    least, most = trained_for(method)
    assert least <= costs[0].trainings <= most
    assert {cost.trainings for cost in costs} == {trained_in(fresh.store)}
    assert len(entries(fresh.store, "training")) == costs[0].trainings
    assert all(cost.seconds > 0 for cost in costs) == bool(method.objectives)


def test_the_papers_methods_never_deal_folds_nor_try_sources(lab: Lab) -> None:
    """Influence at T anchors, and no other training."""
    for name, trainings in (("ifrqe", 1), ("ifrqe++", 2)):
        fresh = afresh(lab)
        for objective in Objective:
            method = quick(name, objective=objective)
            for choice in (method.at_price(fresh, 0.2), method.within(fresh, 0.3)):
                assert choice.cost.trainings == trainings
        assert {each["key"]["kind"] for each in entries(fresh.store).values()} == {"training", "influence"}
        assert trained_in(fresh.store) == trainings


@pytest.mark.parametrize("source", list(Source))
def test_worth_never_looks_at_random_anchors(source: Source, lab: Lab) -> None:
    fresh = afresh(lab)
    method = quick("worth", source=source)
    cost = method.within(fresh, 0.3).cost
    known = entries(fresh.store, "training")
    random = {digest(anchor.key(fresh)) for anchor in random_anchors(fresh, 5, rate=0.9)}
    assert not random & known.keys()
    assert not entries(fresh.store, "influence")
    assert set(known) <= set(cost.parts)
    assert cost.trainings == len(known)
    match source:
        case Source.STRUCTURE:
            assert cost.trainings == 1
        case Source.CROSS_FITTED:
            assert cost.trainings == 2 + 1
        case Source.COMBINED:
            assert 2 + 1 + 2 <= cost.trainings <= 2 + 1 + 6
    quick("ifrqe++").within(fresh, 0.3)
    assert len(random & entries(fresh.store, "training").keys()) == 2


def test_all_and_nothing_are_what_they_say(lab: Lab) -> None:
    for budget in BUDGETS:
        assert make_method("all").within(lab, budget).selection.all()
        assert not make_method("nothing").within(lab, budget).selection.any()
        assert make_method("all").at_price(lab, budget).selection.all()
        assert not make_method("nothing").at_price(lab, budget).selection.any()


def in_order(order: Ints, problem: Problem, budget: float) -> Bools:
    """Disclose in this order, one by one, until the next would exceed the budget, whoever is left out."""
    owners, unwillingness = problem.train.users, problem.unwillingness
    chosen, paid = np.zeros(len(owners), dtype=np.bool_), np.zeros(problem.n_users)
    minded = np.bincount(owners, unwillingness, problem.n_users)
    for k in order:
        paid[owners[k]] += unwillingness[k]
        others = paid.sum() - paid - budget * (minded.sum() - minded)
        if others.max() > 1e-9 or paid.sum() - budget * minded.sum() > 1e-9:
            break
        chosen[k] = True
    return chosen


def test_threshold_takes_what_is_minded_least(lab: Lab) -> None:
    unwillingness = lab.problem.unwillingness
    method = make_method("threshold")
    np.testing.assert_array_equal(method.at_price(lab, 9.0).selection, unwillingness <= 0.5)
    for budget in BUDGETS:
        chosen = method.within(lab, budget).selection
        np.testing.assert_array_equal(chosen, in_order(np.argsort(unwillingness), lab.problem, budget))


def test_threshold_includes_its_limit(problem: Problem) -> None:
    unwillingness = np.resize([0.5, np.nextafter(0.5, 1), 0.0, 0.9], len(problem.train))
    lab = lab_of(replace(problem, unwillingness=unwillingness))
    selection = make_method("threshold").at_price(lab, 1.0).selection
    np.testing.assert_array_equal(selection[:4], [True, False, True, False])
    higher = make_method("threshold", limit=0.9).at_price(lab, 1.0).selection
    assert higher.all()


def test_occurrence_takes_what_many_have_and_few_mind(lab: Lab) -> None:
    items, unwillingness = lab.problem.train.items.tolist(), lab.problem.unwillingness
    scores = np.array([(items.count(i) - 1) / b for i, b in zip(items, unwillingness, strict=True)])
    method = make_method("occurrence")
    for budget in BUDGETS:
        order = np.lexsort((unwillingness, -scores))
        chosen = method.within(lab, budget).selection
        np.testing.assert_array_equal(chosen, in_order(order, lab.problem, budget))
    alone = np.array([items.count(i) == 1 for i in items])
    assert alone.any()
    np.testing.assert_array_equal(method.at_price(lab, 1.0).selection, ~alone)


def test_occurrence_takes_first_what_nobody_minds(problem: Problem) -> None:
    unwillingness = problem.unwillingness.copy()
    free = np.bincount(problem.train.items)[problem.train.items] == 1
    unwillingness[free] = 0
    lab = lab_of(replace(problem, unwillingness=unwillingness))
    np.testing.assert_array_equal(make_method("occurrence").within(lab, 0).selection, free)


def test_occurrence_takes_what_is_minded_least_where_scores_are_equal(problem: Problem) -> None:
    unique = Rows(problem.train.users, np.arange(len(problem.train)))
    lab = lab_of(replace(problem, train=unique))
    for budget in BUDGETS:
        chosen = make_method("occurrence").within(lab, budget).selection
        np.testing.assert_array_equal(chosen, make_method("threshold").within(lab, budget).selection)


def test_random_draws_lots_that_know_neither_value_nor_unwillingness(problem: Problem, lab: Lab) -> None:
    method = make_method("random")
    swapped = replace(lab, problem=replace(problem, unwillingness=problem.unwillingness[::-1].copy()))
    chosen = method.at_price(lab, 0.5).selection
    np.testing.assert_array_equal(method.at_price(swapped, 5.0).selection, chosen)
    assert chosen.mean() == pytest.approx(0.9, abs=0.05)
    assert make_method("random", rate=0.2).at_price(lab, 0.5).selection.mean() == pytest.approx(0.2, abs=0.05)
    some, others = method.within(lab, 0.5).selection, method.within(swapped, 0.5).selection
    assert (some <= others).all() or (others <= some).all()
    assert problem.unwillingness[some].mean() == pytest.approx(problem.unwillingness.mean(), abs=0.05)
    another = method.within(replace(lab, seed=1), 0.5).selection
    assert 0.3 < (another == some).mean() < 0.7


@over(VALUING)
@pytest.mark.parametrize("price", [0.0, 0.05, 0.5])
def test_at_a_price_what_is_worth_more_is_disclosed(method: Method, price: float, lab: Lab) -> None:
    choice = method.at_price(lab, price)
    assert choice.values is not None
    np.testing.assert_array_equal(choice.selection, choice.values > price * lab.problem.unwillingness)
    if method.name == "worth":  # none of its values is negative, and their scale is that of what was measured
        middle = float(np.median(break_even_prices(choice.values, lab.problem.unwillingness)))
        choice = method.at_price(lab, middle)
    assert 0 < choice.selection.mean() < 1


@over(VALUING)
@pytest.mark.parametrize("budget", [0.1, 0.5, 1.0])
def test_within_a_budget_the_break_even_prices_decide(method: Method, budget: float, lab: Lab) -> None:
    choice = method.within(lab, budget)
    assert choice.values is not None
    assert choice.price is not None
    worth = break_even_prices(choice.values, lab.problem.unwillingness)
    assert worth[choice.selection].min() >= choice.price - 1e-12
    assert worth[~choice.selection].max(initial=0) <= choice.price + 1e-12
    if budget == 1:
        assert choice.price == 0


@pytest.mark.parametrize("objective", list(Objective))
def test_ifrqe_has_the_closed_form_of_the_first_anchor(objective: Objective, lab: Lab) -> None:
    method = make_method("ifrqe", objective=objective)
    assert isinstance(method, IFRQE)
    values, unwillingness = at_anchors(lab, method).values(objective)[0], lab.problem.unwillingness
    np.testing.assert_array_equal(method.at_price(lab, 0.2).values, values)
    np.testing.assert_array_equal(method.at_price(lab, 0.2).selection, values > 0.2 * unwillingness)
    for budget in (0.1, 0.5, 0.9):
        path, most = price_path(values, unwillingness), Budget.of(lab.problem, budget)
        choice = method.within(lab, budget)
        np.testing.assert_array_equal(choice.selection, path.within(most))
        assert choice.price == path.price_within(most)


@over([method for method in ANCHORED if method.name == "ifrqe++"])
def test_ifrqe_pp_plays_the_game_of_its_anchors(method: Method, lab: Lab) -> None:
    assert isinstance(method, IFRQE)
    known = at_anchors(lab, method)
    assert known.n_anchors == 2
    found = solve(known, objective=method.objective, price=0.2, rounds=10)
    choice = method.at_price(lab, 0.2)
    np.testing.assert_array_equal(choice.selection, found.selection)
    np.testing.assert_array_equal(choice.values, found.values)
    assert choice.errors is not None
    np.testing.assert_allclose(choice.errors, known.values(method.objective).std(axis=0, ddof=1))


@pytest.mark.parametrize("objective", list(Objective))
def test_ifrqe_pp_with_one_anchor_is_ifrqe_and_with_more_it_is_not(objective: Objective, lab: Lab) -> None:
    fresh = afresh(lab)
    one, single = quick("ifrqe", objective=objective), quick("ifrqe++", objective=objective, anchors=1)
    assert same(one.at_price(fresh, 0.2), single.at_price(fresh, 0.2))
    assert same(one.within(fresh, 0.4), single.within(fresh, 0.4))
    assert trained_in(fresh.store) == 1
    several = quick("ifrqe++", objective=objective)
    assert not np.array_equal(one.at_price(lab, 0.2).selection, several.at_price(lab, 0.2).selection)


def test_the_estimator_of_influence_is_a_setting_of_the_method(lab: Lab) -> None:
    plain, other = quick("ifrqe"), quick("ifrqe", influence={"estimator": "lissa", "lissa_steps": 5})
    assert isinstance(other, IFRQE)
    assert other.influence_for("mf").estimator is Estimator.LISSA
    one, two = plain.at_price(lab, 0.1), other.at_price(lab, 0.1)
    assert not np.array_equal(one.values, two.values)  # type: ignore[arg-type]
    assert {part for part, (_, count) in one.cost.parts.items() if count} == {
        part for part, (_, count) in two.cost.parts.items() if count
    }


@pytest.mark.parametrize("name", ["ifrqe", "ifrqe++"])
def test_nash_counts_own_and_welfare_social_influence(name: str, lab: Lab) -> None:
    nash, welfare = (quick(name, objective=objective) for objective in Objective)
    assert isinstance(nash, IFRQE)
    without_social = told(lab, nash, lambda known: known | {"social": np.zeros_like(known["social"])})
    without_own = told(lab, nash, lambda known: known | {"own": np.zeros_like(known["own"])})
    assert same(nash.at_price(without_social, 0.1), nash.at_price(lab, 0.1))
    assert same(welfare.at_price(without_own, 0.1), welfare.at_price(lab, 0.1))
    assert not same(nash.at_price(lab, 0.1), welfare.at_price(lab, 0.1))
    # Several anchors have losses of their own, for which somebody may still move to one of them.
    assert nash.at_price(without_own, 0.1).selection.mean() <= (0.05 if name == "ifrqe++" else 0)


@pytest.mark.parametrize("name", ["ifrqe", "ifrqe++"])
@pytest.mark.parametrize("beta", [0.1, 0.3, 0.7])
def test_a_budget_that_what_has_value_uses_up_exactly(name: str, beta: float, problem: Problem) -> None:
    # Sums of equal floats miss such a budget by an ulp, either way.
    train = Rows(np.zeros(10, dtype=np.int64), np.arange(10))
    lab = lab_of(replace(problem, train=train, unwillingness=np.full(10, beta)))
    method = quick(name)
    assert isinstance(method, IFRQE)
    for valuable in range(1, 10):
        values = np.where(np.arange(10) < valuable, 1.0, -1.0)
        said = dict.fromkeys(("own", "social"), values)
        known = told(lab, method, lambda arrays, said=said: arrays | said)  # type: ignore[misc]
        choice = method.within(known, valuable / 10)
        np.testing.assert_array_equal(choice.selection, values > 0)


def test_an_unknown_method_is_refused_with_the_accepted_ones() -> None:
    with pytest.raises(
        AssentError,
        match=r"^method magic: unknown; accepted: all, nothing, .*worth, .*ifrqe\+\+, proactive, scratch$",
    ):
        make_method("magic")


def test_the_registry_knows_methods_by_their_names() -> None:
    assert all(name == kind.name == make_method(name).name for name, kind in METHODS.items())
    assert {method.plays_for for method in VALUING} == {*Objective}
    for method in EVERY:
        assert method.way == (method.name, method.plays_for)
        assert bool(method.plays_for) == bool(method.objectives)


def test_a_method_that_knows_one_objective_plays_for_it() -> None:
    for name in ("proactive", "scratch"):
        assert make_method(name).plays_for == Objective.NASH
        with pytest.raises(ValidationError):
            make_method(name, objective=Objective.WELFARE)
    assert make_method("worth").plays_for == make_method("ifrqe").plays_for == Objective.WELFARE
    assert make_method("random").plays_for == ""


# Settings: a method carries its own, and its key is made of all of them.


def another(value: Any, annotation: Any) -> Any:
    """A value that differs from a setting's, and is accepted in its place."""
    match value:
        case bool():
            return not value
        case Enum():
            return next(each for each in type(value) if each is not value)
        case int():
            return value + 1
        case float():
            return value / 2 or 0.5
        case None | ():
            weights = dict.fromkeys(Kind, 1 / 3)
            others = {
                "InfluenceSettings": InfluenceSettings(),
                "Trial": (Trial(budget=0.5, qualities=weights, weights=weights),),
                "int": 2,
            }
            return next(each for name, each in others.items() if name in str(annotation))
    raise AssertionError(f"tell this test another value than {value!r} of {annotation}")


def one_changed(settings: BaseModel) -> Iterator[tuple[str, dict[str, Any]]]:
    """The settings as JSON, once for each field of theirs, or of those within them, with that one changed."""
    for name, field in type(settings).model_fields.items():
        value = getattr(settings, name)
        if isinstance(value, BaseModel):
            for inner, changed in one_changed(value):
                yield f"{name}.{inner}", settings.model_dump() | {name: changed}
        else:
            yield name, settings.model_dump() | {name: another(value, field.annotation)}


@pytest.mark.parametrize("name", METHODS)
def test_changing_any_setting_changes_the_key(name: str, lab: Lab) -> None:
    given: dict[str, Any] = {"influence": {}} if "influence" in METHODS[name].model_fields else {}
    method = make_method(name, **given)
    changed = {field: METHODS[name].model_validate(values) for field, values in one_changed(method)}
    assert set(METHODS[name].model_fields) == {field.partition(".")[0] for field in changed}
    if given:
        changed["influence"] = make_method(name)
    keys = {field: digest(each.key) for field, each in changed.items()}
    assert digest(method.key) not in keys.values()
    assert len(set(keys.values())) == len(keys)
    cells = {digest(Cell(each, 0.1).key(lab)) for each in (method, *changed.values())}
    assert len(cells) == 1 + len(changed)


def test_methods_have_keys_of_their_own() -> None:
    assert len({digest(make_method(name).key) for name in METHODS}) == len(METHODS)
    for method in EVERY:
        assert METHODS[method.name].model_validate(method.model_dump()).key == method.key


@pytest.mark.parametrize("name", METHODS)
def test_a_method_cannot_be_changed_and_takes_no_setting_but_its_own(name: str) -> None:
    method = make_method(name)
    for field in type(method).model_fields:
        with pytest.raises(ValidationError):
            setattr(method, field, getattr(method, field))
    with pytest.raises(ValidationError, match="magic"):
        make_method(name, magic=1)
    assert hash(method) == hash(make_method(name))


def test_settings_of_influence_are_added_to_those_that_suit_the_model() -> None:
    usual = influence_settings("lightgcn")
    assert usual != influence_settings("mf")
    method = make_method("ifrqe", "lightgcn", influence={"damping": 7.0})
    assert isinstance(method, IFRQE)
    assert method.influence == usual.model_copy(update={"damping": 7.0})
    plain = make_method("ifrqe")
    assert isinstance(plain, IFRQE)
    assert plain.influence is None
    assert plain.influence_for("lightgcn") == usual
    exact = InfluenceSettings(damping=3.0)
    whole = make_method("ifrqe", "lightgcn", influence=exact)
    assert isinstance(whole, IFRQE)
    assert whole.influence == exact


def test_bare_settings_belong_to_every_method_of_the_game_that_has_them() -> None:
    given = {"rounds": 7, "reward": "mean", "influence": {"damping": 2.0}, "ifrqe++": {"rounds": 9}}
    of = {name: method_settings(name, given) for name in METHODS}
    assert of["ifrqe"] == {"rounds": 7, "reward": "mean", "influence": {"damping": 2.0}}
    assert of["ifrqe++"] == {**of["ifrqe"], "rounds": 9}
    assert of["worth"] == {"reward": "mean", "influence": {"damping": 2.0}}
    assert of["proactive"] == of["scratch"] == {"reward": "mean"}
    assert of["random"] == of["all"] == {}


def test_nested_settings_are_merged() -> None:
    usual, given = {"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"c": 4}, "e": 5}
    assert merged(usual, given) == {"a": {"b": 1, "c": 4}, "d": 3, "e": 5}
    assert merged({"a": 1}, {"a": {"b": 2}}) == {"a": {"b": 2}}
    assert usual == {"a": {"b": 1, "c": 2}, "d": 3}


# A method of one's own: a class and an entry of the registry.


class Mine(Method):
    """Discloses the first rows."""

    name: ClassVar[str] = "mine"

    part: float = 0.5

    def at_price(self, lab: Lab, price: float) -> Choice:
        return Choice(np.arange(len(lab.problem.train)) < self.part * len(lab.problem.train), price)

    def within(self, lab: Lab, budget: float) -> Choice:
        costs = np.cumsum(lab.problem.unwillingness)
        return Choice(costs <= budget * costs[-1], None)


@pytest.fixture
def mine() -> Iterator[None]:
    METHODS["mine"] = Mine
    yield
    del METHODS["mine"]


def test_an_entry_of_the_registry_is_enough_for_python(mine: None, problem: Problem) -> None:
    method = make_method("mine", part=0.25)
    records = compare(problem, [(QUICK, [method, *parse_methods("mine")])], prices=[0.1], seeds=[0])
    assert [(each["method"], each["objective"]) for each in records] == [
        ("mine", ""), ("mine", ""), ("all", ""), ("nothing", "")
    ]  # fmt: skip
    assert records[0]["violation"] < records[1]["violation"] < records[2]["violation"]


def test_an_entry_of_the_registry_is_enough_for_the_command_line(
    mine: None, assent: Any, tmp_path: Path
) -> None:
    log = simulate(preference="learnable", users=40, items=40, seed=0)
    log.table.write_csv(tmp_path / "log.csv")
    short = ["--set", "training.epochs=2", "--negatives", 9, "--jobs", 1]
    out = tmp_path / "run"
    command = ["fit", tmp_path / "log.csv", "--method", "mine", "--set", "mine.part=0.25", "--out", out]
    code, text, _ = assent(*command, *short, "--price", 0.1)
    assert code == 0
    assert "mine" in text
    selection = pl.read_parquet(out / "selection.parquet")
    assert selection["disclosed"].mean() == pytest.approx(0.25, abs=0.01)
    assert "mine" in (out / "report.html").read_text()
    code, text, _ = assent("compare", tmp_path / "log.csv", "--methods", "mine", "--repeats", 1, *short)
    assert code == 0
    assert "mine" in text
    code, text, _ = assent("frontier", tmp_path / "log.csv", "--methods", "mine", "--seeds", 1, *short)
    assert code == 0
    assert "mine.part" in assent("settings")[1]
    code, _, err = assent("fit", tmp_path / "log.csv", "--method", "magic", "--out", tmp_path / "other")
    assert code == 2
    assert "mine" in err


# The paper's tables, behind the same interface.

TABLE = {"strategy": Strategy.TABLE, "table": TableSettings(rounds=1, samples=30, step=0.05)}


def with_table(method: Method, **more: Any) -> IFRQE:
    found = method.model_copy(update={**TABLE, **more})
    assert isinstance(found, IFRQE)
    return found


@over(ANCHORED)
def test_tables_stand_behind_the_same_interface(method: Method, problem: Problem, lab: Lab) -> None:
    table = with_table(method)
    choice, factored = table.at_price(lab, 0.3), method.at_price(lab, 0.3)
    assert choice.certificate.keys() == factored.certificate.keys()
    assert same(choice, table.at_price(afresh(lab), 0.3))
    assert choice.drawn == (method.name == "ifrqe++")
    if method.name == "ifrqe":
        np.testing.assert_array_equal(choice.selection, factored.selection)
    else:
        assert not np.array_equal(choice.selection, factored.selection)
        assert choice.certificate["rounds"] == 1
    assert choice.cost.trainings == factored.cost.trainings
    selection = table.within(lab, 0.4).selection
    assert is_within(0.4, problem.train.users, problem.unwillingness, selection)


@over(ANCHORED)
def test_tables_keep_within_a_budget_by_category_too(method: Method, problem: Problem) -> None:
    """Thirty samples leave them near their prior at any price: no price leads into the budget."""
    groups = 3 * problem.train.users + problem.train.items % 3
    lab = lab_of(replace(problem, wishes=Wishes(groups=groups)))
    choice = with_table(method).within(lab, 0.1)
    selection = choice.selection
    assert choice.price is not None
    assert 0 < choice.price < 10
    assert share(problem, selection) > 0.05
    assert is_within(0.1, problem.train.users, problem.unwillingness, selection)
    np.testing.assert_array_equal(np.unique(groups[selection]), np.setdiff1d(groups, groups[~selection]))


def test_histories_too_long_for_a_table_are_refused_before_anything_is_trained() -> None:
    log = simulate(preference="learnable", users=1, items=200, seed=0)
    items = pl.DataFrame({"user": "u", "item": [f"i{n:03}" for n in range(80)], "time": np.arange(80.0)})
    long = replace(log, table=items).with_unwillingness(pl.Series(np.full(80, 0.5)))
    others = simulate(preference="learnable", users=30, items=300, seed=0)
    table = pl.concat([long.table, others.table.select(long.table.columns)])
    lab = lab_of(make_problem(replace(others, table=table), "paper-tables", negatives=5))
    with pytest.raises(AssentError, match=r"78 interactions.*at most 62.*strategy"):
        with_table(quick("ifrqe++")).at_price(lab, 0.3)
    for method in (quick("ifrqe"), quick("ifrqe++", anchors=1)):
        with pytest.raises(AssentError, match=r"78 interactions.*at most 24.*strategy"):
            with_table(method).at_price(lab, 0.3)
    assert trained_in(lab.store) == 0


def test_tables_count_what_others_do_where_that_is_known(lab: Lab) -> None:
    method = with_table(quick("ifrqe++", objective=Objective.NASH))
    choice = method.at_price(lab, 0.3)
    anchors = random_anchors(lab, 2, rate=0.9)
    settings = method.influence_for("mf")
    effects = lab.run([InfluenceAt(anchor, settings, method.reward, effects=True) for anchor in anchors])
    known = replace(at_anchors(lab, method), effects=tuple(map(effects_in, effects)))
    keys = mix(lab.seed, Purpose.TABLES, lab.problem.user_keys)
    found = solve_table(known, objective=Objective.NASH, price=0.3, settings=method.table, keys=keys)
    np.testing.assert_array_equal(choice.selection, found.selection)
    without = solve_table(
        at_anchors(lab, method), objective=Objective.NASH, price=0.3, settings=method.table, keys=keys
    )
    assert not np.array_equal(without.selection, found.selection)


def test_everything_is_disclosed_where_nobody_minds(problem: Problem) -> None:
    free = lab_of(replace(problem, unwillingness=np.zeros(len(problem.train))))
    for name in ("random", "threshold", "occurrence"):
        assert make_method(name).within(free, 0.1).selection.all()
    assert quick("worth").at_price(free, 9.0).selection.all()


@pytest.mark.parametrize("strategy", ["factored", "table"])
def test_nulls_play_with_influence_that_says_nothing(strategy: str, lab: Lab) -> None:
    measured, zero, permuted = (
        quick("ifrqe++", objective="nash", strategy=strategy, signal=signal, table={"samples": 20})
        for signal in ("measured", "zero", "permuted")
    )
    found = [method.at_price(lab, 0.1) for method in (measured, zero, permuted)]
    assert not np.array_equal(found[0].selection, found[2].selection)
    if strategy == "factored":  # next to nothing pays: anchors have losses of their own
        assert found[1].selection.sum() < min(found[0].selection.sum(), found[2].selection.sum())
    known, nothing, other = (
        cast(IFRQE, each).estimates(lab, effects=True) for each in (measured, zero, permuted)
    )
    assert not nothing.own.any()
    np.testing.assert_array_equal(np.sort(known.own), np.sort(other.own))
    assert not np.array_equal(known.own, other.own)
    assert measured.key != zero.key


def test_uncentred_influence_changes_what_anchors_predict_and_no_value(lab: Lab) -> None:
    centred, printed = (
        cast(IFRQE, quick("ifrqe++", influence={"centred": each})).estimates(lab) for each in (True, False)
    )
    np.testing.assert_array_equal(centred.own, printed.own)
    for t, anchor in enumerate(centred.anchors):
        expected = centred.losses[t] - centred.felt(t, anchor.astype(np.float64))
        np.testing.assert_allclose(printed.losses[t], expected)
    assert not np.allclose(centred.losses, printed.losses)
