"""The project's own tools: make, the workflow of a public CI, the hooks of a commit."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
MAKEFILE = (ROOT / "Makefile").read_text()


def targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not here")
def test_make_help_lists_every_target() -> None:
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    listed = dict(re.findall(r"^ +make ([a-z-]+) +(\S.*)$", done.stdout, re.MULTILINE))
    assert set(listed) == targets()


def test_every_target_is_phony() -> None:
    [line] = re.findall(r"^\.PHONY: (.+)$", MAKEFILE, re.MULTILINE)
    assert set(line.split()) == targets()


def test_files_that_targets_name_exist() -> None:
    for file in re.findall(r"\b(?:tests|benchmarks)/[\w/]+\.py\b", MAKEFILE):
        assert (ROOT / file).is_file(), f"Makefile: no such file: {file}"


def test_the_workflow_runs_the_commands_of_the_readme() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())
    [job] = workflow["jobs"].values()
    run = [step["run"] for step in job["steps"] if "run" in step]
    assert run == ["make demo", "make test", "make docs"]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert all(command in readme for command in run)


def test_a_commit_is_checked_by_the_tools_of_make_test() -> None:
    [local] = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    tools = [hook["entry"].split()[0] for hook in local["hooks"]]
    assert tools == [".venv/bin/ruff", ".venv/bin/ruff", ".venv/bin/mypy"]
