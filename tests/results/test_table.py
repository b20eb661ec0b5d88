"""Means, errors, tests and marks of a table, and every way it is written."""

import csv
import re
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from markdown_it import MarkdownIt

from assent.results.records import METHOD
from assent.results.table import Amount, Column, Table, mark, metric_columns, rows_by, tabulate
from assent.results.words import printable
from assent.results.writers import frame, html, in_markdown, latex, markdown, terminal, text, write

GOOD, COST = Column("good", "good %", 100, 1, 1), Column("cost", "cost", 1, 2, -1)


def records(method: str, goods: list[float], costs: list[float]) -> list[dict[str, object]]:
    return [
        {"place": "here", "method": method, "seed": seed, "good": good, "cost": cost}
        for seed, (good, cost) in enumerate(zip(goods, costs, strict=True))
    ]


RECORDS = [
    *records("ours", [0.30, 0.31, 0.32], [2.0, 2.1, 2.2]),
    *records("theirs", [0.20, 0.21, 0.221], [1.0, 1.5, 2.0]),
]


def table(lines: list[dict[str, object]], *columns: Column, **how: Any) -> Table:
    labels = {"place": "place", "method": "method"}
    return tabulate(lines, labels, columns, reference={"method": "ours"}, name="name", title="title", **how)


def test_means_errors_tests_and_the_best() -> None:
    found = table(RECORDS, GOOD, COST)
    ours, theirs = found.rows
    assert ours.amounts["good"].mean == pytest.approx(0.31)
    assert ours.amounts["good"].error == pytest.approx(0.01 / 3**0.5)
    assert ours.amounts["good"].p is None
    assert theirs.amounts["good"].difference == pytest.approx(-0.0997, abs=1e-4)
    assert theirs.amounts["good"].p == pytest.approx(2 * 1.2e-5, rel=0.2)  # of two tests, the surer one
    assert (ours.amounts["good"].best, theirs.amounts["good"].best) == (True, False)
    assert (ours.amounts["cost"].best, theirs.amounts["cost"].best) == (False, True)
    assert r"| here | theirs | 21.0 ±0.6 ↓\*\* | **1.50 ±0.29** |" in written(found)
    assert r"here & ours & $\mathbf{31.0}_{(0.6)}$ & $2.10_{(0.06)}$" in latex(found)
    assert r"$21.0_{(0.6)}^{\downarrow **}$" in latex(found)
    assert r"good \%" in latex(found)
    assert frame(found)["good"].to_list() == pytest.approx([31.0, 21.033], abs=1e-3)
    assert frame(found)["runs"].to_list() == [3, 3]


def test_pairs_are_made_by_seed_where_some_are_missing() -> None:
    some = [each for each in RECORDS if (each["method"], each["seed"]) != ("ours", 0)]
    found = table(some, GOOD)
    assert [row.runs for row in found.rows] == [2, 3]
    assert found.rows[1].amounts["good"].difference == pytest.approx(-0.0995)
    unknown = [*RECORDS[:3], RECORDS[3] | {"good": None}, *RECORDS[4:]]
    found = table(unknown, GOOD)
    assert found.rows[1].amounts["good"].mean == pytest.approx(0.2155)


def test_two_repeats_are_not_tested() -> None:
    two = [each for each in RECORDS if each["seed"] != 0]
    found = table(two, GOOD)
    assert found.rows[1].amounts["good"].p is None
    assert found.rows[1].amounts["good"].difference == pytest.approx(-0.0995)
    assert "Not tested: that takes 3 repeats." in found.caption
    assert "paired t-test" in table(RECORDS, GOOD).caption


def test_tests_are_corrected_for_all_of_the_table() -> None:
    more = [each | {"place": place} for place in ("here", "there") for each in RECORDS]
    alone, both = (table(lines, GOOD).rows[1].amounts["good"].p for lines in (RECORDS, more))
    assert alone is not None
    assert both == pytest.approx(2 * alone)


def test_what_follows_from_the_choice_is_neither_tested_nor_ranked() -> None:
    found = table(RECORDS, GOOD, Column("cost", "cost"))
    cost = found.rows[1].amounts["cost"]
    assert (cost.p, cost.difference, cost.best) == (None, None, False)
    assert found.note.endswith("In bold or with ‹: the best mean of each place. Tested and ranked: good %.")


def test_a_row_without_rivals_is_not_the_best() -> None:
    assert not table(RECORDS[:3], GOOD).rows[0].amounts["good"].best
    level = [*RECORDS[:3], *(each | {"method": "theirs"} for each in RECORDS[:3])]
    assert not any(row.amounts["good"].best for row in table(level, GOOD).rows)


def test_a_mark_shows_its_direction() -> None:
    assert Amount(1.0, 0.1, p=0.02, difference=0.5).sign == "↑*"
    assert Amount(1.0, 0.1, p=0.001, difference=-0.5).sign == "↓**"
    assert Amount(1.0, 0.1, p=0.2, difference=-0.5).sign == ""


def test_written_tables_say_what_they_are_the_means_of() -> None:
    found = table(RECORDS[:4], GOOD)
    assert "| here | theirs | 20.0, 1 run |" in written(found)
    assert "here & theirs & $20.0$, 1 run" in latex(found)
    for words, sign in ((written(found), "±"), (latex(found), r"$\pm$")):
        assert f"Means {sign} standard errors over 3 repeats, fewer where said." in words
    assert found.caption.replace("*", r"\*") in written(found)
    assert r"\caption{title. Means" in latex(found)
    assert r"$\uparrow$ above, $\downarrow$ below method = ours: * p $\le$ 0.05" in latex(found)
    assert table(RECORDS[:1], GOOD).caption.startswith("title. One repeat.")


def test_a_long_latex_table_goes_on_over_pages() -> None:
    long = latex(table(RECORDS, GOOD))
    assert long.count("place & method & good") == 2
    order = [r"\begin{longtable}{llr}", r"\caption", r"\endfirsthead", r"\endhead", r"\endfoot", "here &"]
    assert [long.index(part) for part in order] == sorted(long.index(part) for part in order)


def written(found: Table) -> str:
    """The table and its caption in Markdown."""
    return f"{markdown(found)} {in_markdown(found.caption)}"


def test_tests_may_be_left_uncorrected_and_the_table_says_so() -> None:
    more = [each | {"place": place} for place in ("here", "there") for each in RECORDS]
    alone, both = (table(lines, GOOD, corrected=False) for lines in (RECORDS, more))
    assert both.rows[1].amounts["good"].p == alone.rows[1].amounts["good"].p
    assert "not corrected for their number" in both.note
    assert "(Holm)" in table(RECORDS, GOOD).note


def test_rows_that_read_as_the_best_are_marked_with_it() -> None:
    close = [*RECORDS, *records("close", [0.299999, 0.309999, 0.319999], [2.0, 2.1, 2.2])]
    found = tabulate(close, {"place": "place", "method": "method"}, [GOOD], among=("method",))
    assert [row.amounts["good"].best for row in found.rows] == [True, False, True]
    unrounded = Column("good", "", decimals=None, better=1)
    exact = tabulate(close, {"place": "place", "method": "method"}, [unrounded], among=("method",))
    assert [row.amounts["good"].best for row in exact.rows] == [True, False, False]


def test_every_k_of_a_metric_has_a_column_that_says_so() -> None:
    records = [{"k": 10, "ndcg": 0.5, "ndcg@20": 0.6, "ndcg@5": 0.4, "seed": 0, "method": "all"}]
    columns = metric_columns("ndcg", records)
    assert [column.heading for column in columns] == ["NDCG@10 %", "NDCG@5 %", "NDCG@20 %"]
    (row,) = tabulate(records, {"method": "method"}, columns).rows
    assert [row.amounts[column.key].mean for column in columns] == [0.5, 0.4, 0.6]
    assert metric_columns("f1", [{"f1": 0.5}])[0].heading == "F1@5 %"


def test_numbers_are_written_alike_everywhere() -> None:
    amount = Amount(-1234.5, 0.25, runs=3)
    assert text(amount, Column("a", "a", decimals=1), 3) == "−1,234.5 ±0.2"
    assert text(amount, Column("a", "a", decimals=1, spread=False), 4) == "−1,234.5, 3 runs"
    assert text(Amount(0.5, 0.1), Column("a", "a", signed=True), 1) == "+0.50 ±0.10"
    assert text(Amount(0.06251, 0.1), Column("a", "a", decimals=None), 1) == "0.0625"
    assert text(Amount(None), Column("a", "a"), 1) == "–"


def test_a_terminal_gets_the_best_with_a_mark_that_files_keep() -> None:
    title, headings, lines, texts = terminal(table(RECORDS, GOOD, COST))
    assert (title, headings, texts) == ("title", ["place", "method", "good %", "cost"], ("place", "method"))
    assert [cell.plain for cell in lines[0]] == ["here", "ours", "31.0 ±0.6 ‹", "2.10 ±0.06"]
    assert (lines[0][2].style, lines[0][3].style) == ("bold", "")
    numbers = tabulate([{"price": 0.5, "seed": 0, "good": 1.0}], {"price": "price"}, [GOOD])
    assert terminal(numbers)[3] == ()
    assert markdown(numbers).splitlines()[1] == "| --: | --: |"


def test_html_has_groups_marks_and_the_rows_of_interest() -> None:
    found = table(RECORDS[:4], GOOD)
    page = html({"First": found, "Second": found}, "Label", ours={"method": "ours"})
    assert page.count("<tbody>") == page.count('scope="rowgroup"') == 2
    assert page.count('<tr class="ours">') == page.count('<tr class="other">') == 2
    assert "<b>31.0</b><small> ±0.6</small>" in page
    assert "<td>20.0, 1 run</td>" in page
    assert 'class="ours"' not in html(found, "Label")


def test_a_table_is_written_in_four_forms(tmp_path: Path) -> None:
    files = write(table(RECORDS, GOOD), tmp_path)
    assert [file.name for file in files] == ["name.csv", "name.parquet", "name.md", "name.tex"]
    assert (tmp_path / "name.md").read_text().startswith("### title\n\n| place | method | good % |")


@pytest.mark.parametrize(
    ("p", "sign"), [(None, ""), (0.2, ""), (0.05, "*"), (0.02, "*"), (0.01, "**"), (1e-9, "**")]
)
def test_marks(p: float | None, sign: str) -> None:
    assert mark(p) == sign


def test_a_method_is_named_without_its_label() -> None:
    lines = [each | {METHOD: each["method"]} for each in RECORDS]
    labels = {"place": "place", METHOD: "method"}
    assert "below ours:" in tabulate(lines, labels, [GOOD], reference={METHOD: "ours"}).note


def test_rows_are_grouped_in_order() -> None:
    rows = table(RECORDS, GOOD).rows
    assert rows_by(rows, "method", "place") == {("ours", "here"): [rows[0]], ("theirs", "here"): [rows[1]]}


NASTY = "=cmd|'/c calc'!A1 | `x` [y](z) <b>&amp;</b> *a* _b_ in_word $d$ \\e {f} 10% #g ^h\n\x1b[31m\u202e"


def nasty_table(label: str = NASTY) -> Table:
    lines = [each | {"place": label} for each in RECORDS]
    return replace(table(lines, GOOD), title=label)


def test_markdown_shows_the_text_of_labels_and_nothing_else() -> None:
    html_of = MarkdownIt("commonmark").enable(["table", "strikethrough"]).render
    page = html_of(markdown(nasty_table()))
    assert page.count("</th>") == 3
    assert page.count("</td>") == 2 * 3
    shown = printable(NASTY)
    assert page.count(escape(shown, quote=False)) == 2
    assert not re.search(r"<(a|b|em|code|s)\b", page)


def test_latex_has_no_command_of_a_label() -> None:
    written = latex(nasty_table())
    assert r"\textbackslash{}e \{f\} 10\% \#g \textasciicircum{}h\textbackslash{}x0a" in written
    assert r"\textless{}b\textgreater{}\&amp;" in written
    assert r"\$d\$" in written
    for label in ("[3cm]", "*"):
        assert f"\\midrule\n\\endhead\n\\bottomrule\n\\endfoot\n{{}}{label} &" in latex(nasty_table(label))


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n"])
def test_a_spreadsheet_computes_no_text_of_a_csv(start: str, tmp_path: Path) -> None:
    files = write(nasty_table(f"{start}1+1"), tmp_path)
    with files[0].open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["place"] for row in rows} == {f"'{start}1+1"}
    assert all(float(row["good"]) for row in rows)
    assert set(pl.read_parquet(files[1])["place"]) == {f"{start}1+1"}


def test_a_negative_number_of_a_csv_stays_a_number(tmp_path: Path) -> None:
    files = write(table(RECORDS, replace(GOOD, factor=-100)), tmp_path)
    assert (pl.read_csv(files[0])["good"] < 0).all()


def test_html_shows_labels_as_text() -> None:
    page = html(nasty_table("<script>x</script>"), "<i>", ours=None)
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "<i>" not in page


def test_the_terminal_shows_labels_as_text() -> None:
    _, _, rows, _ = terminal(nasty_table())
    assert all(str(row[0]) == printable(NASTY) for row in rows)
    assert "\x1b" not in "".join(map(str, rows[0]))
