"""The paper's tables and figures, and ours: one file per item, behind one interface."""

from assent.experiments.reproduce.base import Findings, Item
from assent.experiments.reproduce.more_metrics import MoreMetrics
from assent.experiments.reproduce.overall import Overall
from assent.experiments.reproduce.page import build_page
from assent.experiments.reproduce.plan import Plan, Scale, full, quick
from assent.experiments.reproduce.price import Price
from assent.experiments.reproduce.run import PAGE, Reproduction, reproduce, write_chapter

ITEMS: dict[str, Item] = {item.name: item for item in (Overall(), MoreMetrics(), Price())}
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
