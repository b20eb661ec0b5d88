"""A long history leads from the first run to the last one, and knows nothing of what is gone."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from assent import open_run
from assent.methods import make_method
from assent.runs.folder import Run
from assent.runs.forget import forget
from assent.runs.history import Grade, history_of, in_numbers
from assent.runs.prompt import prompt_update
from assent.runs.update import update
from assent.runs.verify import verify
from assent.testing.updates import Way, changed, fresh, log_of, some_table
from assent.training import Settings

IALS = Way(
    Settings.model_validate(
        {"model": "ials", "model_settings": {"dimension": 4}, "training": {"epochs": 2}, "tune": "none"}
    ),
    make_method("worth", source="structure"),
)
STEPS, SEED = 8, 7
"""A sequence in which somebody withdraws everything, and others come back."""
pytestmark = pytest.mark.filterwarnings("ignore")
State = tuple[float, str]
"""An unwillingness, and disclosed, withheld or never."""


def states_of(run: Run) -> dict[tuple[str, str], State]:
    """What a run says of every interaction that is there."""
    decided = pl.when("disclosed").then(pl.lit("disclosed")).otherwise(pl.lit("withheld"))
    tables = [
        table.select("user", "item", "unwillingness", state=state)
        for table, state in ((run.selection, decided), (run.sealed, pl.col("reason")))
    ]
    return {(user, item): (minded, state) for user, item, minded, state in pl.concat(tables).iter_rows()}


def state(row: dict[str, object], when: str) -> tuple[object, object]:
    return row[f"unwillingness_{when}"], row[f"state_{when}"]


def test_a_long_history_leads_from_the_first_run_to_the_last(tmp_path: Path) -> None:
    rng = np.random.default_rng(SEED)
    table = some_table(rng)
    seen, here = table, {*table.select("user", "item").iter_rows()}
    run = first = fresh(table, tmp_path / "run0", IALS)
    stayed = states_of(first)
    for number in range(1, STEPS + 1):
        table = changed(table, seen, rng)
        seen = pl.concat([seen, table]).unique(["user", "item"], keep="last", maintain_order=True)
        grade = Grade.EXACT if number % 4 == 0 else Grade.PROMPT
        make = update if grade is Grade.EXACT else prompt_update
        run = make(run, log_of(table), tmp_path / f"run{number}")
        here &= {*table.select("user", "item").iter_rows()}
        told = history_of(run)
        now = states_of(run)
        known = told.filter(pl.col("item").is_not_null())
        assert {*known.select("user", "item").iter_rows()} <= now.keys()
        assert {*told["user"]} <= {user for user, _ in now}
        for pair, rows in known.group_by("user", "item", maintain_order=True):
            events = rows.to_dicts()
            assert state(events[-1], "after") == now[pair[0], pair[1]]
            for earlier, later in pairwise(events):
                assert state(earlier, "after") == state(later, "before")
            if events[0]["event"] == "added":
                assert state(events[0], "before") == (None, None)
            else:
                assert state(events[0], "before") == stayed[pair[0], pair[1]]
        untold = now.keys() - {*known.select("user", "item").iter_rows()}
        assert {pair: now[pair] for pair in untold} == {pair: stayed[pair] for pair in untold}
        assert untold <= here
    listed = in_numbers(history_of(run))["run"].to_list()
    assert listed == sorted(listed)
    assert len(listed) > STEPS // 2
    last = update(run, log_of(table), tmp_path / "last")
    gone = {user for user, _ in stayed} - {*table["user"]}
    assert gone
    found = forget(open_run(last.folder))
    assert (len(found.runs), found.found) == (STEPS + 1, ())
    assert verify(last.folder) == []
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert not [file for file in files for user in gone if user.encode() in file.read_bytes()]
