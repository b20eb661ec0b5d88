"""Which source of values to believe, by trial.

Each source selects by itself within a budget, a model is trained on that, and the validation rows tell how
well it ranks. A source that is z standard errors behind the best counts e^−z of it:

    w_s ∝ exp(−z_s),    z_s = (q_best − q_s) / error of the difference between people

Values are combined as geometric means, Π_s x_s^w_s, so that what all sources but one think nothing of is not
carried by that one. Unwillingness alone, for which all are worth the same, is one of the sources: where it
ranks best it counts most. Who has nothing to say is not heard, so that it decides alone where there is no
signal: what was measured is the same of all then (`shrinkage` has its own test), and structure, which has no
test but this one, has to be ahead of unwillingness by twice the standard error.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from assent.arrays import Floats


class Kind(StrEnum):
    """What is tried."""

    UNWILLINGNESS = "unwillingness"
    """All are worth the same."""
    MEASURED = "measured"
    """Influence, drawn towards what counts lead to expect (`shrinkage`)."""
    STRUCTURE = "structure"
    """Paths (`paths`)."""


SURE = 2.0
"""Standard errors that structure has to be ahead of unwillingness alone to be heard."""
BUDGETS = (0.5, 0.2)
"""Shares of All's violation at which sources are tried, falling."""


@dataclass(frozen=True)
class Trial:
    """What came of trying each source within one budget."""

    budget: float
    qualities: Mapping[Kind, float]
    """Mean NDCG@5 over people with validation rows."""
    weights: Mapping[Kind, float]

    def facts(self) -> dict[str, object]:
        """For the certificate."""
        kinds = {kind.value: {"ndcg": self.qualities[kind], "weight": self.weights[kind]} for kind in Kind}
        return {"budget": self.budget, **kinds}


def judge(budget: float, qualities: Mapping[Kind, Floats]) -> Trial:
    """Weigh the sources by how well their models rank for each of n people: `qualities[kind][n]`."""
    means = {kind: float(each.mean()) if len(each) else 0.0 for kind, each in qualities.items()}
    heard = [kind for kind in Kind if _is_heard(kind, qualities)]
    best = qualities[max(heard, key=lambda kind: means[kind])]
    odds = {kind: np.exp(-_in_errors(best - qualities[kind])) if kind in heard else 0.0 for kind in Kind}
    total = sum(odds.values())
    return Trial(budget, means, {kind: float(each / total) for kind, each in odds.items()})


def _is_heard(kind: Kind, qualities: Mapping[Kind, Floats]) -> bool:
    """Whether a source has anything to say beside unwillingness."""
    ahead = qualities[kind] - qualities[Kind.UNWILLINGNESS]
    match kind:
        case Kind.UNWILLINGNESS:
            return True
        case Kind.MEASURED:
            return bool(ahead.any())
        case Kind.STRUCTURE:
            return _in_errors(ahead) >= SURE


def _in_errors(differences: Floats) -> float:
    """Their mean in standard errors; 0 where there is none."""
    if len(differences) < 2 or not differences.any():
        return 0.0
    error = float(differences.std(ddof=1)) / np.sqrt(len(differences))
    mean = float(differences.mean())
    return mean / error if error > 0 else float(np.copysign(np.inf, mean))


def weights_at(share: float, trials: Sequence[Trial]) -> dict[Kind, float]:
    """The weights while the share `share` of the violation is disclosed.

    Between the budgets that were tried they go from one to the next with log(share); beyond, they stay.
    """
    falling = np.log([each.budget for each in trials])
    at = np.log(max(share, np.exp(falling[-1])))
    return {
        kind: float(np.interp(at, falling[::-1], [each.weights[kind] for each in trials][::-1]))
        for kind in Kind
    }
