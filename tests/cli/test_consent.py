"""Consent from the file to the run folder: none is invented, and what was not to be read was not."""

import json
import os
import re
from io import BytesIO
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from assent.data.unwillingness import SOURCES
from assent.runs.manifest import MANIFEST
from tests.cli.conftest import QUICK, records
from tests.conftest import Assent

SMALL = [*QUICK, "--negatives", 3]
PAIRS = [(f"u{u}", f"i{(u + k) % 9}", k) for u in range(9) for k in range(5)]
MODEL = ("model.safetensors", "model.json", "selection.parquet", "held_out.parquet")


def write(path: Path, header: str, rows: list[str]) -> Path:
    path.write_text("\n".join([header, *rows]) + "\n")
    os.utime(path, (0, 86400))
    return path


def timeless(content: bytes) -> Any:
    """The content of a file, JSON without what a clock says."""

    def without_seconds(members: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in members.items() if key != "seconds"}

    is_json = content[:1] in (b"{", b"[")
    return json.loads(content, object_hook=without_seconds) if is_json else content


def log_of(folder: Path, *more: str) -> Path:
    """A log of nine people, before it `more` rows of user, item, title, time and unwillingness."""
    folder.mkdir(exist_ok=True)
    rows = [f"{user},{item},,{k},0.{k}" for user, item, k in PAIRS]
    return write(folder / "log.csv", "user,item,title,time,unwillingness", [*more, *rows])


@pytest.mark.parametrize("command", ["fit", "frontier", "compare", "lds"])
def test_no_consent_is_invented(command: str, tmp_path: Path, assent: Assent) -> None:
    log = write(tmp_path / "log.csv", "user,item", [f"{user},{item}" for user, item, _ in PAIRS])
    code, out, err = assent(command, log, "--out", tmp_path / "run", "--jobs", 1)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert (
        "log: no unwillingness is given; accepted: a column 'unwillingness', or --unwillingness SOURCE" in err
    )
    assert SOURCES in err
    assert not (tmp_path / "run").exists()
    assert assent("data", "describe", log)[0] == 0


def test_willingness_is_refused_with_the_option_that_reads_it(tmp_path: Path, assent: Assent) -> None:
    rows = [f"{user},{item},{1 - k / 4:g}" for user, item, k in PAIRS]
    log = write(tmp_path / "log.csv", "user,item,Willingness", rows)
    command = ["fit", log, "--out", tmp_path / "run", *SMALL, "--method", "threshold"]
    for more in ([], ["--columns", "unwillingness=Willingness"]):
        code, out, err = assent(*command, *more)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert "column 'Willingness' seems to say the reverse of unwillingness" in err
        assert "--columns willingness=Willingness" in err
    code, _, err = assent(*command, "--columns", "willingness=Willingness")
    assert code == 0, err
    assert "9 interactions are never to be used and were left out before all else" in err
    assert pl.read_parquet(tmp_path / "run" / "selection.parquet")["unwillingness"].max() == 0.75


def test_a_mistyped_rule_is_refused_unless_it_is_allowed(tmp_path: Path, assent: Assent) -> None:
    rows = [f"{user},{item},{'Drama' if k % 2 else 'Crime'}" for user, item, k in PAIRS]
    log = write(tmp_path / "log.csv", "user,item,category", rows)
    command = ["fit", log, "--out", tmp_path / "run", *SMALL, "--method", "threshold"]
    command += ["--unwillingness", "category:Drma=1,*=0.5"]
    code, out, err = assent(*command)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "'Drma'" in err
    assert "--allow-unmatched" in err
    assert not (tmp_path / "run").exists()
    code, _, err = assent(*command, "--allow-unmatched")
    assert code == 0, err
    assert "'Drma'" in err


def run_of(log: Path, assent: Assent, *more: object) -> dict[str, Any]:
    """All of a run that does not depend on a clock, as bytes and figures."""
    folder = log.parent / "run"
    code, _, err = assent("fit", log, "--out", folder, *SMALL, "--budget", 0.6, *more)
    assert code == 0, err
    # The report shows seconds, the manifest has its hash, and the sealed list is of what was turned away.
    files = [
        file for file in folder.iterdir() if file.name not in ("report.html", MANIFEST, "sealed.parquet")
    ]
    assert {*MODEL, "metrics.json", "tuning.json", "certificate.json"} <= {file.name for file in files}
    found: dict[str, Any] = {file.name: timeless(file.read_bytes()) for file in files}
    found["recommended"] = assent("recommend", folder, "--user", "u1")[1]
    found["explained"] = assent("explain", folder, "--user", "u1")[1]
    return found


@pytest.mark.parametrize(
    ("minded", "options"), [("1", []), ("0.9", ["--closed", 0.8])], ids=["never", "closed"]
)
def test_what_is_turned_away_changes_no_byte_of_a_run(
    minded: str, options: list[Any], tmp_path: Path, assent: Assent
) -> None:
    ghosts = [f"u0,i8,a secret,?,{minded}", f"u0,i7,a secret,?,{minded}", f"!,zzz,a secret,soon,{minded}"]
    before = run_of(log_of(tmp_path / "a"), assent, *options)
    after = run_of(log_of(tmp_path / "b", *ghosts), assent, *options)
    assert after == before
    assert before["settings.json"]["closed"] == (options[-1] if options else None)
    for name in ("selection.parquet", "held_out.parquet", "report.html", "model.json", "metrics.json"):
        assert b"a secret" not in (tmp_path / "b" / "run" / name).read_bytes()


def test_a_file_that_is_touched_changes_when_wishes_were_said_and_nothing_else(
    tmp_path: Path, assent: Assent
) -> None:
    before = run_of(log_of(tmp_path / "a"), assent)
    log = log_of(tmp_path / "b")
    os.utime(log, (0, 2 * 86400))
    after = run_of(log, assent)
    tables = ("selection.parquet", "held_out.parquet")
    for name in tables:
        old, new = (pl.read_parquet(BytesIO(found.pop(name))) for found in (before, after))
        assert old["said"].unique().to_list() == ["1970-01-02T00:00:00Z"]
        assert new["said"].unique().to_list() == ["1970-01-03T00:00:00Z"]
        assert new.drop("said").equals(old.drop("said"))
    for found in (before, after):
        found["explained"] = re.sub(r"\(1970-01-0[23]\)", "", found["explained"])
    assert after == before


def test_owners_see_what_was_never_used_and_nobody_else_does(tmp_path: Path, assent: Assent) -> None:
    log = log_of(tmp_path, "u0,i7,My diary,?,1", "eve,i1,Her own,?,1", "u0,i8,,?,0.9")
    code, _, err = assent("fit", log, "--out", tmp_path / "run", *SMALL, "--method", "all", "--closed", 0.8)
    assert code == 0, err
    assert "2 interactions are never to be used" in err
    assert "1 interactions are above --closed 0.8: withheld unread" in err
    sealed = pl.read_parquet(tmp_path / "run" / "sealed.parquet")
    assert sealed.select("user", "item", "title", "reason").rows() == [
        ("u0", "i7", "My diary", "never"),
        ("eve", "i1", "Her own", "never"),
        ("u0", "i8", None, "closed"),
    ]
    file = tmp_path / "e.json"
    code, out, _ = assent("explain", tmp_path / "run", "--user", "u0", "--json", file)
    assert code == 0
    assert "My diary" in out
    assert "withheld unread, above the limit 0.8" in out
    assert [record["words"] for record in records(file)][-2:] == [
        "never used",
        "withheld unread, above the limit 0.8",
    ]
    code, out, _ = assent("explain", tmp_path / "run", "--user", "eve")
    assert (code, "Her own" in out, "never used" in out) == (0, True, True)
    for user in ("u1", "u7"):
        for command in ("explain", "recommend"):
            out = assent(command, tmp_path / "run", "--user", user)[1]
            assert "My diary" not in out
            assert "Her own" not in out


def test_a_stranger_is_told_of_nobody(tmp_path: Path, assent: Assent) -> None:
    assert assent("fit", log_of(tmp_path), "--out", tmp_path / "run", *SMALL, "--method", "all")[0] == 0
    code, _, err = assent("explain", tmp_path / "run", "--user", "nobody")
    assert code == 2
    assert "--user nobody: not in this run" in err
    code, out, _ = assent("recommend", tmp_path / "run", "--user", "nobody")
    assert code == 0
    assert not any(f"u{number}" in err + out for number in range(9))


def test_every_value_has_a_source_and_a_time(tmp_path: Path, assent: Assent) -> None:
    log = write(tmp_path / "log.csv", "user,item,time", [f"{user},{item},{k}" for user, item, k in PAIRS])
    rows = [f"{user},{item},0.{k},2026-0{k + 1}-15" for user, item, k in PAIRS if k not in (1, 3)]
    wishes = write(
        tmp_path / "wishes.csv", "user,item,unwillingness,time", [*rows[:-1], "u8,i3,1,2026-09-01"]
    )
    how = ["--unwillingness", f"file:{wishes}", "--rest", "own-mean", "--allow-unmatched"]
    code, _, err = assent("fit", log, "--out", tmp_path / "run", *SMALL, "--method", "all", *how)
    assert code == 0, err
    tables = [
        pl.read_parquet(tmp_path / "run" / f"{name}.parquet") for name in ("selection", "held_out", "sealed")
    ]
    found = {(row["user"], row["item"]): row for table in tables for row in table.to_dicts()}
    assert len(found) == len(PAIRS)
    for user, item, k in PAIRS:
        source, said = found[user, item]["source"], found[user, item]["said"]
        if k in (1, 3):
            assert (source, said) == ("rest:own-mean", None)
        else:
            assert source == "file:wishes.csv"
            assert (
                said == ("2026-09-01" if (user, item) == ("u8", "i3") else f"2026-0{k + 1}-15") + "T00:00:00Z"
            )
    _, out, _ = assent("explain", tmp_path / "run", "--user", "u0")
    assert "as wishes.csv says (2026-03-15)" in out
    assert "(not given: own-mean)" in out
    own = log_of(tmp_path / "own")
    assert assent("fit", own, "--out", tmp_path / "own" / "run", *SMALL, "--method", "all")[0] == 0
    table = pl.read_parquet(tmp_path / "own" / "run" / "selection.parquet")
    assert set(table.select("source", "said").rows()) == {("column", "1970-01-02T00:00:00Z")}


@pytest.mark.parametrize("limit", ["1.5", "-1", "nan"])
def test_a_limit_that_is_none_is_refused(limit: str, tmp_path: Path, assent: Assent) -> None:
    code, _, err = assent("fit", log_of(tmp_path), "--out", tmp_path / "run", *SMALL, "--closed", limit)
    assert (code, err.count("\n")) == (2, 1)
    assert "--closed" in err
    assert "accepted: a number from 0 to 1" in err


def test_a_given_split_heeds_no_never_row(tmp_path: Path, assent: Assent) -> None:
    parts = ["train", "train", "train", "validation", "test"]
    rows = [f"{user},{item},0.5,{parts[k]}" for user, item, k in PAIRS]
    log = write(tmp_path / "log.csv", "user,item,unwillingness,split", ["u0,i8,1,?", *rows, "u1,i8,1,"])
    code, _, err = assent("fit", log, "--out", tmp_path / "run", *SMALL, "--method", "all")
    assert code == 0, err
    assert json.loads((tmp_path / "run" / "settings.json").read_text())["protocol"] == "given, paper-tables"


@pytest.mark.parametrize("command", ["frontier", "compare", "lds"])
def test_other_commands_close_too(command: str, tmp_path: Path, assent: Assent) -> None:
    how = {
        "frontier": ["--points", 0.5, "--seeds", 1, "--methods", "threshold"],
        "compare": ["--prices", 0.1, "--repeats", 1, "--methods", "threshold"],
        "lds": ["--selections", 10, "--truth-seeds", 1, "--set", "worth.folds=2"],
    }[command]
    found = []
    for name, ghosts in (("a", []), ("b", ["u0,i8,,?,0.9", "!,zzz,,soon,0.81"])):
        log = log_of(tmp_path / name, *ghosts)
        file = tmp_path / f"{name}.json"
        options = [*SMALL, "--tune", "none", "--closed", 0.8, "--json", file]
        code, _, err = assent(command, log, *how, *options)
        assert code == 0, err
        assert ("withheld unread" in err) == bool(ghosts)
        found.append(
            [{key: value for key, value in row.items() if key != "seconds"} for row in records(file)]
        )
    assert found[0] == found[1]


def test_no_other_source_takes_back_a_never_of_the_log(tmp_path: Path, assent: Assent) -> None:
    rows = [f"{user},{item},{k},{1 if k == 0 else 0.2}" for user, item, k in PAIRS]
    log = write(tmp_path / "log.csv", "user,item,time,unwillingness", rows)
    command = ["fit", log, "--out", tmp_path / "run", *SMALL, "--method", "threshold"]
    assert assent(*command, "--unwillingness", "constant:0.1")[0] == 0
    sealed = pl.read_parquet(tmp_path / "run" / "sealed.parquet")
    assert (sealed.height, set(sealed["source"])) == (9, {"column"})
    assert pl.read_parquet(tmp_path / "run" / "selection.parquet")["unwillingness"].max() == 0.1


def test_keys_of_a_never_row_name_no_columns_of_others(tmp_path: Path, assent: Assent) -> None:
    lines = [
        json.dumps({"user": user, "item": item, "time": -k, "unwillingness": 0.2}) for user, item, k in PAIRS
    ]
    never = json.dumps({"user": "zz", "item": "q", "unwillingness": 1, "timestamp": 5})
    found = []
    for name, more in (("a", []), ("b", [never])):
        (tmp_path / name).mkdir()
        log = write(tmp_path / name / "log.jsonl", lines[0], [*lines[1:], *more])
        assert assent("fit", log, "--out", tmp_path / name / "run", *SMALL, "--method", "threshold")[0] == 0
        found.append([(tmp_path / name / "run" / file).read_bytes() for file in MODEL])
    assert found[0] == found[1]


def test_willingness_beside_a_column_called_beta_is_not_overlooked(tmp_path: Path, assent: Assent) -> None:
    rows = [f"{user},{item},0,0" for user, item, _ in PAIRS]
    log = write(tmp_path / "log.csv", "user,item,beta,willingness", rows)
    code, _, err = assent("fit", log, "--out", tmp_path / "run", *SMALL)
    assert code == 2
    assert "seems to say the reverse of unwillingness" in err
