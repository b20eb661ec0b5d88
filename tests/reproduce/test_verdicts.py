"""Verdicts on the paper's numbers follow from ours, from named differences, and from the paper itself."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from assent.reproduce import ITEMS, Plan, Profile, Reproduction, build_page, full, paper
from assent.reproduce.differences import BY_LOT, WHOLE
from assent.reproduce.item import Chapter
from assent.reproduce.page import write_verdicts
from assent.reproduce.paper import agree, contradictions, numbers, shared_errors
from assent.reproduce.verdicts import UNKNOWN, Verdict, counts, judge, shares
from assent.results.words import percent

PLAN = replace(full(3, Profile.PAPER), models=("mf",), datasets=("diginetica",))
PAPER = numbers()["overall"]["MF"]


def lines(method: str, **figures: float) -> list[dict[str, Any]]:
    """Three repeats of a row, which differ by a thousandth."""
    about = {"dataset": "diginetica", "model": "mf", "method_name": method}
    return [
        {**about, "seed": seed, **{name: value * (1 + seed / 1000) for name, value in figures.items()}}
        for seed in range(3)
    ]


def chapter(item: str, records: list[dict[str, Any]]) -> Chapter:
    return ITEMS[item].chapter(PLAN, records, len(records))


def test_numbers_match_within_errors_or_five_percent() -> None:
    assert agree(1.05, 1.0)
    assert not agree(1.06, 1.0)
    assert agree(1.06, 1.0, 0.03, None)
    assert agree(1.06, 1.0, 0.02, 0.03)
    assert agree(-1.06, -1.04)


def test_the_contradictions_that_the_tables_hold_are_found() -> None:
    found = contradictions()
    for figure, there in (("f1", "5.23"), ("wv", "2.01"), ("reward", "-2.08")):
        assert f"table of SCR has {there} " in found["overall", "MF", "IFRQE++", "diginetica", figure]
        assert ("scratch", "diginetica", "MF", "IFRQE++", figure) in found
    differing = [path for path, why in found.items() if path[0] == "lambda_reward" and "Table 1 has" in why]
    assert len(differing) == 6
    assert {path[1] for path in differing} == {"1.0"}
    limits = [path for path, why in found.items() if "limit of 0.5" in why]
    assert len(limits) == 5 * 3
    assert all(path[2] == "Threshold" and path[4] == "wv" for path in limits)
    assert "implies a loss of 0.64" in found["overall", "MF", "Base", "diginetica", "reward"]
    lost = found["lambda_reward", "0.1", "LightGCN", "Base", "diginetica"]
    assert "implies a loss of 0.08, the reward in Table 1 one of 0.70" in lost
    assert ("lambda_reward", "0.1", "MF", "Base", "simulation") not in found  # only that at λ = 2 differs
    above = found["lambda_reward", "2.0", "MF", "Threshold", "diginetica"]
    assert "no loss allows more than −3.94" in above
    for figure in ("precision", "mrr", "ndcg"):
        said = found["more_metrics", "NeuMF", "IFRQE", "diginetica", figure]
        assert "precision@5 of 1.75 and MRR@5 of 2.99 allow NDCG@5 of 4.34 to 4.43; it is 7.27" in said
    assert ("overall", "MF", "Base", "diginetica", "f1") not in found
    assert "5/3" in found["overall", "DIN", "IFRQE++", "amazon_video", "f1"]
    assert "allows 1.08 to 2.8" in found["more_metrics", "CDAE", "IFRQE", "simulation", "ndcg"]


def consistent(seed: int) -> dict[str, Any]:
    """Tables like the paper's with figures that can all be true, rounded as it rounds."""
    random = np.random.default_rng(seed)
    tables: dict[str, Any] = json.loads(json.dumps(numbers()))
    for model, methods in tables["overall"].items():
        for method, datasets in methods.items():
            share = {"Base": 1.0, "Random": 0.9, "Threshold": 0.25}.get(method, 0.7)
            for dataset, row in datasets.items():
                loss, violation = random.uniform(0, 0.7), round(2.4 * share, 2)
                figures = ranked(random)
                row |= {"f1": [figures.pop("f1"), 0.01], "wv": [violation, 0.001]}
                row["reward"] = [round(-loss - violation, 2), 0.001]
                tables["more_metrics"][model][method][dataset] = {
                    name: [value, 0.01] for name, value in figures.items()
                }
                for price, table in tables["lambda_reward"].items():
                    if model in table:
                        value = round(-loss - float(price) * violation, 2)
                        table[model][method][dataset] = [value, 0.001]
    for dataset, models in tables["scratch"].items():
        for model, rows in models.items():
            rows["SCR"] |= ranked(random)
            for table in ("overall", "more_metrics"):
                row = tables[table][model]["IFRQE++"][dataset]
                rows["IFRQE++"] |= {name: value for name, (value, _) in row.items()}
    return tables


def ranked(random: np.random.Generator) -> dict[str, float]:
    """Metrics in percent of people whose test items have random ranks, a third of them at chance."""
    ranks = random.choice([*range(1, 6), 99], size=1000, p=random.dirichlet(np.ones(6)))
    hits, of_hits = (ranks <= 5).mean(), ranks[ranks <= 5]
    found = {
        "precision": 100 * hits / 5,
        "f1": 100 * hits / 3,
        "ndcg": 100 * (1 / np.log2(of_hits + 1)).sum() / 1000,
        "mrr": 100 * (1 / of_hits).sum() / 1000,
    }
    return {name: round(float(value), 1 if value >= 10 else 2) for name, value in found.items()}


@pytest.mark.parametrize("seed", range(3))
def test_numbers_that_can_all_be_true_contradict_nothing(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = consistent(seed)
    monkeypatch.setattr(paper, "numbers", lambda: tables)
    assert contradictions.__wrapped__() == {}
    place = ("NeuMF", "IFRQE", "diginetica")
    row = tables["more_metrics"]["NeuMF"]["IFRQE"]["diginetica"]
    row["ndcg"][0] = row["mrr"][0] * 0.9
    f1 = ("overall", *place, "f1")
    found = contradictions.__wrapped__()
    assert {*found} == {f1, *(("more_metrics", *place, name) for name in ("precision", "mrr", "ndcg"))}
    tables = consistent(seed)
    tables["lambda_reward"]["0.5"]["MF"]["Random"]["steam"][0] -= 0.3
    tables["lambda_reward"]["0.5"]["MF"]["IFRQE"]["steam"][0] -= 0.3  # may choose otherwise at each price
    at = ("MF", "Random", "steam")
    rewards = {("overall", *at, "reward"), *(("lambda_reward", price, *at) for price in ("0.5", "1.0"))}
    assert {*contradictions.__wrapped__()} == rewards


def test_rows_of_the_appendix_with_the_standard_errors_of_other_figures_are_counted() -> None:
    row = numbers()["overall"]["LightGCN"]["IFRQE"]["simulation"]
    other = numbers()["more_metrics"]["LightGCN"]["IFRQE"]["simulation"]
    pairs = (("f1", "precision"), ("wv", "ndcg"), ("reward", "mrr"))
    assert [row[one][1] for one, _ in pairs] == [other[two][1] for _, two in pairs] == [0.008, 0.01, 0.014]
    same, rows = shared_errors()
    assert (same, rows) == (49, 120)
    found = Reproduction(PLAN, [], [], [], [], 1.0)
    assert f"In {same} of {rows} rows the standard errors" in build_page(found)


def test_every_contradiction_is_of_a_number_that_the_paper_has() -> None:
    for path in contradictions():
        place: Any = numbers()
        for name in path:
            place = place[name]
        assert isinstance(place, list | float | int)


def test_each_number_gets_the_verdict_that_its_figures_give() -> None:
    base, random = PAPER["Base"]["diginetica"], PAPER["Random"]["diginetica"]
    overall = [
        *lines("All", f1=base["f1"][0] / 100, violation=base["wv"][0], reward_mean=-2.08, seconds=1.0),
        *lines("Random", f1=0.038, violation=random["wv"][0], reward_mean=-1.0, seconds=1.0),
    ]
    other = [{**each,
              "difference": "random.rate=0.98", "price": 1.0}
             for each in lines("Random", f1=0.0418, violation=1.0)]  # fmt: skip
    found = judge(PLAN, [chapter("overall", overall), chapter("differences", other)])
    verdicts = {(each.number.labels["method"], each.number.figure): each for each in found}
    assert verdicts["Base", "F1@5 %"].verdict is Verdict.MATCHED
    assert verdicts["Base", "wv"].verdict is Verdict.MATCHED
    assert verdicts["Base", "reward"].verdict is Verdict.CONTRADICTED
    assert verdicts["Random", "F1@5 %"].verdict is Verdict.EXPLAINED
    assert verdicts["Random", "F1@5 %"].because == "With random.rate=0.98 it is 4.18 (1 value tried)."
    assert verdicts["Random", "reward"].verdict is Verdict.OPEN
    assert verdicts["Threshold", "wv"].verdict is Verdict.CONTRADICTED  # though it was not measured
    assert verdicts["IFRQE", "F1@5 %"].verdict is Verdict.CONTRADICTED  # its violation is that of Base
    assert verdicts["IFRQE++", "reward"].verdict in (Verdict.UNRUN, Verdict.CONTRADICTED)
    total = len(found)
    assert counts(found).startswith(f"Of {total} numbers of the paper: ")
    kinds = [each.verdict for each in found]
    assert kinds == sorted(kinds, key=[*dict.fromkeys(kinds)].index)
    opened = [each.apart for each in found if each.verdict is Verdict.OPEN]
    assert opened == sorted(opened, reverse=True)


def test_numbers_count_whether_or_not_they_were_measured() -> None:
    base = PAPER["Base"]["diginetica"]
    same = lines("All", f1=base["f1"][0] / 100, violation=base["wv"][0], reward_mean=-2.08, seconds=1.0)
    chapters = [chapter("overall", same)]
    few, all_ = judge(PLAN, chapters), judge(PLAN, chapters, [*ITEMS.values()])
    assert len(few) == 6 * 3
    figures = {"overall": 3, "more-metrics": 3, "price": 4}
    of_items = {name: sum(each.item == name for each in all_) for name in ITEMS}
    assert {name: of_items[name] for name in figures} == {name: 6 * n for name, n in figures.items()}
    assert of_items["scratch"] == 2 * 7
    known = sum(each.verdict not in UNKNOWN for each in few)
    share = f"diginetica: {known} of 18 numbers ({percent(known / 18)})"
    assert [*shares(few)] == [f"{share} have a verdict other than open or not run."]


def test_what_was_not_run_is_explained_by_nothing() -> None:
    given = PAPER["Random"]["diginetica"]["f1"][0] / 100
    other = [{**each, "difference": "random.rate=0.98", "price": 1.0} for each in lines("Random", f1=given)]
    own = lines("All", f1=0.01, violation=1.0, reward_mean=-1.0, seconds=1.0)
    found = judge(PLAN, [chapter("overall", own), chapter("differences", other)])
    (one,) = (
        each for each in found
        if (each.number.labels["method"], each.number.figure) == ("Random", "F1@5 %")
    )  # fmt: skip
    assert one.verdict is Verdict.UNRUN


def test_shares_are_told_with_chance_and_without() -> None:
    plan = replace(PLAN, datasets=("simulation",))
    own = lines("Proactive (nash)", f1=0.0167, violation=1.0, reward_mean=-9.0)
    records = [{**each, "dataset": "simulation"} for each in own]
    found = judge(plan, [ITEMS["overall"].chapter(plan, records, 3)])
    known = [each for each in found if each.verdict not in UNKNOWN]
    (chance,) = (each for each in known if each.verdict is Verdict.CHANCE)
    assert chance.number.figure == "F1@5 %"
    (said,) = shares(found)
    with_, without = percent(len(known) / 18), percent((len(known) - 1) / 18)
    assert f"{len(known)} of 18 numbers ({with_}, {without} without “chance”)" in said


def test_a_difference_changes_the_training_of_its_own_rows_alone() -> None:
    plan = replace(full(1, Profile.PAPER), models=("lightgcn", "mf"), datasets=("diginetica",))
    layers = {
        (cell.settings.model, cell.labels["difference"]): cell.settings.model_settings.model_dump().get(
            "layers"
        )
        for cell in ITEMS["differences"].cells(plan)
    }
    assert layers["lightgcn", "model_settings.layers=3"] == 3
    assert layers["lightgcn", "random.rate=0.98"] == 2
    assert ("mf", "model_settings.layers=3") not in layers
    kept = {
        cell.labels["difference"]: cell.settings.training.keep for cell in ITEMS["differences"].cells(plan)
    }
    assert (kept["training.keep=reward"], kept["random.rate=0.98"]) == ("reward", "last")


def test_a_smaller_experiment_matches_nothing() -> None:
    base = PAPER["Base"]["diginetica"]
    same = lines("All", f1=base["f1"][0] / 100, violation=base["wv"][0], reward_mean=-2.08, seconds=1.0)
    found = judge(replace(PLAN, users=500), [chapter("overall", same)])
    assert {each.verdict for each in found} == {Verdict.OPEN, Verdict.UNRUN, Verdict.CONTRADICTED}


def test_a_method_with_settings_of_the_users_own_matches_nothing() -> None:
    given = PAPER["IFRQE"]["diginetica"]
    same = lines(
        "IFRQE (nash)", f1=given["f1"][0] / 100, violation=given["wv"][0], reward_mean=-2.0, seconds=1.0
    )
    for altered, verdict in ((["table.samples=5"], Verdict.OPEN), ([], Verdict.MATCHED)):
        plan = replace(PLAN, altered=altered)
        (one,) = (
            each for each in judge(plan, [ITEMS["overall"].chapter(plan, same, 3)])
            if (each.number.labels["method"], each.number.figure) == ("IFRQE", "wv")
        )  # fmt: skip
        assert one.verdict is verdict


@pytest.mark.parametrize("measured", [True, False])
def test_the_page_and_the_file_have_every_verdict(measured: bool, tmp_path: Path) -> None:
    base = PAPER["Base"]["diginetica"]
    same = lines("All", f1=base["f1"][0] / 100, violation=base["wv"][0], reward_mean=-2.08, seconds=1.0)
    plan: Plan = PLAN if measured else replace(PLAN, users=500)
    found = Reproduction(plan, [replace(chapter("overall", same), charts=())], [], [], [], 1.0)
    page = build_page(found)
    judged = judge(plan, found.chapters)
    assert counts(judged) in page
    assert ("Matched (" in page) is measured
    frame = pl.read_csv(write_verdicts(found, tmp_path))
    assert frame.height == len(judged)
    assert frame["verdict"].to_list() == [each.verdict.value for each in judged]


def test_a_stand_in_explains_how_a_row_ranks_and_not_what_it_was_set_to() -> None:
    given = PAPER["IFRQE++"]["diginetica"]
    own = lines("IFRQE++ (nash)", f1=0.01, violation=0.5, reward_mean=-1.0, seconds=1.0)
    same = {"f1": given["f1"][0] / 100, "violation": given["wv"][0], "reward_mean": given["reward"][0]}
    by_lot = [{**each, "difference": BY_LOT, "price": 1.0} for each in lines("IFRQE++ (nash)", **same)]
    found = judge(PLAN, [chapter("overall", own), chapter("differences", by_lot)])
    verdicts = {
        each.number.figure: each.verdict for each in found if each.number.labels["method"] == "IFRQE++"
    }
    assert verdicts["F1@5 %"] is Verdict.EXPLAINED
    assert Verdict.EXPLAINED not in (verdicts["wv"], verdicts["reward"])


def test_a_row_that_was_trained_on_everything_counts_less_violation() -> None:
    base = PAPER["Base"]["diginetica"]
    figures = {"f1": base["f1"][0] / 100, "violation": 2.0, "reward_mean": -2.1}
    records = [{**each, "difference": WHOLE, "price": 1.0} for each in lines("Threshold", **figures)]
    (row,) = chapter("differences", records).table.rows
    assert row.amounts["violation"].mean == pytest.approx(0.98 * 2.0 * 1.001)
    assert row.amounts["reward_mean"].mean == pytest.approx((-2.1 + 0.02 * 2.0) * 1.001)
    own = lines("Threshold", f1=0.01, violation=0.5, reward_mean=-0.8, seconds=1.0)
    found = judge(PLAN, [chapter("overall", own), chapter("differences", records)])
    verdicts = {
        each.number.figure: each.verdict for each in found if each.number.labels["method"] == "Threshold"
    }
    assert set(verdicts.values()) == {Verdict.EXPLAINED}


def test_a_row_by_lot_discloses_at_the_rate_of_the_papers_violation() -> None:
    cells = {
        each.labels["method_name"]: each
        for each in ITEMS["differences"].cells(PLAN)
        if each.labels["difference"] == BY_LOT and not each.seed
    }
    rates = {name: each.task.method.rate for name, each in cells.items()}  # type: ignore[attr-defined]
    assert rates["IFRQE++ (nash)"] == pytest.approx(1.79 / 2.01)
    assert rates["Proactive (nash)"] == pytest.approx(1.30 / 2.01)
    assert "All" not in rates


def test_what_random_with_another_rate_earns_explains_it_at_every_price() -> None:
    theirs = numbers()["lambda_reward"]["2.0"]["MF"]["Random"]["diginetica"][0]
    own = [{**each, "price": 2.0} for each in lines("Random", violation=1.5, reward_mean=-9.0)]
    other = [
        {**each, "difference": "random.rate=0.98", "price": 1.0}
        for each in lines("Random", violation=1.95, reward_mean=theirs + 1.95)
    ]
    found = judge(PLAN, [chapter("price", own), chapter("differences", other)])
    (one,) = (
        each for each in found
        if each.item == "price" and each.number.labels["method"] == "Random"
        and each.number.labels["price"] == "2"
    )  # fmt: skip
    assert one.verdict is Verdict.EXPLAINED


@pytest.mark.parametrize(("ours", "is_chance"), [(0.0167, True), (0.03, False)])
def test_the_simulations_ranking_is_chance_where_ours_is_there_too(ours: float, is_chance: bool) -> None:
    plan = replace(PLAN, datasets=("simulation",))
    own = lines("Proactive (nash)", f1=ours, violation=1, reward_mean=-1.0)
    records = [{**each, "dataset": "simulation"} for each in own]
    found = judge(plan, [ITEMS["overall"].chapter(plan, records, 3)])
    (one,) = (
        each for each in found
        if (each.number.labels["method"], each.number.figure) == ("Proactive", "F1@5 %")
    )  # fmt: skip
    assert numbers()["overall"]["MF"]["Proactive"]["simulation"]["f1"][0] == 1.23  # 1.67 ± 0.23
    assert (one.verdict is Verdict.CHANCE) is is_chance
    assert ("1.67 ± 0.23" in one.because) is is_chance
