"""Paths, against a list of all of them by hand."""

import dataclasses
from collections import Counter
from functools import partial
from itertools import product

import numpy as np
import pytest

from assent.data.problem import Rows
from assent.support.arrays import Bools, Floats, Ints, mix
from assent.worth.paths import Effort, Paths, find_paths

USERS, ITEMS = 12, 9
Pair = tuple[int, int]


def drawn(seed: int) -> tuple[Ints, Ints]:
    """A log in which most pairs are connected."""
    rows = np.argwhere(np.random.default_rng(seed).random((USERS, ITEMS)) < 0.3)
    return rows[:, 0].copy(), rows[:, 1].copy()


def found(users: Ints, items: Ints, seed: int = 0, effort: Effort | None = None) -> Paths:
    keys = mix(np.arange(USERS)), mix(1, np.arange(ITEMS))
    return find_paths(Rows(users, items), *keys, seed=seed, effort=effort)


def listed(users: Ints, items: Ints) -> dict[Pair, list[tuple[int, int, int]]]:
    """The paths a, b, c from every user to every item, itself left out: also to items that they have."""
    row = {pair: k for k, pair in enumerate(zip(users.tolist(), items.tolist(), strict=True))}
    every: dict[Pair, list[tuple[int, int, int]]] = {}
    for u, i, v, j in product(range(USERS), range(ITEMS), range(USERS), range(ITEMS)):
        if u != v and i != j and {(u, i), (v, i), (v, j)} <= row.keys():
            every.setdefault((u, j), []).append((row[u, i], row[v, i], row[v, j]))
    return every


def weights(users: Ints, items: Ints, begins: Bools | None = None) -> dict[Pair, float]:
    """How often a pair like each came true, by powers of two of its paths and of those who have the item.

    Only pairs of users who begin are looked at.
    """
    had, people = set(zip(users.tolist(), items.tolist(), strict=True)), Counter(items.tolist())

    def kind(pair: Pair, n: int) -> Pair:
        return int(np.log2(n)), int(np.log2(max(people[pair[1]] - (pair in had), 1)))

    every = {
        pair: len(each) for pair, each in listed(users, items).items() if begins is None or begins[pair[0]]
    }
    came = Counter(kind(pair, n) for pair, n in every.items() if pair in had)
    may = Counter(kind(pair, n) for pair, n in every.items() if pair not in had)
    return {
        pair: came[kind(pair, n)] / (came[kind(pair, n)] + may[kind(pair, n)])
        for pair, n in every.items()
        if pair not in had
    }


def worth(users: Ints, items: Ints, selection: Floats, of: int | None = None) -> float:
    """Q of all, or of one user, where interactions may be disclosed in part."""
    every = listed(users, items)
    return sum(
        weight * float(np.log1p(sum(np.prod(selection[list(path)]) for path in every[pair])))
        for pair, weight in weights(users, items).items()
        if of is None or pair[0] == of
    )


@pytest.mark.parametrize("seed", range(4))
def test_values_are_the_slopes_of_what_paths_are_worth(seed: int) -> None:
    users, items = drawn(seed)
    here = found(users, items)
    own, social, every = here.own(), here.social(), np.ones(len(users))
    for k in range(0, len(users), 3):
        up, down = (every + step * (np.arange(len(users)) == k) for step in (1e-4, -1e-4))
        for value, of in ((social[k], None), (own[k], int(users[k]))):
            slope = (worth(users, items, up, of) - worth(users, items, down, of)) / 2e-4
            assert value == pytest.approx(slope, rel=1e-5, abs=1e-9)
    assert social.sum() > own.sum() > 0


@pytest.mark.parametrize("seed", range(4))
def test_fewer_leave_the_paths_that_they_make(seed: int) -> None:
    users, items = drawn(seed)
    kept: Bools = np.random.default_rng(seed).random(len(users)) < 0.7
    social = found(users, items).among(kept).social()
    selection = kept.astype(np.float64)
    for k in np.flatnonzero(kept)[::3]:
        up, down = (selection + step * (np.arange(len(users)) == k) for step in (1e-4, -1e-4))
        slope = (worth(users, items, up) - worth(users, items, down)) / 2e-4
        assert social[k] == pytest.approx(slope, rel=1e-5, abs=1e-9)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "limit", [Effort(walks=150), Effort(walks=150, pairs=20), Effort(walks=150, paths=60)]
)
def test_samples_have_the_values_and_variances_of_their_formulas(seed: int, limit: Effort) -> None:
    """All sums by hand, over the pairs that were looked at."""
    users, items = drawn(seed)
    here = found(users, items, seed, limit)
    share, rows = here.begins.mean(), len(users)
    assert share < 1
    at = {pair: weight for pair, weight in weights(users, items, here.begins).items() if weight > 0}
    if here.drawn:  # each draw has the same weight, and pairs were drawn by theirs
        times = np.rint(here.weights / here.drawn)
        assert here.weights == pytest.approx(times * here.drawn)
        assert times.sum() * here.drawn == pytest.approx(sum(at.values()), rel=0.5)
    else:
        assert sorted(here.weights) == pytest.approx(sorted(at.values()))
    every, mean, squares = listed(users, items), np.zeros((2, rows)), np.zeros((2, rows))
    by_user: Counter[Pair] = Counter()
    for number, weight in enumerate(here.weights):
        a, c = (int(step[here.pair == number][0]) for step in here.steps[::2])
        paths = every[int(users[a]), int(items[c])]
        assert sorted(paths) == sorted(map(tuple, np.column_stack(here.steps)[here.pair == number].tolist()))
        for step, level in ((0, 0), (1, 1), (2, 1)):
            for k, n in Counter(path[step] for path in paths).items():
                mean[level, k] += weight * n / (1 + len(paths))
                squares[level, k] += weight * (n / (1 + len(paths))) ** 2
                if level:
                    by_user[int(users[a]), k] += weight * n / (1 + len(paths))
    known, between = here.begins[users], np.zeros(rows)
    for (_, k), value in by_user.items():
        between[k] += (1 - share) / share**2 * value**2
    own = np.where(known, mean[0], mean[0][known].mean())
    own_variance = (1 + here.drawn) * squares[0]
    own_variance = np.where(known, own_variance, own_variance[known].mean() + own.var(where=known))
    passed = (1 + here.drawn / share) / share * squares[1]
    np.testing.assert_allclose(here.own(), own)
    np.testing.assert_allclose(here.social(), own + mean[1] / share)
    np.testing.assert_allclose(here.own_variance(), own_variance)
    np.testing.assert_allclose(here.social_variance(), own_variance + passed + between)


@pytest.fixture(scope="module")
def few_pairs() -> list[Paths]:
    """Paths of 20 drawn pairs, for 400 seeds."""
    return [found(*drawn(0), seed, Effort(pairs=20)) for seed in range(400)]


def test_pairs_that_are_drawn_give_the_same_in_the_mean(few_pairs: list[Paths]) -> None:
    exact = found(*drawn(0)).social()
    some = [each.social() for each in few_pairs]
    assert not np.allclose(some[0], some[1])
    error = np.std(some, axis=0) / np.sqrt(len(some))
    assert (np.abs(np.mean(some, axis=0) - exact) < 4 * error + 1e-9).all()


def test_where_paths_are_too_many_some_users_stand_for_all() -> None:
    users, items = drawn(0)
    exact, few = found(users, items), Effort(walks=150)
    some = found(users, items, effort=few)
    assert 1 <= some.begins.sum() < USERS
    own, known = some.own(), some.begins[users]
    assert own[~known].std() == pytest.approx(0)
    assert own[~known].mean() == pytest.approx(own[known].mean())
    sums = [found(users, items, seed, few).social().sum() for seed in range(100)]
    assert np.mean(sums) == pytest.approx(exact.social().sum(), rel=0.25)


def test_users_that_were_not_drawn_are_taken_for_typical_also_when_others_withdraw() -> None:
    users, items = drawn(0)
    kept: Bools = np.random.default_rng(0).random(len(users)) < 0.6
    some = found(users, items, effort=Effort(walks=150)).among(kept)
    own, known = some.own(), some.begins[users]
    assert known[kept].any()
    np.testing.assert_allclose(own[~known], own[known & kept].mean())


def test_the_order_of_rows_does_not_matter() -> None:
    users, items = drawn(1)
    order = np.random.default_rng(0).permutation(len(users))
    whole, mixed = found(users, items), found(users[order], items[order])
    np.testing.assert_array_equal(whole.weights, mixed.weights)
    np.testing.assert_allclose(whole.social()[order], mixed.social())


@pytest.mark.parametrize(("limit", "users_at_least"), [(1e7, 300), (1e6, 35)])
def test_dense_logs_are_bounded(limit: float, users_at_least: int) -> None:
    """Half of all pairs: two hundred million paths, of which few are kept, of three pairs a user or more."""
    users, items = (each.copy() for each in np.argwhere(np.random.default_rng(0).random((300, 200)) < 0.5).T)
    keys = mix(np.arange(300)), mix(1, np.arange(200))
    here = find_paths(Rows(users, items), *keys, seed=0, effort=Effort(paths=limit))
    assert 0.9 * limit < len(here.pair) < 1.1 * limit
    assert users_at_least <= here.begins.sum() <= len(here.weights) / 2.5


def test_which_pairs_come_true_is_uncertain() -> None:
    """Each pair with the probability that its weight says, on its own."""
    users, items = drawn(2)
    here = found(users, items)
    rng, draws = np.random.default_rng(0), []
    for _ in range(4000):
        came = (rng.random(len(here.weights)) < here.weights).astype(np.float64)
        draws.append(dataclasses.replace(here, weights=came))
    for of, variance in ((Paths.own, Paths.own_variance), (Paths.social, Paths.social_variance)):
        seen_values = [of(each) for each in draws]
        np.testing.assert_allclose(np.mean(seen_values, axis=0), of(here), rtol=0.15, atol=0.01)
        # A lot with probability w has the variance w (1 - w).
        said, seen = variance(here), np.var(seen_values, axis=0)
        assert (seen <= 1.15 * said).all()
        assert (seen >= 0.85 * (1 - here.weights.max()) * said).all()


def test_a_pair_comes_true_with_all_its_paths() -> None:
    """Twenty paths over one row: not twenty lots."""
    first, one = np.zeros(20, dtype=np.int64), np.ones(2, dtype=np.bool_)
    steps = (first, np.arange(1, 21), np.arange(21, 41))
    owners, kept = np.repeat([0, 1], [1, 40]), np.ones(41, dtype=np.bool_)
    here = Paths(np.array([0.5]), first, steps, owners, begins=one, kept=kept)
    assert here.own_variance()[0] == pytest.approx(0.5 * (20 / 21) ** 2)
    assert here.own()[0] == pytest.approx(0.5 * 20 / 21)


def test_pairs_that_are_drawn_are_less_certain(few_pairs: list[Paths]) -> None:
    here = found(*drawn(0))
    said = np.mean([each.social_variance() for each in few_pairs], axis=0)
    # The draws alone vary less than draws and pairs coming true together.
    assert (np.var([each.social() for each in few_pairs], axis=0) <= 1.1 * said).all()
    assert (said > here.social_variance()).mean() > 0.9


@pytest.mark.parametrize("share", [0.5, 0.2])
def test_the_fewer_users_stand_for_all_the_less_certain_it_is(share: float) -> None:
    """The variance covers the errors of drawn users and of chance, and not much more."""
    users, items = (each.copy() for each in np.argwhere(np.random.default_rng(0).random((100, 50)) < 0.06).T)
    find = partial(find_paths, Rows(users, items), mix(np.arange(100)), mix(1, np.arange(50)))
    exact = find(seed=0)
    beyond = np.bincount(items, weights=np.bincount(users, minlength=100)[users], minlength=50)
    few = Effort(walks=share * beyond[items].sum())
    some = [find(seed=seed, effort=few) for seed in range(60)]
    assert np.mean([each.begins.mean() for each in some]) == pytest.approx(share, abs=0.05)
    for of, variance in ((Paths.own, Paths.own_variance), (Paths.social, Paths.social_variance)):
        wrong = np.mean([(of(each) - of(exact)) ** 2 for each in some])
        seen = wrong + variance(exact).mean()
        assert 0.9 * seen <= np.mean([variance(each) for each in some]) <= 2 * seen


def test_what_nobody_shares_leads_nowhere() -> None:
    alone = found(np.arange(5), np.arange(5))
    assert not len(alone.pair)
    np.testing.assert_array_equal(alone.social(), np.zeros(5))
    np.testing.assert_array_equal(alone.own(), np.zeros(5))
