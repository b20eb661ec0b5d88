"""The pages that people read: their headings, links and code blocks."""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SITE_PAGES = sorted(DOCS.rglob("*.md"))
PAGES = [*(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")), *SITE_PAGES]
_FENCE = re.compile(r"^```(?P<info>[^\n]*)\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_TITLE = re.compile(r'title="([^"]+)"')


def name(page: Path) -> str:
    """What tests call a page."""
    return str(page.relative_to(ROOT))


@dataclass(frozen=True)
class Block:
    """A fenced block of a page: its language, the file that its title names, and its text."""

    language: str
    title: str | None
    code: str

    def commands(self) -> list[str]:
        """The lines of a console block that begin with a dollar sign; or all lines of a shell script."""
        joined = self.code.replace("\\\n", " ")
        if self.language == "console":
            return [line[2:].strip() for line in joined.splitlines() if line.startswith("$ ")]
        return [line.partition("#")[0].strip() for line in joined.splitlines() if line.strip()]


def blocks(page: Path) -> Iterator[Block]:
    """Every fenced block of a page, in order."""
    for found in _FENCE.finditer(page.read_text(encoding="utf-8")):
        language, _, about = found["info"].partition(" ")
        title = _TITLE.search(about)
        yield Block(language, title[1] if title else None, found["code"])


def prose(page: Path) -> str:
    """A page without its code."""
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    return re.sub(r"`[^`\n]*`", "", text)


def links(page: Path) -> list[str]:
    """The targets of all links and images of a page."""
    return _LINK.findall(prose(page))


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings that GitHub and the site call the same."""
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#{1,6} (.+)$", text, re.MULTILINE)
    return {_on_github(heading) for heading in headings} & {_on_the_site(heading) for heading in headings}


def _on_github(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _on_the_site(heading: str) -> str:
    plain = unicodedata.normalize("NFKD", heading).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())
