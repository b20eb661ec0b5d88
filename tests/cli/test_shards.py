"""`assent fit --shards`."""

from pathlib import Path

from assent.runs.folder import open_run
from tests.cli.conftest import PRICED
from tests.conftest import Assent


def test_a_fit_in_shards(log_file: Path, tmp_path: Path, assent: Assent) -> None:
    out = tmp_path / "run"
    code, _, errors = assent("fit", log_file, "--out", out, *PRICED, "--set", "tune=none", "--shards", 2)
    assert code == 0, errors
    assert "shard 2 of 2" in errors
    run = open_run(out)
    assert [each["price"] for each in run.shards] == [2, 2]
    assert run.quality["operating_point"]["price"] == 2
    code, _, errors = assent("verify", out)
    assert code == 0, errors
    code, said, _ = assent("explain", out, "--user", run.selection["user"][0])
    assert (code, "are used" in said) == (0, True)


def test_what_shards_cannot_do_is_refused(log_file: Path, tmp_path: Path, assent: Assent) -> None:
    for others in (["--experiment"], ["--keep-quality", 0.9], ["--frontier", "0.5"]):
        code, _, errors = assent("fit", log_file, "--out", tmp_path / "run", "--shards", 2, *others)
        assert code != 0
        assert "--shards: accepted: without --keep-quality, --frontier and --experiment" in errors
    code, _, errors = assent("fit", log_file, "--out", tmp_path / "run", *PRICED, "--shards", 60)
    assert code != 0
    assert "shards=60: nobody in shard" in errors
    assert not (tmp_path / "run").exists()
