"""Decide within a budget: the lowest price whose equilibrium fits, filled up with what pays next.

With several anchors the values themselves depend on the price, so the price is found by bisection. What the
budget leaves over goes to the interactions with the highest break-even prices, and at price 0 to interactions
without value, least unwillingness first.
"""

from collections.abc import Callable
from dataclasses import replace

from assent.game.estimates import Estimates, Objective
from assent.game.nearest import regret_of
from assent.game.players import by_score
from assent.game.prices import break_even_prices, fits_into, price_path
from assent.game.solve import Equilibrium
from assent.support.arrays import Bools

_PRECISION = 1e-2
"""Relative width of the interval of prices at which bisection stops."""
_LEAST = 1e-6
"""The first price above 0 if break-even prices suggest none."""
_DOUBLINGS = 20
"""Most doublings of the price. Tables that learn from few samples may not fit at any price."""


def decide_within(
    estimates: Estimates, play: Callable[[float], Equilibrium], allowed: float, objective: Objective
) -> tuple[Equilibrium, float]:
    """The solution that discloses a total unwillingness of at most `allowed`, and its price, at least 0.

    `play` solves the game of `estimates` at a price. The result is the solution at the lowest price that
    fits, filled up to `allowed`. If no price fits, the values found last only order the interactions. Raises
    AssentError if everybody's floor alone exceeds `allowed`.
    """

    def fits(found: Equilibrium) -> bool:
        return fits_into(float(estimates.unwillingness[found.selection].sum()), allowed)

    low, high = 0.0, 0.0
    found = play(high)
    for _ in range(_DOUBLINGS):
        if fits(found):
            break
        next_price = price_path(found.values, estimates.unwillingness).price_within(allowed)
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
    selection, price = _filled(estimates, found, high, allowed, start)
    regret = regret_of(estimates, selection, objective=objective, price=price)
    return replace(found, selection=selection, regret=regret), price


def _filled(
    estimates: Estimates, found: Equilibrium, price: float, allowed: float, start: Bools | None
) -> tuple[Bools, float]:
    """Fill up to `allowed` by falling break-even prices; the selection, [Z], and its price.

    Under wishes `start[Z]` is filled up, and by units. With no start, the price is the highest at which
    something that is left out would pay.
    """
    if estimates.wishes.are_plain:
        path = price_path(found.values, estimates.unwillingness)
        return path.within(allowed), path.price_within(allowed)
    players = estimates.players(price)
    worth = players.units.sums(found.values)
    prices = break_even_prices(worth, players.units.unwillingness)[players.units.of]
    selection = by_score(players, prices, allowed=allowed, start=start)
    return selection, price if start is not None else float(prices[~selection].max(initial=0.0))
