"""Rows that are never, or above a limit, are turned away before anything else is read.

Each property changes such rows in a file or a data frame, and demands the same log and the same problem.
"""

import json
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.data.files import refusal, write

from assent.data.door import assign
from assent.data.interactions import Interactions
from assent.data.problem import Rows, make_problem, make_problem_from_parts, parts_of
from assent.data.readers import from_frame, read_interactions
from assent.data.roles import plain
from assent.support.errors import AssentError

Row = dict[str, Any]
CELLS = ("user", "item", "time", "title", "category", "unwillingness", "split")
NONSENSE: Row = {"time": "?", "title": "a secret", "category": "Zzz|A", "split": "?"}
"""What may stand in the other cells of a row that is turned away."""


def row(user: str, item: str, time: int, minded: str, **more: str | None) -> Row:
    return {
        "user": user,
        "item": item,
        "time": str(time),
        "title": None,
        "category": "A",
        "unwillingness": minded,
        "split": ("train", "validation", "test")[time % 3],
        **more,
    }


FILLER = [row(user, f"f{k}", k, "0.5") for user in ("x", "y") for k in range(3)] + [
    row("z", f"g{k}", k, "0.25", title=f"The {k}", category="B") for k in range(3)
]
"""Enough for a problem, whatever else is there."""


@dataclass(frozen=True)
class Asking:
    """Where unwillingness comes from, for rows that say in their cell `unwillingness` what it will be."""

    name: str
    source: Callable[[list[Row], Path], str]
    options: dict[str, Any]
    keeps_cells: frozenset[str] = frozenset()
    """Cells on which it depends whether a row is turned away."""


def wishes(rows: list[Row], folder: Path) -> str:
    path = folder / "wishes.csv"
    lines = [
        f"{each['user']},{each['item']},{each['unwillingness']}" for each in rows if each["unwillingness"]
    ]
    path.write_text("\n".join(["user,item,unwillingness", *lines]) + "\n")
    os.utime(path, (0, 0))
    return f"file:{path}"


CATEGORY = frozenset({"category"})
ASKINGS = [
    Asking("column", lambda *_: "column", {}),
    Asking("column, closed", lambda *_: "column", {"closed": 0.8}),
    Asking("column, own-mean", lambda *_: "column", {"rest": "own-mean", "closed": 0.8}),
    Asking("column, mean", lambda *_: "column", {"rest": "mean"}),
    Asking("file", wishes, {"closed": 0.8}),
    Asking("file, own-mean", wishes, {"rest": "own-mean"}),
    Asking("user", lambda *_: "user:ann=1,bob=0.9,*=0.5", {"closed": 0.8}),
    Asking("category", lambda *_: "category:Secret=1,A=0.2,*=0.5", {}, CATEGORY),
    Asking(
        "category, mean", lambda *_: "category:Secret=0.9,A=0.2", {"rest": "mean", "closed": 0.8}, CATEGORY
    ),
    Asking("constant", lambda *_: "constant:0.9", {"closed": 0.9}),
    Asking("random", lambda *_: "random", {"closed": 0.6}),
    Asking("random-category", lambda *_: "random-category", {"closed": 0.6}, CATEGORY),
    Asking("simulated", lambda *_: "simulated", {"closed": 0.6}),
]


def as_frame(rows: list[Row]) -> pl.DataFrame:
    cells = {name: [each[name] and str(each[name]) for each in rows] for name in CELLS}
    return pl.DataFrame(cells, schema=dict.fromkeys(CELLS, pl.String))


def of_csv(rows: list[Row], folder: Path, **options: Any) -> Interactions:
    as_frame(rows).write_csv(folder / "log.csv")
    os.utime(folder / "log.csv", (0, 0))
    return read_interactions(folder / "log.csv", **options)


def of_parquet(rows: list[Row], folder: Path, **options: Any) -> Interactions:
    as_frame(rows).write_parquet(folder / "log.parquet")
    os.utime(folder / "log.parquet", (0, 0))
    return read_interactions(folder / "log.parquet", **options)


def of_polars(rows: list[Row], folder: Path, **options: Any) -> Interactions:
    return from_frame(as_frame(rows), source=options.pop("unwillingness"), **options)


def of_pandas(rows: list[Row], folder: Path, **options: Any) -> Interactions:
    """The cells as they are: numbers may stand among texts."""
    frame = pytest.importorskip("pandas").DataFrame(rows, columns=list(CELLS), dtype="object")
    return from_frame(frame, source=options.pop("unwillingness"), **options)


Reader = Callable[..., Interactions]
READERS = [of_csv, of_parquet, of_polars, of_pandas]


def outcome(log: Interactions) -> list[Any]:
    """All arrays and ids of a log's problem and its fingerprint, or why there is none."""
    try:
        if "split" in log.table.columns:
            problem = make_problem_from_parts(*parts_of(log), negatives=1)
        else:
            problem = make_problem(log, "full", negatives=1)
    except AssentError as error:
        return [str(error)]
    values = [getattr(problem, field.name) for field in fields(problem)]
    rows = [value for value in values if isinstance(value, Rows)]
    arrays = [array for each in rows for array in (each.users, each.items)]
    return [problem.fingerprint(), *(value for value in values if not isinstance(value, Rows)), *arrays]


def same(one: Interactions, other: Interactions) -> bool:
    """Whether two logs and their problems are the same, but for what is sealed."""
    tables = one.table.equals(other.table) and one.items.equals(other.items) and one.name == other.name
    return tables and all(np.array_equal(a, b) for a, b in zip(outcome(one), outcome(other), strict=True))


def holds(read: Reader, rows: list[Row], asking: Asking, added: list[Row], folder: Path) -> bool:
    """Whether changes of the rows that are turned away change nothing else."""

    def log_of(some: list[Row]) -> Interactions:
        source = asking.source(some, folder)
        return read(some, folder, unwillingness=source, allow_unmatched=True, **asking.options)

    log = log_of(rows)
    away = set(log.sealed.select("user", "item").iter_rows())
    kept = [each for each in rows if (each["user"], each["item"].removesuffix(".0")) not in away]
    changed = {name: cell for name, cell in NONSENSE.items() if name not in asking.keeps_cells}
    scrambled = [each if each in kept else {**each, **changed} for each in rows]
    fewer = [each for place, each in enumerate(scrambled) if each in kept or place % 2]
    variants = [scrambled, fewer]
    if kept:
        variants += [kept, kept[:3] + added + kept[3:], added + scrambled]
    return all(same(log_of(each), log) for each in variants)


@st.composite
def logs(draw: st.DrawFn) -> list[Row]:
    """Rows in which never, closed and open ones are mixed; some pairs are new, some shared with others."""
    pairs = draw(
        st.lists(
            st.tuples(
                st.sampled_from(["ann", "bob", "cem"]), st.sampled_from(["i1", "i2", "i3", "f0", "12.0"])
            ),
            max_size=9,
            unique=True,
        )
    )
    rows = []
    for user, item in pairs:
        more = {
            "title": draw(st.sampled_from([None, "One", "Two"])),
            "category": draw(st.sampled_from([None, "A", "B", "A|B", "Secret", "B|Secret", "Secret|A"])),
        }
        minded = draw(st.sampled_from(["0", "0.3", "0.75", "0.9", "1", "1"]))
        rows.append(row(user, item, draw(st.integers(0, 8)), minded, **more))
    place = draw(st.integers(0, len(rows)))
    return rows[:place] + FILLER + rows[place:]


GHOSTS = [
    {**row("ann", "new", 1, "1"), **NONSENSE},
    {**row("ghost id", "f1", 1, "1"), **NONSENSE, "time": "2024"},
]
ADDED = {
    "column": GHOSTS,
    "file": GHOSTS,
    "user": GHOSTS[:1],
    "category": [{**each, "category": "Zzz|Secret"} for each in GHOSTS],
}
"""Rows that are turned away, whatever else is there."""


@pytest.mark.parametrize("asking", ASKINGS, ids=lambda asking: asking.name)
def test_what_is_turned_away_changes_nothing(
    asking: Asking, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder, counts = tmp_path_factory.mktemp("logs"), []
    added = ADDED.get(asking.name.partition(",")[0], [])

    @settings(max_examples=12)
    @given(logs(), st.sampled_from(READERS))
    def check(rows: list[Row], read: Reader) -> None:
        if asking.options.get("rest"):
            rows = [{**each, "unwillingness": None} if each["title"] == "Two" else each for each in rows]
        source = asking.source(rows, folder)
        log = read(rows, folder, unwillingness=source, allow_unmatched=True, **asking.options)
        counts.append(log.sealed.height)
        assert holds(read, rows, asking, added, folder)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check()
    assert max(counts) or asking.name == "constant"


def late(rows: list[Row], folder: Path, **options: Any) -> Interactions:
    """A reader that leaks: it reads whole rows, and only then turns some of them away."""
    source = options.pop("unwillingness")
    if source == "column":
        options.pop("allow_unmatched", None)
        source = wishes(rows, folder)
    log = from_frame(as_frame(rows).drop("unwillingness"))
    return assign(log, source, allow_unmatched=True, **options)


LEAKS = {
    "title": row("ann", "f0", 1, "1", title="a secret"),
    "category": row("ann", "f0", 1, "1", category="Secret"),
    "split": row("ann", "new", 1, "1", split="?"),
    "time": {**row("ann", "new", 1, "1"), "time": "2024-05-31"},
}


@pytest.mark.parametrize("leak", LEAKS)
def test_a_leaky_reader_fails_the_check(leak: str, tmp_path: Path) -> None:
    rows = [LEAKS[leak], *FILLER]

    def is_fine(read: Reader) -> bool:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                return holds(read, rows, ASKINGS[0], [], tmp_path)
            except AssentError:
                return False

    assert is_fine(of_csv)
    assert not is_fine(late)


def test_a_leaky_mean_fails_the_check(tmp_path: Path) -> None:
    rows = [row("x", "new", 1, "1"), *FILLER[:-1], {**FILLER[-1], "unwillingness": None}]
    asking = next(each for each in ASKINGS if each.name == "column, mean")

    def leaky(rows: list[Row], folder: Path, **options: Any) -> Interactions:
        """Fills gaps by a mean over all rows, those that are turned away included."""
        given = [float(each["unwillingness"]) for each in rows if each["unwillingness"]]
        mean = str(sum(given) / len(given))
        return of_csv(
            [{**each, "unwillingness": each["unwillingness"] or mean} for each in rows], folder, **options
        )

    assert holds(of_csv, rows, asking, [], tmp_path)
    assert not holds(leaky, rows, asking, [], tmp_path)


# --- single cases


def test_one_odd_id_does_not_change_how_others_read(tmp_path: Path) -> None:
    log = write(tmp_path / "log.csv", "user,item,unwillingness\n8.0,1.0,0.5\nx,y,1\n")
    read = read_interactions(log)
    assert read.table.select("user", "item").rows() == [("8", "1")]
    assert read.sealed.select("user", "item").rows() == [("x", "y")]


def test_of_a_never_row_the_owner_the_item_and_the_title_are_kept(tmp_path: Path) -> None:
    log = write(
        tmp_path / "log.csv",
        "user,item,title,time,category,unwillingness\nann,i,My diary,?,?,1\nbob,i,,5,A,0.2\nann,j,,?,,0.9\n",
    )
    os.utime(log, (0, 86400))
    read = read_interactions(log, closed=0.8)
    assert read.table.rows() == [("bob", "i", 5.0, 0.2, "column", "1970-01-02T00:00:00Z")]
    assert read.items.rows() == [("i", None, ["A"])]
    assert read.sealed.rows() == [
        ("ann", "i", "My diary", 1.0, "column", "1970-01-02T00:00:00Z", "never"),
        ("ann", "j", None, 0.9, "column", "1970-01-02T00:00:00Z", "closed"),
    ]


def test_a_file_about_items_tells_the_titles_of_sealed_rows_too(tmp_path: Path) -> None:
    items = write(tmp_path / "items.csv", "item,title,category\ni,The i,Health\nj,The j,A\n")
    log = write(tmp_path / "log.csv", "user,item,title\nann,i,own words\nbob,j,\n")
    read = read_interactions(log, items=items, unwillingness="category:Health=1,A=0.2")
    assert read.sealed.select("user", "title").rows() == [("ann", "The i")]
    assert read.items["title"].to_list() == ["The i", "The j"]
    assert read.table["unwillingness"].to_list() == [0.2]


def test_if_one_row_of_a_pair_is_never_all_are(tmp_path: Path) -> None:
    text = "user,item,time,unwillingness\nann,i,5,0.2\nbob,i,6,0.2\nann,i,?,1\nann,i,7,0.3\n"
    read = read_interactions(write(tmp_path / "log.csv", text))
    assert read.table.select("user", "item").rows() == [("bob", "i")]
    assert read.sealed.select("user", "item", "unwillingness").rows() == [("ann", "i", 1.0)]


def test_a_row_that_is_never_by_its_own_cells_gives_its_category_to_nobody(tmp_path: Path) -> None:
    log = write(tmp_path / "log.csv", "user,item,category\nann,i,Health\nbob,i,A\ncem,i,\n")
    read = read_interactions(log, unwillingness="category:Health=1,A=0.2,*=0.6")
    assert read.table.select("user", "unwillingness").rows() == [("bob", 0.2), ("cem", 0.2)]
    assert read.items.rows() == [("i", None, ["A"])]
    alone = write(tmp_path / "log.csv", "user,item,category\nann,i,Health\nbob,j,A\ncem,i,\n")
    read = read_interactions(alone, unwillingness="category:Health=1,A=0.2,*=1")
    assert read.table["user"].to_list() == ["bob"]


def test_a_category_without_a_rule_does_not_open_the_door(tmp_path: Path) -> None:
    log = write(tmp_path / "log.csv", "user,item,category\nann,i,Health|New\nbob,j,A\nbob,k,New\n")
    for where in ({}, {"items": write(tmp_path / "items.csv", log.read_text().replace("user,", "who,"))}):
        for value, options in (("1", {}), ("0.9", {"closed": 0.8})):
            source = f"category:Health={value},A=0.2"
            read = read_interactions(log, unwillingness=source, rest="mean", **options, **where)  # type: ignore[arg-type]
            assert read.sealed.select("user", "unwillingness").rows() == [("ann", float(value))]
            assert read.table["unwillingness"].to_list() == [0.2, 0.2]


@pytest.mark.parametrize("minded", [{"unwillingness": 1}, {"unwillingness": 0.9, "beta": 0}])
@pytest.mark.parametrize(
    "keys",
    [
        {"user_id": "zoe", "item": "x"},
        {"user": "zoe", "item_id": "x"},
        {"userId": "zoe", "ItemID": "x", "user": None},
        {"user_id": "zoe", "item_id": "x", "timestamp": "?", "consent": 1, "genre": ["Secret"]},
    ],
)
@pytest.mark.parametrize("source", [None, "constant:0.5"])
def test_keys_of_a_row_that_is_turned_away_name_nobodys_columns(
    keys: Row, minded: Row, source: str | None, tmp_path: Path
) -> None:
    closed = None if minded["unwillingness"] == 1 else 0.8
    if closed and source:
        pytest.skip("the column's limit is not that of another source")
    rows: list[Row] = [
        {"user": "ann", "item": "i", "unwillingness": 0.5, "time": 1},
        {"user": "bob", "item": "j", "unwillingness": 0.25, "time": 2},
    ]
    path = tmp_path / "log.jsonl"
    read = []
    for lines in ([*rows], [*rows, {**keys, **minded}], [{**keys, **minded}, *rows]):
        write(path, "".join(json.dumps(each) + "\n" for each in lines))
        os.utime(path, (0, 0))
        read.append(read_interactions(path, unwillingness=source, closed=closed))
    alone, *beside = read
    for each in beside:
        assert each.table.equals(alone.table)
        assert each.items.equals(alone.items)
        assert each.sealed.select("user", "item", "unwillingness").rows() == [
            ("zoe", "x", minded["unwillingness"])
        ]


def test_a_never_row_under_another_name_than_the_logs_is_never(tmp_path: Path) -> None:
    rows = [{"user": "ann", "item": "i", "beta": 0.5}, {"user": "ann", "item": "j", "unwillingness": 1}]
    log = write(tmp_path / "log.jsonl", "".join(json.dumps(each) + "\n" for each in rows))
    read = read_interactions(log)
    assert read.table.select("item", "unwillingness").rows() == [("i", 0.5)]
    assert read.sealed["item"].to_list() == ["j"]


def test_errors_count_rows_as_the_file_does(tmp_path: Path) -> None:
    log = write(
        tmp_path / "log.csv", "user,item,time,unwillingness\nann,i,?,1\nbob,i,5,0.5\nbob,j,soon,0.5\n"
    )
    with pytest.raises(AssentError, match="row 3, column 'time' is 'soon'"):
        read_interactions(log)
    write(log, "user,item,unwillingness\nann,i,1\nbob,i,0.5\nbob,i,0.6\n")
    with pytest.raises(AssentError, match="rows 2 and 3 both have user 'bob' and item 'i'"):
        read_interactions(log)


def test_everything_may_be_never(tmp_path: Path) -> None:
    log = write(tmp_path / "log.csv", "user,item,time,unwillingness,split\nann,i,?,1,?\nann,j,,1,\n")
    read = read_interactions(log)
    assert (len(read), read.sealed.height, read.items.height) == (0, 2, 0)
    with pytest.raises(AssentError, match="no user has more than 0 interactions"):
        make_problem(replace(read, table=read.table.drop("split")), "full")


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from("abcdef"), st.sampled_from("uvwxyz"), st.sampled_from("ABC")), min_size=1
    ),
    st.floats(0, 1),
    st.integers(0, 5),
)
def test_a_limit_closes_what_is_drawn_by_category_and_draws_nothing_again(
    cells: list[tuple[str, str, str]], closed: float, seed: int
) -> None:
    """Rows about one item may name different categories: each row is drawn for by its own."""
    frame = pl.DataFrame(cells, {"user": pl.String, "item": pl.String, "category": pl.String}, orient="row")
    frame = frame.unique(["user", "item"], keep="first", maintain_order=True)
    whole = from_frame(frame, source="random-category", seed=seed).table
    read = from_frame(frame, source="random-category", seed=seed, closed=closed)
    columns = ["user", "item", "unwillingness"]
    assert read.table.select(columns).equals(whole.filter(pl.col("unwillingness") <= closed).select(columns))
    assert read.sealed.select(columns).equals(whole.filter(pl.col("unwillingness") > closed).select(columns))
    drawn = (
        frame.join(whole, on=["user", "item"])
        .group_by("user", "category")
        .agg(pl.col("unwillingness").n_unique())
    )
    assert (drawn["unwillingness"] == 1).all()


# --- willingness


YES = (
    "willingness", "Willing ness", "user_willingness", "WILLING", "consent", "gdpr_consent", "GDPRConsent",
    "hasConsent", "consented", "opt-in", "optedIn", "opted_in", "allowed", "isAllowed", "permission",
    "agreed", "agreement_no", "not_refused", "not_opted_out",
)  # fmt: skip
NO = (
    "opt_out", "optOut", "no_consent", "noconsent", "consent_withdrawn", "consentNotGiven", "unwilling",
    "refused", "not_allowed", "disallowed", "without permission", "not_opted_in", "Un-willing",
)  # fmt: skip


@pytest.mark.parametrize("name", YES)
def test_willingness_is_refused_with_the_option_that_reads_it_reversed(name: str, tmp_path: Path) -> None:
    log = write(tmp_path / "log.csv", f"user,item,{name}\nann,i,0.25\nann,j,0\n")
    message = refusal(log)
    assert f"column {name!r} seems to say the reverse of unwillingness" in message
    assert message.endswith(f"accepted: read it as willingness with columns={{'willingness': {name!r}}}")
    assert refusal(log, columns={"unwillingness": name}) == message
    read = read_interactions(log, columns={"willingness": name})
    assert read.table.select("item", "unwillingness").rows() == [("i", 0.75)]
    assert read.sealed["item"].to_list() == ["j"]
    frame = from_frame(pl.read_csv(log), willingness=name)
    assert frame.table.select("item", "unwillingness").rows() == [("i", 0.75)]
    # Another source that is asked for by name does not look at the column.
    assert read_interactions(log, unwillingness="constant:0.5").table["unwillingness"].to_list() == [0.5, 0.5]


def test_unwillingness_is_not_read_reversed(tmp_path: Path) -> None:
    log = write(tmp_path / "log.csv", "user,item,unwillingness,willingness\nann,i,0.25,0.75\n")
    assert read_interactions(log).table["unwillingness"].to_list() == [0.25]
    message = refusal(log, columns={"willingness": "unwillingness"})
    assert "read it as unwillingness with columns={'unwillingness': 'unwillingness'}" in message
    both = {"willingness": "willingness", "unwillingness": "unwillingness"}
    assert refusal(log, columns=both).endswith("accepted: one of them")


@pytest.mark.parametrize("name", NO)
def test_a_name_that_says_no_is_unwillingness_and_not_willingness(name: str, tmp_path: Path) -> None:
    log = write(tmp_path / "log.csv", f"user,item,{name}\nann,i,0.25\nann,j,1\n")
    assert "unwillingness" not in read_interactions(log).table.columns
    read = read_interactions(log, columns={"unwillingness": name})
    assert read.table.select("item", "unwillingness").rows() == [("i", 0.25)]
    message = refusal(log, columns={"willingness": name})
    assert f"column {name!r} seems to say the reverse of willingness" in message
    assert message.endswith(f"accepted: read it as unwillingness with columns={{'unwillingness': {name!r}}}")


@pytest.mark.parametrize("name", ["allowance", "option", "adopted_in", "object_id", "no", "note", "shallow"])
def test_other_names_are_taken_for_neither(name: str, tmp_path: Path) -> None:
    log = write(tmp_path / "log.csv", f"user,item,{name}\nann,i,0.25\n")
    assert "unwillingness" not in read_interactions(log).table.columns
    for role, value in (("unwillingness", 0.25), ("willingness", 0.75)):
        assert read_interactions(log, columns={role: name}).table["unwillingness"].to_list() == [value]


def test_a_log_without_unwillingness_can_be_read_but_not_split(tmp_path: Path) -> None:
    log = write(tmp_path / "log.csv", "user,item\n" + "".join(f"ann,i{k}\n" for k in range(5)))
    with pytest.raises(AssentError, match=r"log: no unwillingness is given; .*constant:0.3.*random, "):
        make_problem(read_interactions(log), "full")
    for asked in ({"unwillingness": "column"}, {"closed": 0.8}, {"rest": "mean"}):
        assert "log: no unwillingness is given; accepted: a column 'unwillingness', or " in refusal(
            log, **asked
        )
    gaps = read_interactions(
        write(tmp_path / "gaps.csv", "user,item,beta\nann,i,\nann,j,0\nann,k,0\n"), gaps=True
    )
    with pytest.raises(AssentError, match="1 interactions have no unwillingness"):
        make_problem(gaps, "full")


def test_names_are_compared_by_letters_and_digits() -> None:
    assert plain("User-ID ") == "userid"
