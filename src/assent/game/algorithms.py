"""The paper's own algorithms on its own strategies: tables over the 2^|S| selections of a player.

Algorithm 1 solves eq. (6) for one anchor, Algorithm 2 plays rounds with several, and Algorithm 3 learns a
player's next strategy within a round. `solve_table` is the way in; it returns what the factored `solve` does.
The selection is a sample of the final strategies, as in the paper. Values, probabilities of the cells and
regret are taken as for factored strategies, from how likely each interaction is disclosed.
"""

import numpy as np

from assent.arrays import Bools, Floats, Ints, slices
from assent.errors import AssentError
from assent.game.estimates import Estimates
from assent.game.learning import Learning
from assent.game.objective import Objective
from assent.game.players import Players
from assent.game.regret import regret_of
from assent.game.rewards import Meeting, Rewards
from assent.game.solve import Equilibrium, response_values
from assent.game.strategy import Gradient, TableSettings
from assent.game.tables import LONGEST, Tables

LONGEST_LISTED = 24
"""Interactions up to which Algorithm 1 lists all selections of a player: 2^24 numbers are 128 MB."""
_BLOCK = 256
"""Players that learn at once: their tables stay in the processor's cache."""


def solve_table(
    estimates: Estimates, *, objective: Objective, price: float, settings: TableSettings, seed: int
) -> Equilibrium:
    """Algorithm 1 for one anchor, Algorithm 2 for more; `seed` is that of all samples."""
    check_table(estimates.players(price), several=estimates.n_anchors > 1)
    if estimates.n_anchors == 1:
        selection, rounds = algorithm_1(estimates, objective=objective, price=price), 1
        strategy, nearest = selection.astype(np.float64), np.ones(1, dtype=np.int64)
    else:
        rewards = Rewards(estimates, objective, price)
        rng = np.random.default_rng((seed, 2))
        tables, rounds = algorithm_2(rewards, settings, rng)
        selection = rewards.histories.selections(draw_all(tables, 1, rng))[0]
        strategy = marginals(rewards, tables)
        distances, _ = rewards.sums(draw_all(tables, settings.samples, rng))
        nearest = np.bincount(distances.argmin(axis=1), minlength=estimates.n_anchors)
    values, probability = response_values(estimates, strategy, objective)
    regret = regret_of(estimates, selection, objective=objective, price=price)
    return Equilibrium(selection, values, probability, rounds, regret, nearest)


def algorithm_1(estimates: Estimates, *, objective: Objective, price: float) -> Bools:
    """The optimum of eq. (6) for every player, by listing A(o^u) of all 2^|S| selections: [Z].

    Objective (6) is linear in α^u, so a single selection has all the probability; of several that are best,
    the one that discloses least. It does not depend on what others play: the second of the M rounds would
    repeat the first and end there, and is not played.
    """
    rewards = Rewards(estimates, objective, price)
    histories = rewards.histories
    gain = histories.units.sums(estimates.values(objective)[0] - price * estimates.unwillingness)
    best = np.zeros((estimates.n_users, 1), dtype=np.int64)
    for length in np.unique(histories.lengths):
        players = np.flatnonzero(histories.lengths == length)
        for some in np.array_split(players, -(-len(players) * 2**length // 2**LONGEST_LISTED)):
            worth = np.zeros((len(some), 1))
            for k in range(length):
                worth = np.concatenate([worth, worth + gain[histories.rows[some, k], None]], axis=1)
            best[some, 0] = worth.argmax(axis=1)
    selection: Bools = histories.selections(best)[0]
    return selection


def algorithm_2(
    rewards: Rewards, settings: TableSettings, rng: np.random.Generator
) -> tuple[list[Tables], int]:
    """Strategies of blocks of players after at most M rounds, and the rounds played.

    In each round all players learn against the strategies of the round before. The L draws of o^{-u} are read
    off L draws of everybody's selections: to each player they are what Algorithm 3 asks for, and the sums
    over all players are taken once.
    """
    lengths = rewards.histories.lengths
    blocks = list(slices(len(lengths), _BLOCK))
    rates = prior_rates(rewards.estimates.players(0), settings.prior)
    tables = [Tables.prior(lengths[block], rates[block]) for block in blocks]
    for played in range(1, settings.rounds + 1):
        meeting = rewards.meet(draw_all(tables, settings.samples, rng))
        learnt = [
            algorithm_3(start, meeting, block, settings, rng)
            for start, block in zip(tables, blocks, strict=True)
        ]
        tables = [each for each, _ in learnt]
        if max(moved.max() for _, moved in learnt) < settings.threshold:
            return tables, played
    return tables, settings.rounds


def algorithm_3(
    start: Tables, meeting: Meeting, players: slice, settings: TableSettings, rng: np.random.Generator
) -> tuple[Tables, Floats]:
    """α_m of some players from α_{m−1} = `start`, and how far each is from it (`Learning.average`)."""
    opponents = meeting.seen_by(players)
    last = opponents.rewards(opponents.drawn)
    standard = np.zeros_like(last) if settings.gradient is Gradient.WRITTEN else last
    learning = Learning(start, settings.samples)
    for draw in range(settings.samples):
        now = learning.now
        classes, codes = now.draw(1, rng)
        own = meeting.rewards.parts(players, codes)
        gradient = (opponents.at(draw).rewards(own) - standard[:, [draw]])[:, 0]
        if settings.gradient is Gradient.UNBIASED:
            gradient = gradient / np.take_along_axis(now.chances, classes, axis=1)[:, 0]
        learning.step(classes[:, 0], codes[:, 0], settings.step * gradient)
    return learning.average()


def draw_all(tables: list[Tables], count: int, rng: np.random.Generator) -> Ints:
    """`count` selections of every player: codes [N, count]."""
    return np.concatenate([each.draw(count, rng)[1] for each in tables])


def marginals(rewards: Rewards, tables: list[Tables]) -> Floats:
    """How likely each interaction is disclosed: [Z]."""
    histories = rewards.histories
    found = np.empty(len(histories.units.first))
    for here, each in zip(slices(len(histories.lengths), _BLOCK), tables, strict=True):
        inside = histories.inside[here, : each.levels - 1]
        found[histories.rows[here, : each.levels - 1][inside]] = each.marginals()[inside]
    return found[histories.units.of]


def prior_rates(players: Players, usual: float) -> Floats:
    """s of everybody's binomial prior: her own where wishes have priors, else `usual`: [N]."""
    rates = np.full(players.n_users, usual)
    if players.wishes.prior is not None:
        rates[players.owners] = players.wishes.prior
    return rates


def check_table(players: Players, *, several: bool) -> None:
    """Refuse wishes that a table does not know, and players with more units than it has room for.

    The binomial prior has equally likely selections of a size, so that a prior may differ between people
    alone. With `several` anchors a table may be longer than Algorithm 1 could list.
    """
    wishes = players.wishes
    prior = wishes.prior
    known = {
        "a budget per user": wishes.budget is None,
        "a floor per user": wishes.floor is None,
        f"a utility of power {wishes.power:g}": wishes.power == 1,
        "a prior by item": prior is None or bool((prior_rates(players, 0.0)[players.owners] == prior).all()),
    }
    refused = [name for name, is_known in known.items() if not is_known]
    if refused:
        raise AssentError(
            f"strategy table: {', '.join(refused)}; accepted: decisions by category, a prior by user, "
            "or --set strategy=factored"
        )
    lengths = np.bincount(players.units.owners)
    longest = LONGEST if several else LONGEST_LISTED
    if lengths.max(initial=0) > longest:
        what = "interactions" if wishes.groups is None else "decisions"
        raise AssentError(
            f"strategy table: a history of {lengths.max()} {what} has 2^{lengths.max()} selections; "
            f"accepted: histories of at most {longest}, or --set strategy=factored"
        )
