"""The published run: its records say what the page on the paper says, and hold figures alone."""

import gzip
import json

from assent.reproduce import ITEMS, conclusions, read_records
from assent.reproduce.plan import DATASETS, MODELS
from assent.results.records import METHOD
from tests.docs.pages import DOCS

RECORDS = DOCS / "records" / "paper.jsonl.gz"
WORDS = {"item", "dataset", "model", "method", "objective", "settings", "difference", "setting", METHOD}
"""Keys of a record whose values are text."""
LARGEST = 500_000
"""Bytes."""


def test_the_page_on_the_paper_has_what_the_published_records_say() -> None:
    page = (DOCS / "paper.md").read_text(encoding="utf-8")
    said = conclusions(read_records([RECORDS], ITEMS))
    assert len(said) > 2
    for sentence in said:
        assert sentence.replace("\u202f", " ") in page


def test_the_published_records_hold_figures_and_no_ids() -> None:
    assert RECORDS.stat().st_size < LARGEST
    _, *lines = map(json.loads, gzip.decompress(RECORDS.read_bytes()).splitlines())
    names = {each: {line.get(each) for line in lines} for each in WORDS}
    assert names["item"] <= set(ITEMS)
    assert names["dataset"] <= set(DATASETS)
    assert names["model"] <= set(MODELS)
    for each in ("method", "objective", "setting", "difference", METHOD):
        assert len(names[each]) < 100
    for line in lines:
        assert all(isinstance(value, int | float | None) for key, value in line.items() if key not in WORDS)
