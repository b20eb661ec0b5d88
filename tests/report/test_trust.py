"""How far to trust a run, in plain words and in figures."""

from typing import Any

import pytest

from assent.report.facts import certificate_facts, in_figures, trust_facts
from assent.results.words import THIN

from .cases import quality_of, report_data, run_records

RELIABLE = {"explained": 0.34, "measurement": 0.21, "agreement": 0.437, "count": 1.0, "error": 0.25}
NOISE = {"explained": 0.0, "measurement": 0.0, "agreement": 0.01, "count": 0.0, "error": 0.0}


def only(certificate: dict[str, Any]) -> str:
    (fact,) = certificate_facts(certificate)
    return fact.replace(THIN, " ")


def test_how_reliable_values_are() -> None:
    fact = only({"value_own": RELIABLE})
    assert fact.startswith("What an interaction is worth to its owner was measured twice")
    for part in ("correlation of 0.44", "explains 34 %", "counts 21 %", "off by 0.250 loss units"):
        assert part in fact
    assert "to everybody" in only({"value_social": RELIABLE})


@pytest.mark.parametrize("known", [{"explained": 0.1}, {"measurement": 0.1}])
def test_no_signal_is_said(known: dict[str, float]) -> None:
    assert "Measuring could not tell" in only({"value_social": NOISE})
    assert "all count the same" in only({"value_social": NOISE})
    assert "noise" not in only({"value_social": NOISE | known})


def test_what_was_tried_is_said_best_first() -> None:
    tried = {
        "budget": 0.2,
        "unwillingness": {"ndcg": 0.0351, "weight": 0.001},
        "measured": {"ndcg": 0.0575, "weight": 0.189},
        "structure": {"ndcg": 0.0627, "weight": 0.81},
    }
    fact = only({"value_trials": [tried]})
    assert fact.startswith("Within 20 % of the violation")
    ranks = "the paths between people 6.3 %, what was measured 5.8 % and unwillingness alone 3.5 %"
    counts = "the paths between people 81 %, what was measured 19 % and unwillingness alone <1 %"
    assert f": {ranks}. So there these count: {counts}." in fact
    assert len(certificate_facts({"value_trials": [tried, tried]})) == 2


def test_a_source_of_weight_0_is_named() -> None:
    tried = {
        "budget": 0.5,
        "unwillingness": {"ndcg": 0.30, "weight": 1.0},
        "measured": {"ndcg": 0.30, "weight": 0.0},
        "structure": {"ndcg": 0.31, "weight": 0.0},
    }
    alone = only({"value_trials": [tried]})
    assert alone.endswith("None is significantly better than unwillingness alone, which decides there.")
    tried |= {"unwillingness": {"ndcg": 0.30, "weight": 0.4}, "measured": {"ndcg": 0.305, "weight": 0.6}}
    fact = only({"value_trials": [tried]})
    assert "what was measured 60 %" in fact
    assert fact.endswith(
        "The paths between people, not significantly better than unwillingness alone, have weight 0."
    )
    tried |= {"structure": {"ndcg": 0.29, "weight": 0.0}}
    assert "have weight 0" not in only({"value_trials": [tried]})


def test_gains_are_exact_by_construction_bounds_or_estimates() -> None:
    gains = {"largest_gain": 0.0, "mean_gain": 0.0, "rounds_nearest": [1]}
    assert "by construction" in only(gains)
    several = {**gains, "rounds_nearest": [1, 2], "nearest_anchor": 2}
    bound = certificate_facts(several)[0]
    assert bound.startswith("Nobody could gain more than 0 loss units")
    assert "estimate" not in bound
    assert certificate_facts(several | {"gains_estimated": 3})[0].endswith("Of 3 users this is an estimate.")


def test_people_who_decide_for_all_could_gain_for_themselves() -> None:
    gains = {"largest_gain": 0.0, "mean_gain": 0.0, "rounds_nearest": [1], "objective": "welfare"}
    own = {"largest_own_gain": 2.5, "mean_own_gain": 0.5, "own_gainers": 114}
    fact = only(gains | own)
    assert "nobody could add to the sum of all rewards by deciding otherwise alone" in fact
    assert fact.endswith(
        "For themselves alone 114 users could gain, at most 2.50 loss units, 0.500 on average of all users: "
        "so much is given for others."
    )
    none = dict.fromkeys(own, 0)
    assert only(gains | none).endswith("Nor could anybody gain for themselves.")
    assert "themselves" not in only(gains | own | {"objective": "nash"})


def test_more_to_gain_than_is_aimed_at_is_said() -> None:
    gains = {"largest_gain": 1.0, "mean_gain": 0.1, "largest_gain_share": 0.02}
    assert "(2.00 % of the mean reward, more than the 1 % that is aimed at)" in only(gains)
    assert "aimed at" not in only(gains | {"largest_gain_share": 0.009})


def test_the_price_that_was_decided_at_is_named() -> None:
    certificate = {"price": 2.73, "anarchy_cost": 0.1, "true_reward": -54.7}
    anarchy, reward = certificate_facts(certificate)
    assert anarchy.startswith("If people decided for themselves at a price of 2.73, all together")
    assert reward.startswith("The true reward at a price of 2.73 after training is ")


def test_anchors_at_the_solution_are_named() -> None:
    certificate = {"nearest_anchor": 4, "rounds_nearest": [1, 0, 0, 2]}
    assert only(certificate).startswith("Anchor 4 is the nearest to what was decided. Of 3 joint selections")
    placed = only(certificate | {"anchors_at_solution": 1})
    assert "(1 anchor of 4 placed where the solution lay)" in placed


def trusted(certificate: dict[str, Any], objective: str = "welfare", **settings: Any) -> list[str]:
    """What is said to people who do not know the methods, beyond how quality was measured."""
    data = report_data(
        certificate=certificate, objective=objective, settings=settings, quality=quality_of(run_records())
    )
    measured, *facts = trust_facts(data)
    assert measured.startswith(
        "The quality was measured on 50 people, 3 times, each with other random numbers"
    )
    return [fact.replace(THIN, " ") for fact in facts]


def test_how_far_single_values_can_be_trusted_is_said_plainly() -> None:
    for agreement, words in ((0.05, "hardly agree"), (0.437, "agree in part"), (0.9, "agree well")):
        (fact,) = trusted({"value_social": RELIABLE | {"agreement": agreement}})
        assert f"The two {words}." in fact
        assert "a single interaction is a rough guess" in fact
    (noise,) = trusted({"value_social": NOISE, "value_own": RELIABLE})
    assert "one could not be told from another" in noise
    (own,) = trusted({"value_social": NOISE, "value_own": RELIABLE}, "nash")
    assert "rough guess" in own


def test_what_was_tried_out_is_said_plainly() -> None:
    kinds = ("unwillingness", "measured", "structure")
    trials = [
        {"budget": budget}
        | {kind: {"ndcg": 0.3, "weight": w} for kind, w in zip(kinds, weights, strict=True)}
        for budget, weights in ((0.5, (0.1, 0.2, 0.7)), (0.2, (1.0, 0.0, 0.0)))
    ]
    (fact,) = trusted({"value_trials": trials})
    assert fact.startswith("Three ways of choosing were tried out: by what people mind least, by what was")
    assert fact.endswith(
        "within half of what people mind, the choice by what connects people most counts most; within 20 "
        "% of what people mind, the choice by what people mind least counts alone."
    )
    alike = {kind: {"ndcg": 0.3, "weight": w} for kind, w in zip(kinds, (0.501, 0.499, 0.0), strict=True)}
    (tie,) = trusted({"value_trials": [trials[0] | alike]})
    assert tie.endswith(
        "the choices by what people mind least and by what was measured to help most count alike."
    )
    (both,) = trusted({"value_trials": [trials[0], trials[0] | {"budget": 0.2}]})
    assert both.endswith(
        "within half and 20 % of what people mind, the choice by what connects people most counts most."
    )


def test_that_nobody_gains_is_said_plainly_and_so_is_who_gives() -> None:
    gains = {"largest_gain": 0.0, "mean_gain": 0.0, "largest_gain_share": 0.0}
    assert trusted(gains) == [
        "By these estimates nobody could make things better for all together by deciding otherwise."
    ]
    assert trusted(gains, "nash") == [
        "By these estimates nobody could make things better for themselves by deciding otherwise."
    ]
    (still,) = trusted(gains | {"largest_gain_share": 0.05})
    assert "somebody could still make things better for all together" in still
    _, given = trusted(gains | {"own_gainers": 1234})
    assert given.startswith("Other decisions would be better for 1,234 people themselves")


def test_what_deciding_alone_would_cost_and_how_good_the_forecast_was() -> None:
    anarchy, forecast = trusted({"price_of_anarchy": 1.25, "prediction_error": 0.031})
    assert anarchy == "If everybody decided for themselves alone, people together would be 25.0 % worse off."
    assert forecast.endswith("The forecast was 3.1 % off.")
    assert trusted({"price_of_anarchy": 1.0}) == []


def test_limits_of_single_people_are_kept_or_not() -> None:
    broken = {"floors_missed": 2, "budgets_exceeded": 1}
    said = in_figures(report_data(certificate=broken))
    assert "More is used of 1 person than they allow." in said
    assert "Less is used of 2 people than they ask for." in said
    whole, asked = dict.fromkeys(broken, 0), {"users_with_budget": 3, "users_with_floor": None}
    assert not any("than they" in sentence for sentence in in_figures(report_data(certificate=whole)))
    assert trusted(whole, wishes=asked) == ["The limits that people set for themselves are all kept."]
    assert trusted(broken, wishes=asked) == trusted(whole, wishes=dict.fromkeys(asked)) == []
