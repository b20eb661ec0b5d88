"""What the platform brings later: other categories undo nobody's wish, and later consent counts."""

from collections.abc import Sequence
from itertools import count

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st
from sqlalchemy import select, update

from assent.service import entries, interactions, jobs, models, wishes
from assent.service.database import Database
from assent.service.entries import Row
from assent.service.interactions import NewInteraction
from assent.service.jobs import Kind
from assent.service.serving import Server
from assent.service.settings import ServiceSettings
from assent.service.tables import Interaction
from assent.service.texts import Texts
from assent.service.wishes import WITHDRAW_EVERYTHING, Said
from assent.service.worker import ask_for_work, work_once
from tests.service.trained import Service, say

STRANGER = "stranger"
_people = count(1)


def had(
    user: str, item: str, categories: Sequence[str] | None, minded: float | None = None
) -> NewInteraction:
    return NewInteraction(user, item, 5.0, None, categories, minded)


def bring(database: Database, *rows: NewInteraction) -> interactions.Added:
    with database.writing() as session:
        return interactions.add(session, rows)


def in_force(service: Service, user: str, item: str) -> Row:
    with service[0].reading() as session:
        return entries.one(session, service[1], user, item)


@pytest.fixture
def ann(database: Database, settings: ServiceSettings) -> Service:
    """Ann has two items of Crime, which she never wants used; the platform brought little for both."""
    settings = settings.model_copy(update={"unsaid": 0.3})
    others = had(STRANGER, "big", ["Comedy", "Drama", "Space"])
    bring(database, had("ann", "heat", ["Crime"], 0.1), had("ann", "ran", ["Crime"], 0.1), others)
    say((database, settings), "ann", Said("category", "Crime", 1.0))
    return database, settings


def test_another_ones_entry_does_not_undo_never(ann: Service) -> None:
    bring(ann[0], had(STRANGER, "heat", ["Zed"]))
    row = in_force(ann, "ann", "heat")
    assert (row.unwillingness, row.source, row.source_target) == (1.0, "kept", "Crime")
    assert row.categories == ("Zed",)
    assert row.said is None
    explained = Texts().source(row, "Corner cinema")
    assert "Crime" in explained
    assert "Corner cinema has put it into other categories since" in explained
    assert in_force(ann, "ann", "ran").source == "category"
    assert in_force(ann, STRANGER, "heat").unwillingness == 0.3


def test_its_owner_can_say_otherwise_and_the_platform_cannot(ann: Service) -> None:
    bring(ann[0], had(STRANGER, "heat", ["Zed"]))
    bring(ann[0], had("ann", "heat", None, 0.0), had(STRANGER, "heat", []))
    say(ann, "ann", Said("category", "Crime", None))
    assert in_force(ann, "ann", "heat").unwillingness == 1
    for said in (Said("item", "heat", 0.25), Said("everything", "", 0.5)):
        say(ann, "ann", said)
        assert in_force(ann, "ann", "heat").unwillingness == 0.25
    say(ann, "ann", Said("item", "heat", None))
    row = in_force(ann, "ann", "heat")
    assert (row.unwillingness, row.source) == (0.5, "everything")


def test_wishes_that_were_said_of_something_else_do_not_undo_it(ann: Service) -> None:
    say(ann, "ann", Said("category", "Comedy", 0.0))  # later than that of Crime, and not of this item
    bring(ann[0], had(STRANGER, "heat", ["Comedy"]))
    assert in_force(ann, "ann", "heat").unwillingness == 1
    say(ann, "ann", Said("category", "Drama", 0.25))  # later than the change, and not of this item either
    bring(ann[0], had(STRANGER, "heat", ["Drama"]))
    assert in_force(ann, "ann", "heat").unwillingness == 1
    say(ann, "ann", Said("category", "Drama", 0.5))  # of this item now
    row = in_force(ann, "ann", "heat")
    assert (row.unwillingness, row.source, row.source_target) == (0.5, "category", "Drama")
    bring(ann[0], had(STRANGER, "heat", ["Crime"]))  # back again: stricter, and not by what was kept before
    assert in_force(ann, "ann", "heat").source == "category"
    assert in_force(ann, "ann", "heat").unwillingness == 1


def test_nothing_is_kept_of_what_nobody_said(ann: Service) -> None:
    bring(ann[0], had("ann", "alien", None))
    say(ann, "ann", Said("category", "Space", 0.0))
    assert in_force(ann, "ann", "alien").source == "unsaid"
    bring(ann[0], had(STRANGER, "alien", ["Space"]))
    assert in_force(ann, "ann", "alien").unwillingness == 0


@examples(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(
        st.one_of(
            st.lists(st.sampled_from("abc"), max_size=2, unique=True),
            st.builds(Said, st.just("item"), st.just("x"), st.none() | st.sampled_from([0.0, 0.5, 1.0])),
            st.builds(
                Said,
                st.just("category"),
                st.sampled_from("abc"),
                st.none() | st.sampled_from([0.0, 0.5, 1.0]),
            ),
            st.builds(Said, st.just("everything"), st.just(""), st.none() | st.sampled_from([0.25, 1.0])),
            st.just(WITHDRAW_EVERYTHING),
        ),
        max_size=8,
    )
)
def test_other_categories_never_lower_what_somebody_said(
    database: Database, settings: ServiceSettings, steps: list[list[str] | Said]
) -> None:
    service = database, settings.model_copy(update={"unsaid": 0.0})
    user, other, item = f"u{next(_people)}", f"v{next(_people)}", f"x{next(_people)}"
    bring(database, had(user, item, ["a"], 0.1), had(user, "kept known", ["a", "b", "c"]))
    for step in steps:
        before = in_force(service, user, item)
        if isinstance(step, Said):
            say(service, user, Said(step.scope, item, step.unwillingness) if step.scope == "item" else step)
        else:
            bring(database, had(other, item, step))
            assert in_force(service, user, item).unwillingness >= before.unwillingness
        row = in_force(service, user, item)
        with database.reading() as session:
            standing = wishes.standing(session, user)
            brought = entries.brought_by(session, user)[item]
        assert brought.unwillingness_under(standing, item, 0.0) == row.unwillingness


def test_never_stays_never_in_lists_updates_and_trainings(service: Service) -> None:
    database, settings = service
    server = Server(settings)
    with database.reading() as session:
        row = entries.page(session, settings, "u05", state="used").rows[0]
    say(service, "u05", Said("category", row.categories[0], 1.0))
    bring(database, had(STRANGER, row.item, ["Zed"]))
    kinds: tuple[Kind, ...] = ("update", "train")
    for kind in kinds:
        with database.reading() as session:
            found = server.recommend(session, "u05", 5)
        assert row.item not in {why.item for each in found.items for why in each.because}
        with database.writing() as session:
            jobs.enqueue(session, kind, by="tests")
        assert work_once(database, settings, worker="tests")
        now = in_force(service, "u05", row.item)
        assert (now.state, now.unwillingness, now.source) == ("never", 1.0, "kept")
    with database.reading() as session:
        would = server.preview(session, "u05", [Said("category", "Zed", 0.0)], 5)
    say(service, "u05", Said("category", "Zed", 0.0))
    assert in_force(service, "u05", row.item).unwillingness == 0
    assert would.now.basis == would.then.basis


def test_a_category_that_is_minded_leads_to_an_update(service: Service) -> None:
    database, settings = service[0], service[1].model_copy(update={"update_after": 0.0})
    say(service, "u06", Said("category", "health", 1.0))
    with database.writing() as session:
        jobs.enqueue(session, "update", by="tests")
    assert work_once(database, settings, worker="tests")
    ask_for_work(database, settings)
    assert not work_once(database, settings, worker="tests")
    with database.reading() as session:
        row = next(r for r in entries.page(session, settings, "u06").rows if r.state == "used")
        before = models.in_service_id(session)
    bring(database, had(STRANGER, row.item, ["health"]))
    assert in_force(service, "u06", row.item).unwillingness == 1
    ask_for_work(database, settings)
    assert work_once(database, settings, worker="tests")
    assert in_force(service, "u06", row.item).state == "never"
    with database.reading() as session:
        assert models.in_service_id(session) != before


def test_consent_that_comes_later_counts_at_once_and_leads_to_an_update(service: Service) -> None:
    database, settings = service[0], service[1].model_copy(update={"update_after": 0.0})
    server = Server(settings)
    ask_for_work(database, settings)
    assert not work_once(database, settings, worker="tests")
    with database.reading() as session:
        found = server.recommend(session, "u07", 5)
        speaking = {why.item for each in found.items for why in each.because}
        rows = entries.page(session, settings, "u07", state="used").rows
    row = next(each for each in rows if each.item in speaking)
    again = had("u07", row.item, None, 1.0)
    assert bring(database, again) == interactions.Added(added=0, known=1, consents=1)
    assert bring(database, again) == interactions.Added(added=0, known=1)
    now = in_force(service, "u07", row.item)
    assert (now.unwillingness, now.source, now.at) == (1.0, "platform", row.at)
    assert "It has become never since." in Texts().why(now)
    with database.reading() as session:
        found = server.recommend(session, "u07", 5)
    assert row.item not in {why.item for each in found.items for why in each.because}
    ask_for_work(database, settings)
    assert work_once(database, settings, worker="tests")
    assert in_force(service, "u07", row.item).state == "never"


def test_of_a_pair_that_comes_twice_at_once_the_last_consent_counts(ann: Service) -> None:
    twice = had("bob", "heat", None, 0.2), had("bob", "heat", None, 1.0), had("bob", "heat", None)
    assert bring(ann[0], *twice).added == 1
    assert in_force(ann, "bob", "heat").unwillingness == 1
    bring(ann[0], had("bob", "heat", None, 0.5), had("bob", "heat", None, 0.9))
    assert in_force(ann, "bob", "heat").unwillingness == 0.9


def test_only_interactions_that_would_be_lowered_hold_anything(ann: Service) -> None:
    bring(ann[0], had(STRANGER, "heat", ["Crime", "Zed"]), had(STRANGER, "ran", ["Zed"]))
    with ann[0].reading() as session:
        kept = session.scalars(select(Interaction.kept).where(Interaction.kept.is_not(None))).all()
    assert kept == [1.0]
    with ann[0].writing() as session:
        session.execute(update(Interaction).values(unwillingness=0.9))
    assert in_force(ann, "ann", "heat").source == "category"
