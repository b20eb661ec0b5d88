"""Every link of README and docs leads somewhere."""

from pathlib import Path

import pytest

from tests.docs.pages import DOCS, PAGES, anchors, links, name


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_to_files_and_headings(page: Path) -> None:
    for link in links(page):
        if link.startswith(("https://", "mailto:")):
            continue
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        assert target.exists(), f"{link}: no such file"
        if anchor:
            assert anchor in anchors(target), f"{link}: no such heading; there are {sorted(anchors(target))}"


def test_every_picture_is_shown_somewhere() -> None:
    shown = {(page.parent / link).resolve() for page in PAGES for link in links(page)}
    pictures = {file for kind in ("svg", "png") for file in DOCS.rglob(f"*.{kind}")}
    assert pictures <= shown
