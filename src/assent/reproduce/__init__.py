"""The paper's tables and figures, and ours: one file per item, behind one interface."""

from assent.reproduce.anchors import Anchors, Approximation
from assent.reproduce.item import Findings, Item
from assent.reproduce.ours import Frontier, Lds, PriceOfAnarchy, Reliability
from assent.reproduce.overall import MoreMetrics, Overall, Price
from assent.reproduce.page import build_page
from assent.reproduce.plan import Plan, Scale, full, quick
from assent.reproduce.run import PAGE, Reproduction, reproduce, write_chapter
from assent.reproduce.scratch import Scratch
from assent.reproduce.search import Search
from assent.reproduce.simulation import Sparsity, Willingness

ITEMS: dict[str, Item] = {
    item.name: item
    for item in (
        Overall(),
        MoreMetrics(),
        Price(),
        Scratch(),
        Approximation(),
        Anchors(),
        Willingness(),
        Sparsity(),
        Frontier(),
        Lds(),
        PriceOfAnarchy(),
        Reliability(),
        Search(),
    )
}
"""Every item by name; a new one is a file and an entry here."""

__all__ = [
    "ITEMS",
    "PAGE",
    "Findings",
    "Item",
    "Plan",
    "Reproduction",
    "Scale",
    "build_page",
    "full",
    "quick",
    "reproduce",
    "write_chapter",
]
