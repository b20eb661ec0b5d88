"""Claims of the paper follow from the tables that were measured, or from the paper's own."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from assent.reproduce import ITEMS, Profile, Reproduction, build_page, full, write_claims
from assent.reproduce.claims import CLAIMS, Ruled, Ruling, rule, summary
from assent.reproduce.item import Chapter
from assent.reproduce.plan import NULLS, OURS, PAPER_METHODS, SCR
from assent.results.records import name as way_name

PLAN = replace(full(1, Profile.PAPER), models=("mf",), datasets=("diginetica",))
ABOUT = {"dataset": "diginetica", "model": "mf", "seed": 0}
NAMES = {theirs: way_name(way) for theirs, way in PAPER_METHODS.items()}
FIGURES = {"f1": 0.04, "precision": 0.01, "ndcg": 0.1, "mrr": 0.1, "trainings": 1}


def overall(**rewards: float) -> Chapter:
    """Table 1 with one place, where seconds and wv rise as rewards fall."""
    lines: list[dict[str, Any]] = [
        {**ABOUT, **FIGURES, "method_name": method, "reward_mean": reward, "violation": -reward,
         "seconds": 10 * -reward}
        for method, reward in rewards.items()
    ]  # fmt: skip
    return ITEMS["overall"].chapter(PLAN, lines, len(lines))


def of(chapters: list[Chapter], part: str) -> Ruled:
    """The verdict on the claim that has these words."""
    (found,) = (each for each in rule(PLAN, chapters) if part in each.claim.says)
    return found


def test_every_claim_has_a_verdict_and_nothing_measured_leaves_the_papers_own_contradictions() -> None:
    ruled = rule(PLAN, [])
    assert [each.claim for each in ruled] == [*CLAIMS]
    assert {each.ruling for each in ruled} == {Ruling.OPEN, Ruling.CONTRADICTED}
    contradicted = {each.claim.says for each in ruled if each.ruling is Ruling.CONTRADICTED}
    assert any("8.02 %" in says for says in contradicted)
    assert any("11.1 % on Diginetica" in says for says in contradicted)
    assert any("even improved" in says for says in contradicted)
    assert summary(ruled).startswith(f"Of {len(CLAIMS)} claims of the paper: 0 confirmed, 0 not confirmed, ")


def test_rewards_confirm_or_refute() -> None:
    others = {NAMES["Base"]: -2.0, NAMES["Random"]: -1.9, NAMES["Threshold"]: -1.5, NAMES["IFRQE"]: -1.4}
    for ours, ruling in ((-1.0, Ruling.CONFIRMED), (-1.95, Ruling.REFUTED)):
        chapters = [overall(**others, **{way_name(OURS): ours, way_name(NULLS[0]): -1.2})]
        assert of(chapters, "best on most data sets").ruling is ruling
        assert of(chapters, "better than IFRQE in more").ruling is ruling
        null = of(chapters, "Blindly sampling")
        assert null.ruling is ruling
        assert f"without influence: at {int(ours > -1.2)} of 1 place." in null.because
    assert "20 of 20" in of(chapters, "best on most data sets").because
    assert of(chapters, "significant").ruling is Ruling.OPEN  # one repeat is not tested


def test_a_rival_must_take_at_least_half_as_much_longer_as_the_paper_says() -> None:
    for seconds, ruling in ((-100.0, Ruling.CONFIRMED), (-2.0, Ruling.REFUTED)):
        chapters = [overall(**{NAMES["Proactive"]: seconds, way_name(OURS): -1.0})]
        assert of(chapters, "13.5 times").ruling is ruling
    lines = [
        {
            **ABOUT,
            **FIGURES,
            "method_name": way_name(way),
            "reward_mean": -1.0,
            "violation": 1.0,
            "seconds": time,
        }
        for way, time in ((SCR, 300.0), (OURS, 10.0))
    ]
    scratch = ITEMS["scratch"].chapter(PLAN, lines, 2)
    for chapters, measured in (([scratch], "SCR (nash, tables) takes 30.0 times as long. "), ([], "")):
        found = of(chapters, "20.3 times")
        assert found.ruling is Ruling.CONTRADICTED  # by the paper's own seconds, whatever is measured
        assert found.because.startswith(f"{measured}The ratios of the paper's own seconds: ")


def test_anchors_and_approximation_are_judged_by_their_tables() -> None:
    def anchors(*rewards: float) -> Chapter:
        lines = [
            {**ABOUT, **FIGURES, "method_name": way_name(OURS), "anchors": t, "reward_mean": reward,
             "violation": 1.0, "seconds": float(t)}
            for t, reward in enumerate(rewards, 1)
        ]  # fmt: skip
        return ITEMS["anchors"].chapter(PLAN, lines, len(lines))

    assert of([anchors(-2.0, -1.5, -1.4)], "One anchor").ruling is Ruling.CONFIRMED
    assert of([anchors(-1.0, -1.5, -1.4)], "One anchor").ruling is Ruling.REFUTED
    assert of([anchors(-1.0, -1.5)], "more time").ruling is Ruling.CONFIRMED
    losses = {"real": 1.0, "ifrqe": 0.9, "ifrqe++": 0.95, "unchanged": 0.8}
    near = ITEMS["approximation"].chapter(PLAN, [{**ABOUT, **losses}], 1)
    idle = ITEMS["approximation"].chapter(PLAN, [{**ABOUT, **losses, "unchanged": 1.0}], 1)
    assert of([near], "approximated well").ruling is Ruling.CONFIRMED
    assert of([idle], "approximated well").ruling is Ruling.REFUTED
    assert of([near], "more accurate than IFRQE").ruling is Ruling.CONFIRMED


def test_the_page_and_the_file_have_every_claim(tmp_path: Path) -> None:
    found = Reproduction(PLAN, [], [], [], [], 1.0)
    page = build_page(found)
    assert summary(rule(PLAN, [])) in page
    assert "The paper against itself" in page
    frame = pl.read_csv(write_claims(found, tmp_path))
    assert frame["claim"].to_list() == [claim.says for claim in CLAIMS]


def test_a_smaller_experiment_confirms_nothing() -> None:
    chapters = [overall(**{NAMES["Base"]: -2.0, way_name(OURS): -1.0})]
    ruled = rule(replace(PLAN, users=500), chapters)
    assert {each.ruling for each in ruled} == {Ruling.OPEN, Ruling.CONTRADICTED}
