"""Small games in which every effect is known, and what listing all joint selections says about them.

Hypothesis draws `games` on a grid, a seed draws `random_game`; `payoffs` and `equilibria` are the oracles.
"""

from dataclasses import replace

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from assent.game.estimates import Estimates, Objective
from assent.support.arrays import Bools, Floats, Ints, Keys, mix
from assent.support.sparse import SparseMatrix

steady = settings(deadline=None, derandomize=True)
"""The same examples on every run, however slow the machine."""
GRID = 16
"""Drawn figures are multiples of 1/16: their sums and products are exact, so that ties are ties."""


def make_game(
    owners: Ints, unwillingness: Floats, anchors: Bools, effects: Floats, losses: Floats
) -> Estimates:
    """A game with `effects[T, N, Z]`: own influence is the owner's entry, social the sum of the column."""
    rows = np.arange(len(owners))
    return Estimates(
        owners=owners,
        n_users=losses.shape[1],
        unwillingness=unwillingness,
        anchors=anchors,
        own=effects[:, owners, rows],
        social=effects.sum(axis=1),
        losses=losses,
        effects=tuple(from_dense(effect) for effect in effects),
    )


def keys_of(game: Estimates, seed: int = 0) -> Keys:
    """What a player's draws are keyed by."""
    return mix(seed, np.arange(game.n_users))


def from_dense(matrix: Floats) -> SparseMatrix:
    """Its non-zero entries."""
    rows, columns = np.nonzero(matrix)
    return SparseMatrix.of(matrix[rows, columns], rows, columns, (matrix.shape[0], matrix.shape[1]))


def shared(game: Estimates) -> Estimates:
    """The same with the effects that count where none are known: equal shares of (social − own)."""
    effects = np.repeat(((game.social - game.own) / max(1, game.n_users - 1))[:, None], game.n_users, axis=1)
    effects[:, game.owners, np.arange(len(game.owners))] = game.own
    return replace(game, effects=tuple(from_dense(effect) for effect in effects))


def first_anchor(game: Estimates) -> Estimates:
    """The game of someone who knows the first anchor alone."""
    return replace(
        game,
        anchors=game.anchors[:1],
        own=game.own[:1],
        social=game.social[:1],
        losses=game.losses[:1],
        effects=game.effects[:1],
    )


def eighths(low: int = 0, high: int = 8) -> st.SearchStrategy[float]:
    """Multiples of 1/8; without arguments, of unwillingness."""
    return st.integers(low, high).map(lambda eighth: eighth / 8)


@st.composite
def games(draw: st.DrawFn, n_anchors: int, longest: int = 8, most_users: int = 3) -> Estimates:
    """Games of few users with histories of 0 to `longest` interactions, all figures on the grid."""
    counts = draw(st.lists(st.integers(0, longest), min_size=1, max_size=most_users).filter(any))
    owners = np.repeat(np.arange(len(counts)), counts)
    on_grid = st.integers(-GRID, GRID)
    return make_game(
        owners,
        draw(arrays(np.float64, len(owners), elements=eighths())),
        draw(arrays(np.bool_, (n_anchors, len(owners)))),
        draw(arrays(np.int64, (n_anchors, len(counts), len(owners)), elements=on_grid)) / GRID,
        draw(arrays(np.int64, (n_anchors, len(counts)), elements=on_grid)) / GRID,
    )


def random_game(
    seed: int, *, n_anchors: int, n_users: int = 3, longest: int = 3, disagreement: float
) -> Estimates:
    """A game whose anchors know one linear truth, each with normal errors of size `disagreement`."""
    rng = np.random.default_rng(seed)
    owners = np.repeat(np.arange(n_users), rng.integers(1, longest, n_users, endpoint=True))
    anchors = rng.random((n_anchors, len(owners))) < 0.7
    is_own = owners == np.arange(n_users)[:, None]
    truth = rng.normal(0.3, 0.5, is_own.shape) * np.where(is_own, 1.0, 0.5)
    effects = truth + disagreement * rng.normal(size=(n_anchors, *truth.shape))
    losses = 5 - anchors @ truth.T
    return make_game(owners, rng.random(len(owners)), anchors, effects, losses)


def draw_anchors(length: int, count: int, *, rate: float, seed: int) -> Bools:
    """`count` random selections that disclose each interaction with probability `rate`: [count, length]."""
    draws: Floats = np.array([np.random.default_rng((seed, 0, t)).random(length) for t in range(count)])
    return draws < rate


def all_selections(length: int) -> Bools:
    """[2^length, length]"""
    bits: Ints = np.arange(2**length)[:, None] >> np.arange(length)
    return (bits & 1).astype(np.bool_)


def is_within(share: float, owners: Ints, unwillingness: Floats, selection: Bools) -> bool:
    """Whether `selection[Z]` is within a budget whoever is left out, nobody too: by the definition."""
    for left_out in [-1, *np.unique(owners)]:
        others = owners != left_out
        if unwillingness[others & selection].sum() > share * unwillingness[others].sum() * (1 + 1e-9):
            return False
    return True


def payoffs(game: Estimates, selections: Bools, price: float, objective: Objective) -> Floats:
    """What each player maximises under each of `selections[m, Z]`: [m, N].

    Their reward (eq. 4) as the anchor nearest to the joint selection predicts it; the sum of all for welfare.
    """
    distances = (selections[:, None] != game.anchors).sum(axis=2)
    rewards = np.empty((len(selections), game.n_users))
    for t, effects in enumerate(game.effects):
        here = distances.argmin(axis=1) == t
        moved = selections[here] - game.anchors[t].astype(np.float64)
        rewards[here] = moved @ effects.toarray().T - game.losses[t]
    for u in range(game.n_users):
        theirs = game.owners == u
        rewards[:, u] -= price * (selections[:, theirs] @ game.unwillingness[theirs])
    if objective is Objective.WELFARE:
        rewards[:] = rewards.sum(axis=1, keepdims=True)
    return rewards


def choices_of(game: Estimates, user: int, selection: Bools) -> Bools:
    """The joint selections that `user` can choose between when the others keep to `selection`: [2^|S|, Z]."""
    theirs = np.flatnonzero(game.owners == user)
    mine = all_selections(len(theirs))
    joint = np.repeat(selection[None], len(mine), axis=0)
    joint[:, theirs] = mine
    return joint


def equilibria(game: Estimates, price: float, tolerance: float = 1e-9) -> Bools:
    """Whether nobody gains by deviating alone from each joint selection, by the number of its code: [2^Z].

    A game without effects is taken as one in which others have equal shares.
    """
    known = game if game.effects else shared(game)
    selections = all_selections(len(game.owners))
    earned: Floats = payoffs(known, selections, price, Objective.NASH)
    found, codes = np.ones(len(selections), dtype=np.bool_), np.arange(len(selections))
    for user in range(game.n_users):
        others = codes & ~code_of(game.owners == user)
        best = np.full(len(selections), -np.inf)
        np.maximum.at(best, others, earned[:, user])
        found &= earned[:, user] >= best[others] - tolerance
    return found


def code_of(selection: Bools) -> Ints:
    """The number of a selection, its first interaction being the lowest bit."""
    code: Ints = selection @ (1 << np.arange(len(selection)))
    return code
