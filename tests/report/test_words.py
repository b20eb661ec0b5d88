from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.report.data import ReportData
from assent.report.facts import frontier_facts, headline, in_figures
from assent.results.words import MINUS, THIN, decimals_for, fixed, listed, minded, number, percent, share

from .cases import frontier_records, quality_of, report_data, run_records, selection, without_estimates


def spaced(text: str) -> str:
    return text.replace(THIN, " ")


def measured(
    kept: tuple[float, float, float] | None = None,
    above: tuple[float, float, float] = (0.34, 0.3, 0.38),
    **changes: Any,
) -> ReportData:
    """A run with these intervals of its quality: a share of All's, and the difference from Nothing's."""
    names = ("mean", "low", "high")
    found = quality_of(run_records()) | {"kept": kept and dict(zip(names, kept, strict=True))}
    found |= {"above_nothing": dict(zip(names, above, strict=True))}
    half = selection().with_columns(disclosed=pl.int_range(pl.len()) % 2 == 0, unwillingness=pl.lit(0.4))
    return report_data(quality=found, selection=half, **changes)


@pytest.mark.parametrize(
    ("kept", "said"),
    [
        ((1.1, 1.02, 1.18), "raises the quality of recommendations by 10 %"),
        ((1.1, 0.98, 1.22), "makes no measurable difference to the quality of recommendations"),
        ((0.97, 0.93, 1.0), "makes no measurable difference to the quality of recommendations"),
        ((0.97, 0.95, 0.99), "keeps 97 % of the quality of recommendations"),
        ((0.75, 0.7, 0.8), "loses 25 % of the quality of recommendations"),
        ((0.25, 0.2, 0.3), "loses most of the quality of recommendations: only 25 % is left"),
    ],
)
def test_the_headline_is_as_plain_in_bad_times_as_in_good(
    kept: tuple[float, float, float], said: str
) -> None:
    data = measured(kept)
    assert spaced(headline(data)) == f"Using 50 % of what people would rather not share {said}"
    low, high = (round(100 * limit) for limit in kept[1:])
    assert f"The quality is between {low} % and {high} % of that with everything." in map(
        spaced, in_figures(data)
    )


@pytest.mark.parametrize("kept", [None, (0.9, 0.8, 1.0)])
def test_no_better_than_nothing_is_the_headline(kept: tuple[float, float, float] | None) -> None:
    assert headline(measured(kept, (-0.1, -0.15, -0.05))).endswith("worse than using nothing does")
    for limits in ((0.1, -0.05, 0.25), (-0.01, -0.02, 0.0)):
        assert "does not make recommendations measurably better" in headline(measured(kept, limits))


def test_a_coarse_measurement_is_said_to_be() -> None:
    said = " ".join(in_figures(measured((0.95, 0.8, 1.1))))
    assert "So chance may hide that up to 20 % is lost" in spaced(said)
    for kept in ((0.98, 0.93, 1.03), (0.8, 0.7, 0.9)):
        assert "chance may hide" not in " ".join(in_figures(measured(kept)))


@pytest.mark.parametrize(
    ("above", "said"), [((0.34, 0.3, 0.38), "7.8 times as good as"), ((0.09, 0.05, 0.13), "30 % better than")]
)
def test_without_all_the_headline_measures_by_nothing(above: tuple[float, float, float], said: str) -> None:
    data = measured(None, above, records=run_records(reference=False))
    assert spaced(headline(data)).endswith(f"makes recommendations {said} using nothing does")
    figures, unmeasured, _ = in_figures(data)
    assert spaced(figures).startswith("The quality is 39.0 %, between 38.8 % and 39.2 %, against ")
    assert "was not measured" in unmeasured


def test_runs_of_all_and_nothing_have_their_own_headlines() -> None:
    for method, said in (("all", "Everything is used"), ("nothing", "Using nothing loses most")):
        data = report_data(method=method, objective="", records=run_records((method, "")))
        assert headline(data).startswith(said)
        assert not any("The run was" in sentence for sentence in in_figures(data))
    live = report_data(method="nothing", objective="", records=run_records(("nothing", ""), reference=False))
    assert headline(live) == "Nothing is used of what people did"


def test_what_nothing_would_keep_is_said_in_the_same_unit() -> None:
    said = in_figures(report_data(records=run_records(ndcg=0.35, nothing=0.30)))
    assert "Using nothing would keep 75 % of it." in map(spaced, said)
    said = in_figures(report_data(records=run_records(nothing=0.39)))
    assert any("hardly better than with nothing" in sentence for sentence in said)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"budget": 0.5}, "The run was to disclose at most half of what people mind."),
        ({"budget": 0.3}, "The run was to disclose at most 30 % of what people mind."),
        (
            {"keep_quality": 0.95, "confidence": 0.9, "budget": 0.25},
            "The run was to disclose the least that keeps 95 % of the quality, in nine of ten cases: at "
            "most a quarter of what people mind.",
        ),
        (
            {"keep_quality": 0.95, "confidence": 0.99, "budget": 0.25},
            "The run was to disclose the least that keeps 95 % of the quality, in 99 of 100 cases: at most a "
            "quarter of what people mind.",
        ),
        (
            {"budget": None, "price": 2.0},
            "The run was to disclose what is worth a price of 2.00 for each unit of unwillingness.",
        ),
    ],
)
def test_the_operating_point_is_said_in_words(asked: dict[str, Any], said: str) -> None:
    data = report_data(quality=quality_of(run_records(), **asked))
    assert spaced(in_figures(data)[-1]) == said


def test_a_rule_of_its_own_is_not_called_a_price() -> None:
    quality = quality_of(run_records(), budget=None, price=0.5)
    data = report_data(quality=quality, selection=without_estimates(selection()))
    assert not any("price" in sentence for sentence in in_figures(data))


def test_frontier_facts_tell_ahead_from_level_and_behind() -> None:
    facts = [spaced(fact) for fact in frontier_facts(report_data())]
    assert facts == [
        "IFRQE++ (welfare) keeps at least 95 % of All’s quality down to 50 % of All’s violation.",
        "Against Threshold: ahead at 25 % (by 7.5 % of All’s quality); level at 50 %; "
        "behind at 75 % (by 2.5 % of All’s quality).",
        "Against Random: ahead at every point (most at 25 %, by 15.0 % of All’s quality).",
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


def test_a_frontier_without_quality_compares_nothing() -> None:
    empty = [r | {"ndcg": 0.0} for r in frontier_records()]
    assert frontier_facts(report_data(frontier=empty)) == [
        "Even with everything, no test item is found: there is nothing to compare."
    ]


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
