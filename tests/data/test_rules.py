import json
from pathlib import Path

import polars as pl
import pytest

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


def test_rules_as_text_and_as_parquet(tmp_path: Path) -> None:
    assert read_rules("a=b=0.25, 7 =1", "user") == Rules("a=b=0.25, 7 =1", {"a=b": 0.25, "7": 1.0}, None)
    path = tmp_path / "rules.parquet"
    pl.DataFrame({"category": [7, 8], "unwillingness": [1, 0]}).write_parquet(path)
    assert read_rules(str(path), "category") == Rules(str(path), {"7": 1.0, "8": 0.0}, None)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("r.yaml", "- ann\n", "not a mapping"),
        ("r.yaml", "ann: [1\n", "not valid YAML"),
        ("r.yaml", "ann: !!python/object/apply:os.getcwd []\n", "not valid YAML"),
        ("r.yaml", "yes: 0.1\n", "True is not a name"),
        ("r.yaml", "ann: yes\n", "'ann' is True; accepted: a number from 0"),
        ("r.yaml", "ann:\n", "'ann' is None; accepted"),
        ("r.yaml", "ann: .nan\n", "'ann' is nan; accepted"),
        ("r.json", '{"ann": -0.1}', "'ann' is -0.1; accepted"),
        ("r.json", "{", "not valid JSON"),
        ("r.csv", "user,beta\nann,1\n", "no column 'unwillingness'"),
        ("r.csv", "user,unwillingness\nann,1\nbob,NaN\n", "row 2, column 'unwillingness' is 'NaN'; accepted"),
        ("r.csv", "user,unwillingness\nann,1\n,1\n", "row 2, column 'user' is empty; accepted"),
        ("r.csv", "user,unwillingness\nann,1\nann,1\n", "user 'ann' occurs twice"),
    ],
)
def test_a_wrong_rules_file_is_named(name: str, content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(AssentError) as caught:
        read_rules(str(path), "user")
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["r.yaml", "r.json", "r.csv"])
def test_a_missing_rules_file_is_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(AssentError, match=name):
        read_rules(str(tmp_path / name), "user")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ann", "'ann': not a rule"),
        ("ann=1,ann=1", "user 'ann' occurs twice"),
        ("ann=x", "'ann' is 'x'; accepted"),
    ],
)
def test_a_wrong_text_is_named(text: str, message: str) -> None:
    with pytest.raises(AssentError, match=message):
        read_rules(text, "user")
