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
    assert not (tmp_path / "run").exists()


def test_shards_with_too_few_people_join_others_and_this_is_said(
    log_file: Path, tmp_path: Path, assent: Assent
) -> None:
    how = (*PRICED, "--set", "tune=none", "--set", "worth.source=structure", "--shards", 60)
    code, _, errors = assent("fit", log_file, "--out", tmp_path / "run", *how)
    assert code == 0, errors
    found = len(open_run(tmp_path / "run").shards)
    assert 1 < found < 60
    assert f"of 60 shards, {60 - found} have too few people to decide on; these join" in errors
