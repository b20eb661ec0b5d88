"""Why each interaction was disclosed or withheld: the one thing that decided.

First comes what the interaction is worth. If that does not explain the decision, something else does: the
category it was decided with, a limit or a floor of its owner, the budget for all, or chance. If two reasons
hold, the owner is told the one they can change.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from assent.game.budget import up_to_rounding
from assent.game.players import Players
from assent.support.arrays import Bools, Floats, Ints, Strings, sum_by


class Reason(StrEnum):
    """What decided on an interaction, or on the group it was decided with."""

    WORTH = "worth"
    """Disclosed: worth more than it costs."""
    COST = "cost"
    """Withheld: worth something, but not more than it costs."""
    NO_HELP = "no help"
    """Withheld: worth nothing."""
    CATEGORY = "category"
    """Decided against its own worth, because its group as a whole is worth its cost, or is not."""
    FLOOR = "floor"
    """Disclosed: not worth its cost, but needed for its owner's floor."""
    OWN_BUDGET = "own budget"
    """Withheld: worth its cost, but it would exceed its owner's budget."""
    BUDGET = "budget"
    """Disclosed: not worth its cost, but the budget for all had room for it. Withheld: worth its cost, but
    the budget for all was used up before its turn."""
    LOT = "lot"
    """Decided against its worth: drawn at random from a mixed strategy."""
    SEARCH = "search"
    """Decided against its worth, which depends on what else is disclosed: the best selection found."""


@dataclass(frozen=True)
class Reasons:
    """What decided on each of Z interactions."""

    reasons: Strings
    """[Z], each a `Reason`."""
    costs: Floats
    """[Z], what disclosing it costs its owner on top of what else they disclose, in loss units."""
    together: Ints
    """[Z], how many interactions were decided together with it, itself included."""


def reasons_of(
    players: Players, values: Floats, selection: Bools, *, filled: bool = False, drawn: bool = False
) -> Reasons:
    """Why `players` disclose `selection[Z]` if interactions are worth `values[Z]`.

    `filled`: it was filled up to a budget for all, by falling break-even price. `drawn`: it was drawn at
    random.
    """
    units, paid, most = players.units, players.paid(selection), up_to_rounding(players.budget)
    chosen = selection[units.first]
    pays = units.sums(values) > _costs(players, units.owners, units.unwillingness, chosen, paid)
    number = sum_by(units.owners, (units.sizes * chosen).astype(np.float64), players.n_users)
    is_needed = (number[units.owners] - units.sizes) < players.floor[units.owners]
    disclosing = [(pays, Reason.WORTH), (is_needed, Reason.FLOOR)]
    withholding = [
        (~pays, Reason.COST),
        (paid[units.owners] + units.unwillingness > most[units.owners], Reason.OWN_BUDGET),
    ]
    if filled:
        # Filling up takes all that its owner's budget has room for, until the budget for all is used up.
        disclosing.append((np.ones_like(chosen), Reason.BUDGET))
        withholding.append((np.ones_like(chosen), Reason.BUDGET))
    otherwise = Reason.LOT if drawn else Reason.SEARCH
    decided = np.where(chosen, _first(disclosing, otherwise), _first(withholding, otherwise))[units.of]
    costs = _costs(players, players.owners, players.unwillingness, selection, paid)
    alone = values > costs
    against = ((decided == Reason.WORTH) & ~alone) | ((decided == Reason.COST) & alone)
    useless = (decided == Reason.COST) & (values <= 0)
    reasons = _first([(against, Reason.CATEGORY), (useless, Reason.NO_HELP)], decided)
    return Reasons(reasons, costs, units.sizes[units.of])


def _first(cases: list[tuple[Bools, Reason]], otherwise: Strings | Reason) -> Strings:
    """The reason of the first case that holds."""
    holds, reasons = zip(*cases, strict=True)
    found: Strings = np.select(holds, [np.array(str(each)) for each in reasons], np.array(otherwise))
    return found


def _costs(players: Players, owners: Ints, unwillingness: Floats, chosen: Bools, paid: Floats) -> Floats:
    """What disclosing each of n things adds to its owner's cost; `paid[N]` is each user's total: [n]."""
    wishes = players.wishes
    if wishes.power == 1:
        return players.price * unwillingness
    others = np.maximum(paid[owners] - np.where(chosen, unwillingness, 0), 0)
    return players.price * (wishes.cost(others + unwillingness) - wishes.cost(others))
