from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from assent.game.retraining import ProactiveSettings, ScratchSettings
from assent.settings import Settings
from assent.valuers import AtPlace
from assent.workbench import Workbench
from assent.worth.settings import Source, ValueSettings

from assent.data.problem import Problem, Rows
from assent.data.simulate import simulate
from assent.data.split import make_problem
from assent.data.wishes import Wishes
from assent.evaluation.metrics import RewardForm
from assent.game.estimates import Estimates, Objective
from assent.game.paper.algorithms import solve_table
from assent.game.paper.tables import Strategy, TableSettings
from assent.game.prices import break_even_prices, price_path
from assent.influence.inverse import InfluenceSettings
from assent.methods import METHODS, Choice, Method, make_method
from assent.models import MFSettings
from assent.models.losses import Loss
from assent.support.arrays import Bools, Floats, Ints
from assent.support.errors import AssentError
from assent.training import TrainingSettings

SETTINGS = Settings(
    model_settings=MFSettings(dimension=8),
    training=TrainingSettings(epochs=5),
    anchors=2,
    value=ValueSettings(source=Source.INFLUENCE),
    rounds=10,
    proactive=ProactiveSettings(rounds=4, window=2),
    scratch=ScratchSettings(selections=4, rounds=2),
)
EVERY = [
    make_method(name, objective)
    for name, kind in METHODS.items()
    for objective in kind.objectives or (Objective.WELFARE,)
]
ANCHORED = [method for method in EVERY if method.name in ("ifrqe", "ifrqe++")]
VALUING = [*ANCHORED, make_method("scratch")]
BUDGETS = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0)


def title(method: Method) -> str:
    return f"{method.name}-{method.objective}" if method.objectives else method.name


def over(methods: list[Method]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("method", methods, ids=title)


@pytest.fixture(scope="module")
def problem() -> Problem:
    log = simulate(preference="learnable", users=60, items=80, seed=3)
    return make_problem(log, "paper-tables", negatives=19)


@pytest.fixture(scope="module")
def bench(problem: Problem) -> Workbench:
    return Workbench(problem, SETTINGS, seed=0)


def share(problem: Problem, selection: Bools) -> float:
    """Of All's violation."""
    return problem.violation(selection) / problem.violation()


def same(one: Choice, other: Choice) -> bool:
    return one.price == other.price and np.array_equal(one.selection, other.selection)


@over(EVERY)
@pytest.mark.parametrize("price", [0.0, 0.3])
def test_a_choice_is_a_selection_of_the_training_rows(method: Method, price: float, bench: Workbench) -> None:
    for choice in (method.at_price(bench, price), method.within(bench, 0.4)):
        assert choice.selection.shape == (len(bench.problem.train),)
        assert choice.selection.dtype == np.bool_
        assert (choice.values is not None) == (method.name in {each.name for each in VALUING})
        if choice.values is not None:
            assert choice.values.shape == choice.selection.shape
            assert np.isfinite(choice.values).all()
    assert method.at_price(bench, price).price == price
    assert (method.within(bench, 0.4).price is None) == (not method.objectives)


@over([method for method in EVERY if method.name != "all"])
def test_a_budget_is_kept_and_used_as_far_as_single_interactions_allow(
    method: Method, bench: Workbench
) -> None:
    largest = bench.problem.unwillingness.max() / bench.problem.unwillingness.sum()
    shares = [share(bench.problem, method.within(bench, budget).selection) for budget in BUDGETS]
    assert shares == sorted(shares)
    for budget, used in zip(BUDGETS, shares, strict=True):
        assert used <= budget * (1 + 1e-9)
        if method.name != "nothing":
            assert used > budget - largest - 1e-9


@over(EVERY)
def test_a_seed_decides_everything(method: Method, problem: Problem, bench: Workbench) -> None:
    fresh = Workbench(problem, SETTINGS, seed=0)
    assert same(method.within(fresh, 0.3), method.within(bench, 0.3))
    assert same(method.at_price(fresh, 0.3), method.at_price(bench, 0.3))


@over(EVERY)
def test_a_question_does_not_change_later_answers(method: Method, bench: Workbench) -> None:
    first = method.within(bench, 0.3)
    for other in EVERY if not method.retrains else [method]:
        other.at_price(bench, 0.7)
        other.within(bench, 0.6)
    assert same(method.within(bench, 0.3), first)


@over(ANCHORED)
def test_valuing_trains_each_anchor_once(method: Method, problem: Problem) -> None:
    bench = Workbench(problem, SETTINGS, seed=0)
    for budget in (0.2, 0.8):
        method.within(bench, budget)
        method.at_price(bench, budget)
    assert bench.trainings == (2 if method.name == "ifrqe++" else 1)


@over([method for method in EVERY if not method.objectives])
def test_methods_without_an_objective_train_nothing(method: Method, problem: Problem) -> None:
    bench = Workbench(problem, SETTINGS, seed=0)
    method.at_price(bench, 0.3)
    method.within(bench, 0.3)
    assert bench.trainings == 0


def test_all_and_nothing_are_what_they_say(bench: Workbench) -> None:
    for budget in BUDGETS:
        assert make_method("all").within(bench, budget).selection.all()
        assert not make_method("nothing").within(bench, budget).selection.any()
        assert make_method("all").at_price(bench, budget).selection.all()
        assert not make_method("nothing").at_price(bench, budget).selection.any()


def in_order(order: Ints, unwillingness: Floats, budget: float) -> Bools:
    """Disclose in this order, one by one, until the next would exceed the share `budget`."""
    chosen = np.zeros(len(unwillingness), dtype=np.bool_)
    left = budget * unwillingness.sum()
    for k in order:
        left -= unwillingness[k]
        if left < -1e-9:
            break
        chosen[k] = True
    return chosen


def test_threshold_takes_what_is_minded_least(bench: Workbench) -> None:
    unwillingness = bench.problem.unwillingness
    method = make_method("threshold")
    np.testing.assert_array_equal(method.at_price(bench, 9.0).selection, unwillingness <= 0.5)
    for budget in BUDGETS:
        chosen = method.within(bench, budget).selection
        np.testing.assert_array_equal(chosen, in_order(np.argsort(unwillingness), unwillingness, budget))


def test_threshold_includes_its_limit(problem: Problem) -> None:
    unwillingness = np.resize([0.5, np.nextafter(0.5, 1), 0.0, 0.9], len(problem.train))
    bench = Workbench(replace(problem, unwillingness=unwillingness), SETTINGS, seed=0)
    selection = make_method("threshold").at_price(bench, 1.0).selection
    np.testing.assert_array_equal(selection[:4], [True, False, True, False])


def test_occurrence_takes_what_many_have_and_few_mind(bench: Workbench) -> None:
    items, unwillingness = bench.problem.train.items.tolist(), bench.problem.unwillingness
    scores = np.array([(items.count(i) - 1) / b for i, b in zip(items, unwillingness, strict=True)])
    method = make_method("occurrence")
    for budget in BUDGETS:
        order = np.lexsort((unwillingness, -scores))
        chosen = method.within(bench, budget).selection
        np.testing.assert_array_equal(chosen, in_order(order, unwillingness, budget))
    alone = np.array([items.count(i) == 1 for i in items])
    assert alone.any()
    np.testing.assert_array_equal(method.at_price(bench, 1.0).selection, ~alone)


def test_occurrence_takes_first_what_nobody_minds(problem: Problem) -> None:
    unwillingness = problem.unwillingness.copy()
    free = np.bincount(problem.train.items)[problem.train.items] == 1
    unwillingness[free] = 0
    bench = Workbench(replace(problem, unwillingness=unwillingness), SETTINGS, seed=0)
    np.testing.assert_array_equal(make_method("occurrence").within(bench, 0).selection, free)


def test_occurrence_takes_what_is_minded_least_where_scores_are_equal(problem: Problem) -> None:
    unique = Rows(problem.train.users, np.arange(len(problem.train)))
    bench = Workbench(replace(problem, train=unique), SETTINGS, seed=0)
    for budget in BUDGETS:
        chosen = make_method("occurrence").within(bench, budget).selection
        np.testing.assert_array_equal(chosen, make_method("threshold").within(bench, budget).selection)


def test_random_draws_lots_that_know_neither_value_nor_unwillingness(problem: Problem) -> None:
    method = make_method("random")
    bench = Workbench(problem, SETTINGS, seed=0)
    reversed_ = replace(problem, unwillingness=problem.unwillingness[::-1].copy())
    swapped = Workbench(reversed_, SETTINGS, seed=0)
    chosen = method.at_price(bench, 0.5).selection
    np.testing.assert_array_equal(method.at_price(swapped, 5.0).selection, chosen)
    assert chosen.mean() == pytest.approx(0.9, abs=0.05)
    some, others = method.within(bench, 0.5).selection, method.within(swapped, 0.5).selection
    assert (some <= others).all() or (others <= some).all()
    assert problem.unwillingness[some].mean() == pytest.approx(problem.unwillingness.mean(), abs=0.05)
    another = method.within(Workbench(problem, SETTINGS, seed=1), 0.5).selection
    assert 0.3 < (another == some).mean() < 0.7


@over(VALUING)
@pytest.mark.parametrize("price", [0.0, 0.05, 0.5])
def test_at_a_price_what_is_worth_more_is_disclosed(method: Method, price: float, bench: Workbench) -> None:
    choice = method.at_price(bench, price)
    assert choice.values is not None
    np.testing.assert_array_equal(choice.selection, choice.values > price * bench.problem.unwillingness)
    assert 0 < choice.selection.mean() < 1


@over(VALUING)
@pytest.mark.parametrize("budget", [0.1, 0.5, 1.0])
def test_within_a_budget_the_break_even_prices_decide(
    method: Method, budget: float, bench: Workbench
) -> None:
    unwillingness = bench.problem.unwillingness
    choice = method.within(bench, budget)
    assert choice.values is not None
    assert choice.price is not None
    worth = break_even_prices(choice.values, unwillingness)
    assert worth[choice.selection].min() >= choice.price - 1e-12
    assert worth[~choice.selection].max(initial=0) <= choice.price + 1e-12
    if budget == 1:
        assert choice.price == 0


def test_ifrqe_has_the_closed_form_of_the_first_anchor(bench: Workbench) -> None:
    known = bench.estimates(1)
    unwillingness = bench.problem.unwillingness
    for objective, values in [(Objective.NASH, known.own[0]), (Objective.WELFARE, known.social[0])]:
        method = make_method("ifrqe", objective)
        np.testing.assert_array_equal(method.at_price(bench, 0.2).values, values)
        np.testing.assert_array_equal(method.at_price(bench, 0.2).selection, values > 0.2 * unwillingness)
        for budget in (0.1, 0.5, 0.9):
            path = price_path(values, unwillingness)
            choice = method.within(bench, budget)
            allowed = budget * unwillingness.sum()
            np.testing.assert_array_equal(choice.selection, path.within(allowed))
            assert choice.price == path.price_within(allowed)


@pytest.mark.parametrize("objective", list(Objective))
def test_ifrqe_pp_with_one_anchor_is_ifrqe(objective: Objective, problem: Problem) -> None:
    bench = Workbench(problem, SETTINGS.model_copy(update={"anchors": 1}), seed=0)
    one, several = make_method("ifrqe", objective), make_method("ifrqe++", objective)
    assert same(one.at_price(bench, 0.2), several.at_price(bench, 0.2))
    assert same(one.within(bench, 0.4), several.within(bench, 0.4))
    assert bench.trainings == 1


@pytest.mark.parametrize("objective", list(Objective))
def test_ifrqe_pp_with_more_anchors_is_not(objective: Objective, bench: Workbench) -> None:
    one, several = make_method("ifrqe", objective), make_method("ifrqe++", objective)
    assert not np.array_equal(one.at_price(bench, 0.2).selection, several.at_price(bench, 0.2).selection)


def altered(bench: Workbench, change: Callable[[Estimates], Estimates]) -> Workbench:
    """A workbench that knows something else than it learnt."""

    class Altered(Workbench):
        def estimates(
            self, anchors: int, objective: Objective = Objective.WELFARE, *, effects: bool = False
        ) -> Estimates:
            return change(bench.estimates(anchors, objective, effects=effects))

        def trust(
            self, anchors: int, objective: Objective = Objective.WELFARE, placed: Sequence[AtPlace] = ()
        ) -> dict[str, object]:
            return bench.trust(anchors, objective, placed)

    return Altered(bench.problem, bench.settings, bench.seed)


@pytest.mark.parametrize("name", ["ifrqe", "ifrqe++"])
def test_nash_counts_own_and_welfare_social_influence(name: str, bench: Workbench) -> None:
    nash, welfare = make_method(name, Objective.NASH), make_method(name, Objective.WELFARE)
    without_social = altered(bench, lambda known: replace(known, social=np.zeros_like(known.social)))
    without_own = altered(bench, lambda known: replace(known, own=np.zeros_like(known.own), effects=()))
    assert same(nash.at_price(without_social, 0.1), nash.at_price(bench, 0.1))
    assert same(welfare.at_price(without_own, 0.1), welfare.at_price(bench, 0.1))
    assert not same(nash.at_price(bench, 0.1), welfare.at_price(bench, 0.1))


@pytest.mark.parametrize("name", ["ifrqe", "ifrqe++"])
@pytest.mark.parametrize("beta", [0.1, 0.3, 0.7])
def test_a_budget_that_what_has_value_uses_up_exactly(name: str, beta: float, bench: Workbench) -> None:
    # Sums of equal floats miss such a budget by an ulp, either way.
    tiny = replace(bench.problem, train=bench.problem.train[:10], unwillingness=np.full(10, beta))
    for valuable in range(1, 10):
        values = np.where(np.arange(10) < valuable, 1.0, -1.0)
        plays = iter(range(200))

        def known(learnt: Estimates, values: Floats = values, plays: Iterator[int] = plays) -> Estimates:
            assert next(plays, None) is not None, "the search for the price does not end"
            rows = np.repeat(values[None], learnt.n_anchors, axis=0)
            return Estimates(
                owners=tiny.train.users,
                n_users=tiny.n_users,
                unwillingness=tiny.unwillingness,
                anchors=rows > 0,
                own=rows,
                social=rows,
                losses=np.zeros_like(learnt.losses),
            )

        pocket = altered(bench, known)
        pocket.problem = tiny
        choice = make_method(name).within(pocket, valuable / 10)
        np.testing.assert_array_equal(choice.selection, values > 0)


def test_an_unknown_method_is_refused_with_the_accepted_ones() -> None:
    with pytest.raises(
        AssentError,
        match=r"^--method magic: unknown; accepted: all, nothing, .*ifrqe\+\+, proactive, scratch$",
    ):
        make_method("magic")


def test_the_registry_knows_methods_by_their_names() -> None:
    assert all(name == kind.name == make_method(name).name for name, kind in METHODS.items())
    assert {method.objective for method in VALUING} == set(Objective)


TABLES = SETTINGS.model_copy(
    update={"strategy": Strategy.TABLE, "table": TableSettings(rounds=1, samples=30, step=0.05)}
)


@over(ANCHORED)
def test_tables_stand_behind_the_same_interface(method: Method, problem: Problem, bench: Workbench) -> None:
    tables = Workbench(problem, TABLES, seed=0)
    choice, factored = method.at_price(tables, 0.3), method.at_price(bench, 0.3)
    assert choice.certificate.keys() == factored.certificate.keys()
    assert same(choice, method.at_price(Workbench(problem, TABLES, seed=0), 0.3))
    assert choice.drawn == (method.name == "ifrqe++")
    if method.name == "ifrqe":
        np.testing.assert_array_equal(choice.selection, factored.selection)
    else:
        assert not np.array_equal(choice.selection, factored.selection)
        assert choice.certificate["rounds"] == 1
    within = method.within(tables, 0.4)
    assert share(problem, within.selection) <= 0.4 + 1e-9


@over(ANCHORED)
def test_tables_keep_within_a_budget_by_category_too(method: Method, problem: Problem) -> None:
    """Thirty samples leave them near their prior at any price: no price leads into the budget."""
    groups = 3 * problem.train.users + problem.train.items % 3
    bench = Workbench(replace(problem, wishes=Wishes(groups=groups)), TABLES, seed=0)
    choice = method.within(bench, 0.1)
    selection = choice.selection
    assert choice.price is not None
    assert 0 < choice.price < 10
    assert 0.05 < share(problem, selection) <= 0.1 + 1e-9
    np.testing.assert_array_equal(np.unique(groups[selection]), np.setdiff1d(groups, groups[~selection]))


def test_histories_too_long_for_a_table_are_refused_before_anything_is_trained() -> None:
    log = simulate(preference="learnable", users=1, items=200, seed=0)
    items = pl.DataFrame({"user": "u", "item": [f"i{n:03}" for n in range(80)], "time": np.arange(80.0)})
    long = replace(log, table=items).with_unwillingness(pl.Series(np.full(80, 0.5)))
    others = simulate(preference="learnable", users=30, items=300, seed=0)
    table = pl.concat([long.table, others.table.select(long.table.columns)])
    bench = Workbench(make_problem(replace(others, table=table), "paper-tables", negatives=5), TABLES, seed=0)
    with pytest.raises(AssentError, match=r"78 interactions.*at most 62.*strategy=factored"):
        make_method("ifrqe++").at_price(bench, 0.3)
    with pytest.raises(AssentError, match=r"78 interactions.*at most 24.*strategy=factored"):
        make_method("ifrqe").at_price(bench, 0.3)
    assert bench.trainings == 0
    bench.settings = TABLES.model_copy(update={"value": ValueSettings()})
    with pytest.raises(AssentError, match=r"78 interactions.*at most 24.*strategy=factored"):
        make_method("ifrqe++").at_price(bench, 0.3)
    assert bench.trainings == 0


def test_tables_count_what_others_do_where_that_is_known(problem: Problem) -> None:
    bench = Workbench(problem, TABLES, seed=0)
    make_method("ifrqe++", Objective.NASH).at_price(bench, 0.3)
    known = bench.estimates(2, effects=True)
    found = solve_table(known, objective=Objective.NASH, price=0.3, settings=TABLES.table, seed=0)
    choice = make_method("ifrqe++", Objective.NASH).at_price(bench, 0.3)
    np.testing.assert_array_equal(choice.selection, found.selection)


@over(EVERY)
@pytest.mark.parametrize("source", [Source.INFLUENCE, Source.COMBINED])
def test_what_a_method_ignores_are_settings_that_do_not_change_its_choice(
    source: Source, method: Method, problem: Problem
) -> None:
    assert method.ignores <= set(Settings.model_fields)
    assert not method.ignores & {"model", "model_settings", "training"}
    others = {
        "influence": InfluenceSettings(loss=Loss.BCE, damping=2.0),
        "anchors": 6,
        "anchor_rate": 0.5,
        "adaptive": 1,
        "value": ValueSettings(folds=2),
        "rounds": 1,
        "reward": RewardForm.MEAN,
        "strategy": Strategy.TABLE,
        "table": TableSettings(rounds=1, samples=30),
        "proactive": ProactiveSettings(rounds=2, window=1, start=0.5),
        "scratch": ScratchSettings(selections=3, rounds=1, start=0.5),
    }
    usual = SETTINGS.model_copy(update={"value": ValueSettings(source=source)})
    changed = usual.model_copy(update={name: others[name] for name in method.ignores})
    choices = [method.at_price(Workbench(problem, each, seed=0), 0.1) for each in (usual, changed)]
    assert same(*choices)


def test_a_method_that_knows_one_objective_plays_for_it() -> None:
    assert make_method("proactive", Objective.WELFARE).objective is Objective.NASH
    assert make_method("scratch").objective is Objective.NASH
    assert make_method("ifrqe").objective is Objective.WELFARE
