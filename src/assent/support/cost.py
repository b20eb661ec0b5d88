"""What a result took: the sum over the distinct parts that it rests on."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Cost:
    """Seconds and trainings of every part that a result rests on.

    `parts` maps the name of each part to its seconds (wall clock) and its number of trainings. In the sum of
    two costs, a part that both rest on counts once.
    """

    parts: Mapping[str, tuple[float, int]] = field(default_factory=dict)

    @classmethod
    def of(cls, name: str, seconds: float, trainings: int = 0) -> "Cost":
        """Return the cost of a single part."""
        return cls({name: (seconds, trainings)})

    def __add__(self, other: "Cost") -> "Cost":
        return Cost({**self.parts, **other.parts})

    @property
    def seconds(self) -> float:
        """Seconds of all parts."""
        return sum(seconds for seconds, _ in self.parts.values())

    @property
    def trainings(self) -> int:
        """Number of models that were trained."""
        return sum(trainings for _, trainings in self.parts.values())


NO_COST = Cost()


@dataclass
class Clock:
    """Adds up the seconds spent inside `with clock:` blocks."""

    seconds: float = 0.0
    _start: float = 0.0

    def __enter__(self) -> "Clock":
        self._start = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds += time.perf_counter() - self._start
