"""Small files for tests of readers, and what is said when they are refused."""

from pathlib import Path
from typing import Any

import pytest

from assent.data.readers import read_interactions
from assent.support.errors import AssentError


def write(path: Path, content: str | bytes) -> Path:
    """A file with this content, in a folder that is made if need be."""
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def refusal(path: Path, **options: Any) -> str:
    """What reading a log says, in one line."""
    with pytest.raises(AssentError) as caught:
        read_interactions(path, **options)
    message = str(caught.value)
    assert "\n" not in message
    return message
