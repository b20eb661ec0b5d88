"""SCR: the game with a model trained on every explored selection, as the paper compares itself with.

IFRQE predicts what a user's loss would be; SCR retrains. It learns in one of two ways.

`tables` is the paper's: Algorithms 2 and 3 on tables of strategies, where a sampled selection earns its true
reward, that of a model trained on it. Algorithm 3 for each single user would take users · L · M trainings. So
in each of the M · L steps everybody samples a selection, one model is trained on all of them, and everybody
moves by their own reward: the others play the strategies of the step, not those of the round before.

`fitted` needs fewer trainings. In each of M rounds, L / M joint selections are drawn from everybody's
strategy (at first: disclose with probability 0.9), and a model is trained on each. From all selections so
far, a user's loss is estimated as linear in their own bits; the others' bits are averaged over:

    L_u(o) ≈ c_um − Σ_k v_k o_k,     v by least squares with a ridge, c_um in round m

The intercept of each round takes up that everybody withholds more from round to round. The user's response
is to disclose k iff v_k > price · β_k. The next round's strategy is the average of all responses and the
prior: fictitious play.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import ClassVar

import numpy as np
from pydantic import Field

from assent.game.budget import Budget
from assent.game.paper import Histories, check_table
from assent.game.players import players_of
from assent.game.prices import price_path, worth_disclosing
from assent.game.tables import Learning, Tables
from assent.lab.lab import Lab
from assent.methods.base import Choice
from assent.methods.exploring import Explorer, ExploringMethod
from assent.support.arrays import Bools, Floats, Ints, mix, sum_by
from assent.support.draws import Purpose, lots
from assent.support.errors import AssentError


class Learns(StrEnum):
    """How SCR learns from the selections that it explores."""

    FITTED = "fitted"
    """By fitting a value to every interaction, which shares what is known between selections."""
    TABLES = "tables"
    """By Algorithms 2 and 3 of the paper, with true rewards."""


_STILL = 1e-3
"""κ: no strategy moves more, Σ|Δα|, in the last round of tables."""
_CHOSEN = -1
"""The step that draws the selection of tables; it is no step of learning."""


class Scratch(ExploringMethod):
    """The equilibrium of true rewards, as far as explored selections show it."""

    name: ClassVar[str] = "scratch"

    learns: Learns = Field(Learns.FITTED, description="fitted values, or the paper's tables")
    selections: int = Field(
        100,
        ge=2,
        description="L, joint selections that are explored, a training each; of tables: per round",
    )
    rounds: int = Field(4, ge=1, description="M, rounds; fitted values divide L among them")
    step: float = Field(0.01, gt=0, description="γ, step size of tables")
    ridge: float = Field(
        1.0, gt=0, description="shrinks values, as if so many selections had shown no effect"
    )

    def at_price(self, lab: Lab, price: float) -> Choice:
        """The responses at a price, or a sample of the strategies that tables have learnt."""
        if self.learns is Learns.TABLES:
            selection, explorer = learn_tables(lab, self, price)
            certificate = {"explored": float(explorer.tried)}
            return Choice(selection, price, certificate, drawn=True, cost=explorer.cost)
        unwillingness = lab.problem.unwillingness
        values, explorer = play(lab, self, lambda values: worth_disclosing(values, unwillingness, price))
        return _choice(worth_disclosing(values, unwillingness, price), price, values, explorer)

    def within(self, lab: Lab, budget: float) -> Choice:
        """Everybody responds to the one price at which the budget is used up, in every round."""
        if self.learns is Learns.TABLES:
            raise AssentError("scratch: learns=tables knows no budget; accepted with one: learns=fitted")
        unwillingness, most = lab.problem.unwillingness, Budget.of(lab.problem, budget)
        values, explorer = play(lab, self, lambda values: price_path(values, unwillingness).within(most))
        path = price_path(values, unwillingness)
        return _choice(path.within(most), path.price_within(most), values, explorer)


def learn_tables(lab: Lab, settings: Scratch, price: float) -> tuple[Bools, Explorer]:
    """A sample, [Z], of the strategies after at most M rounds of L trainings; who explored."""
    problem, players = lab.problem, players_of(lab.problem, price)
    check_table(players, learnt=True)
    keys, histories = mix(lab.seed, Purpose.SCRATCH, problem.user_keys), Histories(players)
    blocks, explorer = histories.blocks, Explorer(lab, settings)
    tables = [Tables.prior(histories.lengths[block], settings.start) for block in blocks]

    def sampled(now: list[Tables], number: int) -> tuple[list[tuple[Ints, Ints]], Bools]:
        """Classes and codes of each block, and the joint selection of all."""
        drawn = [each.draw(1, mix(keys[block], number)) for each, block in zip(now, blocks, strict=True)]
        codes = np.empty((problem.n_users, 1), dtype=np.int64)
        for (_, own), block in zip(drawn, blocks, strict=True):
            codes[block] = own
        return drawn, histories.selections(codes)[0]

    with lab.progress.task("exploring", settings.rounds * settings.selections) as advance:
        for played in range(settings.rounds):
            learning = [Learning(each, settings.selections) for each in tables]
            for draw in range(settings.selections):
                number = played * settings.selections + draw
                drawn, selection = sampled([each.now for each in learning], number)
                paid = sum_by(players.owners, players.unwillingness * selection, problem.n_users)
                moves = settings.step * -(explorer.losses(selection) + price * paid)
                for each, block, (classes, codes) in zip(learning, blocks, drawn, strict=True):
                    each.step(classes[:, 0], codes[:, 0], moves[block])
                advance()
            learnt = [each.average() for each in learning]
            tables = [each for each, _ in learnt]
            if max(moved.max(initial=0) for _, moved in learnt) < _STILL:
                break
    return sampled(tables, _CHOSEN)[1], explorer


def play(lab: Lab, settings: Scratch, respond: Callable[[Floats], Bools]) -> tuple[Floats, Explorer]:
    """The values, [Z], after all rounds in which everybody follows `respond`; who explored them."""
    owners, keys, n_rows = lab.problem.train.users, lab.problem.row_keys, len(lab.problem.train)
    explorer = Explorer(lab, settings)
    strategy = np.full(n_rows, settings.start)
    tried: list[Bools] = []
    losses: list[Floats] = []
    values = np.zeros(n_rows)
    rounds = min(settings.rounds, settings.selections)
    shares = np.linspace(0, settings.selections, rounds + 1).round().astype(int)
    with lab.progress.task("exploring", settings.selections) as advance:
        for played in range(rounds):
            for number in range(shares[played], shares[played + 1]):
                drawn = lots(keys, lab.seed, Purpose.SCRATCH, number) < strategy
                tried.append(drawn)
                losses.append(explorer.losses(drawn))
                advance()
            rounds_of = np.searchsorted(shares, np.arange(len(tried)), side="right")
            values = own_values(owners, np.array(tried), np.array(losses), rounds_of, ridge=settings.ridge)
            strategy += (respond(values) - strategy) / (played + 2)
    return values, explorer


def own_values(owners: Ints, tried: Bools, losses: Floats, rounds: Ints, *, ridge: float) -> Floats:
    """What each interaction takes off its owner's loss, from joint selections `tried[L, Z]`: [Z].

    A ridge regression per user, of their column of `losses[L, n_users]` on their own bits, both centred in
    each of the `rounds[L]`. A bit that never changed within a round has value 0. `owners[Z]` are sorted.
    """
    _, number = np.unique(rounds, return_inverse=True)
    sizes = np.bincount(number)[:, None]
    in_round = np.eye(len(sizes))[number]
    centred = losses - (in_round.T @ losses / sizes)[number]
    values = np.zeros(len(owners))
    users, starts = np.unique(owners, return_index=True)
    for user, start, end in zip(users, starts, np.append(starts[1:], len(owners)), strict=True):
        bits = tried[:, start:end].astype(np.float64)
        x, y = bits - (in_round.T @ bits / sizes)[number], centred[:, user]
        if end - start <= len(x):
            slopes = np.linalg.solve(x.T @ x + ridge * np.eye(end - start), x.T @ y)
        else:
            slopes = x.T @ np.linalg.solve(x @ x.T + ridge * np.eye(len(x)), y)
        values[start:end] = -slopes
    return values


def _choice(selection: Bools, price: float, values: Floats, explorer: Explorer) -> Choice:
    certificate = {"explored": float(explorer.tried)}
    return Choice(selection, price, certificate, values=values, worth_owner=values, cost=explorer.cost)
