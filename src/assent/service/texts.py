"""The texts of all pages, one catalogue per language; English first. Plain words, as in a newspaper.

A catalogue is a file in `pages/texts`. Another language is a second file with the same keys, entered in
`CATALOGUES`; tests compare the keys.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from importlib import resources
from typing import Final

from assent.service.entries import Row

PROMISES: Final = {
    "Never is never.": "An interaction of unwillingness 1 is turned away at the door: adding, changing or "
    "removing it changes no byte of any model, decision, figure or recommendation of anybody. Its owner "
    'still sees it listed as "never used".',
    "Withheld stays out of the model.": "Given the decisions, a withheld interaction changes no byte of the "
    "model that is served.",
    "Closed above a limit.": "With closed={closed} interactions of unwillingness above {closed} are not "
    "looked at to decide either: they are withheld unread, and promise 1 holds for them end to end.",
}
"""The promises, word for word as in README. They are not translated: they are what tests hold assent to."""


def _catalogue(language: str) -> Mapping[str, str]:
    file = resources.files("assent.service.pages").joinpath("texts", f"{language}.toml")
    return tomllib.loads(file.read_text(encoding="utf-8"))


CATALOGUES: Final = {language: _catalogue(language) for language in ("en",)}
"""Every language that there is."""


@dataclass(frozen=True)
class Choice:
    """One of the five choices."""

    value: str
    """The unwillingness, as forms send it."""
    label: str
    hint: str


class Texts:
    """The texts of one language, and how it writes numbers and times."""

    def __init__(self, language: str = "en") -> None:
        self.language = language
        self._catalogue = CATALOGUES[language]
        self.choices = tuple(
            Choice(value, self(f"choice.{place}"), self(f"choice.{place}.hint"))
            for place, value in enumerate(UNWILLINGNESS)
        )
        self._labels = {float(choice.value): choice.label for choice in self.choices}

    def __call__(self, key: str, /, **values: object) -> str:
        """Return a text with its values."""
        text = self._catalogue[key]
        return text.format(**values) if values else text

    def has(self, key: str) -> bool:
        """Whether there is such a text."""
        return key in self._catalogue

    def choice(self, unwillingness: float) -> str:
        """Return an unwillingness in words."""
        if unwillingness in self._labels:
            return self._labels[unwillingness]
        # What is rounded to 0 or 1 would say something else.
        near = min((0.25, 0.5, 0.75), key=lambda each: abs(each - unwillingness))
        number = min(max(unwillingness, 0.01), 0.99)
        return self("choice.between", choice=self._labels[near], number=f"{number:.2g}")

    @lru_cache(maxsize=8)  # noqa: B019  (there is one object per language)
    def offered(self, closed: float | None) -> tuple[Choice, ...]:
        """Return the five choices where interactions above `closed` are not looked at."""
        if closed is None:
            return self.choices
        hint = self("choice.closed.hint", closed=f"{closed:g}")
        return tuple(
            replace(choice, hint=hint) if closed < float(choice.value) < 1 else choice
            for choice in self.choices
        )

    def number(self, value: int) -> str:
        """Return a whole number as people write it."""
        return f"{value:,}"

    def counted(self, key: str, count: int) -> str:
        """Return a text about so many things."""
        return self(f"{key}.one") if count == 1 else self(f"{key}.other", n=self.number(count))

    def iso(self, moment: float) -> str:
        """Return a moment as machines read it."""
        return datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds")

    def day(self, moment: float) -> str:
        """Return the day of a moment."""
        return self._day(moment // 86_400)

    @lru_cache(maxsize=10_000)  # noqa: B019  (there is one object per language)
    def _day(self, days: float) -> str:
        at = datetime.fromtimestamp(days * 86_400, UTC)
        return f"{at.day} {self(f'month.{at.month}')} {at.year}"

    def when(self, moment: float, after: float | None = None) -> str:
        """Return a moment to the minute; without the day, if it is that of `after`, which was told before."""
        time = f"{datetime.fromtimestamp(moment, UTC):%H:%M} UTC"
        is_told = after is not None and after // 86_400 == moment // 86_400
        return time if is_told else f"{self.day(moment)}, {time}"

    def duration(self, seconds: float | None) -> str:
        """Return a time span."""
        if seconds is None:
            return "–"
        for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
            if seconds >= 2 * size:
                return f"{seconds / size:.1f} {unit}"
        return f"{seconds:.1f} s"

    def why(self, row: Row) -> str:
        """Return why an interaction is used or not, in words."""
        decided = row.decided_unwillingness
        if decided is not None and decided != row.unwillingness:
            by_owner = row.source in ("item", "category", "everything")
            if row.unwillingness == 1:
                return self("why.changed.never" if by_owner else "why.brought.never")
            return self("why.changed" if by_owner else "why.brought")
        if row.state == "never" and row.source == "unsaid":
            return self("why.never.unsaid")
        if row.state in ("never", "closed", "undecided"):
            return self(f"why.{row.state}")
        for key in (f"why.{row.reason}.{row.state}", f"why.{row.reason}", f"why.{row.state}"):
            if key in self._catalogue:
                return self(key)
        return ""

    def source(self, row: Row, platform: str) -> str:
        """Return who said how an interaction may be used."""
        of_category = row.source == "kept" and row.source_target is not None
        key = "source.kept.category" if of_category else f"source.{row.source}"
        return self(key, category=row.source_target, platform=platform)

    def promises(self, closed: float | None) -> list[tuple[str, str]]:
        """Return the promises, the last with the limit that is set, or as an example."""
        limit = "0.8" if closed is None else f"{closed:g}"
        return [(name, text.replace("{closed}", limit)) for name, text in PROMISES.items()]

    def limit(self, closed: float | None) -> str:
        """Return whether a limit is set, as the last promise has it."""
        if closed is None:
            return self("promises.closed.none")
        return self("promises.closed.set", closed=f"{closed:g}")


UNWILLINGNESS: Final = ("0", "0.25", "0.5", "0.75", "1")
"""The five choices as forms send them, from "use freely" to "never"."""
_TEXTS: Final = {language: Texts(language) for language in CATALOGUES}


def texts_for(accepted: str) -> Texts:
    """Return the texts of the first accepted language that there is; English otherwise."""
    for part in accepted[:200].split(","):
        language = part.partition(";")[0].strip().lower().partition("-")[0]
        if language in _TEXTS:
            return _TEXTS[language]
    return _TEXTS["en"]
