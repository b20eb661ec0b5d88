import json
from collections.abc import Mapping
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assent.data.door import assign
from assent.data.interactions import NO_ITEMS, Interactions
from assent.data.rules import Rules, read_rules
from assent.support.errors import AssentError

FORMS = {
    "rules.yaml": "ann: 0.25\n7: 1\n'*': .5\n",
    "rules.YML": "ann: '0.25'\n'7': 1.0\n'*': 0.5\n",
    "rules.json": json.dumps({"ann": 0.25, "7": 1, "*": 0.5}),
    "rules.csv": "user,unwillingness\nann,0.25\n7,1\n*,0.5\n",
    "rules.tsv": "note\tunwillingness\tuser\n\t0.25\tann\n\t1\t7\n\t0.5\t*\n",
}


@pytest.mark.parametrize("name", FORMS)
def test_every_form_of_a_rules_file_says_the_same(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(FORMS[name])
    assert read_rules(str(path), "user") == Rules(str(path), {"ann": 0.25, "7": 1.0}, 0.5)


def test_a_value_that_is_no_text_is_refused() -> None:
    """As of a command line whose bytes are no UTF-8."""
    with pytest.raises(AssentError, match=r"'ann' is '\\udc80'; accepted: a number from 0"):
        read_rules("ann=\udc80", "user")


def test_rules_as_text_and_as_parquet(tmp_path: Path) -> None:
    assert read_rules("a=b=0.25, 7 =1", "user") == Rules("'a=b=0.25, 7 =1'", {"a=b": 0.25, "7": 1.0}, None)
    path = tmp_path / "rules.parquet"
    pl.DataFrame({"category": [7, 8], "unwillingness": [1, 0]}).write_parquet(path)
    assert read_rules(str(path), "category") == Rules(str(path), {"7": 1.0, "8": 0.0}, None)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("r.yaml", "- ann\n", "line 1: not a plain mapping"),
        ("r.yaml", "", "line 1: not a plain mapping"),
        ("r.yaml", "ann: 1\nbob: [1\n", "line 2: not a plain mapping"),
        ("r.yaml", "ann: {bob: 1}\n", "line 1: not a plain mapping"),
        ("r.yaml", "ann: 1\n---\nbob: 1\n", "line 2: not a plain mapping"),
        ("r.yaml", "ann: !!python/object/apply:os.getcwd []\n", "line 1: not a plain mapping"),
        ("r.yaml", "ann: !!str 1\n", "line 1: not a plain mapping"),
        ("r.yaml", "ann: &a 1\nbob: *a\n", "line 1: not a plain mapping"),
        ("r.yaml", "*: 1\n", "not valid YAML"),
        ("r.yaml", "<<: {ann: 1}\n", "line 1: not a plain mapping"),
        ("r.yaml", "? [ann]\n: 1\n", "line 1: not a plain mapping"),
        ("r.yaml", "ann: 1\nbob: " + "[" * 100_000, "line 2: not a plain mapping"),
        ("r.yaml", "ann: 1\n" + "".join(" " * n + f"a{n}:\n" for n in range(500)), "not a plain mapping"),
        ("r.yaml", '"\\UFFFFFFFF": 1\n', "not valid YAML"),
        ("r.yaml", '"\\uD800": 1\n', "a name holds bytes that are not text"),
        ("r.yaml", '"": 1\n', "'' is not a name"),
        (
            "r.yaml",
            "ann: 1\n#" + "x" * 2**24,
            "too large for a file of rules; accepted: at most 16777216 bytes",
        ),
        ("r.yaml", "ann: 1\nann: 0\n", "user 'ann' occurs twice; accepted: once"),
        ("r.yaml", "ann: 1\n' ann ': 0\n", "user 'ann' occurs twice"),
        ("r.yaml", "ann: yes\n", "'ann' is 'yes'; accepted: a number from 0"),
        ("r.yaml", "ann:\n", "'ann' is ''; accepted"),
        ("r.yaml", "ann: .nan\n", "'ann' is '.nan'; accepted"),
        ("r.json", '{"ann": 1, "ann": 0}', "not valid JSON ('ann' occurs twice)"),
        ("r.json", '{"8": 1, "8.0": 0}', "user '8' occurs twice"),
        ("r.json", '{"ann": {"bob": 1}}', "'ann' is {'bob': 1}; accepted"),
        ("r.json", '{"ann": true}', "'ann' is True; accepted"),
        ("r.json", '{"ann": 1e999}', "'ann' is inf; accepted"),
        ("r.json", f'{{"ann": {"9" * 999}}}', "...; accepted"),
        ("r.json", f'{{"ann": {"9" * 9999}}}', "not valid JSON"),
        ("r.json", "[" * 100_000, "not valid JSON"),
        ("r.json", '["ann"]', "not a mapping"),
        ("r.json", '{"\\ud800": 1}', "a name holds bytes that are not text"),
        ("r.json", '{"a\\u0000": 1}', "'a\\x00' is not a name"),
        ("r.json", '{"ann": -0.1}', "'ann' is -0.1; accepted"),
        ("r.json", "{", "not valid JSON"),
        ("r.csv", "user,beta\nann,1\n", "no column 'unwillingness'"),
        ("r.csv", "user,unwillingness\nann,1\nbob,NaN\n", "row 2, column 'unwillingness' is 'NaN'; accepted"),
        ("r.csv", "user,unwillingness\nann,1\n,1\n", "row 2, column 'user' is empty; accepted"),
        ("r.csv", "user,unwillingness\nann,1\nann,1\n", "user 'ann' occurs twice"),
        ("r.csv", "user,unwillingness\n8.0,1\n8,1\n", "user '8' occurs twice"),
        ("r.csv", "user,unwillingness\nann,1\n ann,0\n", "user 'ann' occurs twice"),
        (
            "r.csv",
            "user,unwillingness\nann,0_1\n",
            "row 1, column 'unwillingness' is '0_1'; accepted: a number",
        ),
        ("r.yaml", "ann: 0_1\n", "'ann' is '0_1'; accepted: a number from 0"),
        ("r.yaml", "ann: \u0661\n", "accepted: a number from 0"),
        (
            "r.yaml",
            "ann: 80\n",
            "'ann' is '80'; accepted: a number from 0 (use freely) to 1 (never), or scale=percent",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_a_wrong_rules_file_is_named(name: str, content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(AssentError) as caught:
        read_rules(str(path), "user")
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_keys_are_text_exactly_as_they_are_written(tmp_path: Path) -> None:
    keys = [
        "010",
        "007",
        "1_000",
        "1:30",
        "yes",
        "No",
        "null",
        "~",
        "1.50",
        "0x1f",
        "1e3",
        "2024-05-31",
        "<<",
        "=",
    ]
    path = tmp_path / "rules.yaml"
    path.write_text("".join(f"{key}: 0.5\n" for key in keys))
    assert list(read_rules(str(path), "user").values) == keys
    users = pl.Series(["10", "8", "1000", "90", "True", "1.5"])
    with pytest.raises(
        AssentError, match="no user of log is called '007', '010', '0x1f' and 11 more; accepted"
    ):
        read_rules(str(path), "user").apply(users, "user", "log")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("r.csv", "user,unwillingness\n8.0,1\n*,0.5\n"),
        ("r.csv", "user;unwillingness\n 8;1\n*;0.5\n"),
        ("r.yaml", "8.0: 1\n'*': 0.5\n"),
        ("r.json", '{"8.0 ": 1, "*": 0.5}'),
        ("r.jsonl", '{"user": 8.0, "unwillingness": 1}\n{"user": "*", "unwillingness": 0.5}'),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_rules_match_ids_that_are_written_otherwise(name: str, content: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(content)
    rules = read_rules(str(path), "user")
    assert rules.apply(pl.Series(["8", "9", None]), "user", "log").to_list() == [1, 0.5, 0.5]


def test_a_rule_for_nothing_is_refused_with_the_nearest_category() -> None:
    rules, genres = (
        read_rules("Drma=1,comedy=1,Q=1,R=1,*=0.5", "category"),
        pl.Series(["Drama", "Comedy", None]),
    )
    with pytest.raises(AssentError) as caught:
        rules.apply(genres, "category", "films")
    assert str(caught.value) == (
        "'Drma=1,comedy=1,Q=1,R=1,*=0.5': no category of films is called "
        "'Drma' (did you mean 'Drama'?), 'Q', 'R' and 1 more; "
        "accepted: rules for a category that occurs, or allow_unmatched=True"
    )
    with pytest.warns(UserWarning, match="ignored 4 rules whose category is not in films, first 'Drma'"):
        values = rules.apply(genres, "category", "films", allow_unmatched=True)
    assert values.to_list() == [0.5] * 3


def test_a_rule_for_nobody_names_nobody_else() -> None:
    with pytest.raises(AssentError) as caught:
        read_rules("anna=1,*=0.5", "user").apply(pl.Series(["annA", "hanna"]), "user", "films")
    assert "no user of films is called 'anna'; accepted" in str(caught.value)
    assert "annA" not in str(caught.value)
    assert "hanna" not in str(caught.value)


@pytest.mark.filterwarnings("ignore")
def test_wishes_about_a_pair_may_repeat_but_not_contradict_each_other(tmp_path: Path) -> None:
    table = pl.DataFrame({"user": ["8", "8", "9"], "item": ["x", "y", "x"]})
    log = Interactions("log", table.with_columns(time=pl.lit(None, pl.Float64)), NO_ITEMS)
    wishes = tmp_path / "wishes.csv"
    wishes.write_text("user,item,unwillingness\n8.0,x,0.5\n8, x ,0.50\n*,*,0.25\n")
    assert assign(log, f"file:{wishes}").table["unwillingness"].to_list() == [0.5, 0.25, 0.25]
    wishes.write_text("user,item,unwillingness\n8,x,0.5\n9,x,0\n8,x,0.5\n8,x,0.75\n*,*,0.25\n")
    with pytest.raises(AssentError) as caught:
        assign(log, f"file:{wishes}")
    about = "rows 1 and 4 say 0.5 and 0.75 about user '8' and item 'x'"
    assert str(caught.value) == f"{wishes}: {about}; accepted: one value for each pair"


def rules_or_message(text: str) -> tuple[Mapping[str, float], str]:
    """Rules by user, or the message that refuses them."""
    try:
        return read_rules(text, "user").values, f"{text}: read"
    except AssentError as error:
        return {}, str(error)


ENTRIES = st.lists(st.tuples(st.text(max_size=9), st.text("0123456789.-eE_:yn ", max_size=5)), max_size=4)


@given(
    name=st.sampled_from(["r.yaml", "r.json", "r.csv", "r.tsv", "r.jsonl", "r.csv.gz"]),
    content=st.binary(max_size=99)
    | st.text("a1:&*!<>-?[]{},|%#\"' \n\t\\", max_size=99).map(str.encode)
    | ENTRIES.map(lambda rules: "\n".join(f"{name}: {value}" for name, value in rules).encode())
    | ENTRIES.map(lambda rules: json.dumps(dict(rules)).encode()),
)
@settings(max_examples=300)
@pytest.mark.filterwarnings("ignore")
def test_any_file_holds_rules_or_is_refused_in_one_line(
    tmp_path_factory: pytest.TempPathFactory, name: str, content: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / name
    path.write_bytes(content)
    rules, message = rules_or_message(str(path))
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    assert all(0 <= value <= 1 for value in rules.values())
    assert all(key and key == key.strip() for key in rules)


@given(st.text(max_size=40) | st.text("a1=,.* ", max_size=20))
def test_any_text_is_rules_or_refused_in_one_line(text: str) -> None:
    assert "\n" not in rules_or_message(text)[1].replace(text, "")


@pytest.mark.parametrize("name", ["r.yaml", "r.json", "r.csv"])
def test_a_missing_rules_file_is_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(AssentError, match=name):
        read_rules(str(tmp_path / name), "user")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ann", "'ann': not a rule"),
        ("ann=1,ann=1", "user 'ann' occurs twice"),
        ("ann=1, ann =0", "user 'ann' occurs twice"),
        ("8=1,8.0=0", "user '8' occurs twice"),
        ("=1", "'' is not a name"),
        ("a\0=1", "is not a name"),
        ("\udcff=1", "a name holds bytes that are not text"),
        (f"{'x' * 999}=2", r"^'x{75}\.\.\.': 'x{75}\.\.\.' is '2'; accepted"),
        ("ann=x", "'ann' is 'x'; accepted"),
    ],
)
def test_a_wrong_text_is_named(text: str, message: str) -> None:
    with pytest.raises(AssentError, match=message):
        read_rules(text, "user")
