"""The content-addressed store: one folder for everything that is expensive and may be needed again.

An entry is a set of arrays, a set of facts (JSON) and its cost. Its name is a hash of its *key*, which says
everything that the entry depends on. A changed setting therefore misses the entries that it touches and no
others, and a killed process finds what was finished before. For the key with digest D:

    D.safetensors   the arrays, written first
    D.json          key, facts, cost and hashes; an entry exists once this file does
    D.progress      the checkpoint of a training in progress
    D.lock          held by the process that computes the entry

An entry whose files are not what was put there is computed again. Entries of trainings may depend on withheld
interactions: the files are for their user alone. Guard the folder like the log, and `clear` it when nobody
needs it any more.
"""

import json
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache, cached_property
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as from_bytes
from safetensors.numpy import save as as_bytes

from assent.support.cost import NO_COST, Cost
from assent.support.errors import AssentError
from assent.support.files import locked, parse_json, read_own, write_bytes, write_json
from assent.support.runtime import code_state, made_with
from assent.support.temporary import TemporaryFolder

FORMAT = 7
"""Raised whenever an entry computed before would come out differently."""
_DAY = 24 * 3600.0
_OWN = re.compile(r"\.?([0-9a-f]{32})\.(json|safetensors|progress(\.seconds)?|lock)(\.\w{8}\.tmp)?")
"""Names of the store's files; other files in its folder are left alone."""

Key = Mapping[str, Any]
"""All that determines an entry, as JSON."""
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Found:
    """What a task computed."""

    arrays: Mapping[str, Array] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    rests_on: Cost = NO_COST
    """The cost of the entries that it was computed from."""
    trainings: int = 0
    """Number of models that the task itself trained."""
    seconds: float | None = None
    """Seconds that it took, where the task knows better than the clock (a resumed training)."""


@dataclass(frozen=True)
class Entry:
    """A finished entry; its arrays are read when they are first asked for."""

    file: Path
    """Its JSON file."""
    key: Key
    facts: Mapping[str, Any]
    cost: Cost
    """Its own, and that of all that it rests on."""
    seconds: float
    """Its own seconds."""
    code: str
    """The state of assent's source that computed it (`code_state`).

    It is no part of the key: an entry outlives an edit that does not matter to it. `FORMAT` is for edits that
    do."""
    size: int
    """Bytes of its arrays' file; 0 if it has no arrays."""
    content: str
    """Hash of that file."""

    @cached_property
    def arrays(self) -> Mapping[str, Array]:
        """The arrays by name; raise if they are not those that were put."""
        if not self.size:
            return {}
        file = self.file.with_suffix(".safetensors")
        try:
            found = read_own(file)
            if _hash(found) != self.content:
                raise AssentError(f"{file}: not what was put there")
            return from_bytes(found)
        except (AssentError, SafetensorError) as error:
            reason = str(error).removeprefix(f"{file}: ")
            raise AssentError(f"{file}: missing or damaged ({reason}); delete it and run again") from None


@dataclass(frozen=True, init=False)
class Store:
    """Entries under `folder`, which is created with the first of them; safe for several processes."""

    folder: Path
    used: dict[str, float] = field(compare=False, repr=False)
    """Seconds of every entry that was found here, and of those that it rests on, by digest."""
    _owned: TemporaryFolder | None = field(default=None, compare=False, repr=False)

    def __init__(self, folder: str | Path, _owned: TemporaryFolder | None = None) -> None:
        object.__setattr__(self, "folder", Path(folder))
        object.__setattr__(self, "used", {})
        object.__setattr__(self, "_owned", _owned)

    @classmethod
    def temporary(cls) -> "Store":
        """Return a store in a new folder that is deleted when nobody uses the store any more."""
        owned = TemporaryFolder()
        return cls(owned.path, owned)

    def __reduce__(self) -> tuple[Callable[[Path], "Store"], tuple[Path]]:
        return _received, (self.folder,)

    def get(self, key: Key) -> Entry | None:
        """Return an entry; None where it is missing or damaged."""
        found = self.at(digest(key))
        if found is None or found.key != _plain(key):
            return None
        self.used.update({part: seconds for part, (seconds, _) in found.cost.parts.items()})
        return found

    def at(self, name: str) -> Entry | None:
        """Return the entry with the digest `name`; None where it is missing or damaged."""
        file = self.folder / f"{name}.json"
        try:
            about = parse_json(file, read_own(file))
            match about:
                case {"key": dict(key), "facts": dict(facts), "seconds": int() | float() as seconds,
                      "cost": dict(parts), "code": str(code), "size": int(size), "content": str(content),
                      "hash": str(found)}:  # fmt: skip
                    cost = Cost({part: (float(took), int(n)) for part, (took, n) in parts.items()})
                    is_whole = not size or file.with_suffix(".safetensors").lstat().st_size == size
                    if is_whole and found == _hash_of(about):
                        return Entry(file, key, facts, cost, seconds, code, size, content)
        except (AssentError, OSError, TypeError, ValueError):
            pass
        return None

    def put(self, key: Key, found: Found, *, seconds: float) -> None:
        """Keep what took `seconds` to compute; readers see the whole entry or none."""
        content = b""
        if found.arrays:
            content = as_bytes({each: np.ascontiguousarray(array) for each, array in found.arrays.items()})
            write_bytes(self._file(key, "safetensors"), content, private=True)
        total = seconds if found.seconds is None else found.seconds
        cost = found.rests_on + Cost.of(digest(key), total, found.trainings)
        about = {
            "format": FORMAT,
            "assent": _version(),
            "code": code_state(),
            "seconds": total,
            "cost": {part: list(each) for part, each in cost.parts.items()},
            "size": len(content),
            "content": _hash(content),
            "key": _plain(key),
            "facts": _plain(found.facts),
        }
        write_json(self._file(key, "json"), about | {"hash": _hash_of(about)}, private=True)

    def take_over(self, key: Key, other: "Store") -> bool:
        """Copy an entry of another store, byte for byte; False where that lacks it or it is damaged."""
        entry = other.get(key)
        if entry is None:
            return False
        if entry.size:
            content = read_own(entry.file.with_suffix(".safetensors"))
            if _hash(content) != entry.content:
                return False
            write_bytes(self._file(key, "safetensors"), content, private=True)
        write_bytes(self._file(key, "json"), read_own(entry.file), private=True)
        return True

    def remove(self, key: Key) -> None:
        """Delete an entry, if it is there."""
        for kind in ("json", "safetensors"):
            self._file(key, kind).unlink(missing_ok=True)

    def checkpoint(self, key: Key) -> Path:
        """Return the file where the task of `key` may keep its state while it runs."""
        return self._file(key, "progress")

    def held(self, key: Key, *, wait: bool = True) -> AbstractContextManager[bool]:
        """Hold the work on `key` for this process; False if another process has it and `wait` is off.

        The system releases it when the process ends, however that happens.
        """
        return self._held(digest(key), wait=wait)

    @contextmanager
    def _held(self, name: str, *, wait: bool) -> Iterator[bool]:
        lock = self.folder / f"{name}.lock"
        with locked(lock, wait=wait) as held:
            try:
                yield held
            finally:
                if held:
                    lock.unlink(missing_ok=True)

    def saved(self, since: float) -> float:
        """Return the seconds of the used entries that were there before a time (of `time.time`)."""
        return sum(seconds for name, seconds in self.used.items() if self._is_older(name, since))

    def _is_older(self, name: str, since: float) -> bool:
        try:
            return (self.folder / f"{name}.json").stat().st_mtime < since
        except OSError:
            return False

    def size(self) -> int:
        """The bytes that all files of the store take."""
        return sum(file.stat().st_size for files in self._files().values() for file in files)

    def prune(self, *, days: float = 0.0) -> int:
        """Delete what nobody has written for `days`, but for what is being computed; returns the bytes freed.

        A running process that has just found one of the deleted entries may end with an error.
        """
        freed = 0
        for name, files in self._files().items():
            with suppress(FileNotFoundError):  # another process deletes too
                about = [file.stat() for file in files]
                if time.time() - max(each.st_mtime for each in about) >= days * _DAY:
                    with self._held(name, wait=False) as held:
                        if held:
                            _delete(files)
                            freed += sum(each.st_size for each in about)
        return freed

    def keep_only(self, names: Collection[str]) -> int:
        """Delete all entries but those with these digests; returns how many were deleted."""
        gone = 0
        for name, files in self._files().items():
            if name not in names:
                with self._held(name, wait=True):
                    _delete(files)
                gone += 1
        return gone

    def sweep(self) -> None:
        """Delete half-written files that killed processes left a day ago or earlier."""
        half = [file for files in self._files().values() for file in files if file.suffix == ".tmp"]
        with suppress(FileNotFoundError):
            _delete([file for file in half if time.time() - file.stat().st_mtime > _DAY])

    def clear(self) -> None:
        """Delete all entries and the folder, unless it holds files that are not the store's."""
        if self.folder.is_symlink():
            raise AssentError(f"{self.folder}: a symbolic link; accepted: a folder")
        for files in self._files().values():
            _delete(files)
        with suppress(OSError):
            self.folder.rmdir()

    def _files(self) -> dict[str, list[Path]]:
        """The store's files by digest; others in the folder are not touched."""
        found: dict[str, list[Path]] = {}
        for file in self.folder.iterdir() if self.folder.is_dir() else ():
            if own := _OWN.fullmatch(file.name):
                found.setdefault(own[1], []).append(file)
        return found

    @staticmethod
    def owns(name: str) -> bool:
        """Whether a file of this name in a store's folder is the store's."""
        return _OWN.fullmatch(name) is not None

    def _file(self, key: Key, kind: str) -> Path:
        return self.folder / f"{digest(key)}.{kind}"


_opening: Callable[[Path], Store] = Store
"""Makes the stores that this process receives from others."""


def open_received(make: Callable[[Path], Store]) -> None:
    """Let `make` open the stores that this process receives: their folders may be on another machine."""
    global _opening  # noqa: PLW0603
    _opening = make


def _received(folder: Path) -> Store:
    return _opening(folder)


def _delete(files: Sequence[Path]) -> None:
    for file in sorted(files, key=lambda each: each.suffix != ".json"):  # no entry is without its arrays
        file.unlink(missing_ok=True)


def digest(key: Key) -> str:
    """A short name for a key, the format of entries, and the versions and the processor that make them."""
    described = json.dumps([FORMAT, _made_with(), _plain(key)], sort_keys=True, allow_nan=False)
    return blake2b(described.encode(), digest_size=16).hexdigest()


def _hash(content: bytes) -> str:
    return blake2b(content, digest_size=16).hexdigest()


def _hash_of(about: Mapping[str, Any]) -> str:
    """A hash of all that an entry's JSON file says, but for the hash itself."""
    said = {name: value for name, value in about.items() if name != "hash"}
    return _hash(json.dumps(said, sort_keys=True).encode())


@cache
def _version() -> str:
    return version("assent")


@cache
def _made_with() -> dict[str, str]:
    return {"assent": _version(), **made_with()}


def _plain(key: Key) -> Any:
    """A key as it is read back from JSON."""
    return json.loads(json.dumps(dict(key)))
