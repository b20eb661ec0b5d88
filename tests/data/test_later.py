"""What people say later holds over the log and over other sources; what is withdrawn was never there."""

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.data.files import write as written

from assent import AssentError, read_interactions
from assent.data.interactions import NEVER

LOG = """user,item,title,category,time,unwillingness
ann,a,A,Crime,1,0.1
ann,b,B,Crime,2,1
bob,a,A,Crime,3,0.3
bob,c,C,Drama,4,0.4
eve,c,C,Drama,5,0.5
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return written(tmp_path / "log.csv", LOG)


def said(folder: Path, *lines: str) -> Path:
    return written(folder / "now.csv", "\n".join(["user,item,unwillingness", *lines]))


def minded(table: pl.DataFrame) -> dict[tuple[str, str], float]:
    return {(user, item): value for user, item, value in table.select("user", "item", "unwillingness").rows()}


def test_a_later_wish_holds_over_the_log_and_takes_never_back(log: Path, tmp_path: Path) -> None:
    now = said(tmp_path, "ann,a,1", "ann,b,0.2", "bob,*,0.9", "bob,c,0")
    read = read_interactions(log, wishes=now)
    assert minded(read.table) == {("ann", "b"): 0.2, ("bob", "a"): 0.9, ("bob", "c"): 0.0, ("eve", "c"): 0.5}
    assert minded(read.sealed) == {("ann", "a"): 1.0}
    assert read.sealed["reason"].to_list() == [NEVER]
    assert read.minded["source"].to_list() == ["file:now.csv"] * 3 + ["column"]


def test_what_is_withdrawn_was_never_there(log: Path, tmp_path: Path) -> None:
    read = read_interactions(log, wishes=said(tmp_path, "ann,*,withdraw", "bob,a,Withdraw"))
    kept = [line for line in LOG.splitlines() if not line.startswith(("ann", "bob,a"))]
    without = read_interactions(written(tmp_path / "log.csv", "\n".join(kept)))
    assert read.table.equals(without.table)
    assert read.items.equals(without.items)
    assert read.sealed.equals(without.sealed)


def test_a_later_wish_fills_what_another_source_leaves_out(log: Path, tmp_path: Path) -> None:
    wishes = written(tmp_path / "wishes.csv", "user,item,unwillingness\nann,a,0.1\nbob,a,0.2\nbob,c,0.3\n")
    now = said(tmp_path, "eve,c,0.7", "ann,b,0.6")
    found = minded(read_interactions(log, unwillingness=f"file:{wishes}", wishes=now).table)
    assert found[("eve", "c")] == 0.7
    assert found[("ann", "b")] == 0.6
    with pytest.raises(AssentError, match="1 interactions have none"):
        read_interactions(log, unwillingness=f"file:{wishes}", wishes=said(tmp_path, "ann,b,0.7"))


def test_wishes_about_what_is_withdrawn_are_no_mistake(log: Path, tmp_path: Path) -> None:
    wishes = written(tmp_path / "wishes.csv", "user,item,unwillingness\nann,a,0.1\n*,*,0.2\n")
    now = said(tmp_path, "ann,*,withdraw")
    for source in (f"file:{wishes}", "user:ann=0.5,*=0.2"):
        found = read_interactions(log, unwillingness=source, wishes=now)
        assert minded(found.table) == {("bob", "a"): 0.2, ("bob", "c"): 0.2, ("eve", "c"): 0.2}


def test_rules_by_category_do_not_see_what_is_never_now(log: Path, tmp_path: Path) -> None:
    rules, now = "category:Crime=0.9,Drama=0.2", said(tmp_path, "bob,c,1", "eve,c,1")
    read = read_interactions(log, unwillingness=rules, wishes=now, allow_unmatched=True)
    assert minded(read.table) == {("ann", "a"): 0.9, ("bob", "a"): 0.9}
    assert "c" not in read.items["item"].to_list()


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["*,a,0.5"], "now.csv: row 1, column 'user' is '.*'; accepted: a person's id"),
        (["ann,z,0.5"], "1 line about nothing in the log, first user 'ann', item 'z'"),
        (["zoe,*,withdraw"], "1 line about nothing in the log, first user 'zoe', item '.*'"),
        (["ann,a,2"], "now.csv: row 1, column 'unwillingness'"),
        (["bob,a,withdraw", "ann,a,gone"], "now.csv: row 2, column 'unwillingness' .*, or withdraw"),
        (["ann,a,0.5", "ann,a,withdraw"], "rows 1 and 2 say"),
        (["ann,*,withdraw", "bob,*,withdraw", "eve,*,withdraw"], "everything is withdrawn"),
    ],
)
def test_what_cannot_be_meant_is_refused(log: Path, tmp_path: Path, lines: list[str], message: str) -> None:
    with pytest.raises(AssentError, match=message):
        read_interactions(log, wishes=said(tmp_path, *lines))


wish = st.sampled_from(["0", "0.25", "1", "withdraw"])


@given(
    st.dictionaries(st.sampled_from(["ann,a", "ann,b", "bob,a", "bob,c", "eve,c", "ann,*", "bob,*"]), wish)
)
def test_the_most_specific_line_counts(
    tmp_path_factory: pytest.TempPathFactory, lines: dict[str, str]
) -> None:
    folder = tmp_path_factory.mktemp("later")
    log = written(folder / "log.csv", LOG + "zoe,a,A,Crime,6,0.6\n")
    expected = {}
    for row in LOG.splitlines()[1:]:
        user, item, *_, value = row.split(",")
        now = lines.get(f"{user},{item}", lines.get(f"{user},*", value))
        if now != "withdraw":
            expected[user, item] = float(now)
    given_now = [f"{pair},{now}" for pair, now in lines.items()] or ["zoe,a,0.6"]
    read = read_interactions(log, wishes=said(folder, *given_now))
    found = minded(read.table) | minded(read.sealed)
    assert found == expected | {("zoe", "a"): 0.6}
