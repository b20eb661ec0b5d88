"""The paper's game on tables of strategies (`game.tables`): Algorithms 1 to 3.

Algorithm 1 solves eq. (6) for one anchor. Algorithm 2 plays rounds with several anchors. Algorithm 3 learns a
player's next strategy within a round. `solve_table` is the entry point and returns what `game.solve` does.
The selection is a sample of the final strategies, as in the paper. Values and regret are computed from the
probability that each interaction is disclosed.

`Rewards` computes B of eq. (9), what a selection earns a player against draws of everybody else's. All of it
is linear in the player's selection except which anchor is nearest. So the player's part (T gains, T
distances, the price paid) is one small matrix product, and the others' part is known once they are drawn.
"""

from collections.abc import Callable
from copy import deepcopy
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from assent.data.wishes import USUAL_PRIOR
from assent.game.estimates import Estimates, Objective
from assent.game.nearest import regret_of, response_values
from assent.game.players import Players
from assent.game.solve import Equilibrium
from assent.game.tables import Faced, Learning, Tables, bits_of
from assent.support.arrays import Bools, Floats, Ints, Keys, mix, slices
from assent.support.errors import AssentError
from assent.support.sparse import SparseMatrix

LONGEST = 62
"""Most interactions that a code, a signed 64-bit integer, can hold."""
LONGEST_LISTED = 24
"""Longest history of which Algorithm 1 lists all selections: 2^24 floats are 128 MB."""
_BLOCK = 64
"""Players, or draws, per block."""
_CHOSEN, _JUDGED = -1, -2
"""Rounds that nobody plays: for the draw of the selection, and of what tells the nearest anchors."""
_SAMPLED = 512
"""Most players that learn at once."""


class Strategy(StrEnum):
    """The form of a strategy."""

    FACTORED = "factored"
    """A probability per interaction; best responses in closed form (`game.solve`)."""
    TABLE = "table"
    """The paper's α^u: a probability for each of the 2^|S| selections, learnt from samples."""
    PUBLISHED = "published"
    """Such tables as the authors' published code moves them (`game.published`)."""


class Gradient(StrEnum):
    """What step 6 of Algorithm 3 uses as the gradient at the sampled selection; 0 everywhere else."""

    WRITTEN = "written"
    """The reward itself, B of eq. (9), as printed."""
    RELATIVE = "relative"
    """The reward minus that of a draw from the player's last strategy against the same others."""
    UNBIASED = "unbiased"
    """That difference over the probability of the sample: unbiased, as Theorem 5 assumes, and very noisy."""


class OneAnchor(StrEnum):
    """How the game of one anchor is solved."""

    LISTED = "listed"
    """By Algorithm 1, which lists all selections of a player and takes the best."""
    LEARNT = "learnt"
    """By Algorithms 2 and 3, like that of several anchors: both can then be compared."""


class TableSettings(BaseModel):
    """Settings of Algorithms 2 and 3; defaults are the paper's where it gives one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rounds: int = Field(10, ge=1, description="M, most rounds of Algorithm 2")
    samples: int = Field(1000, ge=1, description="L, samples per round")
    step: float = Field(0.01, gt=0, description="γ, step size of Algorithm 3")
    threshold: float = Field(1e-3, ge=0, description="κ: stop when no strategy moves more, Σ|Δα|")
    prior: float = Field(USUAL_PRIOR, gt=0, lt=1, description="s of the binomial prior if wishes have none")
    gradient: Gradient = Field(Gradient.RELATIVE, description="gradient at a sampled selection")
    one_anchor: OneAnchor = Field(OneAnchor.LISTED, description="how the game of one anchor is solved")

    def lists(self, anchors: int) -> bool:
        """Return whether a game of so many anchors is solved by Algorithm 1."""
        return anchors == 1 and self.one_anchor is OneAnchor.LISTED


class Histories:
    """Each player's units in the order of the log: `rows[N, longest]`, valid where `inside[N, longest]`.

    A unit is what is decided on: an interaction, or a group of them. Player u has `lengths[u]` units. Players
    learn in `blocks` of histories of like length, because the longest one sets the size of a block's tables.
    """

    def __init__(self, of: Estimates | Players) -> None:
        self.units = of.wishes.units(of.owners, of.unwillingness)
        self.lengths = np.bincount(self.units.owners, minlength=of.n_users)
        order = np.argsort(self.units.owners, kind="stable")
        first, places = np.cumsum(self.lengths) - self.lengths, np.arange(self.lengths.max(initial=0))
        self.rows: Ints = order[np.minimum(first[:, None] + places, len(order) - 1)]
        self.inside: Bools = places < self.lengths[:, None]
        by_length = np.argsort(self.lengths, kind="stable")
        self.blocks: list[Ints] = [by_length[part] for part in slices(len(by_length), _SAMPLED)]

    def selections(self, codes: Ints) -> Bools:
        """The joint selections [B, Z] in which player u plays `codes[u, b]`."""
        found = np.empty((codes.shape[1], int(self.lengths.sum())), dtype=np.bool_)
        bits = bits_of(codes, self.rows.shape[1])
        found[:, self.rows[self.inside]] = bits.transpose(1, 0, 2)[:, self.inside]
        return found[:, self.units.of]


class Parts(NamedTuple):
    """What a player's selections do by themselves, whatever others play."""

    gains: Floats
    """[…, T], Σ_k (o_k − õ_tk) g_tk over the player's interactions"""
    distances: Floats
    """[…, T], Hamming distance of the player's part to each anchor's"""
    paid: Floats
    """[…], price · Σ_k o_k β_k"""


Some = slice | Ints
"""R of the players."""


class Own(NamedTuple):
    """What R players do by themselves: gains, distances and price paid, 2T + 1 in all."""

    per_bit: Floats
    """[R, longest, 2T + 1], that each interaction adds"""
    at_nothing: Floats
    """[R, 2T + 1], those of a player who discloses nothing"""

    def parts(self, codes: Ints) -> Parts:
        """Those of the selections `codes[R, B]`."""
        bits = bits_of(codes, self.per_bit.shape[1]).astype(np.float64)
        found, n = bits @ self.per_bit + self.at_nothing[:, None], self.per_bit.shape[2] // 2
        return Parts(found[..., :n], found[..., n : 2 * n], found[..., 2 * n])


class Rewards:
    """A game laid out player by player."""

    def __init__(self, estimates: Estimates, objective: Objective, price: float) -> None:
        self.estimates, self.objective = estimates, objective
        self.histories = Histories(estimates)
        rows, inside = self.histories.rows, self.histories.inside[:, :, None]
        anchors, values = estimates.anchors, estimates.values(objective)
        paid = price * estimates.unwillingness[None]

        def by_player(*terms: Floats | Bools) -> Floats:
            """Terms of interactions, [C, Z] in all, summed over units: [N, longest, C]."""
            of_units = np.array([self.histories.units.sums(term) for term in np.concatenate(terms)]).T
            return np.where(inside, of_units[rows], 0.0)

        self._per_bit = by_player(values, np.where(anchors, -1.0, 1.0), paid)
        self._at_nothing: Floats = by_player(-values * anchors, anchors, 0 * paid).sum(axis=1)

    def among(self, players: Some) -> "Own":
        """What R of the players do by themselves."""
        longest = int(self.histories.lengths[players].max(initial=0))
        return Own(self._per_bit[players, :longest], self._at_nothing[players])

    def parts(self, players: Some, codes: Ints) -> Parts:
        """What the selections `codes[R, B]` of R players do by themselves."""
        return self.among(players).parts(codes)

    def sums(self, codes: Ints) -> tuple[Floats, Floats]:
        """Total distances to the anchors and total gains of everybody's `codes[N, B]`: [B, T] each."""
        distances, gains = np.zeros((2, codes.shape[1], self.estimates.n_anchors))
        for block in slices(len(codes), _BLOCK):
            parts = self.parts(block, codes[block])
            distances += parts.distances.sum(axis=0)
            gains += parts.gains.sum(axis=0)
        return distances, gains

    def felt(self, codes: Ints) -> Floats:
        """How much all selections together lower each player's loss at each anchor: [N, B, T].

        Without effects: what a row does for its owner beyond an equal share, and the shares of all rows.
        """
        estimates = self.estimates
        felt, rows = np.empty((*codes.shape, estimates.n_anchors)), np.arange(len(estimates.owners))
        shape, shares = (estimates.n_users, len(rows)), [estimates.share(t) for t in range(felt.shape[2])]
        beyond = [] if estimates.effects else [estimates.own[t] - share for t, share in enumerate(shares)]
        lone = [SparseMatrix.of(each, estimates.owners, rows, shape) for each in beyond]
        for block in slices(codes.shape[1], _BLOCK):
            selections = self.histories.selections(codes[:, block])
            for t, anchor in enumerate(estimates.anchors):
                if estimates.effects:
                    change = selections.T.astype(np.float32) - anchor[:, None]
                    felt[:, block, t] = estimates.effects[t] @ change
                else:
                    changes = (selections - anchor.astype(np.float64)).T
                    felt[:, block, t] = lone[t] @ changes + shares[t] @ changes
        return felt


class Meeting:
    """B draws of everybody's selections, `codes[N, B]`: to each player, B draws of the others' selections."""

    def __init__(self, rewards: Rewards, codes: Ints) -> None:
        self.rewards, self.codes = rewards, codes
        self.distances, self.gains = rewards.sums(codes)
        self.felt = rewards.felt(codes) if rewards.objective is Objective.NASH else None

    def seen_by(self, players: Some) -> "Opponents":
        """The draws as R of the players meet them."""
        estimates = self.rewards.estimates
        drawn = self.rewards.parts(players, self.codes[players])
        if self.felt is None:
            standing = self.gains - estimates.losses.sum(axis=1) - drawn.gains
        else:
            standing = self.felt[players] - drawn.gains - estimates.losses.T[players][:, None]
        away = self.distances - drawn.distances
        return Opponents(away, np.broadcast_to(standing, away.shape), drawn)


class Opponents(NamedTuple):
    """B draws of the others' selections as R players meet them."""

    away: Floats
    """[R, B, T], the others' distance to each anchor"""
    standing: Floats
    """[R, B, T], −L_t + Σ_{v≠u} (o^v)ᵀ g^{t,v}: B without the player's own part."""
    drawn: Parts
    """[R, B], what the players' own drawn selections do"""

    def rewards(self, own: Parts, draws: slice = slice(None)) -> Floats:
        """B of eq. (9) for own selections, one per draw: [R, B]; the first of equally near anchors counts."""
        nearest = (self.away[:, draws] + own.distances).argmin(axis=-1)[..., None]
        gained = np.take_along_axis(self.standing[:, draws] + own.gains, nearest, axis=-1)[..., 0]
        return gained - own.paid


def solve_table(
    estimates: Estimates, *, objective: Objective, price: float, settings: TableSettings, keys: Keys
) -> Equilibrium:
    """Algorithm 1 for one anchor that is `listed`, else Algorithm 2; `keys[N]` decide all samples."""
    is_listed = settings.lists(estimates.n_anchors)
    check_table(estimates.players(price), learnt=not is_listed)
    if is_listed:
        selection, rounds = algorithm_1(estimates, objective=objective, price=price), 1
        strategy, nearest = selection.astype(np.float64), np.ones(1, dtype=np.int64)
    else:
        rewards = Rewards(estimates, objective, price)
        tables, rounds = algorithm_2(rewards, settings, keys)
        selection = rewards.histories.selections(draw_all(rewards, tables, 1, mix(keys, _CHOSEN)))[0]
        strategy = marginals(rewards, tables)
        distances, _ = rewards.sums(draw_all(rewards, tables, settings.samples, mix(keys, _JUDGED)))
        nearest = np.bincount(distances.argmin(axis=1), minlength=estimates.n_anchors)
    values, _ = response_values(estimates, strategy, objective)
    regret = regret_of(estimates, selection, objective=objective, price=price)
    return Equilibrium(selection, values, rounds, regret, nearest)


def algorithm_1(estimates: Estimates, *, objective: Objective, price: float) -> Bools:
    """The optimum of eq. (6) for every player, by listing A(o^u) of all 2^|S| selections: [Z].

    Objective (6) is linear in α^u, so one selection gets all the probability; the first of equally good ones.
    It does not depend on what others play, so a second round would repeat the first and is not played.
    """
    histories = Histories(estimates)
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


def algorithm_2(rewards: Rewards, settings: TableSettings, keys: Keys) -> tuple[list[Tables], int]:
    """Strategies of each block of players after at most M rounds, and how many rounds were played.

    In each round all players learn against the strategies of the round before. The L draws of o^{-u} are
    taken from L draws of everybody's selections, so that sums over all players are computed once. A player's
    draws are keyed by `keys[N]`.
    """
    blocks, tables = rewards.histories.blocks, prior_tables(rewards, settings)
    for played in range(1, settings.rounds + 1):
        now = mix(keys, played)
        meeting = Meeting(rewards, draw_all(rewards, tables, settings.samples, now))
        learnt = [
            algorithm_3(start, meeting, block, settings, mix(now[block]))
            for start, block in zip(tables, blocks, strict=True)
        ]
        tables = [each for each, _ in learnt]
        if max(moved.max() for _, moved in learnt) < settings.threshold:
            return tables, played
    return tables, settings.rounds


def prior_tables(rewards: Rewards, settings: TableSettings) -> list[Tables]:
    """The strategies that each block of players starts from: binomial, by the wishes' priors or `prior`."""
    histories, wishes = rewards.histories, rewards.estimates.wishes
    rates = np.full(len(histories.lengths), settings.prior)
    if wishes.prior is not None:
        rates[rewards.estimates.owners] = wishes.prior
    return [Tables.prior(histories.lengths[block], rates[block]) for block in histories.blocks]


def algorithm_3(
    start: Tables,
    meeting: Meeting,
    players: Some,
    settings: TableSettings,
    keys: Keys,
    *,
    observe: Callable[[Tables, Ints, Floats], None] | None = None,
) -> tuple[Tables, Floats]:
    """α_m of R players from α_{m−1} = `start`, and how far each moved, Σ |Δα|: [R].

    A player's draws are keyed by `keys[R]`. `observe` is called for every step with α_l, the sampled codes
    [R] and their moves γĝ [R].
    """
    opponents, own = meeting.seen_by(players), meeting.rewards.among(players)
    last = opponents.rewards(opponents.drawn)
    standard = np.zeros_like(last) if settings.gradient is Gradient.WRITTEN else last
    learning = Learning(start, settings.samples)
    standing, is_unbiased = np.ascontiguousarray(opponents.standing), settings.gradient is Gradient.UNBIASED
    faced = Faced(opponents.away, standing, standard, own.per_bit, own.at_nothing, is_unbiased)
    every = range(settings.samples)
    for draws in (every,) if observe is None else (range(draw, draw + 1) for draw in every):
        before = learning.now if observe is None else deepcopy(learning.now)
        codes, moves = learning.learn(faced, keys, draws=draws, step=settings.step)
        if observe is not None:
            observe(before, codes[:, 0], moves[:, 0])
    return learning.average()


def draw_all(rewards: Rewards, tables: list[Tables], count: int, keys: Keys) -> Ints:
    """`count` selections of every player, by `keys[N]`: codes [N, count]."""
    codes = np.empty((len(keys), count), dtype=np.int64)
    for players, each in zip(rewards.histories.blocks, tables, strict=True):
        codes[players] = each.draw(count, keys[players])[1]
    return codes


def marginals(rewards: Rewards, tables: list[Tables]) -> Floats:
    """The probability that each interaction is disclosed: [Z]."""
    histories = rewards.histories
    found = np.empty(len(histories.units.first))
    for here, each in zip(histories.blocks, tables, strict=True):
        inside = histories.inside[here, : each.levels - 1]
        found[histories.rows[here, : each.levels - 1][inside]] = each.marginals()[inside]
    return found[histories.units.of]


def check_table(players: Players, *, learnt: bool) -> None:
    """Raise for wishes that tables do not support, and for histories that are too long.

    In the binomial prior all selections of one size are equally likely, so a prior may differ between people
    only. Algorithm 1 lists all selections; tables that are `learnt` may have longer histories.
    """
    wishes, by_user = players.wishes, np.zeros(players.n_users)
    if wishes.prior is not None:
        by_user[players.owners] = wishes.prior
    known = {
        "a budget per user": wishes.budget is None,
        "a floor per user": wishes.floor is None,
        f"a utility of power {wishes.power:g}": wishes.power == 1,
        "a prior by item": wishes.prior is None or bool((by_user[players.owners] == wishes.prior).all()),
    }
    refused = [name for name, is_known in known.items() if not is_known]
    if refused:
        raise AssentError(
            f"strategy=table: {', '.join(refused)} not supported; accepted: decisions by category, "
            "a prior by user, or strategy=factored"
        )
    lengths = np.bincount(players.units.owners)
    longest = LONGEST if learnt else LONGEST_LISTED
    if lengths.max(initial=0) > longest:
        what = "interactions" if wishes.groups is None else "decisions"
        raise AssentError(
            f"strategy=table: a history of {lengths.max()} {what} has 2^{lengths.max()} selections; "
            f"accepted: histories of at most {longest}, or strategy=factored"
        )
