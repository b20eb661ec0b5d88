"""The paper's tables and figures, and ours: one description per item, behind one interface."""

from assent.reproduce import comparisons, differences, measurements, search
from assent.reproduce.item import Chapter, Item
from assent.reproduce.page import (
    PAGE,
    build_page,
    conclusions,
    write_chapter,
    write_claims,
    write_verdicts,
)
from assent.reproduce.plan import Plan, Scale, full, quick
from assent.reproduce.profiles import Profile
from assent.reproduce.records import read_records, write_records
from assent.reproduce.run import Reproduction, reproduce

ITEMS: dict[str, Item] = {
    item.name: item
    for item in (
        comparisons.OVERALL,
        comparisons.MORE_METRICS,
        comparisons.PRICE,
        comparisons.SCRATCH,
        measurements.APPROXIMATION,
        comparisons.ANCHORS,
        differences.GAMMA,
        differences.EXPLANATIONS,
        comparisons.WILLINGNESS,
        comparisons.SPARSITY,
        comparisons.FRONTIER,
        measurements.LDS,
        measurements.PRICE_OF_ANARCHY,
        measurements.RELIABILITY,
        search.SEARCH,
    )
}
"""Every item by name; a new one is a description and an entry here."""

__all__ = [
    "ITEMS", "PAGE", "Chapter", "Item", "Plan", "Profile", "Reproduction", "Scale", "build_page",
    "conclusions", "full", "quick", "read_records", "reproduce", "write_chapter", "write_claims",
    "write_records", "write_verdicts",
]  # fmt: skip
