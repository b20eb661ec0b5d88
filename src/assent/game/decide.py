"""Deciding within a budget: the lowest price that keeps to it, filled up to the budget."""

from collections.abc import Callable
from dataclasses import replace

from assent.game.estimates import Estimates, Objective
from assent.game.players import by_score
from assent.game.prices import break_even_prices, fits_into, price_path
from assent.game.regret import regret_of
from assent.game.solve import Equilibrium
from assent.support.arrays import Bools

_PRECISION = 1e-2
_LEAST = 1e-6
_DOUBLINGS = 20


def decide_within(
    estimates: Estimates, play: Callable[[float], Equilibrium], allowed: float, objective: Objective
) -> tuple[Equilibrium, float]:
    """Return the solution that discloses at most `allowed` unwillingness, and its price."""
    unwillingness = estimates.unwillingness

    def fits(found: Equilibrium) -> bool:
        return fits_into(float(unwillingness[found.selection].sum()), allowed)

    low, high = 0.0, 0.0
    found = play(high)
    for _ in range(_DOUBLINGS):
        if fits(found):
            break
        next_price = price_path(found.values, unwillingness).price_within(allowed)
        low, high = high, max(2 * high, next_price, _LEAST)
        found = play(high)
    while fits(found) and high - low > _PRECISION * high:
        middle = (low + high) / 2
        trial = play(middle)
        if fits(trial):
            high, found = middle, trial
        else:
            low = middle
    start = found.selection if fits(found) else None
    return _filled(estimates, found, high, allowed, objective, start=start)


def _filled(
    estimates: Estimates,
    found: Equilibrium,
    price: float,
    allowed: float,
    objective: Objective,
    *,
    start: Bools | None,
) -> tuple[Equilibrium, float]:
    path = price_path(found.values, estimates.unwillingness)
    if estimates.wishes.are_plain:
        selection, price = path.within(allowed), path.price_within(allowed)
    else:
        players = estimates.players(price)
        worth = players.units.sums(found.values)
        prices = break_even_prices(worth, players.units.unwillingness)[players.units.of]
        selection = by_score(players, prices, allowed=allowed, start=start)
        if start is None:
            price = float(prices[~selection].max(initial=0.0))
    regret = regret_of(estimates, selection, objective=objective, price=price)
    return replace(found, selection=selection, regret=regret), price
