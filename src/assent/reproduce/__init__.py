"""The paper's tables and figures, and ours: one description per item, behind one interface."""

from assent.reproduce import comparisons, measurements
from assent.reproduce.item import Chapter, Item
from assent.reproduce.plan import Plan, Scale, full, quick
from assent.reproduce.profiles import Profile
from assent.reproduce.run import PAGE, Reproduction, build_page, reproduce, write_chapter

ITEMS: dict[str, Item] = {
    item.name: item
    for item in (
        comparisons.OVERALL,
        comparisons.MORE_METRICS,
        comparisons.PRICE,
        comparisons.SCRATCH,
        measurements.APPROXIMATION,
        comparisons.ANCHORS,
        comparisons.GAMMA,
        comparisons.EXPLANATIONS,
        comparisons.WILLINGNESS,
        comparisons.SPARSITY,
        comparisons.FRONTIER,
        measurements.LDS,
        measurements.PRICE_OF_ANARCHY,
        measurements.RELIABILITY,
        measurements.SEARCH,
    )
}
"""Every item by name; a new one is a description and an entry here."""

__all__ = [
    "ITEMS", "PAGE", "Chapter", "Item", "Plan", "Profile", "Reproduction", "Scale", "build_page", "full",
    "quick", "reproduce", "write_chapter",
]  # fmt: skip
