"""`--log-json`: lines of JSON on stderr, valid whatever messages hold, without ids; stdout stays as it is."""

import json
import logging
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assent.cli import data_commands
from assent.cli.app import COMMANDS
from assent.cli.log import HIDDEN, json_line, without_ids
from assent.data.columns import quoted
from assent.support.progress import Stage
from tests.cli.conftest import PRICED
from tests.conftest import Assent

KEYS = [
    "time", "level", "event", "phase", "task", "done", "total", "share", "seconds", "left", "message",
]  # fmt: skip
ID = "Zenobia-007"
"""An id that may not be in any line."""


def lines(err: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in err.splitlines()]
    assert all(list(each) == KEYS for each in found)
    return found


def without_seconds(out: str) -> list[list[str]]:
    """The lines of the table of results but for its last column."""
    return [line.split("│")[:-2] for line in out.splitlines() if "│" in line]


def test_a_fit_tells_its_phases(log_file: Path, tmp_path: Path, assent: Assent) -> None:
    plain = assent("fit", log_file, "--out", tmp_path / "plain", *PRICED)
    told = assent("fit", log_file, "--out", tmp_path / "told", *PRICED, "--log-json")
    assert (plain[0], told[0]) == (0, 0)
    assert without_seconds(plain[1]) == without_seconds(told[1])
    found = lines(told[2])
    notices = [each["message"] for each in found if each["event"] == "notice"]
    assert notices == [f"Report: {tmp_path / 'told' / 'report.html'}"]
    begun = [each["phase"] for each in found if each["event"] == "begin"]
    assert begun[:3] == ["reading", "fitting", "tuning"]
    assert begun[-1] == "report"
    ended = [each["phase"] for each in found if each["event"] == "end"]
    assert sorted(ended) == sorted(begun)
    shares = [each["share"] for each in found if each["share"] is not None]
    assert shares == sorted(shares)
    assert shares[-1] == 1
    for each in found:
        assert datetime.fromisoformat(each["time"]).tzinfo == UTC
        assert each["time"].endswith("Z")
        assert each["level"] == "info"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit", "missing.csv", "--out", "run"], "missing.csv: no such file or folder"),
        (["fit", "missing.csv", "--no-such-option"], "No such option: --no-such-option"),
        (["fit", "a.csv", "--out", "run", "--price", "x"], "Invalid value for '--price': "),
        (["no-such-command"], f"No such command {HIDDEN}."),
        (["reproduce", "nothing"], "nothing: no item; accepted: all, overall"),
    ],
)  # fmt: skip
def test_errors_are_lines_of_json(arguments: list[str], message: str, assent: Assent) -> None:
    before = assent(*arguments)
    code, out, err = assent(*arguments, "--log-json")
    assert (code, out) == (before[0], before[1]) == (2, "")
    *phases, found = lines(err)
    assert [each["message"] for each in phases] in ([], ["reading"])
    assert (found["event"], found["level"]) == ("error", "error")
    assert message in found["message"]


def test_help_and_results_stay_as_they_are(assent: Assent) -> None:
    assert assent("settings") == assent("settings", "--log-json")
    assert assent("fit", "--help") == assent("fit", "--help", "--log-json")


def test_every_command_that_may_take_long_has_the_option(assent: Assent) -> None:
    for command in [*COMMANDS.keys() - {"store", "data", "keys"}, "data describe"]:
        assert "--log-json" in assent(*command.split(), "--help")[1], command


def test_an_unforeseen_error_is_a_line_without_its_text(
    log_file: Path, assent: Assent, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        logging.getLogger("library").warning("about to fail")
        raise KeyError(ID)

    monkeypatch.setattr(data_commands, "describe", broken)
    code, out, err = assent("data", "describe", log_file, "--log-json")
    assert (code, out) == (1, "")
    told, failed = lines(err)
    assert (told["event"], told["message"]) == ("notice", "about to fail")
    assert failed["message"].startswith("an error in assent itself: KeyError at ")
    assert "data_commands.py:" in failed["message"]
    assert ID not in err


def test_a_command_that_is_interrupted_ends_as_before(
    log_file: Path, assent: Assent, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(data_commands, "describe", interrupted)
    plain, as_json = (assent("data", "describe", log_file, *how) for how in ([], ["--log-json"]))
    assert plain[:2] == as_json[:2] == (130, "")
    [line] = lines(as_json[2])
    assert line["message"] == plain[2].strip()


LOG = f"user,item,time,category,unwillingness\n{ID},{ID},1,{ID},0.5\nann,f1,2,a,0.5\n"
WRONG = {
    "twice": (f"{LOG}{ID},{ID},3,a,0.5\n", []),
    "gap": (f"{LOG}{ID},f2,3,a,\n", []),
    "range": (f"{LOG}{ID},f2,3,a,{ID}\n", []),
    "time": (f"{LOG}{ID},f2,{ID},a,0.5\n", []),
    "ragged": (f"{LOG}{ID},f2,{ID}\n", []),
    "stray quote": (f'{LOG}{ID},f"2,3,a,{ID}\n', []),
    "rule by user": (LOG, ["--unwillingness", f"user:{ID}=2,*=0"]),
    "rule twice": (LOG, ["--unwillingness", f"user:{ID}=0.2,{ID}=0.3"]),
    "rule by nobody": (LOG, ["--unwillingness", f"user:{ID}9=0.2,*=0.3"]),
    "rule for some": (LOG, ["--unwillingness", f"user:{ID}=0.2"]),
    "no rule": (LOG, ["--unwillingness", f"user:{ID}"]),
    "rule by category": (LOG, ["--unwillingness", f"category:{ID}9=0.2,*=0.3"]),
    "budget": (LOG, ["--user-budget", f"{ID}=-1"]),
    "no budget": (LOG, ["--user-budget", f"{ID}"]),
    "floor": (LOG, ["--user-floor", f"{ID}9=1"]),
    "yaml": (LOG, ["--unwillingness", "user:rules.yaml"]),
    "json": (LOG, ["--unwillingness", "user:rules.json"]),
    "wishes": (LOG, ["--unwillingness", "file:wishes.csv"]),
    "wishes twice": (LOG, ["--unwillingness", "file:twice.csv"]),
    "long": (LOG + f"{'x' * 70}{ID}{'y' * 30},f2,{ID * 20},a,0.5\n", []),
    "rating": (LOG.replace("time", "rating"), ["--min-rating", "2"]),
}  # fmt: skip
FILES = {
    "rules.yaml": f"{ID}: : 0.5\n",
    "rules.json": f'{{"{ID}": 0.5, "{ID}": 0.2}}',
    "wishes.csv": f"user,item,unwillingness\n{ID},f9,0.5\n*,*,0.2\n",
    "twice.csv": f"user,item,unwillingness\n{ID},{ID},0.5\n{ID},{ID},0.7\n*,*,0.2\n",
}


@pytest.mark.parametrize("name", WRONG)
def test_no_id_is_in_a_line(
    name: str, tmp_path: Path, assent: Assent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    content, options = WRONG[name]
    (tmp_path / "log.csv").write_text(content)
    for file, text in FILES.items():
        (tmp_path / file).write_text(text)
    for more in ([], ["--allow-unmatched"]):
        code, out, err = assent("fit", "log.csv", "--out", "run", *options, *more, "--log-json")
        assert (code, out) == (2, "")
        assert lines(err)[-1]["event"] == "error"
        assert ID not in err
        assert "\\ud" not in err


anything = st.text(st.characters(exclude_categories=())).filter(bool)


@given(message=anything, phase=anything)
def test_any_message_is_one_line_of_ascii(message: str, phase: str) -> None:
    stage = Stage(phase, None, 1, 2, 3.0, None, 0.5)
    line = json_line("notice", message, stage, datetime(2026, 3, 1, tzinfo=UTC))
    assert line.isascii()
    assert "\n" not in line
    found = json.loads(line)
    assert found["time"] == "2026-03-01T00:00:00.000Z"
    json.dumps(found, ensure_ascii=False).encode()  # no half of a character


@given(secret=anything)
def test_what_is_quoted_is_hidden(secret: str) -> None:
    marked = f"{secret}{ID}{secret}"
    for form in (
        f"log.csv: row 3, column 'user' is {quoted(marked)}; accepted: a number or a text",
        f"log.csv: the log's own rows 1 and 2 have user {quoted(marked)} and item {quoted(marked)}",
        f"{quoted(marked)}: no rule; accepted: people's rules, or columns={{'user': 'NAME'}}",
        f"user {marked}: not in this run; accepted: the id of somebody who is",
    ):
        assert ID not in without_ids(form), form


def test_names_of_columns_and_options_stay() -> None:
    for message in (
        "log.csv: row 3, column 'user' is empty; accepted: the log's own, or scale=five for 1 to 5",
        "log.csv: no column; accepted: columns={'user': 'NAME'}, or duplicates='first' or duplicates='last'",
        "Invalid value for '--price': no number",
    ):
        assert without_ids(message) == message
