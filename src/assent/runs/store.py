"""A folder of finished cells: records by what determines them, shared by processes and outliving them.

A *cell* is one figure or record of an experiment. Its key says everything that it depends on; the file's name
is a hash of the key. So a changed setting misses the cells that it touches and no others, and what was done
before a process was killed is found again. Files are written in one piece, and `held` keeps two processes
from doing the same work at once.
"""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from importlib import resources
from importlib.metadata import version
from pathlib import Path
from shutil import rmtree
from typing import Any

from assent.methods import Method
from assent.models import code_of
from assent.settings import Settings
from assent.support.errors import AssentError
from assent.support.files import locked, read_json, write_json

FORMAT = 1
"""Raised, from the first release on, whenever a cell computed before would come out differently."""
_DAY = 24 * 3600.0

Key = Mapping[str, Any]
"""All that determines a cell, as JSON."""


@dataclass(frozen=True)
class Kept:
    """A finished cell."""

    name: str
    """Another for every key."""
    record: Mapping[str, Any]
    seconds: float
    """What computing it took."""
    code: str
    """Which state of assent's code computed it (`code_state`)."""


@dataclass(frozen=True)
class Store:
    """Cells under `folder`, which is made with the first of them."""

    folder: Path

    def find(self, key: Key) -> Kept | None:
        """A cell with what is known of it; None where there is none, or a damaged one."""
        file = self._file(key)
        try:
            found = read_json(file)
        except AssentError:
            return None
        match found:
            case {"key": there, "record": dict(record), "seconds": int() | float() as seconds, "code": code}:
                return Kept(file.stem, record, seconds, str(code)) if there == _plain(key) else None
        return None

    def get(self, key: Key) -> dict[str, Any] | None:
        """The record of a cell; None where there is none, or a damaged one."""
        found = self.find(key)
        return None if found is None else dict(found.record)

    def sweep(self) -> None:
        """Delete half-written files that killed processes left a day ago or earlier."""
        for file in self.folder.rglob(".*.tmp"):
            with suppress(FileNotFoundError):
                if time.time() - file.stat().st_mtime > _DAY:
                    file.unlink()

    def put(self, key: Key, record: Mapping[str, Any], *, seconds: float) -> None:
        """Keep a record, which took `seconds` to compute."""
        about = {"format": FORMAT, "assent": version("assent"), "code": code_state(), "seconds": seconds}
        write_json(self._file(key), about | {"key": _plain(key), "record": dict(record)})

    def work(self, key: Key) -> Path:
        """A folder for what computing the cells of `key` leaves on the way; its user deletes it."""
        return self.folder / f"work-{digest(key)}"

    def forget(self, key: Key) -> None:
        """Delete what computing the cells of `key` left on the way, unless a process is at it."""
        if self.work(key).exists():
            with self.held(key, wait=False) as held:
                if held:
                    rmtree(self.work(key), ignore_errors=True)

    @contextmanager
    def held(self, key: Key, *, wait: bool) -> Iterator[bool]:
        """Hold the work of `key` for this process alone; False if another has it and nobody waits.

        The system lets go of it when the process ends, however that happens.
        """
        with locked(self.folder / f"lock-{digest(key)}", wait=wait) as held:
            yield held

    def _file(self, key: Key) -> Path:
        return self.folder / f"cell-{digest(key)}.json"


@cache
def code_state() -> str:
    """A short name for the state of assent's own source files.

    It is no part of a key: a cell outlives an edit that does not matter to it. `FORMAT` is for those that do.
    """
    package = Path(str(resources.files("assent")))
    found = blake2b(digest_size=8)
    for file in sorted(package.rglob("*.py")):
        found.update(f"{file.relative_to(package)}\0".encode() + file.read_bytes())
    return found.hexdigest()


def digest(key: Key) -> str:
    """A short name for a key, this version of assent and the format of its cells."""
    described = json.dumps([FORMAT, version("assent"), _plain(key)], sort_keys=True, allow_nan=False)
    return blake2b(described.encode(), digest_size=16).hexdigest()


def unit_key(fingerprint: str, settings: Settings, seed: int) -> dict[str, Any]:
    """What determines all that a workbench learns of the problem of this fingerprint."""
    return {
        "problem": fingerprint,
        "seed": seed,
        "settings": settings.model_dump(mode="json"),
        "code": code_of(settings.model),
    }


def choice_key(fingerprint: str, settings: Settings, seed: int, method: Method) -> dict[str, Any]:
    """What determines what a method chooses and what comes of it, but for the price or the budget.

    Settings that the method ignores, and idle ones, are left out.
    """
    read = settings.model_dump(mode="json", exclude=set(method.ignores | settings.idle))
    about = {"method": method.name, "objective": method.objective.value if method.objectives else ""}
    return unit_key(fingerprint, settings, seed) | {"settings": read} | about


def _plain(key: Key) -> Any:
    """A key as it is read back from JSON."""
    return json.loads(json.dumps(dict(key)))
