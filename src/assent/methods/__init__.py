"""Ways to choose what is disclosed, behind one interface."""

from assent.game.estimates import Objective
from assent.methods.base import Choice, Method
from assent.methods.heuristics import All, Nothing, Occurrence, Random, Threshold
from assent.methods.ifrqe import IFRQE
from assent.methods.ifrqe_pp import IFRQEpp
from assent.methods.proactive import Proactive
from assent.methods.scratch import Scratch
from assent.support.errors import AssentError

METHODS: dict[str, type[Method]] = {
    method.name: method
    for method in (All, Nothing, Random, Threshold, Occurrence, IFRQE, IFRQEpp, Proactive, Scratch)
}
"""Every method by name; a new one is a file and an entry here."""


def make_method(name: str, objective: Objective = Objective.WELFARE) -> Method:
    """The method called `name`, playing for `objective` if it knows that one."""
    try:
        return METHODS[name](objective)
    except KeyError:
        raise AssentError(f"--method {name}: unknown; accepted: {', '.join(METHODS)}") from None


__all__ = ["METHODS", "Choice", "Method", "make_method"]
