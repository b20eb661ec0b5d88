"""The paper's tables and figures, and ours: one file per item, behind one interface."""

from assent.experiments.reproduce.anarchy import PriceOfAnarchy
from assent.experiments.reproduce.anchors import Anchors
from assent.experiments.reproduce.approximation import Approximation
from assent.experiments.reproduce.base import Findings, Item
from assent.experiments.reproduce.frontier import Frontier
from assent.experiments.reproduce.lds import Lds
from assent.experiments.reproduce.more_metrics import MoreMetrics
from assent.experiments.reproduce.overall import Overall
from assent.experiments.reproduce.page import build_page
from assent.experiments.reproduce.plan import Plan, Scale, full, quick
from assent.experiments.reproduce.price import Price
from assent.experiments.reproduce.reliability import Reliability
from assent.experiments.reproduce.run import PAGE, Reproduction, reproduce, write_chapter
from assent.experiments.reproduce.scratch import Scratch
from assent.experiments.reproduce.search import Search
from assent.experiments.reproduce.sparsity import Sparsity
from assent.experiments.reproduce.willingness import Willingness

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
