from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.report.data import Kept, kept, spread
from assent.report.facts import frontier_facts, headline, in_figures
from assent.results.words import MINUS, THIN, decimals_for, fixed, listed, minded, number, percent, share
from assent.support.statistics import mean_and_error

from .cases import SEEDS, frontier_records, record, report_data, run_records


def spaced(text: str) -> str:
    return text.replace(THIN, " ")


@pytest.mark.parametrize(
    ("ndcg", "said"),
    [
        (0.44, "raises the recommendation quality by 10 %"),
        (0.4005, "keeps the recommendation quality: 100.1 % of it"),
        (0.388, "keeps 97 % of the recommendation quality"),
        (0.30, "loses 25 % of the recommendation quality"),
        (0.10, "loses most of the recommendation quality: only 25 % is left"),
    ],
)
def test_the_headline_is_as_plain_in_bad_times_as_in_good(ndcg: float, said: str) -> None:
    records = [r | {"ndcg": {"all": 0.4, "nothing": 0.05}.get(r["method"], ndcg)} for r in run_records()]
    found = spaced(headline(report_data(records=records)))
    assert found == f"Using 50 % of what people would rather not share {said}"


def test_a_rise_within_the_standard_error_is_not_called_one() -> None:
    own = [
        record("ifrqe++", "welfare", 0.5, 0.0, s) | {"ndcg": q}
        for s, q in zip(SEEDS, (0.36, 0.47, 0.40), strict=True)
    ]
    others = [r for r in run_records() if r["method"] in ("all", "nothing")]
    data = report_data(records=[*own, *others])
    assert "keeps the recommendation quality" in headline(data)
    assert "The difference from using everything is within one standard error." in in_figures(data)


def test_with_one_seed_the_spread_of_all_stands_for_chance() -> None:
    ends = [record("all", "", 1.0, 0.4, s, point=1.0) | {"ndcg": 0.4 + 0.02 * (s - 2)} for s in SEEDS]
    data = report_data(records=run_records(seeds=[2], ndcg=0.41), frontier=ends)
    assert spread(data) == pytest.approx(0.05)
    assert "keeps the recommendation quality" in headline(data)
    assert any("±5.0 % between seeds" in spaced(sentence) for sentence in in_figures(data))
    assert "raises the recommendation quality" in headline(replace(data, frontier=[]))


def test_runs_of_all_and_nothing_have_their_own_headlines() -> None:
    for method, said in (("all", "Everything is used"), ("nothing", "Using nothing loses most")):
        data = report_data(method=method, objective="", records=run_records((method, "")))
        assert headline(data).startswith(said)


def test_the_lede_has_the_figures_with_their_errors() -> None:
    data = report_data()
    mean, error = mean_and_error([r["ndcg"] for r in data.of(data.way)])
    assert error is not None
    assert f"NDCG@5 is {100 * mean:.1f} ± {100 * error:.1f} %," in spaced(in_figures(data)[0])


def test_shares_of_a_quality_that_nothing_nearly_has_are_not_left_to_flatter() -> None:
    said = in_figures(report_data(records=run_records(ndcg=0.35, nothing=0.30)))
    assert any("it keeps 50" in sentence for sentence in said)
    said = in_figures(report_data(records=run_records(nothing=0.39)))
    assert any("hardly better than with nothing" in sentence for sentence in said)
    said = in_figures(report_data(records=run_records(ndcg=0.04)))
    assert "That is no better than using nothing." in said


def test_frontier_facts_tell_ahead_from_level_and_behind() -> None:
    facts = [spaced(fact) for fact in frontier_facts(report_data())]
    assert facts == [
        "IFRQE++ (welfare) keeps at least 95 % of All’s quality down to 50 % of All’s violation.",
        "Against Threshold: ahead at 25 % (by 3.0 points of NDCG@5); level at 50 %; "
        "behind at 75 % (by 1.0 points of NDCG@5).",
        "Against Random: ahead at every point (most at 25 %, by 6.0 points of NDCG@5).",
        "Ahead, better or behind means: by more than one standard error of the difference, over 3 seeds, "
        "which are few.",
    ]


def test_frontier_facts_name_points_above_all() -> None:
    better = [r | {"ndcg": r["ndcg"] + 0.03 * (r["method"] != "all")} for r in frontier_records()]
    assert (
        spaced(frontier_facts(report_data(frontier=better))[1])
        == "It is better than using everything at 75 % and 50 %."
    )


def test_one_seed_is_not_evidence() -> None:
    facts = frontier_facts(report_data(frontier=frontier_records([1]), records=run_records(seeds=[1])))
    assert "one seed" in facts[-1]


def test_a_frontier_of_other_methods_is_not_taken_for_the_run() -> None:
    others = [r for r in frontier_records() if r["method"] != "ifrqe++"]
    assert frontier_facts(report_data(frontier=others)) == [
        "This frontier was measured for Threshold and Random only."
    ]


def test_points_or_seeds_that_do_not_meet_are_not_compared() -> None:
    moved = [r | ({"point": 0.9} if r["method"] == "random" else {}) for r in frontier_records()]
    assert any("cannot be compared" in fact for fact in frontier_facts(report_data(frontier=moved)))


def test_kept_is_exact_where_the_ratio_is() -> None:
    everything = [record("all", "", 1.0, 0.4, seed) for seed in SEEDS]
    half = [r | {"ndcg": r["ndcg"] / 2} for r in everything]
    found = kept(half, everything)
    assert found is not None
    assert found.ratio == pytest.approx(0.5)
    assert found.error == pytest.approx(0, abs=1e-12)
    assert kept(half[:1], everything) == Kept(
        half[0]["ndcg"] / (sum(r["ndcg"] for r in everything) / 3), None
    )
    apart = kept(half[:1], everything[1:])
    assert apart is not None
    assert apart.error is None


@given(st.floats(0, 1, allow_subnormal=False))
def test_only_none_and_all_read_as_such(fraction: float) -> None:
    text = spaced(share(fraction))
    assert (text == "0 %") == (fraction <= 1e-9)
    assert (text == "100 %") == (fraction >= 1 - 1e-9)


@given(st.floats(1e-9, 1e9), st.sampled_from([1, -1]))
def test_numbers_keep_their_value(size: float, sign: int) -> None:
    text = number(sign * size).replace(MINUS, "-").replace(",", "")
    head, _, power = text.partition("·10")
    read = float(head) * 10.0 ** int(power.translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")) or 0)
    assert read == pytest.approx(sign * size, rel=0.06 if power else 0.0051)


@pytest.mark.parametrize(
    ("unwillingness", "shown"),
    [
        (0, "0"),
        (0.5, "0.50"),
        (0.437, "0.44"),
        (0.00128, "0.0013"),
        (3e-6, "3.0·10⁻⁶"),
        (0.994, "0.99"),
        (0.9999, ">0.99"),
    ],
)
def test_unwillingness_reads_neither_as_nothing_nor_as_never(unwillingness: float, shown: str) -> None:
    assert minded(unwillingness) == shown


def test_numbers_at_their_ends() -> None:
    assert [number(value) for value in (0, 0.25, 1.2345, 1234.5, float("inf"), -0.5, 3.1e-6)] == [
        "0", "0.250", "1.23", "1,234", "∞", f"{MINUS}0.500", "3.1·10⁻⁶",
    ]  # fmt: skip
    assert fixed(-0.04, 1) == "0.0"
    assert spaced(percent(0.3891, 1, 0.0034)) == "38.9 ± 0.3 %"
    assert [decimals_for([9.3, 4.0]), decimals_for([38.9]), decimals_for([]), decimals_for([1e-9])] == [
        2,
        1,
        1,
        3,
    ]
    assert [listed(list(words)) for words in ("", "a", "ab", "abc")] == ["", "a", "a and b", "a, b and c"]
