import re
import time
from functools import cache
from html.parser import HTMLParser

import numpy as np
import polars as pl
import pytest

from assent.report.page import build_report
from assent.report.sections import methods_section
from assent.results.words import NONE, THIN, number
from assent.support.errors import AssentError

from .cases import (
    FRONTIER,
    POINTS,
    frontier_records,
    quality_of,
    report_data,
    run_records,
    selection,
    without_estimates,
)

VOID = {"meta", "link"}
LIVE = {"live": "a fingerprint", "price": 0.5}
TRIED = [
    {"budget": budget, "kept": kept, "expected": kept - 0.05}
    for budget, kept in ((0.5, 0.93), (0.75, 0.99), (0.625, 0.97))
]


class Page(HTMLParser):
    """What a browser would find: elements, attributes, texts; unbalanced tags fail."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {key: value or "" for key, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {key: value or "" for key, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.texts.append(data)

    @property
    def text(self) -> str:
        return "".join(self.texts).replace("\u00ad", "")


def everything_of(table: pl.DataFrame, *, disclosed: bool) -> pl.DataFrame:
    return table.with_columns(disclosed=pl.lit(disclosed))


ODD = {
    "full": report_data(),
    "no frontier": report_data(frontier=[]),
    "no estimates": report_data(
        method="threshold",
        objective="",
        frontier=[],
        records=run_records(("threshold", "")),
        selection=without_estimates(selection()),
    ),
    "one seed": report_data(records=run_records(seeds=[1]), frontier=frontier_records([1])),
    "one user": report_data(selection=selection().with_columns(user=pl.lit("only"))),
    "two users": report_data(selection=selection(users=2)),
    "one row": report_data(selection=selection().head(1)),
    "nothing withheld": report_data(selection=everything_of(selection(), disclosed=True)),
    "everything withheld": report_data(selection=everything_of(selection(), disclosed=False), frontier=[]),
    "all": report_data(method="all", objective="", records=run_records(("all", ""))),
    "nothing": report_data(method="nothing", objective="", records=run_records(("nothing", ""))),
    "unknown method": report_data(method="new", objective="x", records=run_records(("new", "x"))),
    "everybody is willing": report_data(
        selection=selection().with_columns(unwillingness=pl.lit(0.0), price=pl.lit(float("inf"))), frontier=[]
    ),
    "null categories and prices": report_data(
        selection=selection().with_columns(
            category=pl.lit(None, dtype=pl.List(pl.String)),
            value=pl.when(pl.int_range(pl.len()) % 2 == 0).then("value"),
            price=pl.when(pl.int_range(pl.len()) % 2 == 0).then("price"),
            reason=pl.when(pl.int_range(pl.len()) % 2 == 0).then("reason"),
        ),
        frontier=[],
    ),
    "no quality": report_data(
        records=[r | {"ndcg": 0.0} for r in run_records()],
        frontier=[r | {"ndcg": 0.0} for r in frontier_records()],
    ),
    "no settings": report_data(settings={}),
    "ranked among all": report_data(protocol="full", frontier=[]),
    "one seed, frontier of three": report_data(records=run_records(seeds=[1])),
    "live, without All": report_data(records=run_records(reference=False), frontier=[], settings=LIVE),
    "live, of nothing": report_data(
        method="nothing",
        objective="",
        records=run_records(("nothing", ""), reference=False),
        frontier=[],
        settings=LIVE,
    ),
    "least that keeps": report_data(
        frontier=[],
        quality=quality_of(run_records(), keep_quality=0.95, confidence=0.9, budget=0.625, tried=TRIED),
    ),
    "prices are missing": report_data(records=[r | {"price": None} for r in run_records()]),
}


@cache
def page_of(name: str) -> str:
    return build_report(ODD[name])


def visible(name: str) -> str:
    return Page(page_of(name)).text


@pytest.mark.parametrize("name", ODD)
def test_every_kind_of_run_gives_a_sound_page(name: str) -> None:
    html = page_of(name)
    page = Page(html)
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert [tag for tag, _ in page.elements].count("h1") == 1
    assert not re.search(r"\bnan\b|\bNone\b|\binf\b", page.text)


def test_the_sections_stand_in_their_order() -> None:
    headings = re.findall(r"<h2>(.*?)</h2>", page_of("full"))
    assert headings == [
        "What quality costs in disclosure",
        "What was withheld",
        "Three people as examples",
        "How far to trust this",
        "The methods in figures",
        "What was done",
    ]


def test_the_large_figures_are_those_of_the_data() -> None:
    table = selection(seed=3)
    records = run_records(violation_share=0.4, ndcg=0.2, everything=0.4)
    page = build_report(report_data(selection=table, records=records))
    found = re.findall(r'class="figure">(.*?)<', page)
    share = round(100 * table["disclosed"].sum() / table.height)
    minded = table["unwillingness"].to_numpy()
    paid = minded[table["disclosed"].to_numpy()].sum() / minded.sum()
    assert found == [f"{round(100 * paid)}{THIN}%", f"{share}{THIN}%", f"50{THIN}%"]
    assert f"{table['disclosed'].sum():,} of {table.height:,}" in page


def test_the_table_has_means_and_standard_errors_of_the_records() -> None:
    data = ODD["full"]
    rows = re.findall(r'<tr class="(?:ours|other)">(.*?)</tr>', page_of("full"))
    assert len(rows) == 2 + 1 + len(FRONTIER) * len(POINTS)
    at_half = [r["ndcg"] for r in data.frontier if r["method"] == "threshold" and r["point"] == 0.5]
    mean, error = np.mean(at_half), np.std(at_half, ddof=1) / np.sqrt(len(at_half))
    cell = f">{100 * mean:.1f}<small> ±{100 * error:.1f}</small>"
    thresholds = [row.replace("<b>", "").replace("</b>", "") for row in rows if "Threshold" in row]
    assert cell in thresholds[1]


def test_the_best_at_a_point_is_bold_and_nothing_else_is() -> None:
    html = page_of("full")
    bodies = re.findall(r"<tbody>(.*?)</tbody>", html)
    at_three_quarters = next(body for body in bodies if f"Up to 75{THIN}%" in body)
    best = next(row for row in at_three_quarters.split("<tr")[1:] if "<b>" in row)
    assert "Threshold" in best
    assert at_three_quarters.count("<b>") == 5
    assert all("<b>" not in body for body in bodies if "For reference" in body or "own price" in body)


def test_rewards_are_compared_at_one_price_only() -> None:
    frontier = [r | {"reward_sum": -r["ndcg"]} for r in frontier_records()]
    priced = [r | {"price": float(len(r["method"]))} for r in frontier]
    alike, differing = (
        methods_section(report_data(frontier=records)).content for records in (frontier, priced)
    )
    assert alike.count("<td><b>") > differing.count("<td><b>") > 0


def test_the_price_of_the_decision_is_shown_where_it_is_known() -> None:
    frontier = [
        r | {"decision_price": 0.125 * r["point"] if r["objective"] else None} for r in frontier_records()
    ]
    rows = methods_section(report_data(frontier=frontier)).content.split("<tr")
    at_half = [row for row in rows if ">50.0<" in row]
    assert [row.count(f"<td>{number(0.0625)}</td>") for row in at_half] == [0, 1, 0, 0]
    assert [row.count(f"<td>{NONE}</td>") for row in at_half] == [0, 0, 1, 1]


def test_tables_words_and_charts_say_the_k_of_the_metrics() -> None:
    at_ten = [[r | {"k": 10, "ndcg@20": 0.5} for r in some] for some in (run_records(), frontier_records())]
    text = Page(build_report(report_data(records=at_ten[0], frontier=at_ten[1]))).text
    assert "NDCG@5" not in text
    for words in ("among the first 10 suggestions (NDCG@10)", "NDCG@10NDCG@20Recall@10"):
        assert words in text


def test_whatever_comes_from_outside_is_escaped() -> None:
    evil = "<script>alert(\"x\")</script><img src=x onerror='y'>&amp;"
    table = selection().with_columns(
        user=pl.concat_str(pl.lit(evil), "user"),
        item=pl.concat_str(pl.lit(evil), "item"),
        title=pl.when(pl.int_range(pl.len()) % 2 == 0).then(pl.lit(evil)),
        category=pl.concat_list(pl.lit(evil)),
    )
    data = report_data(
        dataset=evil,
        protocol=evil,
        settings={evil: evil, "group": {evil: [evil, {"a": evil}]}},
        method=evil,
        objective=evil,
        records=run_records((evil, evil)),
        frontier=[r | {"method": evil} for r in frontier_records()],
        selection=table,
    )
    page = Page(build_report(data))
    assert not {"script", "img"} & {tag for tag, _ in page.elements}
    assert not [key for _, attributes in page.elements for key in attributes if key.startswith("on")]
    assert page.text.count(evil) > 20


def test_nothing_is_loaded_from_anywhere() -> None:
    html = page_of("full")
    assert set(re.findall(r"https?://[^\s\"'<]+", html)) == {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }
    assert "src=" not in html
    assert "@import" not in html
    assert "url(" not in re.sub(r"url\(#", "", html)
    links = [v for _, a in Page(html).elements for k, v in a.items() if k.endswith("href")]
    assert all(link.startswith(("#", "data:")) for link in links)


def test_every_reference_into_a_figure_finds_its_target() -> None:
    html = page_of("full")
    targets = set(re.findall(r'href="#(.*?)"', html)) | set(re.findall(r"url\(#(.*?)\)", html))
    assert targets
    assert targets <= set(re.findall(r'\bid="(.*?)"', html))


def test_readers_without_eyes_or_with_small_screens_are_served() -> None:
    html = page_of("full")
    page = Page(html)
    assert '<html lang="en">' in html
    assert 'name="viewport"' in html
    assert all(attributes.get("scope") for tag, attributes in page.elements if tag == "th")
    figure = next(attributes for _, attributes in page.elements if attributes.get("role") == "img")
    assert f"Threshold 97.5{THIN}% at 50{THIN}%" in figure["aria-label"]
    assert f"this run 97.5{THIN}%, between 97.4{THIN}% and 97.6{THIN}%, at 50{THIN}%" in figure["aria-label"]
    assert "prefers-color-scheme: dark" in html


@pytest.mark.parametrize("name", ["full", "no frontier"])
def test_the_same_data_give_the_same_bytes(name: str) -> None:
    assert build_report(ODD[name]) == page_of(name)


def test_without_a_frontier_the_measured_points_are_drawn() -> None:
    figure = chart_of("no frontier")
    said = figure["aria-label"].replace(THIN, " ")
    assert said == (
        "quality, share of All’s by what is disclosed: All 100.0 % at 100 %; Nothing 12.5 % at 0 %; "
        "this run 97.5 %, between 97.4 % and 97.6 %, at 50 %."
    )
    assert "--frontier 0.75,0.5,0.25 trains a model" in visible("no frontier")
    assert "--frontier" not in visible("full")


def chart_of(name: str) -> dict[str, str]:
    return next(
        attributes for _, attributes in Page(page_of(name)).elements if attributes.get("role") == "img"
    )


def test_the_card_the_chart_and_the_lede_say_the_same() -> None:
    for name in ("full", "no frontier", "least that keeps"):
        card = re.findall(r'class="figure">(.*?)<', page_of(name))[2]
        assert card == f"98{THIN}%"
        assert f"this run 97.5{THIN}%, between 97.4{THIN}% and 97.6{THIN}%" in chart_of(name)["aria-label"]
        assert f"between 97.4{THIN}% and 97.6{THIN}% of that with everything" in visible(name)


def test_without_all_nothing_is_the_measure() -> None:
    text, said = visible("live, without All"), chart_of("live, without All")["aria-label"]
    assert f"39.0{THIN}%, between" in text
    assert f"against 5.0{THIN}% with nothing" in text
    assert "quality (NDCG@5) by what is disclosed: Nothing" in said
    assert "All 1" not in said
    assert re.findall(r'class="figure">(.*?)<', page_of("live, without All"))[2] == "7.8 ×"


def test_budgets_that_were_tried_are_told_from_what_was_measured() -> None:
    said = chart_of("least that keeps")["aria-label"].replace(THIN, " ")
    assert "tried on validation rows 93.0 % at 50 %; tried on validation rows 97.0 % at 62 %" in said
    text = visible("least that keeps").replace(THIN, " ")
    assert "the least that keeps 95 % of the quality, in nine of ten cases: at most 62 % of what" in text
    assert "tried to find this one" in text
    assert "tried on validation rows" not in chart_of("full")["aria-label"]


def test_other_seeds_and_another_violation_than_those_of_the_chart_are_said() -> None:
    text = visible("one seed, frontier of three")
    assert "Curves are measured with seeds 1, 2 and 3, this run with seed 1." in text
    assert "Curves are measured" not in visible("full")
    disclosed = round(100 * report_data().violation_share)
    assert disclosed != 50
    assert f"On the split, where that was measured, it discloses 50{THIN}%." in visible("full")


def test_each_word_is_explained_once_in_the_section_that_uses_it_first() -> None:
    parts = re.findall(r"<(header|section)>(.*?)</\1>", page_of("full"), re.DOTALL)
    texts = [Page(f"<div>{part}</div>") for _, part in parts]
    told = [re.findall(r"<dfn>(.*?)</dfn>", part) for _, part in parts]
    words = [word for each in told for word in each]
    assert len(words) == len(set(words))
    for word in (
        "interaction",
        "unwillingness",
        "disclosed",
        "quality",
        "violation",
        "reward",
        "seed",
        "price",
    ):
        used = [word in page.text.lower() for page in texts]
        assert word in told[used.index(True)]
    assert set(told[0]) >= {"interaction", "unwillingness", "disclosed", "quality", "All", "Nothing"}


def test_a_live_run_says_what_its_model_is_trained_on_and_what_measured_it() -> None:
    text = visible("live, without All")
    assert "every one that may be looked at, the latest too" in text
    assert "found on disclosed interactions alone" in text
    assert "each person’s two latest interactions have also measured the quality, in aggregate" in text
    experiment = visible("full")
    assert "This is an experiment: each person’s two latest interactions measured the quality" in experiment
    assert "Nobody decided on them, and the model has not learnt from them." in experiment
    assert "the log’s own split" in Page(build_report(report_data(protocol="given, full"))).text


def test_what_never_would_have_added_is_named_as_unknown() -> None:
    for name in ODD:
        assert "not even in All’s. What it would have added is unknown by design" in visible(name)


def test_figures_for_researchers_are_folded_away() -> None:
    certificate = {"nearest_anchor": 1, "rounds_nearest": [2, 1], "largest_gain": 0.0, "mean_gain": 0.0}
    html = build_report(report_data(certificate=certificate, frontier=[]))
    folded = re.findall(r"<details><summary>For researchers</summary>.*?</details>", html, re.DOTALL)
    assert len(folded) == 1
    assert "joint selections" in folded[0]
    assert "joint selections" not in html.replace(folded[0], "")
    assert "<details>" not in page_of("full")


def test_uncertain_values_are_said_to_be() -> None:
    shown = visible("full").count("too uncertain to tell")
    known = {name: pl.lit(0.0) for name in ("uncertainty", "error_owner", "error_everybody")}
    sure = report_data(selection=selection().with_columns(**known))
    assert shown > 0
    assert "too uncertain to tell" not in Page(build_report(sure)).text


def test_without_estimates_no_columns_are_made_up() -> None:
    assert "Worth to its owner" not in visible("no estimates")
    assert "Worth to its owner" in visible("full")


def test_without_categories_that_part_is_left_out() -> None:
    assert "By category" in visible("full")
    assert "By category" not in visible("null categories and prices")


def test_all_or_nothing_leaves_no_kinds_to_tell_apart() -> None:
    assert "No interaction was withheld" in visible("nothing withheld")
    assert "Every interaction was withheld" in visible("everything withheld")


def test_settings_are_shown_flat_and_readable() -> None:
    html = page_of("full")
    for key, value in (
        ("learning rate", "0.02"),
        ("batch size", NONE),
        ("inner › deep", "yes"),
        ("seeds", "1, 2, 3"),
    ):
        assert f'<th scope="row">{key}</th><td>{value}</td>' in html


def test_sampled_negatives_are_named_as_a_limit_where_there_are_any() -> None:
    assert "among sampled items" in visible("full")
    assert "among sampled items" not in visible("ranked among all")


@pytest.mark.parametrize("missing", ["nothing", "ifrqe++"])
def test_a_run_without_its_records_is_refused(missing: str) -> None:
    records = [r for r in run_records() if r["method"] != missing]
    with pytest.raises(AssentError, match=f"records: none of method '{re.escape(missing)}'"):
        build_report(report_data(records=records, quality=quality_of(run_records())))


def test_a_run_without_interactions_is_refused() -> None:
    with pytest.raises(AssentError, match="selection: no rows"):
        build_report(report_data(selection=selection().clear()))


def test_many_interactions_take_seconds() -> None:
    data = report_data(selection=pl.concat([selection()] * 400), frontier=[])
    started = time.perf_counter()
    build_report(data)
    assert time.perf_counter() - started < 10
