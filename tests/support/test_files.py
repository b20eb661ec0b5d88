import errno
import stat
from pathlib import Path
from threading import Event, Thread
from typing import IO

import pytest

from assent.support.errors import AssentError
from assent.support.files import (
    atomic_path,
    locked,
    read_json,
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


def test_missing_folders_are_made_and_others_may_read(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "file.txt"
    write_text(path, "Grüße ☂")
    assert path.read_bytes() == "Grüße ☂".encode()
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


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
