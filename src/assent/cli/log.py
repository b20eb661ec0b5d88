"""Lines of `--log-json`: one JSON object each, without ids of people and items.

Messages quote what they take from data: ids, cells, categories. Those quotes are left out here. Names of
columns, options, files and data sets stay, and so do numbers of rows, which tell where to look.
"""

import json
import re
from datetime import UTC, datetime
from typing import Final, Literal

from assent.support.progress import Stage

Event = Literal["begin", "progress", "end", "notice", "warning", "error"]
LEVELS: Final[dict[Event, str]] = {"warning": "warning", "error": "error"}
"""Levels of events; the others are info."""
HIDDEN: Final = "'…'"
"""Stands for what was quoted."""
_QUOTE: Final = r"""(?<!\w)(?P<quote>['"])(?:\\.|(?!(?P=quote)(?!\w)).)*(?:(?P=quote)|$)"""
"""From an opening quote, which no letter precedes, to the quote that closes it, or else to the end: of a long
value, messages show the beginning. Apostrophes, as in "people's", open nothing."""
_KEPT: Final = r"""columns=\{[^{}]*\}|(?:\bcolumn |\b(?:columns|duplicates|rest|role|scale|utility)=)"""
_PARTS: Final = re.compile(rf"(?P<kept>{_KEPT})(?:'[^']*')?|{_QUOTE}", re.DOTALL)


def json_line(event: Event, message: str, stage: Stage | None = None, now: datetime | None = None) -> str:
    """Return an event as one line of JSON, ASCII alone; keys about which nothing is known are null."""
    about = {
        "time": (now or datetime.now(UTC)).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "level": LEVELS.get(event, "info"),
        "event": event,
        "phase": stage and stage.phase,
        "task": stage and stage.task,
        "done": stage and stage.done,
        "total": stage and stage.total,
        "share": None if stage is None else _rounded(stage.share, 4),
        "seconds": None if stage is None else _rounded(stage.seconds, 3),
        "left": None if stage is None else _rounded(stage.left, 1),
        "message": without_ids(message),
    }
    return json.dumps(about, allow_nan=False)


def without_ids(message: str) -> str:
    """Return a message in one line, with `HIDDEN` for what it quotes from data."""
    whole = " ".join(message.encode("utf-8", "replace").decode().split())
    whole = re.sub(r"^((?:--)?user) .*(?=: not in this run)", rf"\1 {HIDDEN}", whole)
    return _PARTS.sub(lambda found: found[0] if found["kept"] else _hidden(found[0]), whole)


def _hidden(quoted: str) -> str:
    """The name of an option as it is; anything else in quotes may be an id."""
    return quoted if re.fullmatch(r"'--[a-z-]+'", quoted) else HIDDEN


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
