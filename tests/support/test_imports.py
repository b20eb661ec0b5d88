"""What the command line loads at its start must be cheap to load."""

import subprocess
import sys
from pathlib import Path

import pytest

import assent

HEAVY = {"torch", "polars", "scipy"}
SUPPORT = ("errors", "files", "progress", "runtime")


@pytest.mark.parametrize(
    ("modules", "heavy"),
    [
        ([f"assent.support.{name}" for name in SUPPORT], HEAVY | {"numpy"}),
        (["assent.cli.app"], HEAVY | {"numpy"}),
    ],
    ids=["support", "commands"],
)
def test_cheap_modules_load_no_heavy_library(modules: list[str], heavy: set[str]) -> None:
    # The package itself offers all public names: an empty one in its place shows what the modules load.
    package = Path(str(assent.__file__)).parent
    lines = [
        "import sys, types",
        "package = types.ModuleType('assent')",
        f"package.__path__ = [{str(package)!r}]",
        "sys.modules['assent'] = package",
        f"import {', '.join(modules)}",
        "print(*(name for name in sys.modules if '.' not in name))",
    ]
    told = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True
    )
    assert not heavy & set(told.stdout.split())
