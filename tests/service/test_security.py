"""Keys, links, visits, forms, headers, bounds and logs."""

import logging
import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import select, update
from sqlalchemy.exc import OperationalError

from assent.service import access, entries, security, wishes
from assent.service.boundary import MOST_ADDRESS_BYTES, MOST_BULK_BYTES, MOST_BYTES
from assent.service.database import Database
from assent.service.security import RefusedError
from assent.service.settings import ServiceSettings
from assent.service.tables import Attempt, Key, Link, Reply, Table, Visit
from assent.support.errors import AssentError
from tests.service.site import ANN, BOB, SECRETS, Site, open_site, serve, settings_for


@pytest.fixture
def site(tmp_path: Path, place: Callable[[], str | None]) -> Iterator[Site]:
    with open_site(tmp_path, url=place()) as site:
        yield site


def test_the_database_holds_no_secret(site: Site) -> None:
    link = site.platform("links").post("/v1/links", json={"user": ANN}).json()["url"]
    person = site.client()
    assert person.post("/enter", data={"link": link.partition("link=")[2]}).url.path == "/me"
    cookie = person.cookies[site.app.state.service.cookie]
    with site.database.reading() as session:
        rows = [row for table in Table.metadata.sorted_tables for row in session.execute(select(table))]
    site.database.close()
    stored = b"".join(file.read_bytes() for file in Path(site.settings.data).parent.glob("assent.db*"))
    assert security.public_part(site.keys["all"]) in str(rows)
    for secret in (*site.keys.values(), link, cookie):
        assert secret[-43:] not in str(rows)
        assert secret[-43:].encode() not in stored


@pytest.mark.parametrize(
    "wrong", ["", "assent", "assent_0123456789ab_" + "x" * 43, "assent_" + "é" * 60, "x" * 5000]
)
def test_other_keys_are_refused(site: Site, wrong: str) -> None:
    client = site.client()
    for text in (wrong, site.keys["wishes"][:-1] + ("A" if site.keys["wishes"][-1] != "A" else "B")):
        answer = client.get("/v1/wishes?user=x", headers={"authorization": f"Bearer {text}".encode()})
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
    assert client.get("/v1/wishes?user=x").status_code == 401


def test_a_key_is_for_its_scopes_alone(site: Site) -> None:
    assert site.platform("metrics").get("/v1/metrics").status_code == 200
    answer = site.platform("metrics").get("/v1/wishes", params={"user": ANN})
    assert answer.status_code == 403
    assert "wishes" in answer.json()["detail"]
    assert ANN not in answer.text


def test_expired_and_revoked_keys_end(site: Site) -> None:
    admin = site.platform()
    made = admin.post("/v1/keys", json={"name": "new", "scopes": ["metrics"]}).json()
    client = site.client()
    client.headers["authorization"] = f"Bearer {made['key']}"
    assert client.get("/v1/metrics").status_code == 200
    assert admin.delete(f"/v1/keys/{made['id']}").status_code == 204
    assert client.get("/v1/metrics").status_code == 401
    assert admin.delete(f"/v1/keys/{made['id']}").status_code == 204  # stays revoked
    with site.database.writing() as session:
        old = security.create_key(session, "old", ["metrics"], expires=time.time() + 60)
        late = update(Key).where(Key.id == security.public_part(old))
        session.execute(late.values(expires=time.time() - 1))
    client.headers["authorization"] = f"Bearer {old}"
    assert client.get("/v1/metrics").status_code == 401
    listed = {key["id"]: key for key in admin.get("/v1/keys").json()["keys"]}
    assert listed[made["id"]]["revoked"] is not None
    assert admin.delete("/v1/keys/000000000000").status_code == 404


def test_a_rotated_key_goes_on_for_an_hour_beside_its_successor(site: Site) -> None:
    admin = site.platform()
    made = admin.post("/v1/keys", json={"name": "old", "scopes": ["metrics"]}).json()
    new = admin.post(f"/v1/keys/{made['id']}/rotate").json()
    for key in (made["key"], new["key"]):
        assert site.client().get("/v1/metrics", headers={"authorization": f"Bearer {key}"}).status_code == 200
    with site.database.writing() as session:
        assert 3500 < (security.find_key(session, made["id"]).expires or 0) - time.time() < 3601
        session.execute(update(Key).where(Key.id == made["id"]).values(expires=time.time() - 1))
    site.app.state.service.keys.clear()  # what a process has checked counts for two seconds
    old = site.client().get("/v1/metrics", headers={"authorization": f"Bearer {made['key']}"})
    assert old.status_code == 401
    assert admin.post(f"/v1/keys/{made['id']}/rotate").status_code == 409


def test_a_key_gives_no_more_than_it_has(site: Site) -> None:
    """Whoever manages keys does not read rows by a key of their own making."""
    admin, ids = site.platform("admin"), {name: security.public_part(key) for name, key in site.keys.items()}
    for scopes in (["receipts"], ["admin", "decisions"]):
        refused = admin.post("/v1/keys", json={"name": "mine", "scopes": scopes})
        assert (refused.status_code, "key" in refused.json()) == (403, False)
    for other in ("receipts", "all"):
        assert admin.post(f"/v1/keys/{ids[other]}/rotate").status_code == 403
    assert admin.post("/v1/keys", json={"name": "another", "scopes": ["admin"]}).status_code == 201
    assert admin.post(f"/v1/keys/{ids['admin']}/rotate").status_code == 201
    assert admin.delete(f"/v1/keys/{ids['receipts']}").status_code == 204
    with site.database.reading() as session:
        assert {each.name for each in security.list_keys(session)} == {*site.keys, "another"}
        assert security.find_key(session, ids["all"]).expires is None


def test_keys_for_nothing_or_unknown_things_are_refused(database: Database) -> None:
    with database.writing() as session, pytest.raises(AssentError, match="accepted: interactions"):
        security.create_key(session, "none", [])
    with database.writing() as session, pytest.raises(AssentError, match="'all'"):
        security.create_key(session, "all", ["all"])


@pytest.mark.parametrize("name", ["", " ", "a\nb", "a" * 101, " a"])
def test_keys_have_a_name(database: Database, name: str) -> None:
    with database.writing() as session, pytest.raises(AssentError, match=r"name .*accepted: a printable"):
        security.create_key(session, name, ["links"])


def test_keys_that_are_over_are_not_made(database: Database) -> None:
    with database.writing() as session, pytest.raises(AssentError, match="still to come"):
        security.create_key(session, "old", ["links"], expires=time.time())


def test_a_link_lets_one_in_once(database: Database, settings: ServiceSettings) -> None:
    with database.writing() as session:
        link = security.create_link(session, ANN, settings, by="test").partition("link=")[2]

    def try_it(_: int) -> str | None:
        try:
            with database.writing() as session:
                return security.use_link(session, link).person
        except RefusedError:
            return None

    with ThreadPoolExecutor(8) as threads:
        assert sorted(filter(None, threads.map(try_it, range(16)))) == [ANN]


def test_links_end(site: Site) -> None:
    answer = site.platform("links").post("/v1/links", json={"user": ANN}).json()
    link = answer["url"].partition("link=")[2]
    with site.database.writing() as session:
        session.execute(update(Link).values(expires=time.time() - 1))
    late = site.client().post("/enter", data={"link": link})
    assert late.status_code == 401
    assert "new link" in late.text
    shown = site.client().get("/enter", params={"link": link})
    assert shown.status_code == 200  # showing the button uses nothing up
    assert site.client().get("/enter", params={"link": "short"}).status_code == 401


def test_wrong_links_and_keys_are_counted_and_good_ones_work_all_the_same(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(access.FAILURES, "most", 3)
    monkeypatch.setitem(access.FAILURES, "seconds", 10**6)  # one window, whatever the time is
    client = site.client()
    wrong = [client.post("/enter", data={"link": "x" * 43}).status_code for _ in range(5)]
    assert wrong == [401, 401, 401, 429, 429]
    refused = client.post("/enter", data={"link": "x" * 43})
    assert 0 < int(refused.headers["retry-after"]) <= 10**6
    assert [client.get("/v1/keys", headers={"authorization": "Bearer x"}).status_code for _ in range(4)] == [
        401,
        401,
        401,
        429,
    ]
    link = site.platform("links").post("/v1/links", json={"user": ANN}).json()["url"].partition("link=")[2]
    assert client.post("/enter", data={"link": link}).url.path == "/me"
    with site.database.reading() as session:
        for attempt in session.query(Attempt):
            assert re.fullmatch("[0-9a-f]{64}", attempt.bucket)  # no address is stored


def test_one_person_gets_few_links(site: Site) -> None:
    statuses = [site.platform("links").post("/v1/links", json={"user": ANN}).status_code for _ in range(22)]
    assert statuses.count(201) in (20, 21)  # 21 if a window began between
    assert statuses[-1] == 429
    assert site.platform("links").post("/v1/links", json={"user": BOB}).status_code == 201


def test_cookies_are_bound_to_this_host_and_hidden_from_scripts(tmp_path: Path) -> None:
    with open_site(tmp_path, secure_cookies=True, public_url="https://testserver") as site:
        link = site.platform("links").post("/v1/links", json={"user": ANN}).json()["url"]
        client = site.client()
        answer = client.post("/enter", data={"link": link.partition("link=")[2]}, follow_redirects=False)
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith("__Host-assent=")
        for part in ("HttpOnly", "Secure", "SameSite=lax", "Path=/"):
            assert part in cookie
        assert "Domain" not in cookie
        assert "max-age" in answer.headers["strict-transport-security"]
        assert client.get("/me").status_code == 200
        left = client.post("/leave", data={"csrf": site.csrf(client)}, follow_redirects=False)
        assert left.status_code == 303
        client.cookies.set("__Host-assent", cookie.partition("=")[2].partition(";")[0])
        assert client.get("/me").status_code == 401  # over on the server, too


def test_visits_end_when_idle_and_when_old(site: Site) -> None:
    for column, ago in (("seen", security.IDLE_SECONDS), ("expires", 0)):
        client = site.person(ANN)
        assert client.get("/me").status_code == 200
        with site.database.writing() as session:
            session.execute(update(Visit).values({column: time.time() - ago - 1}))
        assert client.get("/me").status_code == 401
    with site.database.writing() as session:
        security.tidy(session)
        assert session.query(Visit).count() == 0


def test_going_on_keeps_a_visit(site: Site) -> None:
    client = site.person(ANN)
    with site.database.writing() as session:
        session.execute(update(Visit).values(seen=time.time() - security.IDLE_SECONDS + 100))
    assert client.get("/me").status_code == 200
    with site.database.reading() as session:
        assert session.query(Visit.seen).scalar() > time.time() - 100


def test_revoking_a_key_ends_the_operators_visit(site: Site) -> None:
    client = site.client()
    assert client.post("/operator/enter", data={"key": site.keys["admin"]}).url.path == "/operator"
    site.platform("all").delete(f"/v1/keys/{security.public_part(site.keys['admin'])}")
    assert client.get("/operator").status_code == 401
    assert client.post("/operator/enter", data={"key": site.keys["admin"]}).status_code == 401
    assert client.post("/operator/enter", data={"key": site.keys["wishes"]}).status_code == 403


def test_revoking_a_key_ends_its_links_and_the_visits_that_they_opened(site: Site) -> None:
    with site.database.writing() as session:
        stolen, other = (security.create_key(session, "links", ["links"]) for _ in range(2))

    def link_of(key: str) -> str:
        headers = {"authorization": f"Bearer {key}"}
        found = site.client().post("/v1/links", json={"user": ANN}, headers=headers)
        return str(found.json()["url"]).partition("link=")[2]

    used, unused, good = link_of(stolen), link_of(stolen), link_of(other)
    thief, ann = site.client(), site.client()
    assert thief.post("/enter", data={"link": used}).url.path == "/me"
    assert ann.post("/enter", data={"link": good}).url.path == "/me"
    late = link_of(stolen)
    with site.database.writing() as session:
        security.revoke_key(session, security.public_part(stolen))
        # as a process would that took the key for good a moment before
        key_id = security.public_part(stolen)
        url = security.create_link(session, ANN, site.settings, by="test", key_id=key_id)
    assert thief.get("/me").status_code == 401
    for link in (used, unused, late, url.partition("link=")[2]):
        assert site.client().post("/enter", data={"link": link}).status_code == 401
    assert ann.get("/me").status_code == 200
    with site.database.writing() as session:
        security.rotate_key(session, security.public_part(other), overlap=-1.0)
    assert ann.get("/me").status_code == 200  # a key that was changed in time takes nobody's visit


def test_forms_need_the_token_of_their_visit(site: Site) -> None:
    ann, bob = site.person(ANN), site.person(BOB)
    choice = {"target": "", "choice": "1"}
    for csrf in ("", "x", site.csrf(bob)):
        assert ann.post("/me/everything", data={**choice, "csrf": csrf}).status_code == 403
    history = site.platform().get("/v1/wishes/history", params={"user": ANN}).json()
    assert history["wishes"] == []
    good = ann.post("/me/everything", data={**choice, "csrf": site.csrf(ann)})
    assert good.url.path == "/me"
    assert "receipt" in good.text


def test_error_pages_name_their_cause(site: Site) -> None:
    ann, operator, nobody = site.person(ANN), site.operator(), site.client()
    choice = {"target": "", "choice": "1", "csrf": "x"}
    for answer, status, told in (
        (nobody.get("/me"), 401, "There is no visit, or it has ended."),
        (nobody.get("/enter", params={"link": "short"}), 401, "This link does not work"),
        (nobody.post("/enter", data={"link": "x" * 43}), 401, "This link does not work"),
        (nobody.post("/operator/enter", data={"key": "wrong"}), 401, "This key does not work"),
        (nobody.post("/operator/enter", data={"key": site.keys["links"]}), 403, "need a key with the scope"),
        (operator.get("/me"), 403, "You are here as the operator."),
        (ann.get("/operator"), 403, "You came in by a personal link."),
        (ann.post("/me/everything", data=choice), 403, "The form is from an earlier visit."),
    ):
        assert answer.status_code == status
        assert told in answer.text


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "https://elsewhere.example"},
    ],
)
def test_forms_of_other_sites_are_refused(site: Site, headers: dict[str, str]) -> None:
    ann = site.person(ANN)
    data = {"target": "", "choice": "1", "csrf": site.csrf(ann)}
    assert ann.post("/me/everything", data=data, headers=headers).status_code == 403
    link = {"link": "x" * 43}
    assert (
        site.client().post("/enter", data=link, headers=headers).status_code == 403
    )  # nobody is logged in so
    same = {"origin": "http://testserver", "sec-fetch-site": "same-origin"}
    assert ann.post("/me/everything", data=data, headers=same).status_code == 200


def test_the_demo_door_is_shut_unless_it_is_a_demo(site: Site) -> None:
    for who in ("person", "operator"):
        assert site.client().post("/demo", data={"who": who}).status_code == 403
    assert "Come in as" not in site.client().get("/").text


def test_every_answer_has_the_headers(site: Site) -> None:
    ann = site.person(ANN)
    for answer in (
        ann.get("/me"),
        ann.get("/me/nothing"),
        ann.get("/static/style.css"),
        ann.get("/v1/wishes"),
        ann.post("/enter", headers={"sec-fetch-site": "cross-site"}),
    ):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "same-origin"
        assert answer.headers["cache-control"] == "no-store"
        assert "frame-ancestors 'none'" in policy


def test_requests_are_bounded(site: Site) -> None:
    client = site.platform()
    large = b"[" + b" " * MOST_BYTES + b"]"
    assert client.put("/v1/wishes", content=large).status_code == 413
    assert client.put("/v1/wishes", content=iter([large])).status_code == 413  # of unknown length
    assert client.post("/v1/interactions/bulk", content=large).status_code == 422  # may be larger
    assert client.post("/v1/interactions/bulk", content=b" " * (MOST_BULK_BYTES + 1)).status_code == 413
    assert client.get("/v1/wishes", params={"user": "x" * MOST_ADDRESS_BYTES}).status_code == 414
    for length in ("-1", "many", "9" * 400):
        answer = client.put("/v1/wishes", content=b"{}", headers={"content-length": length})
        assert answer.status_code in (400, 413)
    many = {f"field-{number}": "x" for number in range(1100)}
    assert site.person(ANN).post("/me/entries", data=many).status_code == 400


def test_logs_say_what_was_asked_and_not_by_whom(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    ann = site.person(ANN)
    link = site.platform("links").post("/v1/links", json={"user": ANN}).json()["url"]
    site.client().get(link.removeprefix("http://testserver"))
    site.platform().get("/v1/decisions", params={"user": ANN})
    site.platform().get("/v1/decisions/explain", params={"user": ANN, "item": SECRETS[ANN][0]})
    ann.get("/me/entry", params={"item": SECRETS[ANN][0]})
    ann.post("/me/entry", data={"csrf": site.csrf(ann), "target": SECRETS[ANN][0], "choice": "1"})
    site.platform().put("/v1/wishes", json={"user": "nobody-known", "wishes": []})
    ours = [
        record.getMessage()
        for record in caplog.records
        if record.name.startswith(("assent", "sqlalchemy", "uvicorn"))
    ]
    assert any(re.fullmatch(r"GET /v1/decisions 200 \d+\.\d ms", line) for line in ours)
    for line in ours:
        for secret in (
            ANN,
            "nobody-known",
            link.partition("=")[2],
            *SECRETS[ANN],
            *site.keys.values(),
            "testclient",
        ):
            assert secret not in line
        assert "?" not in line


def test_a_fault_tells_nothing(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ValueError(f"the row of {ANN}")

    monkeypatch.setattr(entries, "page", fail)
    answer = site.platform().get("/v1/interactions", params={"user": ANN})
    assert answer.status_code == 500
    assert answer.headers["content-type"] == "application/problem+json"
    assert ANN not in answer.text + caplog.text
    assert "ValueError at" in caplog.text


def test_without_its_database_the_service_says_so(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OperationalError("select secret", {"user": ANN}, Exception("no"))

    monkeypatch.setattr(site.database, "reading", fail)
    assert site.client().get("/health/live").json() == {"status": "ok"}
    assert site.client().get("/health/ready").status_code == 503
    answer = site.platform().get("/v1/decisions", params={"user": ANN})
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    assert ANN not in answer.text
    assert site.person(ANN).get("/me").status_code == 503


def test_a_process_that_writes_no_wishes_is_not_ready(site: Site) -> None:
    assert site.client().get("/health/ready").status_code == 200
    site.app.state.service.recorder.close()
    assert site.client().get("/health/ready").status_code == 503


def test_what_is_over_is_deleted(site: Site) -> None:
    site.platform("links").post("/v1/links", json={"user": ANN})
    with site.database.writing() as session:
        session.execute(update(Link).values(expires=0))
        session.execute(update(Attempt).values(window=1))
        security.tidy(session)
        assert session.query(Link).count() == session.query(Attempt).count() == 0


def test_a_model_that_cannot_be_read_stops_nobody_from_withdrawing(tmp_path: Path) -> None:
    with open_site(tmp_path):
        pass
    [folder] = (tmp_path / "data" / "runs").iterdir()
    model = folder / "model.safetensors"
    model.write_bytes(model.read_bytes()[:-1] + b"x")
    settings = settings_for(f"sqlite:///{tmp_path / 'assent.db'}", tmp_path)
    database = Database.open(settings.database)
    with serve(database, settings) as site:
        wish = {"scope": "everything", "target": "", "unwillingness": 1}
        platform, person = site.platform(), site.person(ANN)
        for answer in (
            platform.get("/v1/recommendations", params={"user": ANN}),
            platform.post("/v1/recommendations/preview", json={"user": ANN, "wish": wish}),
            person.get("/me/recommendations"),
            site.client().get("/health/ready"),
        ):
            assert answer.status_code == 503
            assert str(tmp_path) not in answer.text
            assert folder.name not in answer.text
        assert person.get("/me").status_code == 200
        withdrawn = person.post("/me/withdraw", data={"csrf": site.csrf(person)})
        assert withdrawn.status_code == 200
        with database.reading() as session:
            assert [each.withdrawal for each in wishes.standing(session, ANN)] == [True]
    database.close()


def test_what_could_be_guessed_is_stored_under_a_secret_outside_the_database(tmp_path: Path) -> None:
    """Addresses are few, and so are requests about somebody: the database alone is not enough to try all."""
    asked = {"json": {"user": ANN, "item": "f31", "time": "2026-03-01T12:00:00Z"}}
    counted: dict[str, list[tuple[str, int]]] = {}
    hashes: dict[str, list[str]] = {}
    for name in ("one", "another", "one"):  # the third time, after a restart
        settings = settings_for(f"sqlite:///{tmp_path / name}.db", tmp_path / name)
        with closing(Database.open(settings.database)) as database, serve(database, settings) as site:
            assert site.client().post("/enter", data={"link": "x" * 43}).status_code == 401
            platform = site.platform("interactions")
            platform.post("/v1/interactions", headers={"Idempotency-Key": "first"}, **asked)
            with database.reading() as session:
                counted[name] = [(each.bucket, each.count) for each in session.scalars(select(Attempt))]
                hashes[name] = list(session.scalars(select(Reply.request_hash)))
        assert (settings.data / "secret").stat().st_mode & 0o777 == 0o600
    assert not {bucket for bucket, _ in counted["one"]} & {bucket for bucket, _ in counted["another"]}
    assert sum(count for _, count in counted["one"]) == 2  # it goes on where it was
    assert len(set(hashes["one"])) == 1
    assert not {*hashes["one"]} & {*hashes["another"]}


def test_a_damaged_secret_is_refused(tmp_path: Path) -> None:
    assert len(security.service_secret(tmp_path / "new")) == 32
    (tmp_path / "new" / "secret").write_bytes(b"cut off")
    with pytest.raises(AssentError, match="not whole"):
        security.service_secret(tmp_path / "new")
