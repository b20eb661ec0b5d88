"""How much to believe each source of values, by trial, and the values that result while others are withheld.

There are three sources (`Kind`): unwillingness alone, measured influence, and structure (paths). Each has an
`Opinion` on the same Z interactions, in shares of the mean, so that they can be compared.

Each source selects by itself within a budget, a model is trained on the selection, and the validation rows
tell how well it ranks (`judge`). A source that is z standard errors behind the best gets weight

    w_s ∝ exp(−z_s),    z_s = (q_best − q_s) / standard error of the difference between people

A source that adds nothing to unwillingness gets weight 0: measured influence if its model ranks exactly as
that of unwillingness, structure if it is not ahead by two standard errors.

Values are combined by a weighted geometric mean, Π_s x_s^w_s, so that a single source cannot make an
interaction valuable that all others think little of (`combine`).

Values depend on what else is disclosed: a path over three interactions is lost when one is withheld. So the
interactions with the least value per unwillingness are withheld first, a few at a time, and the rest is
valued again (`withdrawn`). The break-even price of an interaction is the price at which it was withheld,

    λ*_k = max(v_k(o) / β_k, the prices of all withheld before it),

and its value is λ*_k β_k. Ordered by these, budgets and prices select what withholding step by step would.
Interactions withheld at one price get prices that differ by a tiny factor: the higher unwillingness first,
then the later row.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict

from assent.game.prices import break_even_prices
from assent.support.arrays import Bools, Floats, Ints
from assent.worth.paths import Paths
from assent.worth.shrinkage import LEAST, ROUNDING, Shrunk

SURE = 2.0
"""Standard errors by which structure must be ahead of unwillingness alone to get weight."""
BUDGETS = (0.5, 0.2)
"""Budgets of the trials, as shares of All's violation, falling."""
_STEP = 0.04
"""Share of the unwillingness still disclosed that is withheld per step."""
_END = 0.01
"""When less than this share of all unwillingness is left, nothing is valued again."""
_HAIR = 1e-12
"""Relative difference between prices that would be equal."""
_SAMPLE = 20_000
"""Prices that tell where the lowest of more of them end."""

ValueAt = Callable[[Bools], Floats]
"""Values, [Z], while `kept[Z]` are disclosed; those of others are ignored."""


class Kind(StrEnum):
    """The sources of values."""

    UNWILLINGNESS = "unwillingness"
    """All interactions are worth the same."""
    MEASURED = "measured"
    """Influence after shrinkage."""
    STRUCTURE = "structure"
    """Paths between people."""


@dataclass(frozen=True)
class Opinion:
    """What one source says about Z interactions, in shares of the mean value while all are disclosed."""

    values: ValueAt
    """The values, none below `LEAST`."""
    untold: ValueAt
    """The values without what the validation rows say, so that these can judge them."""
    errors: Floats
    """[Z], standard errors of the values while all are disclosed."""
    depends: bool = False
    """Whether values depend on what else is disclosed."""

    @property
    def at_first(self) -> Floats:
        """The values while all are disclosed: [Z]."""
        return self.values(np.ones(len(self.errors), dtype=np.bool_))


def opinions(measured: Shrunk, structure: Opinion | None) -> dict[Kind, Opinion]:
    """What each source says; `structure` comes from `by_paths`, or is None where it has no weight."""
    influence, one = by_influence(measured), np.ones(len(measured.values))
    alike = Opinion(lambda kept: one, lambda kept: one, np.hypot(influence.errors, influence.at_first - 1))
    found = {Kind.UNWILLINGNESS: alike, Kind.MEASURED: influence}
    return found if structure is None else found | {Kind.STRUCTURE: structure}


def heard(opinions: Mapping[Kind, Opinion], trials: Sequence["Trial"]) -> dict[Kind, Opinion]:
    """What the sources say that have weight."""
    return {kind: each for kind, each in opinions.items() if may_hear(kind, trials)}


def untold(opinions: Mapping[Kind, Opinion]) -> dict[Kind, Opinion]:
    """What each source says without the validation rows."""
    return {kind: replace(each, values=each.untold) for kind, each in opinions.items()}


def by_influence(measured: Shrunk) -> Opinion:
    """Influence after shrinkage, in shares of its mean size; all 1 if nothing is significant.

    It does not depend on what else is disclosed.
    """
    is_told = measured.explained > 0 or measured.measurement > 0
    told, untold = (
        _relative(values, float(np.abs(values).mean())) if is_told else np.ones(len(values))
        for values in (measured.values, measured.held_values)
    )
    errors = _relative(measured.errors, measured.mean, least=0.0)
    return Opinion(lambda kept: told, lambda kept: untold, errors)


def by_paths(
    paths: Paths, worth_of: Callable[[Paths], Floats], variance_of: Callable[[Paths], Floats]
) -> Opinion:
    """Structure: the paths over each interaction; fewer as others are withheld.

    `worth_of` is `Paths.own` or `Paths.social`, with its variance.
    """
    mean, left = float(worth_of(paths).mean()), paths

    def values(kept: Bools) -> Floats:
        nonlocal left
        # While fewer and fewer are kept, only the paths left by the last call have to be searched.
        left = (paths if (kept & ~left.kept).any() else left).among(kept)
        return _relative(worth_of(left), mean)

    errors = _relative(np.sqrt(variance_of(paths)), mean, least=0.0)
    return Opinion(values, values, errors, depends=True)


def _relative(values: Floats, size: float, least: float = LEAST) -> Floats:
    """`values[Z]` as shares of `size`, none below `least`; all 1 if `size` is 0: [Z]."""
    return np.maximum(values / size, least) if size > 0 else np.ones(len(values))


class Trial(BaseModel):
    """The result of trying each source within one budget."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    budget: float
    qualities: Mapping[Kind, float]
    """Mean NDCG@5 over people with validation rows."""
    weights: Mapping[Kind, float]

    def facts(self) -> dict[str, object]:
        """The trial's figures, for the certificate."""
        kinds = {kind.value: {"ndcg": self.qualities[kind], "weight": self.weights[kind]} for kind in Kind}
        return {"budget": self.budget, **kinds}

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> "Trial":
        """The trial with these figures."""
        return cls(
            budget=facts["budget"],
            qualities={kind: facts[kind.value]["ndcg"] for kind in Kind},
            weights={kind: facts[kind.value]["weight"] for kind in Kind},
        )


def judge(budget: float, qualities: Mapping[Kind, Floats]) -> Trial:
    """Weights of the sources from the ranking quality of their models for n people, `qualities[kind][n]`."""
    means = {kind: float(each.mean()) if len(each) else 0.0 for kind, each in qualities.items()}
    ahead = {kind: each - qualities[Kind.UNWILLINGNESS] for kind, each in qualities.items()}
    heard = [Kind.UNWILLINGNESS]
    if ahead[Kind.MEASURED].any():
        heard.append(Kind.MEASURED)
    if _in_errors(ahead[Kind.STRUCTURE]) >= SURE:
        heard.append(Kind.STRUCTURE)
    best = qualities[max(heard, key=lambda kind: means[kind])]
    odds = {kind: np.exp(-_in_errors(best - qualities[kind])) if kind in heard else 0.0 for kind in Kind}
    total = sum(odds.values())
    return Trial(
        budget=budget,
        qualities=means,
        weights={kind: float(each / total) for kind, each in odds.items()},
    )


def _in_errors(differences: Floats) -> float:
    """The mean of `differences[n]` in standard errors; 0 if all are 0 or n < 2."""
    if len(differences) < 2 or not differences.any():
        return 0.0
    error = float(differences.std(ddof=1)) / np.sqrt(len(differences))
    mean = float(differences.mean())
    return mean / error if error > 0 else float(np.copysign(np.inf, mean))


def may_hear(kind: Kind, trials: Sequence[Trial]) -> bool:
    """Whether a source has weight at some budget; True before trials."""
    return not trials or any(each.weights[kind] > 0 for each in trials)


def weights_at(share: float, trials: Sequence[Trial]) -> dict[Kind, float]:
    """The weights while the share `share` of All's violation is disclosed.

    Linear in log(share) between the budgets that were tried, constant beyond them.
    """
    falling = np.log([each.budget for each in trials])
    at = np.log(max(share, np.exp(falling[-1])))
    return {
        kind: float(np.interp(at, falling[::-1], [each.weights[kind] for each in trials][::-1]))
        for kind in Kind
    }


def combine(
    opinions: Mapping[Kind, Opinion], trials: Sequence[Trial], unwillingness: Floats, *, mean: float
) -> Floats:
    """Values with the given mean: the geometric mean of all sources at every stage of withdrawal: [Z].

    None is negative: what seems to do harm is withheld first, but disclosed at price 0.
    """
    # What unwillingness alone says, 1, is 1 to any power.
    powers = {kind: _Power() for kind in opinions if kind is not Kind.UNWILLINGNESS}
    total = float(unwillingness.sum())

    def value_at(kept: Bools) -> Floats:
        weights = weights_at(float(unwillingness[kept].sum()) / total if total else 1.0, trials)
        product = np.ones(len(kept))
        for kind, power in powers.items():
            product *= power.of(opinions[kind].values(kept), weights[kind], kept)
        return product

    found = withdrawn(value_at, unwillingness)
    here = float(found.mean()) if len(found) else 0.0
    return found * (mean / here if here > 0 else 0.0)


class _Power:
    """x^w of one source, kept while neither x nor w changes: powers cost more than all else in `combine`."""

    def __init__(self) -> None:
        self.base: Floats | None = None
        self.weight = 0.0
        self.power = np.zeros(0)

    def of(self, base: Floats, weight: float, kept: Bools) -> Floats:
        """`base[Z] ** weight` where `kept[Z]`, which falls from call to call: [Z]."""
        if base is not self.base or weight != self.weight:
            self.base, self.weight = base, weight
            self.power = np.power(base, weight, out=np.ones(len(base)), where=kept)
        return self.power


def errors(opinions: Mapping[Kind, Opinion], trials: Sequence[Trial], values: Floats) -> Floats:
    """Standard errors of combined `values[Z]`: [Z].

    √(Σ_s w_s (σ_s² + (x_s − value)²)) with the weight w, the value x and the standard error σ of each source
    while all is disclosed.
    """
    weights, unit = weights_at(1.0, trials), float(values.mean()) if len(values) else 0.0
    squares = [
        weights[kind] * ((unit * each.errors) ** 2 + (unit * each.at_first - values) ** 2)
        for kind, each in opinions.items()
        if weights[kind] > 0
    ]
    found: Floats = np.sqrt(np.sum(squares, axis=0))
    return found


def withdrawn(value_at: ValueAt, unwillingness: Floats, *, depends: bool = True) -> Floats:
    """The values of Z interactions, λ*_k β_k, if the least valuable are withheld first: [Z].

    Interactions of unwillingness 0 are never withheld; they get the value of the last step. One step does
    where values do not depend on what is kept.
    """
    minded = unwillingness > 0
    kept, found, level = np.ones(len(minded), dtype=np.bool_), np.zeros(len(minded)), 0.0
    rest = total = float(unwillingness.sum())
    left = np.flatnonzero(minded)[::-1]
    while True:
        values, minds = value_at(kept), unwillingness[left]
        is_last = not depends or rest <= _END * total
        prices = break_even_prices(values[left], minds)
        order = _cheapest(prices, minds, np.inf if is_last else _STEP * rest)
        gone, goes = left[order], minds[order]
        hairs = 1 + _HAIR * np.arange(1, len(gone) + 1, dtype=np.float64)
        at = np.maximum(prices[order], level) * hairs
        is_priced = at < np.inf
        found[gone] = np.where(is_priced, np.where(is_priced, at, 0.0) * goes, values[gone])
        if is_last:
            return np.where(minded, found, values)
        level = float(at[-1])
        kept[gone] = False
        left = left[kept[left]]
        rest = float(unwillingness[kept].sum())


def _cheapest(prices: Floats, unwillingness: Floats, enough: float) -> Ints:
    """Places of the lowest of `prices[n]`, rising, until the sum of their unwillingness reaches `enough`.

    Of equal prices, the higher unwillingness comes first.
    """
    among = np.arange(len(prices))
    if len(prices) > _SAMPLE and enough < np.inf:
        # Only what can be among them is sorted: a sample tells below which price that is.
        some = slice(None, None, len(prices) // _SAMPLE)
        order = np.argsort(prices[some])
        sums = np.cumsum(unwillingness[some][order])
        ahead = np.searchsorted(sums, 1.1 * enough / float(unwillingness.sum()) * sums[-1])
        few = np.flatnonzero(prices <= prices[some][order[min(int(ahead), len(order) - 1)]])
        if float(unwillingness[few].sum()) > (1 + ROUNDING) * enough:
            among = few
    order = among[np.lexsort((-unwillingness[among], prices[among]))]
    return order[: int(np.searchsorted(np.cumsum(unwillingness[order]), enough)) + 1]
