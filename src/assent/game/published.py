"""The game as the authors' published code plays it (`strategy=published`).

It starts from the binomial prior and takes L steps, like Algorithm 3, but:

- In each step everybody plays their *likeliest* selection; nothing is drawn.
- A player's reward has the mean loss of everybody and the influence of everybody's interactions on their
  owners, one number for all players, minus the player's own price. So no player sees what their own
  interactions do.
- The probability of the likeliest selection is multiplied by exp(γ · reward), then all are normalised.
- There is one round. The strategy is the mean of those after each step; its likeliest selection is taken.

A reward is negative, so a step always makes the selection that is played less likely, the more so the more it
costs. What is disclosed in the end depends on how often each selection was the likeliest: with a small γ
everything is.
"""

import numpy as np

from assent.game.estimates import Estimates, Objective
from assent.game.nearest import regret_of, response_values
from assent.game.paper import Rewards, TableSettings, check_table, marginals, prior_tables
from assent.game.solve import Equilibrium
from assent.game.tables import Learning, Update
from assent.support.arrays import Keys, mix

_FINAL = -1
"""The step that nobody plays: for the choice between equally likely selections at the end."""


def play_published(
    estimates: Estimates, *, objective: Objective, price: float, settings: TableSettings, keys: Keys
) -> Equilibrium:
    """Return what everybody discloses after L steps; `keys[N]` decide between equally likely selections.

    `estimates` must predict L(õ) − Σ_k (o_k − õ_k) g_k; the published reward is −L(õ) + Σ_k o_k g_k. Of the
    settings it reads `samples` (L), `step` (γ) and `prior`.
    """
    check_table(estimates.players(price), learnt=True)
    rewards = Rewards(estimates, objective, price)
    blocks, histories = rewards.histories.blocks, rewards.histories
    learning = [Learning(each, settings.samples, Update.MIRROR) for each in prior_tables(rewards, settings)]
    common = _at_anchors(estimates, objective)
    used = np.zeros(estimates.n_anchors, dtype=np.int64)
    for step in range(settings.samples):
        now = mix(keys, step)
        played = [each.now.likeliest(now[block]) for each, block in zip(learning, blocks, strict=True)]
        parts = [
            rewards.parts(block, codes[:, None]) for block, (_, codes) in zip(blocks, played, strict=True)
        ]
        distances = sum(each.distances[:, 0].sum(axis=0) for each in parts)
        nearest = int(np.argmin(distances))
        used[nearest] += 1
        shared = common[nearest] + sum(each.gains[:, 0, nearest].sum() for each in parts)
        for each, (classes, codes), part in zip(learning, played, parts, strict=True):
            each.step(classes, codes, settings.step * (shared - part.paid[:, 0]))
    tables = [each.average_after() for each in learning]
    codes = np.empty((len(keys), 1), dtype=np.int64)
    for table, block in zip(tables, blocks, strict=True):
        codes[block, 0] = table.likeliest(mix(keys[block], _FINAL))[1]
    selection = histories.selections(codes)[0]
    values, _ = response_values(estimates, marginals(rewards, tables), objective)
    regret = regret_of(estimates, selection, objective=objective, price=price)
    return Equilibrium(selection, values, 1, regret, used)


def _at_anchors(estimates: Estimates, objective: Objective) -> np.ndarray:
    """−L_t + Σ_k õ_tk g_tk at every anchor, L_t the mean loss of those who have one: [T]."""
    found = []
    values = estimates.values(objective)
    for losses, anchor, of_anchor in zip(estimates.losses, estimates.anchors, values, strict=True):
        known = losses[losses > 0]
        mean = float(known.mean()) if len(known) else 0.0
        found.append(float(of_anchor @ anchor) - mean)
    return np.array(found)
