"""The certificate in sentences."""

from typing import Any

import pytest

from assent.report.facts import certificate_facts
from assent.results.words import THIN

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
