"""HTML by small functions: what is not `Html` already is escaped, so that no id or title can break out."""

from collections.abc import Iterable
from html import escape


class Html(str):
    """Text that is HTML already; a plain `str` is text that still needs escaping."""

    __slots__ = ()


def tag(name: str, /, *parts: str, **attributes: str) -> Html:
    """An element with its content; `class_` and `aria_label` stand for `class` and `aria-label`."""
    return Html(f"{_opening(name, attributes)}{join(parts)}</{name}>")


def void(name: str, /, **attributes: str) -> Html:
    """An element that has no content, such as `meta`."""
    return Html(_opening(name, attributes))


def join(parts: Iterable[str]) -> Html:
    """The parts one after the other."""
    return Html("".join(part if isinstance(part, Html) else escape(part) for part in parts))


def paragraph(*parts: str) -> Html:
    """A paragraph of running text."""
    return tag("p", *parts)


def bullets(items: Iterable[str]) -> Html:
    """An unordered list."""
    return tag("ul", *(tag("li", item) for item in items))


def header(*parts: str, scope: str = "col", **attributes: str) -> Html:
    """A header cell of a column, a row or a group of rows."""
    return tag("th", *parts, scope=scope, **attributes)


def scrolling(table: Html, label: str) -> Html:
    """A table in a box of its own, which scrolls (also by keyboard) where the page is narrower."""
    return tag("div", table, class_="scroll", role="region", aria_label=label, tabindex="0")


def _opening(name: str, attributes: dict[str, str]) -> str:
    given = (f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"' for key, value in attributes.items())
    return f"<{name}{''.join(given)}>"
