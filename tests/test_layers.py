"""Imports go one way, and packages do not hide cycles behind type checking."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import assent

SOURCE = Path(assent.__file__).parent
LAYERS = (
    "support",
    "data",
    "models",
    "training",
    "evaluation",
    "results",
    "influence",
    "lab",
    "game",
    "worth",
    "methods",
    "report",
    "runs",
    "reproduce",
    "service",
    "cli",
)
"""Every package; each may import those before it."""
APART = {"api": "cli", "testing": "cli"}
"""Modules that import whatever comes before the given package; `testing` is for tests alone."""
TYPES_ONLY = {"__init__.py", "runs/folder.py"}
"""Files that name types whose libraries they load later."""


def imported(file: Path) -> Iterator[str]:
    """The parts of assent that a file imports, also within functions: the word behind `assent.`"""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        match node:
            case ast.ImportFrom(module=str(module), level=0) if module.startswith("assent."):
                yield module.split(".")[1]
            case ast.Import(names=names):
                yield from (each.name.split(".")[1] for each in names if each.name.startswith("assent."))


def packages() -> set[str]:
    return {folder.name for folder in SOURCE.iterdir() if (folder / "__init__.py").exists()}


def test_every_package_has_its_place() -> None:
    assert packages() - set(APART) == set(LAYERS)


@pytest.mark.parametrize("package", LAYERS)
def test_a_package_imports_only_what_comes_before(package: str) -> None:
    before = {*LAYERS[: LAYERS.index(package)], package}
    for file in (SOURCE / package).rglob("*.py"):
        later = set(imported(file)) - before
        assert not later, f"{file.relative_to(SOURCE)} imports {', '.join(sorted(later))}"


@pytest.mark.parametrize("name", APART)
def test_what_stands_apart_is_imported_by_no_package(name: str) -> None:
    before = set(LAYERS[: LAYERS.index(APART[name])]) | {name}
    place = SOURCE / name
    files = place.rglob("*.py") if place.is_dir() else [place.with_suffix(".py")]
    for file in files:
        assert set(imported(file)) <= before


def test_types_are_imported_like_everything_else() -> None:
    found = {
        str(file.relative_to(SOURCE))
        for file in SOURCE.rglob("*.py")
        if "TYPE_CHECKING" in file.read_text(encoding="utf-8")
    }
    assert found <= TYPES_ONLY
