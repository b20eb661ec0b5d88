"""Erasing somebody: what goes at once, what the next model ends, and what may not come back."""

from sqlalchemy import select

from assent.service import interactions
from assent.service.interactions import NewInteraction
from assent.service.serving import Server
from assent.service.tables import Person
from tests.service.trained import Service


def test_who_comes_back_is_not_served_from_a_list_of_before(service: Service) -> None:
    """SQLite gives the largest id out again: the last person is the one whose id comes back."""
    database, settings = service
    server = Server(settings)
    with database.writing() as session:
        last = session.scalars(select(Person).order_by(Person.id.desc()).limit(1)).one()
        user = last.user
        assert server.recommend(session, user).basis == "own"
        had = interactions.page(session, settings, user).rows[0].item
        version = last.version
        interactions.erase(session, user)
    with database.writing() as session:
        interactions.add(session, [NewInteraction(user, had, 0.0, unwillingness=1.0)])
    with database.writing() as session:
        again = session.scalars(select(Person).where(Person.user == user)).one()
        again.version = version
    with database.reading() as session:
        assert server.recommend(session, user).basis == "general"
