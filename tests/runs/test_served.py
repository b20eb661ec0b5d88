"""A run in memory: changes in any order and number, decided as the game decides, served from what is left."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from assent import api
from assent.api import Changes, Served
from assent.data.interactions import Interactions
from assent.game.budget import Budget
from assent.game.estimates import Estimates, Objective
from assent.game.prices import break_even_prices
from assent.game.solve import decide_within, solve
from assent.lab import Lab
from assent.runs.folder import KINDS
from assent.runs.recommend import recommend
from assent.support.errors import AssentError
from assent.training.stored import as_files
from tests.runs.lives import (
    PLANS,
    QUICK,
    Rows,
    asking,
    composed,
    fitted,
    histories,
    log_of,
    log_with,
    rows_in,
    run_of,
)

History = tuple[list[Changes], Rows]
VALUED = ("budget", "price", "nash")


def served(name: str) -> Served:
    return Served.of(run_of(name), asking if name == "limits" else None)


def assert_same(one: Served, other: Served) -> None:
    """Everything that can be seen is the same, to the byte."""
    assert one.table().equals(other.table())
    assert one.sealed.select("user", "item", "unwillingness", "reason").equals(
        other.sealed.select("user", "item", "unwillingness", "reason")
    )
    assert one.price == other.price
    mine, theirs = one.trained, other.trained
    assert mine.user_ids.tolist() == theirs.user_ids.tolist()
    assert torch.equal(mine.model.user_table, theirs.model.user_table)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [*PLANS, "limits"])
@given(histories())
@settings(max_examples=8, deadline=None)
def test_one_by_one_is_all_at_once(name: str, history: History) -> None:
    steps, rows = history
    one, other = served(name), served(name)
    for each in steps:
        one.apply(each)
    other.apply(composed(steps))
    assert_same(one, other)
    table = one.table()
    readable = {pair: minded for pair, minded in rows.items() if minded < 1}
    assert (
        dict(zip(table.select("user", "item").iter_rows(), table["unwillingness"], strict=True)) == readable
    )
    assert set(one.sealed.select("user", "item").iter_rows()) == rows.keys() - readable.keys()


@pytest.mark.parametrize("name", VALUED)
@given(histories(most=1))
@settings(max_examples=10, deadline=None)
def test_decisions_are_those_of_the_game_given_the_values(name: str, history: History) -> None:
    one, price = served(name), served(name).price
    assert price is not None
    one.apply(history[0][0])
    table, plan = one.table(), PLANS[name]
    owners = (table["user"].rank("dense") - 1).cast(pl.Int64).to_numpy()
    minded, values = table["unwillingness"].to_numpy(), table["value"].to_numpy()
    disclosed, people = table["disclosed"].to_numpy(), table["user"].n_unique()
    game = Estimates(
        owners=owners,
        n_users=people,
        unwillingness=minded,
        anchors=np.ones((1, len(values)), dtype=np.bool_),
        own=values[None],
        social=values[None],
        losses=np.zeros((1, people)),
    )
    at_price = solve(game, objective=Objective.WELFARE, price=price).selection
    if plan.budget is None:
        assert (disclosed == at_price).all()
        assert one.price == price
        return
    budget = Budget(plan.budget, owners, minded, people)
    assert budget.allows(disclosed)
    if budget.allows(at_price):
        apart = disclosed != at_price
        assert (break_even_prices(values, minded)[apart] == price).all()
        assert one.price == price
    else:
        play = lambda at: solve(game, objective=Objective.WELFARE, price=at)  # noqa: E731
        expected, found = decide_within(game, play, plan.budget, Objective.WELFARE)
        assert (disclosed == expected.selection).all()
        assert one.price == found > price


@given(histories())
@settings(max_examples=10, deadline=None)
def test_methods_that_estimate_nothing_decide_as_in_a_fit(history: History) -> None:
    steps, rows = history
    for name in ("threshold", "random", "occurrence"):
        one, plan = served(name), PLANS[name]
        one.apply(composed(steps))
        log = log_with(rows, log_of())
        problem = api.live_problem(log, negatives=1)
        choice = plan.decide(Lab(problem), plan.within)
        pairs = zip(
            problem.user_ids[problem.train.users].tolist(),
            problem.item_ids[problem.train.items].tolist(),
            strict=True,
        )
        expected = dict(zip(pairs, choice.selection.tolist(), strict=True))
        table = one.table()
        assert (
            dict(zip(table.select("user", "item").iter_rows(), table["disclosed"], strict=True)) == expected
        )


@given(histories())
@settings(max_examples=10, deadline=None)
def test_vectors_are_those_of_a_dense_ridge_regression(history: History) -> None:
    one = served("budget")
    for each in history[0]:
        one.apply(each)
    trained, model = one.trained, run_of("budget").trained.model
    h = model.item_table[:-1].detach().double().numpy()  # type: ignore[index]
    alpha, l2 = float(model.alpha), float(model.l2)  # type: ignore[arg-type]
    places = {item: at for at, item in enumerate(trained.item_ids.tolist())}
    disclosed = one.table().filter("disclosed")
    known = disclosed.filter(pl.col("item").is_in(list(places)))
    assert trained.user_ids.tolist() == known["user"].unique().sort().to_list()
    for at, user in enumerate(trained.user_ids.tolist()):
        theirs = h[[places[item] for item in known.filter(user=user)["item"]]]
        ridge = l2 * (len(theirs) + alpha * len(h))
        expected = np.linalg.solve(
            alpha * h.T @ h + theirs.T @ theirs + ridge * np.eye(h.shape[1]), theirs.sum(0)
        )
        found = trained.model.user_table[at].detach().numpy()  # type: ignore[index]
        np.testing.assert_allclose(found, expected, rtol=2e-4, atol=1e-6)


def test_a_run_that_nothing_happened_to_stays_as_it_is() -> None:
    for name in PLANS:
        one, run = served(name), run_of(name)
        applied = one.apply(Changes.of())
        assert applied.changed.is_empty()
        assert applied.folded == 0
        assert not applied.found_anew
        found = one.table().select("user", "item", "disclosed", "value", "reason")
        assert found.equals(run.selection.select("user", "item", "disclosed", "value", "reason"))
        assert torch.equal(one.trained.model.user_table, run.trained.model.user_table)  # type: ignore[arg-type]


def test_what_changed_is_told_with_its_reason() -> None:
    one, run = served("price"), run_of("price")
    used = run.selection.filter("disclosed").row(0, named=True)
    [other] = run.selection.filter("disclosed", pl.col("user") != used["user"]).head(1).to_dicts()
    sealed = run.sealed.row(0, named=True)
    applied = one.apply(
        Changes.of(
            minds=[
                (used["user"], used["item"], used["unwillingness"], 1.0),
                (sealed["user"], sealed["item"], 1.0, 0.0),
            ],
            withdrawn=[other["user"]],
            added=[("zoe", "i99", 0.99)],
        )
    )
    told = {(row["user"], row["item"]): row for row in applied.changed.to_dicts()}
    never = told[used["user"], used["item"]]
    assert (never["before"], never["after"], never["reason"]) == ("disclosed", "never", "never")
    back = told[sealed["user"], sealed["item"]]
    assert (back["before"], back["after"], back["reason"]) == ("never", "disclosed", "worth")
    gone = told[other["user"], other["item"]]
    assert (gone["before"], gone["after"], gone["reason"]) == ("disclosed", None, "withdrawn")
    assert told["zoe", "i99"]["before"] is None
    assert told["zoe", "i99"]["reason"] == one.explain("zoe")["reason"][0]
    assert "people changed." in applied.summary()
    again = one.explain(used["user"])
    assert again.filter(item=used["item"])["decision"].to_list() == ["never"]
    assert one.explain(other["user"]).is_empty()
    assert one.explain("zoe")["expected"].to_list() == [True]


def mentions(thing: Any, text: str, seen: set[int] | None = None) -> bool:
    """Whether a text stands anywhere in an object: its attributes, arrays and tables."""
    seen = set() if seen is None else seen
    if id(thing) in seen and not isinstance(thing, str):
        return False
    seen.add(id(thing))
    parts: Iterable[Any] = ()
    match thing:
        case str():
            return thing == text
        case np.ndarray():
            return thing.dtype.kind == "U" and bool((thing == text).any())
        case pl.DataFrame():
            parts = [each for column in thing.select(pl.col(pl.String)) for each in column.unique()]
        case dict():
            parts = [each for pair in thing.items() for each in pair]
        case list() | tuple() | set():
            parts = thing
        case _ if hasattr(thing, "__dict__"):
            parts = [vars(thing)]
    return any(mentions(each, text, seen) for each in parts)


@given(st.sampled_from(log_of().table["user"].unique().sort().to_list()), histories(most=2))
@settings(max_examples=10, deadline=None)
def test_nothing_is_left_of_whoever_withdraws(user: str, history: History) -> None:
    one, other = served("budget"), served("budget")
    for each in history[0]:
        one.apply(each)
        other.apply(each)
    vectors = len(one.trained.user_ids)
    assert mentions(one, user) == (user in one.people)
    was_known = user in one.trained.user_ids
    away = [user] if user in one.people else []
    one.apply(Changes.of(withdrawn=away))
    assert not mentions(one, user)
    assert user not in one.people
    assert len(one.trained.user_ids) == len(one.trained.model.user_table) - 1 <= vectors  # type: ignore[arg-type]
    assert not was_known or user not in one.trained.user_ids
    assert one.explain(user).is_empty()
    assert set(one.recommend(user)["basis"]) <= {"general"}
    # Somebody who withdraws and then comes back is a new person.
    rows = [(user, "i01", 0.1)]
    one.apply(Changes.of(added=rows))
    other.apply(Changes.of(withdrawn=away, added=rows))
    assert_same(one, other)


@given(histories(most=1), st.sampled_from(["gone", "never"]), st.data())
@settings(max_examples=10, deadline=None)
def test_a_row_that_went_leaves_no_byte(history: History, how: str, data: st.DataObject) -> None:
    """Two histories that differ in a row that then goes, or is never used, give the same vectors."""
    one, other = served("budget"), served("budget")
    for each in (one, other):
        each.apply(history[0][0])
    users, items = ["u03", "u11", "zoe"], ["i01", "i07", "i20", "i99"]
    free = [(user, item) for user in users for item in items if (user, item) not in history[1]]
    if not free:
        return
    pair = data.draw(st.sampled_from(free))
    minded = data.draw(st.sampled_from([0.0, 0.3, 0.9]))
    one.apply(Changes.of(added=[(*pair, minded)]))
    one.apply(Changes.of(gone=[pair]) if how == "gone" else Changes.of(minds=[(*pair, minded, 1.0)]))
    mine, theirs = one.trained, other.trained
    assert mine.user_ids.tolist() == theirs.user_ids.tolist()
    assert as_files(mine, "model") == as_files(theirs, "model")
    assert one.table().equals(other.table())
    for user in [each for each in other.people if each != pair[0]][::8]:
        assert one.recommend(user, 20).equals(other.recommend(user, 20))


@given(histories())
@settings(max_examples=10, deadline=None)
def test_lists_show_nothing_that_was_had_or_that_nobody_discloses(history: History) -> None:
    one = served("budget")
    for each in history[0]:
        one.apply(each)
    rows = history[1]
    disclosed = one.table().filter("disclosed")
    known = set(one.trained.user_ids.tolist())
    for user in [*one.people[::5], *history[0][-1].people[:3], "a stranger"]:
        found = one.recommend(user, 50)
        assert set(found["basis"]) <= {"own" if user in known else "general"}
        had = {item for owner, item in rows if owner == user}
        shown = set(found["item"])
        assert not shown & had
        assert shown <= set(disclosed["item"])
        everything = set(one.recommend(user, 50, include=KINDS)["item"])
        assert everything - had == shown


def test_lists_are_those_of_the_run() -> None:
    run, one = run_of("budget"), served("budget")
    everybody = recommend(run, None, 7)
    for user in one.people[::3]:
        expected = everybody.filter(user=user)
        found = one.recommend(user, 7)
        assert found.drop("score").equals(expected.drop("score"))
        np.testing.assert_allclose(found["score"], expected["score"], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", [*PLANS, "limits"])
def test_everybody_may_withdraw_and_come_back(name: str) -> None:
    one = served(name)
    one.apply(Changes.of(withdrawn=one.people))
    assert one.people == []
    assert one.table().is_empty()
    assert len(one.trained.user_ids) == 0
    assert one.recommend("u01").is_empty()
    one.apply(Changes.of(added=[("u01", "i01", 0.0), ("u02", "i02", 0.0)]))
    assert one.people == ["u01", "u02"]
    assert one.explain("u01").height == 1


def test_a_preview_shows_both_and_changes_nothing() -> None:
    one, run = served("budget"), run_of("budget")
    user = str(run.trained.user_ids[3])
    before = one.recommend(user, 5)
    rows = run.selection.filter(user=user)
    everything = [(user, item, minded, 1.0) for item, minded in rows.select("item", "unwillingness").rows()]
    changes = Changes.of(minds=everything)
    table = one.table()
    first, second = one.preview(user, changes, 5)
    assert one.table().equals(table)
    assert first.equals(before)
    assert set(first["basis"]) == {"own"}
    assert set(second["basis"]) == {"general"}
    one.apply(changes)
    assert one.recommend(user, 5).equals(second)
    with pytest.raises(AssentError, match=r"^preview: changes of 1 other person; accepted: of zoe alone$"):
        one.preview("zoe", changes)


def pair_of(*, never: bool) -> tuple[str, str]:
    """A row of somebody but u01 that is, or is not, never used."""
    return next(pair for pair, minded in rows_in(log_of()).items()
                if pair[0] != "u01" and (minded == 1) == never)  # fmt: skip


@pytest.mark.parametrize(
    "wrong",
    [
        Changes.of(withdrawn=["u01"], gone=[("zoe", "i01")]),
        Changes.of(withdrawn=["u01"], minds=[("zoe", "i01", 0.3, 0.4)]),
        Changes.of(withdrawn=["u01", "nobody"]),
        Changes.of(withdrawn=["u01"], minds=[(*pair_of(never=False), 0.123, 0.9)]),
        Changes.of(withdrawn=["u01"], minds=[(*pair_of(never=True), 0.9, 0.5)]),
        Changes.of(withdrawn=["u01"], added=[(*next(iter(rows_in(log_of()))), 0.3), ("u02", "i99", 0.1)]),
    ],
)
def test_a_change_that_is_refused_changes_nothing(wrong: Changes) -> None:
    one = served("budget")
    if wrong.added.height:
        user = wrong.added["user"][0]
        wrong = Changes.of(added=list(wrong.added.select("user", "item", "unwillingness").iter_rows()))
        assert user in one.people
    table = one.table()
    with pytest.raises(AssentError, match=r"^changes: 1 .*; accepted: "):
        one.apply(wrong)
    assert one.table().equals(table)
    assert "u01" in one.people


def test_limits_of_people_are_kept_after_changes() -> None:
    with pytest.raises(AssentError, match="people have limits, which the run does not hold"):
        Served.of(run_of("limits"))
    one = served("limits")
    pairs = rows_in(log_of())
    new = [("u02", item, 0.4) for item in ("i01", "i02", "i03", "i04") if ("u02", item) not in pairs]
    one.apply(Changes.of(added=[*new, ("zoe", "i01", 0.2), ("zoe", "i02", 0.9)]))
    table = one.table()
    paid = {user: float(rows.filter("disclosed")["unwillingness"].sum())
            for (user,), rows in table.group_by("user")}  # fmt: skip
    assert paid["u02"] <= 0.5
    assert table.filter("disclosed", user="zoe").height >= 1


def test_rows_above_the_limit_are_closed_and_what_was_known_of_them_is_forgotten() -> None:
    log, limit = log_of(), 0.9
    reason = pl.when(pl.col("unwillingness") > limit).then(pl.lit("closed"))
    said = log.minded.select("unwillingness", "source", "said").with_columns(reason=reason)
    run = fitted(log.judged(said), replace(PLANS["budget"], closed=limit))
    user, item, minded = run.selection.select("user", "item", "unwillingness").row(0)
    steps = [Changes.of(minds=[(user, item, minded, 0.95)]), Changes.of(minds=[(user, item, 0.95, minded)])]
    one, other = Served.of(run), Served.of(run)
    [told] = one.apply(steps[0]).changed.filter(user=user, item=item).to_dicts()
    assert (told["after"], told["reason"]) == ("closed", "closed")
    assert item not in one.recommend(user, 50)["item"]
    one.apply(steps[1])
    assert one.explain(user).filter(item=item)["expected"].to_list() == [True]
    other.apply(Changes.of(gone=[(user, item)], added=[(user, item, minded)]))
    assert_same(one, other)


def test_what_cannot_be_served_is_refused() -> None:
    log = log_of()
    mf = {"model": "mf", "model_settings": {"dimension": 4}, "training": {"epochs": 2}, "tune": "none"}
    run = fitted(log, PLANS["threshold"], api.Settings.model_validate(mf))
    with pytest.raises(AssentError, match=r"folded into model mf; accepted: grade exact, or model ials$"):
        Served.of(run)
    plan = PLANS["threshold"]
    split = api.make_problem(log, "paper-tables", negatives=5)
    experiment = api.fit(log, split, run.folder.with_name("experiment"), plan, QUICK)
    with pytest.raises(AssentError, match=r"an experiment; accepted: a live run$"):
        Served.of(experiment)


def test_changes_between_a_run_and_a_log_lead_to_that_log() -> None:
    log = log_of()
    assert Changes.between(run_of("budget"), log).is_empty
    rows = dict(list(rows_in(log).items())[10:])
    rows |= {("zoe", "i01"): 0.3, ("zoe", "i02"): 1.0}
    first = next(pair for pair, minded in rows.items() if minded < 1)
    rows[first] = 1.0
    present: Interactions = log_with(rows, log)
    changes = Changes.between(run_of("budget"), present)
    assert changes.counts()["added"] == 2
    assert changes.counts()["never"] == 1
    one = served("budget")
    one.apply(changes)
    assert rows_in(present) == rows_in(
        Interactions("now", one.table().with_columns(time=pl.lit(0.0)), log.items, one.sealed)
    )


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"added": [("x", "y")]}, r"added has \('x', 'y'\); accepted: \(user, item, unwillingness\)"),
        ({"added": [("x", "y", "much")]}, "added has .*, with numbers"),
        ({"minds": [("x", "y", 0.5)]}, r"accepted: \(user, item, before, after\)"),
        ({"gone": ["x"]}, r"gone has 'x'; accepted: \(user, item\), ids as text"),
        ({"gone": [(1, 2)]}, "ids as text"),
        ({"withdrawn": [("u01", "i004")]}, r"withdrawn has \('u01', 'i004'\); accepted: ids of people"),
    ],
)
def test_changes_that_are_listed_wrongly_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(AssentError, match=message):
        Changes.of(**wrong)
