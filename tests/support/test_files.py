import errno
import multiprocessing
import os
import resource
import signal
import stat
from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread
from typing import IO, Any

import pytest

from assent.support.errors import AssentError
from assent.support.files import (
    atomic_path,
    leftovers,
    locked,
    parse_json,
    read_json,
    read_own,
    refuse_to_overwrite,
    write_json,
    write_text,
    write_with,
)


def only_file(folder: Path) -> Path:
    (found,) = folder.iterdir()
    return found


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """A file with old content, alone in its folder."""
    path = tmp_path / "file.txt"
    path.write_text("old")
    return path


def test_a_finished_file_replaces_the_old_one(target: Path) -> None:
    with atomic_path(target) as temporary:
        temporary.write_text("new")
        assert temporary.parent == target.parent  # a rename is atomic within one file system only
        assert target.read_text() == "old"
    assert only_file(target.parent).read_text() == "new"


def fail_half_way(target: Path, error: BaseException) -> None:
    with atomic_path(target) as temporary:
        temporary.write_text("ne")
        raise error


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt()], ids=repr)
def test_an_error_leaves_the_old_file_and_nothing_else(target: Path, error: BaseException) -> None:
    with pytest.raises(type(error)):
        fail_half_way(target, error)
    assert only_file(target.parent) == target
    assert target.read_text() == "old"


def test_an_error_of_the_disk_names_the_file_that_was_asked_for(target: Path) -> None:
    with pytest.raises(OSError, match="full") as caught:
        fail_half_way(target, OSError(errno.ENOSPC, "full"))
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(target))


def test_content_from_a_library_is_written_whole_or_not_at_all(target: Path) -> None:
    def break_down(content: IO[bytes]) -> None:
        content.write(b"ne")
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write_with(target, break_down)
    assert only_file(target.parent).read_text() == "old"
    write_with(target, lambda content: content.write(b"new"))
    assert only_file(target.parent).read_text() == "new"


def test_a_failed_first_write_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), atomic_path(tmp_path / "new.txt"):
        raise RuntimeError
    assert not list(tmp_path.iterdir())


def test_missing_folders_are_made(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "file.txt"
    write_text(path, "Grüße ☂")
    assert path.read_bytes() == "Grüße ☂".encode()


def test_json_comes_back_as_it_was(tmp_path: Path) -> None:
    value = {"name": "Grüße ☂", "numbers": [1, 0.1, -1e300], "nothing": None, "nested": {"yes": True}}
    write_json(tmp_path / "file.json", value)
    assert read_json(tmp_path / "file.json") == value
    assert "Grüße ☂" in (tmp_path / "file.json").read_text(encoding="utf-8")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_json_lacks_are_refused(target: Path, value: float) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        write_json(target, {"value": value})
    assert only_file(target.parent).read_text() == "old"


@pytest.mark.parametrize("content", [b"", b'{"a": 1', b"\xff\xfe", b"not json"])
def test_damaged_json_names_its_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "broken.json"
    path.write_bytes(content)
    with pytest.raises(AssentError, match=r"broken\.json: not valid JSON"):
        read_json(path)


def test_missing_json_names_its_file(tmp_path: Path) -> None:
    with pytest.raises(AssentError, match=r"missing\.json: no such file"):
        read_json(tmp_path / "missing.json")


def test_only_a_user_who_asks_overwrites(target: Path) -> None:
    refuse_to_overwrite(target.with_name("other.txt"), replace=False)
    refuse_to_overwrite(target, replace=True)
    with pytest.raises(AssentError, match=r"file\.txt: already exists.*replace=True"):
        refuse_to_overwrite(target, replace=False)


def test_a_lock_that_was_deleted_while_one_waited_for_it_is_held_by_one_alone(tmp_path: Path) -> None:
    path, held, done = tmp_path / "lock", Event(), Event()

    def wait_for_it() -> None:
        with locked(path, wait=True):
            held.set()
            done.wait(10)

    waiting = Thread(target=wait_for_it)
    with locked(path, wait=False) as ours:
        assert ours
        waiting.start()
        assert not held.wait(0.1)
        path.unlink()
    assert held.wait(10)
    with locked(path, wait=False) as ours:
        assert not ours
    done.set()
    waiting.join()


def test_paths_may_be_text(tmp_path: Path) -> None:
    path = str(tmp_path / "file.json")
    with locked(f"{path}.lock", wait=False) as ours:
        assert ours
        write_json(path, 1)
    assert read_json(path) == 1
    with pytest.raises(AssentError, match="already exists"):
        refuse_to_overwrite(path, replace=False)


def test_a_reader_sees_the_old_file_whole_while_a_new_one_is_written(target: Path) -> None:
    target.write_text("old" * 100_000)
    with target.open() as reader:
        assert reader.read(3) == "old"
        write_text(target, "n")
        assert reader.read() == "old" * 99_999
    assert target.read_text() == "n"


KILLS = ("open", "write", "fsync", "rename", "replace", "close")


@pytest.mark.parametrize("content", ["n", "new" * 100_000])
def test_a_killed_writer_leaves_the_old_file_or_the_new_one(target: Path, content: str) -> None:
    """It is killed before each call of the system in turn: nothing is lost, and at last all is new."""
    context, ends = multiprocessing.get_context("fork"), []
    for kill_at in range(100):
        target.write_text("old")
        writer = context.Process(target=_write_and_die, args=(target, content, kill_at))
        writer.start()
        writer.join()
        assert target.read_text() in ("old", content)
        ends.append(target.read_text() == content)
        for left in leftovers(target):
            left.unlink()
        assert only_file(target.parent) == target
        if writer.exitcode == 0:
            break
    assert ends == sorted(ends)
    assert (ends[0], ends[-1]) == (False, True)
    assert ends.count(False) >= 3  # opened, flushed, renamed


def _write_and_die(path: Path, content: str, kill_at: int) -> None:
    calls = 0

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal calls
            if calls == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            calls += 1
            return real(*args, **kwargs)

        return call

    for name in KILLS:
        setattr(os, name, counted(getattr(os, name)))
    write_text(path, content)


def test_a_disk_that_fills_up_leaves_the_old_file(target: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            write_text(target, "new" * 1000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert only_file(target.parent).read_text() == "old"


def test_a_new_name_is_flushed_to_disk(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[tuple[bool, str]] = []
    real = os.fsync

    def fsync(handle: int) -> None:
        flushed.append((stat.S_ISDIR(os.fstat(handle).st_mode), target.read_text()))
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    write_text(target, "new")
    assert flushed == [(False, "old"), (True, "new")]


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002, 0o377])
def test_the_umask_is_respected(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        write_text(tmp_path / "a" / "shared", "text")
        write_text(tmp_path / "b" / "private", "text", private=True)
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
    assert modes == {
        "a": 0o777 & ~umask, "shared": 0o666 & ~umask, "b": 0o700 & ~umask, "private": 0o600 & ~umask
    }  # fmt: skip


def test_links_and_devices_are_neither_read_nor_locked(target: Path, tmp_path: Path) -> None:
    link, pipe, folder = (tmp_path / name for name in ("link", "pipe", "folder"))
    link.symlink_to(target)
    os.mkfifo(pipe)
    folder.mkdir()
    for path, named in ((link, "a symbolic link"), (pipe, "no regular file"), (folder, "")):
        with pytest.raises(AssentError, match=rf"{path.name}: {named}"):
            read_own(path)
        with pytest.raises((AssentError, IsADirectoryError)), locked(path, wait=True):
            pass
    assert target.read_text() == "old"
    assert read_own(target) == b"old"
    with pytest.raises(AssentError, match="missing: no such file"):
        read_own(tmp_path / "missing")


def test_a_lock_does_not_empty_the_file(target: Path) -> None:
    with locked(target, wait=False) as ours:
        assert ours
    assert target.read_text() == "old"


@pytest.mark.parametrize("text", ['"\\ud800"', '{"\\uDFFF": 1}', "1e999", "[-1e999]", "NaN", "[" * 10**6])
def test_what_no_file_of_ours_can_hold_is_not_valid(text: str, tmp_path: Path) -> None:
    with pytest.raises(AssentError, match=r"^here: not valid JSON"):
        parse_json("here", text.encode())


def test_escaped_characters_are_valid() -> None:
    assert parse_json("here", b'"\\ud834\\udd1e \\u0007"') == "𝄞 \a"
