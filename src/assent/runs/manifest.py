"""The manifest of a run: hashes of all that it wrote, and what that rests on.

`manifest.json` is written last and marks a run as finished. It names

    format, assent, code   this version of assent and the state of its source
    made_with              versions of Python and of the libraries, and the kind of processor
    problem                the fingerprint of the problem
    decisions              a hash of who disclosed what, whatever the order of the rows
    seconds                how long all that it rests on took
    finished               when it was written, in UTC
    store                  the folder that keeps what it was computed from; null where that is deleted
    files                  the SHA-256 of every file, as `sha256sum` prints it

Whoever can write to the folder can write a manifest too. It shows accidents and edits; against forgers, keep
a copy of it elsewhere.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from typing import Any

import polars as pl

from assent.support.errors import AssentError
from assent.support.files import as_json, check_format, parse_json, read_own, write_bytes
from assent.support.runtime import code_state, made_with

FORMAT = 2
"""Raised whenever a manifest written before could not be read any more."""
MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Manifest:
    """What a finished run wrote."""

    folder: Path
    assent: str
    code: str
    """The state of assent's source (`code_state`)."""
    made_with: Mapping[str, str]
    """Versions and the kind of processor, by name."""
    problem: str
    """The fingerprint of the problem."""
    decisions: str
    """The hash of who disclosed what (`hash_of_decisions`)."""
    seconds: float
    """How long all that the run rests on took."""
    store: str | None
    """The folder that keeps what the run was computed from."""
    files: Mapping[str, str]
    """The SHA-256 of each file, by name."""
    finished: str | None = None
    """When it was written, in UTC; None where the run did not note it."""

    def read(self, name: str) -> bytes:
        """Return the content of a file of the run; raise if it is not what the run wrote."""
        file = self.folder / name
        if name not in self.files:
            raise AssentError(f"{file}: not in {MANIFEST}; run the fit again")
        content = read_own(file)
        if sha256(content).hexdigest() != self.files[name]:
            raise AssentError(f"{file}: not what the run wrote; run the fit again")
        return content

    @property
    def mark(self) -> str:
        """A short name for the run: a hash of all hashes, the same for equal files."""
        return sha256(as_json(dict(self.files))).hexdigest()[:12]

    @property
    def is_made_here(self) -> bool:
        """Whether this assent and its libraries wrote the run, on this kind of processor."""
        return (self.code, dict(self.made_with)) == (code_state(), made_with())


@dataclass(frozen=True)
class RunFiles:
    """Writes the files of a run: each whole, for this user alone, and with its hash for the manifest."""

    folder: Path
    hashes: dict[str, str] = field(default_factory=dict)

    def write(self, name: str, content: bytes) -> None:
        """Write a file."""
        write_bytes(self.folder / name, content, private=True)
        self.hashes[name] = sha256(content).hexdigest()

    def write_json(self, name: str, value: Any) -> None:
        """Write a value as JSON."""
        self.write(name, as_json(value))

    def write_table(self, name: str, table: pl.DataFrame) -> None:
        """Write a table as parquet."""
        content = BytesIO()
        table.write_parquet(content)
        self.write(name, content.getvalue())

    def finish(
        self, *, problem: str, decisions: str, seconds: float, store: str | None = None, at: str | None = None
    ) -> None:
        """Write the manifest, which marks the run as finished; `at` is the time, in UTC."""
        about = {
            "format": FORMAT,
            "assent": version("assent"),
            "code": code_state(),
            "made_with": made_with(),
            "problem": problem,
            "decisions": decisions,
            "seconds": seconds,
            "store": store,
            "finished": at,
            "files": dict(sorted(self.hashes.items())),
        }
        write_bytes(self.folder / MANIFEST, as_json(about), private=True)


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a finished run; another version's or a damaged one is refused."""
    file = folder / MANIFEST
    about = parse_json(file, read_own(file))
    check_format(file, about, FORMAT)
    match about:
        case {"assent": str(), "code": str(), "problem": str(), "decisions": str(),
              "seconds": int() | float() as seconds, "store": None | str() as store,
              "made_with": dict(made), "files": dict(files)} if all(
                  isinstance(each, str) for each in (*made.values(), *files.values())
              ):  # fmt: skip
            finished = about.get("finished")
            when = finished if isinstance(finished, str) else None
            texts = {key: about[key] for key in ("assent", "code", "problem", "decisions")}
            return Manifest(
                folder,
                **texts,
                made_with=made,
                seconds=float(seconds),
                store=store,
                files=files,
                finished=when,
            )
    raise AssentError(f"{file}: damaged; run the fit again")


def hash_of_decisions(selection: pl.DataFrame) -> str:
    """Return a hash of the columns user, item and disclosed, the same for any order of the rows."""
    found = sha256(str(selection.height).encode())
    table = selection.select("user", "item", "disclosed").sort("user", "item", "disclosed")
    for column in ("user", "item"):
        found.update(table[column].str.len_bytes().cast(pl.Int64).to_numpy().tobytes())
        found.update("".join(table[column]).encode())
    found.update(table["disclosed"].cast(pl.UInt8).to_numpy().tobytes())
    return found.hexdigest()
