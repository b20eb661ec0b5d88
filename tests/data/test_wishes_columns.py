"""Columns of a file of wishes may have any name, too."""

from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Assent

from assent import AssentError, assign, read_interactions

LOG = "user,item\nann,f1\nann,f2\nbob,f1\n"
WISHES = "member,film,mind,when\nann,f1,0.9,2026-03-01\n*,*,0.2,2026-04-01\nbob,f1,1,2026-05-01\n"
NAMED = {"user": "member", "item": "film", "unwillingness": "mind", "time": "when"}


@pytest.fixture
def log(tmp_path: Path) -> Path:
    (tmp_path / "log.csv").write_text(LOG)
    (tmp_path / "wishes.csv").write_text(WISHES)
    return tmp_path / "log.csv"


def refusal(log: Path, **how: Any) -> str:
    with pytest.raises(AssentError) as caught:
        read_interactions(log, unwillingness=f"file:{log.with_name('wishes.csv')}", **how)
    return str(caught.value)


def test_columns_are_named_by_role(log: Path) -> None:
    source = f"file:{log.with_name('wishes.csv')}"
    read = read_interactions(log, unwillingness=source, wishes_columns=NAMED)
    assert read.table["unwillingness"].to_list() == [0.9, 0.2]
    assert read.table["said"].to_list() == ["2026-03-01T00:00:00Z", "2026-04-01T00:00:00Z"]
    assert read.sealed["user"].to_list() == ["bob"]
    bare = read_interactions(log)
    assert assign(bare, source, wishes_columns=NAMED).table.equals(read.table)


def test_willingness_is_reversed_if_it_is_named(log: Path) -> None:
    wishes = log.with_name("wishes.csv")
    wishes.write_text("user,item,consent\nann,f1,0.25\n*,*,1\n")
    assert refusal(log) == (
        f"{wishes}: column 'consent' seems to say the reverse of unwillingness; accepted: read it as "
        "willingness with wishes_columns={'willingness': 'consent'}"
    )
    read = read_interactions(log, unwillingness=f"file:{wishes}", wishes_columns={"willingness": "consent"})
    assert read.table["unwillingness"].to_list() == [0.75, 0.0, 0.0]


def test_the_columns_of_the_log_are_others(log: Path) -> None:
    log.write_text(LOG.replace("user,item", "who,what"))
    read = read_interactions(
        log,
        columns={"user": "who", "item": "what"},
        unwillingness=f"file:{log.with_name('wishes.csv')}",
        wishes_columns=NAMED,
    )
    assert read.table.height == 2


def test_what_cannot_be_is_refused(log: Path) -> None:
    wishes = log.with_name("wishes.csv")
    assert "or name it with wishes_columns={'user': 'NAME'}" in refusal(log)
    assert refusal(log, wishes_columns={"user": "nobody"}).startswith(
        f"{wishes}: no column 'nobody' (wishes_columns={{'user': 'nobody'}}); columns: 'member'"
    )
    both = refusal(log, wishes_columns=NAMED | {"title": "film"})
    assert both.startswith("wishes_columns={'title': 'film'}: unknown role 'title'; accepted: user, item, ")
    with pytest.raises(AssentError, match=r"there is no file of wishes; accepted: with unwillingness=file:"):
        read_interactions(log, unwillingness="constant:0.3", wishes_columns=NAMED)


def test_the_option_is_the_argument(log: Path, assent: Assent) -> None:
    base = ["fit", log, "--unwillingness", f"file:{log.with_name('wishes.csv')}", "--out", log.parent / "run"]
    for given, message in {
        "user=member,item=film,unwillingness=mind,time=no": "no column 'no' (--wishes-columns time=no)",
        "title=film": "--wishes-columns title=film: accepted: ROLE=NAME with a role of user, item, unwill",
        "user=": "--wishes-columns user=: accepted: ROLE=NAME",
        "item=film": "or name it with --wishes-columns user=NAME",
    }.items():
        code, out, err = assent(*base, "--wishes-columns", given)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert message in err
