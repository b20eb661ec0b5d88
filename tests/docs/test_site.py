"""`make docs`: the site is built strictly, and loads nothing from elsewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.docs.pages import DOCS, ROOT, SITE_PAGES, name, prose

_LOADED = re.compile(r"<(?:script|link|img|iframe)\b[^>]*?(?:src|href)=\"?(https?://[^\" >]+)")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs") / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--config-file", str(ROOT / "mkdocs.yml")]
    done = subprocess.run([*command, "--site-dir", str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def test_every_page_is_on_the_site(site: Path) -> None:
    for page in SITE_PAGES:
        assert (site / page.relative_to(DOCS)).with_suffix(".html").is_file()


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        assert _LOADED.findall(page.read_text(encoding="utf-8")) == []


def test_the_menu_has_every_page() -> None:
    def listed(entries: list[object]) -> set[str]:
        found: set[str] = set()
        for entry in entries:
            assert isinstance(entry, dict)
            for value in entry.values():
                found |= {value} if isinstance(value, str) else listed(value)
        return found

    menu = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    assert listed(menu) == {str(page.relative_to(DOCS)) for page in SITE_PAGES}


@pytest.mark.parametrize("page", [page for page in SITE_PAGES if page.parent == DOCS], ids=name)
def test_a_page_says_what_it_is_good_for(page: Path) -> None:
    title, _, first = page.read_text(encoding="utf-8").partition("\n\n")
    assert title.startswith("# ")
    assert first.startswith("After this page you ")
    assert len(prose(page).splitlines()) < 120, "two screens are enough"
