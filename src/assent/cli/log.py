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
_COLUMN: Final = r"""\bcolumn (?:'[^']*'|"[^"]*")(?! occurs twice)"""
"""The name of a column; where one occurs twice, the first line may be no header, but people's data."""
_ARGUMENT: Final = r"columns=\{[^{}]*\}|\b(?:duplicates|rest|role|scale|utility)='[^']*'|'--[a-z-]+'"
_QUOTED: Final = r"""(?<!\w)(?P<quote>['"])(?:\\.|(?!(?P=quote)).)*(?:(?P=quote)|$)"""
"""What stands in quotes, which no letter precedes: apostrophes, as in "people's", open none."""
_PARTS: Final = re.compile(rf"(?P<kept>{_COLUMN}|{_ARGUMENT})|{_QUOTED}")


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
    return _PARTS.sub(lambda found: found["kept"] or HIDDEN, whole)


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)
