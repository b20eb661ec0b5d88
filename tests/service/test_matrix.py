"""Every route and method, as everybody: who gets in, and that nobody reads or changes what is another's.

The routes are those of the application, so that a new one is tested by being there.
"""

import hashlib
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from httpx import Response
from sqlalchemy import select
from starlette.testclient import TestClient

from assent.service import wishes
from assent.service.access import ANY, needs_of
from assent.service.app import make_app
from assent.service.security import OPERATOR, PERSON, SCOPES
from assent.service.tables import Person, Table
from assent.service.wishes import Said
from tests.service.site import ANN, BOB, SECRETS, Site, open_site

PUBLIC = "public"
PEOPLE = {"ann": ANN, "bob": BOB, "stranger": "a person of whom nothing is known"}
ACTORS = ("nobody", *PEOPLE, "operator", *SCOPES)
"""People try to reach what is another's; the scopes are platforms with a key of one scope each."""
OUTSIDE = {"/v1/openapi.json", "/static"}
"""Not declared by us: the API's description and the files of all pages."""
CHANGING = {"visit", "link", "attempt", "reply", "key"}
"""Tables that requests may change without changing anything of a person."""
PAIRS = [(ANN, BOB), (BOB, ANN), (PEOPLE["stranger"], ANN)]
"""Who tries to reach what is whose."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, place: Callable[[], str | None]) -> Iterator[Site]:
    with open_site(tmp_path_factory.mktemp("matrix"), url=place()) as site:
        for user in (ANN, BOB):
            item, _, category = SECRETS[user]
            said = [Said("item", item, 0.75), Said("category", category, 0.5)]
            site.app.state.service.recorder.submit(user, said).result()
        yield site


def routes(app: FastAPI) -> list[tuple[str, str, str]]:
    """Every method and path of the application, with what it declares to need."""
    found = []
    for route in iter_route_contexts(app.routes):
        path, methods = str(route.path), sorted(route.methods or {"GET"})
        if path in OUTSIDE:
            continue
        declared = needs_of(route.dependant.dependencies)
        assert len(declared) == 1, f"{path} declares {declared or 'nothing'}: accepted: one thing it needs"
        [needs] = declared
        found += [(method, path, needs) for method in methods]
    return found


def is_let_in(actor: str, needs: str) -> bool:
    """Whether a route is for an actor."""
    kinds = {**dict.fromkeys(PEOPLE, (PERSON, ANY)), "operator": (OPERATOR, ANY)}
    return needs == PUBLIC or needs in kinds.get(actor, (actor,))


def client_of(site: Site, actor: str) -> TestClient:
    match actor:
        case "nobody":
            return site.client()
        case _ if actor in PEOPLE:
            return site.person(PEOPLE[actor])
        case "operator":
            return site.operator()
        case scope:
            return site.platform(scope)


def receipt_of(site: Site, user: str) -> str:
    with site.database.reading() as session:
        return wishes.history(session, user).wishes[-1].receipts["requested"]


def ask(site: Site, client: TestClient, method: str, path: str, whose: str) -> Response:
    """Send a request that names somebody and what is theirs wherever a request can name anything."""
    receipt = receipt_of(site, whose)
    item, _, category = SECRETS[whose]
    filled = path.format(receipt=receipt, run=1, model=1, key="0" * 12)
    wish = {"scope": "item", "target": item, "unwillingness": 1.0}
    query = {
        "user": whose,
        "person": whose,
        "item": item,
        "category": category,
        "search": "own",
        "link": "x" * 43,
    }
    if filled.startswith("/v1/"):
        body: Any = {
            "/v1/interactions": {"user": whose, "item": "new", "time": "2026-01-01T00:00:00Z"},
            "/v1/interactions/bulk": {
                "interactions": [{"user": whose, "item": "n", "time": "2026-01-01T00:00:00Z"}]
            },
            "/v1/interactions/delete/bulk": {"interactions": [{"user": whose, "item": item}]},
            "/v1/wishes": {"user": whose, "wishes": [wish]},
            "/v1/wishes/withdraw": {"user": whose},
            "/v1/recommendations/preview": {"user": whose, "wish": wish},
            "/v1/links": {"user": whose},
            "/v1/keys": {"name": "new", "scopes": ["metrics"]},
        }.get(path, {})
        sent = None if method in ("GET", "DELETE") else body
        found: Response = client.request(method, filled, params=query, json=sent)
        return found
    form: Any = {
        **query,
        "csrf": site.csrf(client),
        "scope": "item",
        "target": item,
        "was": "none",
        "choice": "1",
        "who": "person",
        "kind": "none",
        "model": "9",
        "key": "x",
    }
    posted = form if method == "POST" else None
    shown: Response = client.request(method, filled, params=query, data=posted)
    return shown


def stored_of(site: Site, user: str) -> str:
    """A digest of all that is stored, but for what `user` owns and what anybody may cause."""
    digest = hashlib.sha256()
    with site.database.reading() as session:
        mine = session.scalar(select(Person.id).where(Person.user == user))
        for table in Table.metadata.sorted_tables:
            if table.name in CHANGING | {"leaf", "seal", "job", "meta"}:
                continue
            rows = session.execute(select(table).order_by(*table.primary_key.columns)).mappings()
            for row in rows:
                owner = row["id"] if table.name == "person" else row.get("person_id")
                if owner is None or owner != mine:
                    digest.update(json.dumps([table.name, *map(str, row.values())]).encode())
    return digest.hexdigest()


@pytest.mark.parametrize("actor", ACTORS)
def test_nobody_gets_in_who_is_not_meant(site: Site, actor: str) -> None:
    before = stored_of(site, "nobody at all")
    tried = 0
    for method, path, needs in routes(site.app):
        if is_let_in(actor, needs):
            continue
        whose = ANN if actor == "bob" else BOB
        answer = ask(site, client_of(site, actor), method, path, whose)
        assert answer.status_code in (401, 403), f"{actor}: {method} {path}: {answer.status_code}"
        for secret in SECRETS[whose]:
            assert secret not in answer.text, f"{actor}: {method} {path} tells {secret}"
        tried += 1
    assert tried > 30
    assert stored_of(site, "nobody at all") == before


@pytest.mark.parametrize(("actor", "whose"), PAIRS, ids=["ann-bob", "bob-ann", "stranger-ann"])
def test_a_person_reaches_nothing_of_another(site: Site, actor: str, whose: str) -> None:
    before = stored_of(site, actor)
    tried = set()
    item, _, category = SECRETS[whose]
    for method, path, needs in routes(site.app):
        if needs not in (PERSON, ANY, PUBLIC):
            continue
        answer = ask(site, site.person(actor), method, path, whose)
        assert answer.status_code < 500, f"{method} {path}: {answer.status_code}"
        page = answer.text.replace(f'value="{category}"', "").replace(f'value="{item}"', "")
        for secret in [whose, *SECRETS[whose]]:
            assert secret not in page, f"{method} {path} tells {secret}"
        tried.add(path)
        assert stored_of(site, actor) == before, f"{method} {path} changes what is not theirs"
    assert {"/me/export.json", "/me/receipts/{receipt}", "/me/preview", "/me/category"} <= tried
    assert site.person(actor).get(f"/me/receipts/{receipt_of(site, whose)}").status_code == 404


@pytest.mark.parametrize("actor", ["nobody", "ann", "operator", "all"])
def test_other_methods_do_nothing(site: Site, actor: str) -> None:
    """Methods that a path does not offer, as those who may do most."""
    before = stored_of(site, "nobody at all")
    client = client_of(site, actor)
    offered: dict[str, set[str]] = {}
    for method, path, _ in routes(site.app):
        offered.setdefault(path, set()).add(method)
    for path, methods in offered.items():
        filled = path.format(receipt=receipt_of(site, BOB), run=1, model=1, key="0" * 12)
        for method in {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"} - methods:
            answer = client.request(method, filled, params={"user": BOB, "item": SECRETS[BOB][0]})
            assert 400 <= answer.status_code < 500, f"{actor}: {method} {path}: {answer.status_code}"
    assert stored_of(site, "nobody at all") == before


def test_what_exists_for_another_is_as_absent_as_what_does_not_exist(site: Site) -> None:
    for item, category in (SECRETS[BOB][::2], ("no such item", "no such category")):
        answers = []
        for scope, target in (("item", item), ("category", category)):
            ann = site.person(ANN)
            form = {"csrf": site.csrf(ann), "scope": scope, "target": target, "choice": "1"}
            for path in ("/me/preview", "/me/entry" if scope == "item" else "/me/category"):
                answers.append(ann.post(path, data=form).status_code)
            if scope == "category":
                answers.append(ann.get("/me/category", params={"category": target}).status_code)
            listed = {"csrf": site.csrf(ann), scope: target, "was": "none", "choice": "1"}
            path = "/me/entries" if scope == "item" else "/me/categories"
            answers += [ann.post(f"{path}{end}", data=listed).status_code for end in ("", "/preview")]
        assert answers == [404] * 9


def test_the_operator_sees_counts_and_no_rows(site: Site) -> None:
    operator = site.operator()
    for method, path, needs in routes(site.app):
        if needs == OPERATOR and method == "GET":
            answer = operator.get(path)
            assert answer.status_code == 200
            people = [ANN, BOB, "person-1", "Film number", *SECRETS[ANN], *SECRETS[BOB]]
            assert not [word for word in people if word in answer.text], path


def test_a_platform_reaches_what_its_scope_is_for(site: Site) -> None:
    let_in = [
        (method, path, needs)
        for method, path, needs in routes(site.app)
        if needs in SCOPES and method == "GET"
    ]
    assert {needs for _, _, needs in let_in} == set(SCOPES) - {"links"}
    for method, path, needs in let_in:
        answer = ask(site, client_of(site, needs), method, path, BOB)
        assert answer.status_code == 200, f"{method} {path}: {answer.status_code} {answer.text}"


def test_a_route_that_declares_nothing_is_found(site: Site) -> None:
    app = make_app(site.database, site.settings)
    app.get("/forgotten")(lambda: None)
    with pytest.raises(AssertionError, match="/forgotten declares nothing"):
        routes(app)


def test_all_kinds_of_needs_occur(site: Site) -> None:
    assert len(routes(site.app)) > 45
    assert {needs for _, _, needs in routes(site.app)} == {PUBLIC, PERSON, OPERATOR, ANY, *SCOPES}
