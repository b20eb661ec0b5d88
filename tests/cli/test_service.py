"""The commands of the service, on a database of their own."""

import sys
from pathlib import Path

import pytest

from assent.service import models
from assent.service.database import Database
from assent.service.security import check_key
from tests.conftest import Assent
from tests.service.trained import restored


@pytest.fixture
def place(tmp_path: Path) -> list[str]:
    """The options that name a trained service."""
    url = f"sqlite:///{tmp_path / 'data' / 'assent.db'}"
    database, _ = restored(url, tmp_path / "data")
    database.close()
    return ["--data", str(tmp_path / "data")]


def opened(place: list[str]) -> Database:
    return Database.open(f"sqlite:///{place[1]}/assent.db")


def test_keys_are_made_shown_once_rotated_and_revoked(place: list[str], assent: Assent) -> None:
    code, out, _ = assent("keys", "create", "--name", "shop", "--scopes", "wishes, links", *place)
    key = out.strip()
    assert code == 0
    id = key.split("_")[1]
    code, out, _ = assent("keys", "list", *place)
    assert (code, id in out, "shop" in out, key in out) == (0, True, True, False)
    new = assent("keys", "rotate", id, *place)[1].strip()
    assert new != key
    assert assent("keys", "revoke", new.split("_")[1], *place)[0] == 0
    database = opened(place)
    with database.reading() as session:
        assert check_key(session, key).scopes == {"wishes", "links"}
        with pytest.raises(Exception, match="key"):
            check_key(session, new)
    database.close()
    code, _, err = assent("keys", "create", "--name", "shop", "--scopes", "everything", *place)
    assert (code, err.count("\n")) == (2, 1)
    assert "accepted: " in err


@pytest.mark.parametrize(
    "words",
    [
        ["ledger", "--to", "x.jsonl"],
        ["backup", "--to", "copy"],
        ["work", "--once"],
        ["keys", "list"],
        ["keys", "rotate", "0123456789ab"],
        ["keys", "revoke", "0123456789ab"],
    ],
)
def test_a_mistyped_folder_becomes_no_new_service(
    words: list[str], tmp_path: Path, assent: Assent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = assent(*words, "--data", "typo")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "typo/assent.db: there is no service; accepted: one that assent serve" in err
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "assent.db").touch()
    code, _, err = assent(*words, "--data", ".")
    assert (code, "there is no service" in err) == (2, True)


def test_a_backup_goes_into_another_folder(place: list[str], tmp_path: Path, assent: Assent) -> None:
    code, out, _ = assent("backup", "--to", tmp_path / "backup", *place)
    assert (code, "rows of 14 tables" in out) == (0, True)
    assert assent("backup", "--to", tmp_path / "backup", *place)[0] == 2
    code, out, _ = assent("restore", tmp_path / "backup", "--data", tmp_path / "other")
    assert (code, "rows of 14 tables" in out) == (0, True)
    code, _, err = assent("restore", tmp_path / "backup", "--data", tmp_path / "other")
    assert (code, "not empty" in err) == (2, True)
    other = opened(["", str(tmp_path / "other")])
    with other.reading() as session:
        assert models.in_service(session) is not None
    other.close()


def test_a_worker_does_what_waits(place: list[str], assent: Assent) -> None:
    database = opened(place)
    with database.writing() as session:
        from assent.service import jobs

        id = jobs.enqueue(session, "update", by="tests")
    code, _, err = assent("work", "--once", *place)
    assert (code, f"job {id} (update): done" in err) == (0, True)
    with database.reading() as session:
        assert jobs.get(session, id).state == "done"
    database.close()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["serve", "--demo", "--host", "0.0.0.0"], "--host 0.0.0.0: the demo lets anybody in"),
        (["serve", "--settings", "none.yaml"], "none.yaml: No such file"),
        (["keys", "create", "--name", "", "--scopes", "links"], "name '': accepted: a printable text"),
        (["keys", "create", "--name", "a", "--scopes", "links", "--days", "0"], "--days 0: accepted: more"),
        (["work", "--database", "mysql://ann:letmein@host/x"], "database: a URL of mysql; accepted: sqlite"),
        (["restore", "nowhere"], "nowhere/backup.json: no such file"),
    ],
)
def test_what_is_refused_is_one_line(
    words: list[str], message: str, tmp_path: Path, assent: Assent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = assent(*words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err
    assert "letmein" not in err


def test_without_the_libraries_the_way_to_get_them_is_named(
    assent: Assent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "assent.cli.service_commands", raising=False)
    code, out, err = assent("keys", "list")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "pip install 'assent[service]'" in err
