"""What is served: from what is disclosed now, whoever changed it, in whichever process."""

import pytest
from sqlalchemy import select, update

from assent.runs.folder import open_run
from assent.service import entries, interactions, jobs, models, people, wishes
from assent.service.database import ConflictError, Database
from assent.service.interactions import NewInteraction
from assent.service.serving import Server
from assent.service.settings import ServiceSettings
from assent.service.tables import Decision, Model, Person, Publication
from assent.service.wishes import WITHDRAW_EVERYTHING, Said
from assent.service.worker import work_once
from assent.support.errors import AssentError
from tests.service.trained import Service, copied, say

USER = "u00"


def used(service: Service, user: str) -> list[str]:
    with service[0].reading() as session:
        return [row.item for row in entries.page(session, service[1], user, state="used").rows]


def expected(service: Service, disclosed: list[str]) -> list[tuple[str, float]]:
    """The list of somebody who discloses these items, by the model itself."""
    database, settings = service
    with database.reading() as session:
        had = [row.item for row in entries.page(session, settings, USER, limit=100).rows]
        model = models.in_service(session)
        assert model is not None
    trained = open_run(settings.runs / model.folder).trained
    found = trained.recommend(USER, 5, disclosed={USER: disclosed}, exclude=[(USER, item) for item in had])
    return list(zip(found["item"].to_list(), found["score"].to_list(), strict=True))


def served(service: Service, server: Server | None = None) -> list[tuple[str, float]]:
    with service[0].reading() as session:
        found = (server or Server(service[1])).recommend(session, USER, 5)
    assert found.basis == "own"
    return [(each.item, each.score) for each in found.items]


def same(one: list[tuple[str, float]], other: list[tuple[str, float]]) -> None:
    assert [item for item, _ in one] == [item for item, _ in other]
    assert [score for _, score in one] == pytest.approx([score for _, score in other], abs=1e-4)


def test_a_preview_does_not_claim_what_the_model_cannot_know(service: Service) -> None:
    database, settings = service
    say(service, USER, WITHDRAW_EVERYTHING)
    freely = [Said("everything", "", 0.0)]
    with database.reading() as session:
        before = Server(settings).preview(session, USER, freely)
        never = {row.item for row in entries.page(session, settings, USER, state="never").rows}
        had = len(entries.page(session, settings, USER, limit=100).rows)
    assert before.untold == len(never)  # of what was in its training the model still knows
    with database.writing() as session:
        jobs.enqueue(session, "update", by="tests")
    assert work_once(database, settings, worker="tests")
    with database.reading() as session:
        after = Server(settings).preview(session, USER, freely)
        minded = Server(settings).preview(session, USER, [Said("everything", "", 1.0)])
    assert after.untold == had
    assert (after.gone, after.new, minded.untold) == ((), (), 0)


def test_figures_of_a_decision_add_up(service: Service) -> None:
    database, settings = service
    with database.snapshot() as session:
        model = models.in_service(session)
        rows = {row.item: row for row in entries.page(session, settings, USER, limit=100).rows}
        decided = people.export(session, settings, USER).decisions
    assert model is not None
    told = [each for each in decided if each.value is not None]
    assert told
    for each in told:
        assert each.price is not None
        assert each.price == model.facts["price"]
        assert each.cost == pytest.approx(each.price * each.unwillingness)
        if each.break_even is not None:
            assert each.value == pytest.approx(each.break_even * each.unwillingness)
        assert rows[each.item].break_even == each.break_even


def test_a_list_comes_from_what_is_disclosed(service: Service) -> None:
    same(served(service), expected(service, used(service, USER)))
    with service[0].reading() as session:
        found = Server(service[1]).recommend(session, USER, 5)
        had = {row.item for row in entries.page(session, service[1], USER, limit=100).rows}
    assert not {each.item for each in found.items} & had
    for each in found.items:
        assert {because.item for because in each.because} <= set(used(service, USER))
        assert 0 < sum(because.share for because in each.because) <= 1 + 1e-9
        assert each.title


@pytest.mark.parametrize("how", ["never", "deleted", "category", "withdrawn"])
def test_what_is_taken_back_is_not_served_from_at_the_next_request(service: Service, how: str) -> None:
    """Another process wrote it; the server that holds the list notices."""
    database, settings = service
    with database.writing() as session:  # its use would pay, however much it is minded: never is never
        session.execute(update(Decision).where(Decision.value.is_not(None)).values(value=1e9))
    server = Server(settings)
    before = served(service, server)
    assert served(service, server) == before
    disclosed = used(service, USER)
    with database.reading() as session:
        rows = {row.item: row for row in entries.page(session, settings, USER, limit=100).rows}
    gone = disclosed[0]
    match how:
        case "never":
            say(service, USER, Said("item", gone, 1.0))
            left = disclosed[1:]
        case "deleted":
            with database.writing() as session:
                interactions.delete(session, USER, gone)
            left = disclosed[1:]
        case "category":
            [category] = rows[gone].categories
            say(service, USER, Said("category", category, 1.0))
            left = [item for item in disclosed if category not in rows[item].categories or item == "i00"]
        case _:
            say(service, USER, WITHDRAW_EVERYTHING)
            left = []
    if left:
        same(served(service, server), expected(service, left))
        return
    with database.reading() as session:
        assert server.recommend(session, USER, 5).basis == "general"


def test_minding_more_counts_at_once_and_minding_less_waits(service: Service) -> None:
    database, settings = service
    with database.reading() as session:
        model = models.in_service(session)
        assert model is not None
        rows = entries.page(session, settings, USER, limit=100).rows
    price = model.facts["price"]
    kept: list[str] = []
    lost: list[str] = []
    for row in rows:
        if row.state == "used":
            assert row.value is not None
            (kept if row.value > price * 0.99 else lost).append(row.item)
    say(service, USER, *(Said("item", item, 0.99) for item in [*kept, *lost]))
    withheld = [row.item for row in rows if row.state == "withheld"]
    say(service, USER, *(Said("item", item, 0.0) for item in withheld))
    if kept:
        same(served(service), expected(service, kept))
    else:
        with database.reading() as session:
            assert Server(settings).recommend(session, USER).basis == "general"


def test_people_without_anything_disclosed_get_what_most_disclose(service: Service) -> None:
    database, settings = service
    with database.writing() as session:
        interactions.add(session, [NewInteraction("cold", "i01", 0.0, unwillingness=0.0)])
    with database.reading() as session:
        for user in ("cold", "stranger"):
            found = Server(settings).recommend(session, user, 20)
            assert (found.basis, len(found.items) > 10) == ("general", True)
            shares = [each.score for each in found.items]
            assert shares == sorted(shares, reverse=True)
            assert ("i01" in [each.item for each in found.items]) == (user == "stranger")


def test_whoever_is_erased_and_comes_back_is_somebody_new(service: Service) -> None:
    database, settings = service
    server = Server(settings)
    served(service, server)
    with database.reading() as session:
        had = [row.item for row in entries.page(session, settings, USER, limit=100).rows]
        version = session.scalars(select(Person.version).where(Person.user == USER)).one()
    with database.writing() as session:
        interactions.erase(session, USER)
        interactions.add(session, [NewInteraction(USER, had[0], 0.0)])
        session.execute(update(Person).values(version=version).where(Person.user == USER))
    with database.reading() as session:
        assert server.recommend(session, USER, 5).basis == "general"


def test_a_preview_is_what_becomes(service: Service) -> None:
    database, settings = service
    said = Said("item", used(service, USER)[0], 1.0)
    server = Server(settings)
    with database.reading() as session:
        shown = server.preview(session, USER, [said], 5)
        untouched = wishes.standing(session, USER)
        assert shown.now == server.recommend(session, USER, 5)
    say(service, USER, said)
    with database.reading() as session:
        assert server.recommend(session, USER, 5) == shown.then
        assert len(wishes.standing(session, USER)) == len(untouched) + 1
    now, then = ({each.item for each in one.items} for one in (shown.now, shown.then))
    assert {each.item for each in shown.gone} == now - then
    assert {each.item for each in shown.new} == then - now
    with database.reading() as session:
        nothing = server.preview(session, USER, [WITHDRAW_EVERYTHING], 5)
        back = server.preview(session, USER, [Said("item", said.target, None)], 5)
    assert nothing.then.basis == "general"
    assert back.then == shown.now


def test_without_a_model_there_is_no_list(database: Database, settings: ServiceSettings) -> None:
    server = Server(settings)
    with database.reading() as session:
        server.warm(session)
        assert server.recommend(session, "ann").basis == "none"
        with pytest.raises(ConflictError):
            server.preview(session, "ann", [WITHDRAW_EVERYTHING])
        for k in (0, 10_000):
            with pytest.raises(AssentError, match="k "):
                server.recommend(session, "ann", k)


def test_another_model_is_noticed(service: Service) -> None:
    database, settings = service
    server = Server(settings)
    served(service, server)
    with database.writing() as session:
        old = session.scalars(select(Model)).one()
        new = copied(old, folder=f"{old.folder}/.")
        session.add(new)
        session.flush()
        session.add(Publication(model_id=new.id, at=0.0, by="tests"))
        number = new.id
    with database.reading() as session:
        found = server.recommend(session, USER)
    assert (found.model, found.basis) == (number, "general")  # nothing was decided for that one
