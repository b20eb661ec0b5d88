"""A store whose folder is on another machine: entries are fetched when asked for, and sent when put."""

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from assent.lab.store import Entry, Found, Key, Store, digest
from assent.support.errors import AssentError
from assent.support.files import read_own, write_bytes
from assent.support.temporary import TemporaryFolder

_KINDS = ("safetensors", "json")
"""The files of an entry, in the order in which they are written: with the last one, it exists."""
_PROGRESS = "progress"
LOOK_EVERY = 5.0
"""Seconds between two looks whether a checkpoint has changed."""

Files = Mapping[str, bytes]
"""Contents by the end of the name: json, safetensors, progress."""


class Origin(Protocol):
    """Reaches the folder of a store from elsewhere."""

    def fetch(self, folder: Path, name: str) -> Files:
        """Return the files of the digest `name` that are there."""

    def send(self, folder: Path, name: str, files: Files) -> None:
        """Write files of the digest `name`; without any, delete what is there."""


def read_files(folder: Path, name: str) -> Files:
    """Return the files of a digest in a store's folder: the entry if it is whole, else its checkpoint."""
    found = {}
    is_entry = Store(folder).at(name) is not None
    for kind in _KINDS if is_entry else (_PROGRESS,):
        try:
            found[kind] = read_own(folder / f"{name}.{kind}")
        except AssentError:  # an entry without arrays, or no checkpoint
            continue
    return found


def write_files(folder: Path, name: str, files: Files) -> None:
    """Write files of a digest into a store's folder; a whole entry ends its checkpoint."""
    if files.keys() == {_PROGRESS} and Store(folder).at(name) is not None:
        return
    for kind in (_PROGRESS, *_KINDS):
        if kind in files:
            write_bytes(folder / f"{name}.{kind}", files[kind], private=True)
    ended = ((_PROGRESS,) if "json" in files else ()) if files else (_PROGRESS, *reversed(_KINDS))
    for kind in ended:
        (folder / f"{name}.{kind}").unlink(missing_ok=True)


class Mirror(Store):
    """The store at `home`, on another machine, as far as this process needs it.

    Its folder here is deleted with the process. Locks hold on this machine alone: the same entry may be
    computed on two machines at once, to the same bytes.
    """

    def __init__(self, home: Path, origin: Origin) -> None:
        owned = TemporaryFolder()
        super().__init__(owned.path, owned)
        object.__setattr__(self, "_home", home)
        object.__setattr__(self, "_origin", origin)

    _home: Path
    _origin: Origin

    def at(self, name: str) -> Entry | None:
        """Return an entry; fetch it if it is not here."""
        found = super().at(name)
        if found is None:
            files = self._origin.fetch(self._home, name)
            if "json" in files:
                write_files(self.folder, name, files)
                found = super().at(name)
        return found

    def put(self, key: Key, found: Found, *, seconds: float) -> None:
        """Keep an entry here and at home."""
        super().put(key, found, seconds=seconds)
        name = digest(key)
        self._origin.send(self._home, name, read_files(self.folder, name))

    def remove(self, key: Key) -> None:
        """Delete an entry here and at home."""
        super().remove(key)
        self._origin.send(self._home, digest(key), {})

    def checkpoint(self, key: Key) -> Path:
        """Return the file of a checkpoint, with what another machine has left; changes are sent home."""
        file, name = super().checkpoint(key), digest(key)
        files = self._origin.fetch(self._home, name)
        if _PROGRESS in files and not file.exists():
            write_files(self.folder, name, files)
        threading.Thread(target=self._send_changes, args=(file, name), daemon=True).start()
        return file

    def _send_changes(self, file: Path, name: str) -> None:
        """Send a checkpoint whenever it has changed, until the entry is there."""
        sent, pause = _changed(file), threading.Event()
        while super().at(name) is None and self.folder.is_dir():
            pause.wait(LOOK_EVERY)
            now = _changed(file)
            if now not in (sent, None):
                try:
                    self._origin.send(self._home, name, {_PROGRESS: read_own(file)})
                except AssentError:  # the training has ended meanwhile
                    continue
                sent = now


def _changed(file: Path) -> int | None:
    """When a file was last written; None: it is not there."""
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return None
