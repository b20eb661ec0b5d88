"""IFRQE++: influence at several anchors, the nearest of which predicts."""

from typing import ClassVar

from assent.methods.base import Method
from assent.methods.ifrqe import IFRQE
from assent.workbench import Workbench


class IFRQEpp(IFRQE):
    """The game of IFRQE with T anchors (section 3.2 of the paper)."""

    name: ClassVar[str] = "ifrqe++"
    ignores: ClassVar[frozenset[str]] = Method.ignores

    def _anchors(self, bench: Workbench) -> int:
        return 1 if "anchors" in bench.settings.idle else bench.settings.anchors

    def _adaptive(self, bench: Workbench) -> int:
        return 0 if "adaptive" in bench.settings.idle else bench.settings.adaptive
