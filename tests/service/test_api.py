"""The API: what a platform's backend does, errors, pages of results, repeated requests."""

import asyncio
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from fastapi.responses import Response
from sqlalchemy import update
from sqlalchemy.orm import Session
from starlette.types import Message

from assent.service import access, interactions, jobs, people, recorder, security
from assent.service.boundary import MOST_BYTES
from assent.service.database import Database
from assent.service.ledger_check import check_ledger, head_of
from assent.service.pages import people as people_pages
from assent.service.routes import repeat
from assent.service.settings import ServiceSettings
from assent.service.tables import Reply
from tests.service.site import ANN, BOB, SECRETS, Site, open_site, serve

ITEM = SECRETS[ANN][0]
TIME = "2026-03-01T12:00:00Z"


@pytest.fixture
def empty(database: Database, settings: ServiceSettings) -> Iterator[Site]:
    """A service that knows nobody; on SQLite and on PostgreSQL."""
    with serve(database, settings) as site:
        yield site


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, place: Callable[[], str | None]) -> Iterator[Site]:
    """A service with a model in service."""
    with open_site(tmp_path_factory.mktemp("api"), url=place()) as site:
        yield site


def interaction(user: str = "ann", item: str = "f31", **more: object) -> dict[str, object]:
    return {"user": user, "item": item, "time": TIME, "title": "Heat", "categories": ["Crime"], **more}


def wish(target: str = "f31", unwillingness: float | None = 0.75, scope: str = "item") -> dict[str, object]:
    return {"scope": scope, "target": target, "unwillingness": unwillingness}


def test_interactions_come_in_are_listed_and_go(empty: Site) -> None:
    client = empty.platform("interactions")
    assert client.post("/v1/interactions", json=interaction()).json() == {
        "added": 1,
        "known": 0,
        "consents": 0,
    }
    several = {"interactions": [interaction(item=f"f{n}") for n in range(30, 40)]}
    assert client.post("/v1/interactions/bulk", json=several).json() == {
        "added": 9,
        "known": 1,
        "consents": 0,
    }
    [first, *rest] = client.get("/v1/interactions", params={"user": "ann"}).json()["interactions"]
    assert len(rest) == 9
    assert (first["title"], first["categories"], first["time"]) == ("Heat", ["Crime"], TIME)
    assert (first["unwillingness"], first["because"]["source"], first["state"]) == (
        1.0,
        "unsaid",
        "undecided",
    )
    gone = client.delete("/v1/interactions", params={"user": "ann", "item": "f31"})
    assert (gone.status_code, gone.content) == (204, b"")
    assert client.delete("/v1/interactions", params={"user": "ann", "item": "f31"}).status_code == 404
    assert client.delete("/v1/people", params={"user": "ann"}).status_code == 204
    assert client.get("/v1/interactions", params={"user": "ann"}).json()["interactions"] == []


def test_several_interactions_are_deleted_at_once(empty: Site) -> None:
    client = empty.platform("interactions")
    several = {"interactions": [interaction(user, f"f{n}") for user in ("ann", "bob") for n in range(5)]}
    client.post("/v1/interactions/bulk", json=several)
    gone = [{"user": "ann", "item": f"f{n}"} for n in (0, 1, 1, 7)] + [{"user": "bob", "item": "f0"}]
    answer = client.post("/v1/interactions/delete/bulk", json={"interactions": gone})
    assert answer.json() == {"deleted": 3, "unknown": 1}
    for user, left in (("ann", {"f2", "f3", "f4"}), ("bob", {"f1", "f2", "f3", "f4"})):
        listed = client.get("/v1/interactions", params={"user": user}).json()["interactions"]
        assert {each["item"] for each in listed} == left
    answer = client.post("/v1/interactions/delete/bulk", json={"interactions": gone})
    assert answer.json() == {"deleted": 0, "unknown": 4}
    assert client.post("/v1/interactions/delete/bulk", json={"interactions": []}).status_code == 422


def test_a_bulk_is_stored_as_a_whole_or_not_at_all(empty: Site) -> None:
    client = empty.platform("interactions")
    several = {"interactions": [interaction(), interaction(item="")]}
    answer = client.post("/v1/interactions/bulk", json=several)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["where"] == "body.interactions.1.item"
    assert client.get("/v1/interactions", params={"user": "ann"}).json()["interactions"] == []


def test_wishes_are_stored_with_receipts_that_verify(empty: Site) -> None:
    client = empty.platform()
    client.post("/v1/interactions", json=interaction())
    said = client.put("/v1/wishes", json={"user": "ann", "wishes": [wish(), wish("Crime", 1.0, "category")]})
    receipts = [each["receipt"] for each in said.json()["wishes"]]
    assert [client.post("/v1/receipts/verify", json=each).json() for each in receipts] == [
        {"verified": True, "findings": []}
    ] * 2
    forged = json.loads(json.dumps(receipts[0]).replace("0.75", "0.25"))
    assert forged != receipts[0]
    assert client.post("/v1/receipts/verify", json=forged).json()["verified"] is False
    listed = client.get("/v1/receipts", params={"user": "ann"}).json()["receipts"]
    assert [each["dct:identifier"] for each in listed] == [r["dct:identifier"] for r in reversed(receipts)]
    assert client.get(f"/v1/receipts/{receipts[0]['dct:identifier']}").json() == receipts[0]
    lines = client.get("/v1/ledger").text.splitlines()
    summary, findings = check_ledger(lines, "ledger", {"first": receipts[0], "second": receipts[1]})
    assert not findings
    assert client.get("/v1/ledger/heads").json()["heads"][0]["head"] == summary.head
    exported = client.get("/v1/export", params={"user": "ann"}).json()
    assert {"interactions", "history", "receipts"} <= set(exported)


def test_a_receipt_with_anything_else_in_it_is_none(empty: Site) -> None:
    client = empty.platform()
    client.post("/v1/interactions", json=interaction())
    said = client.put("/v1/wishes", json={"user": "ann", "wishes": [wish()]}).json()["wishes"]
    text = json.dumps(said[0]["receipt"])

    def verify(body: str | bytes) -> tuple[int, bool | None]:
        answer = client.post(
            "/v1/receipts/verify", content=body, headers={"content-type": "application/json"}
        )
        return answer.status_code, answer.json().get("verified")

    assert verify(text) == (200, True)
    changed: tuple[dict[str, object], ...] = (
        {"dct:created": "1999-01-01T00:00:00.000000Z"},
        {"dct:publisher": "https://somebody.else"},
        {"@id": "urn:uuid:x"},
        {"more": 1},
        {"proof": {**said[0]["receipt"]["proof"], "more": 1}},
        {"dpv:hasRecordOfActivity": {}},
    )
    for changes in changed:
        assert verify(json.dumps({**said[0]["receipt"], **changes})) == (200, False), changes
    for key, number in (("seal", 2**70), ("first", -1), ("seal", True), ("count", 1.0)):
        forged = json.loads(text)
        forged["proof"]["seal"][key] = number
        forged["proof"]["seal"]["head"] = head_of(forged["proof"]["previous"], forged["proof"]["seal"])
        assert verify(json.dumps(forged)) == (200, False)
    for value in ("NaN", "1e999", '"\\ud800"', "[" * 100_000):
        assert verify(text.replace("0.75", value, 1))[0] == 400
    for body in (b"", b"{", b"\xff"):
        assert verify(body)[0] == 400
    assert verify("[1]") == (200, False)


def test_what_has_no_name_any_more_can_be_taken_back(empty: Site) -> None:
    client = empty.platform()
    client.post("/v1/interactions", json=interaction(categories=["Old"]))
    said = {"user": "ann", "wishes": [wish("Old", 0.0, "category")]}
    assert client.put("/v1/wishes", json=said).status_code == 200
    client.post("/v1/interactions", json=interaction(categories=["New"]))
    page = empty.person("ann")
    assert 'value="Old"' in page.get("/me/categories").text
    other = {"csrf": empty.csrf(page), "target": "Old", "choice": "1"}
    assert page.post("/me/category", data=other).status_code == 200
    back = {"user": "ann", "wishes": [wish("Old", None, "category")]}
    assert client.put("/v1/wishes", json=back).status_code == 200
    assert client.get("/v1/wishes", params={"user": "ann"}).json()["wishes"] == []
    assert client.put("/v1/wishes", json=said).status_code == 422  # by now it is a category of nobody's


def test_without_a_key_no_body_is_read(empty: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(access.FAILURES, "most", 10**6)
    routes = [
        (method, path)
        for path, methods in empty.client().get("/v1/openapi.json").json()["paths"].items()
        for method in methods
        if path.startswith("/v1/")
    ]
    assert len(routes) > 25
    wrong = {"content-type": "application/json", "idempotency-key": "x"}
    for method, path in routes:
        for headers in (wrong, {**wrong, "authorization": "Bearer x"}):
            filled = path.replace("{", "").replace("}", "")
            answer = empty.client().request(method, filled, content=b"{", headers=headers)
            assert answer.status_code == 401, f"{method} {path}"


def test_a_ledger_that_is_read_slowly_holds_no_connection(empty: Site) -> None:
    lent: list[int] = []
    more: list[Message] = [{"type": "http.request", "body": b""}]

    async def receive() -> Message:
        return more.pop() if more else await asyncio.Future()  # the reader stays

    async def send(message: Message) -> None:
        if message["type"] == "http.response.body":  # whoever reads slowly waits here
            lent.append(empty.database.engine.pool.checkedout())  # type: ignore[attr-defined]

    headers = [(b"authorization", f"Bearer {empty.keys['receipts']}".encode())]
    asked = {"type": "http", "method": "GET", "path": "/v1/ledger", "query_string": b"", "headers": headers}
    asyncio.run(empty.app({**asked, "client": ("127.0.0.1", 1)}, receive, send))
    assert set(lent) == {0}


def test_large_files_are_counted_by_person(empty: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(people_pages.FILES, "most", 2)
    monkeypatch.setitem(people_pages.FILES, "seconds", 10**6)
    empty.platform().post("/v1/interactions", json=interaction())
    for path in ("/me/ledger.jsonl", "/me/export.json"):
        statuses = [empty.person("ann").get(path).status_code for _ in range(3)]  # in a visit each
        assert statuses == [200, 200, 429]
        assert empty.person("bob").get(path).status_code == 200


def test_the_most_specific_wish_counts_and_is_explained(empty: Site) -> None:
    client = empty.platform()
    client.post("/v1/interactions", json=interaction(unwillingness=0.5))

    def effective() -> tuple[float, str]:
        found = client.get("/v1/wishes/effective", params={"user": "ann", "item": "f31"}).json()
        return found["unwillingness"], found["because"]["source"]

    assert effective() == (0.5, "platform")
    for said, expected in (
        (wish("", 0.25, "everything"), (0.25, "everything")),
        (wish("Crime", 0.75, "category"), (0.75, "category")),
        (wish("f31", 0.0), (0.0, "item")),
        (wish("f31", None), (0.75, "category")),
    ):
        assert client.put("/v1/wishes", json={"user": "ann", "wishes": [said]}).status_code == 200
        assert effective() == expected
    client.post("/v1/wishes/withdraw", json={"user": "ann"})
    assert effective() == (1.0, "everything")
    standing = client.get("/v1/wishes", params={"user": "ann"}).json()["wishes"]
    assert [(each["scope"], each["withdrawal"]) for each in standing] == [("everything", True)]
    history = client.get("/v1/wishes/history", params={"user": "ann"}).json()["wishes"]
    assert [each["unwillingness"] for each in history] == [1.0, None, 0.0, 0.75, 0.25]


@pytest.mark.parametrize("time", [1, "1", 1.5, True, "2026-03-01", "2026-03-01T12:00:00", None])
def test_times_are_written_with_an_offset(empty: Site, time: object) -> None:
    answer = empty.platform("interactions").post("/v1/interactions", json=interaction(time=time))
    assert answer.status_code == 422
    key = {"name": "a", "scopes": ["links"], "expires": time}
    if time is not None:
        assert empty.platform("admin").post("/v1/keys", json=key).status_code == 422


def test_what_is_said_twice_is_refused(empty: Site) -> None:
    client = empty.platform()
    client.post("/v1/interactions", json=interaction())
    twice = {"user": "ann", "wishes": [wish(unwillingness=1), wish(unwillingness=0)]}
    answer = client.put("/v1/wishes", json=twice)
    assert (answer.status_code, "comes twice" in answer.json()["detail"]) == (422, True)
    both = {"user": "ann", "wishes": [wish(), wish("Crime", scope="category")]}
    assert client.put("/v1/wishes", json=both).status_code == 200
    said = '{"scope": "item", "target": "f31", "unwillingness": 1, "unwillingness": 0}'
    body = f'{{"user": "ann", "wishes": [{said}]}}'
    for key in ("one", None):
        headers = {"content-type": "application/json", **({"Idempotency-Key": key} if key else {})}
        answer = client.put("/v1/wishes", content=body, headers=headers)
        assert (answer.status_code, "comes twice" in answer.json()["detail"]) == (400, True)
    for key in ("two", None):
        headers = {"Idempotency-Key": key} if key else {}
        answer = client.delete("/v1/people?user=ann&user=bob", headers=headers)
        assert (answer.status_code, "comes twice" in answer.json()["detail"]) == (400, True)


def test_refused_wishes_store_nothing(empty: Site) -> None:
    client = empty.platform()
    client.post("/v1/interactions", json=interaction())
    for user, said in (
        ("ann", wish("no such item")),
        ("ann", wish("None", 1.0, "category")),
        ("nobody", wish()),
    ):
        answer = client.put("/v1/wishes", json={"user": user, "wishes": [wish(), said]})
        assert answer.status_code in (404, 422)
        assert answer.headers["content-type"] == "application/problem+json"
    assert client.get("/v1/wishes", params={"user": "ann"}).json()["wishes"] == []


@pytest.mark.parametrize("number", [-0.1, 1.1, True, "0.5", float("nan"), float("inf"), 10**400, [], {}])
def test_unwillingness_is_a_number_from_0_to_1(site: Site, number: object) -> None:
    body = json.dumps({"user": ANN, "wishes": [wish(ITEM)]}).replace("0.75", json.dumps(number))
    answer = site.platform().put("/v1/wishes", content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 422)
    assert answer.json()["title"] in ("Not accepted", "The request cannot be read")


def test_pages_of_results_hold_everything_once(site: Site) -> None:
    client = site.platform()
    for path, name in (("interactions", "interactions"), ("decisions", "decisions")):
        whole = client.get(f"/v1/{path}", params={"user": ANN, "limit": 200}).json()[name]
        cursor, found = None, []
        while True:
            params = {"user": ANN, "limit": 4} | ({"cursor": cursor} if cursor else {})
            page = client.get(f"/v1/{path}", params=params).json()
            found += page[name]
            cursor = page["next"]
            if cursor is None:
                break
            assert len(page[name]) == 4
        assert found == whole
        assert len({each["item"] for each in whole}) == len(whole) == 11
    heads = client.get("/v1/ledger/heads", params={"limit": 1}).json()
    after = client.get("/v1/ledger/heads", params={"limit": 1, "cursor": heads["next"]}).json()
    assert after["heads"][0]["number"] == heads["heads"][0]["number"] - 1
    for wrong in ("x", "-1", "1~", "1~2~3", "9" * 100, "\x00", "nan~1", "1e999~1"):
        assert client.get("/v1/interactions", params={"user": ANN, "cursor": wrong}).status_code == 422


def test_decisions_say_why(site: Site) -> None:
    client = site.platform("decisions")
    found = client.get("/v1/decisions", params={"user": ANN}).json()
    assert found["model"] == 1
    assert {each["state"] for each in found["decisions"]} == {"used", "withheld", "never"}
    for each in found["decisions"]:
        assert each["explained"]
        more = client.get("/v1/decisions/explain", params={"user": ANN, "item": each["item"]}).json()
        assert {key: more[key] for key in each} == each
        assert (more["unwillingness"] == 1) == (each["state"] == "never")
    assert (
        client.get("/v1/decisions/explain", params={"user": ANN, "item": SECRETS[BOB][0]}).status_code == 404
    )


def test_recommendations_leave_out_what_was_had_and_previews_store_nothing(site: Site) -> None:
    client = site.platform()
    had = {each["item"] for each in client.get("/v1/decisions", params={"user": ANN}).json()["decisions"]}
    found = client.get("/v1/recommendations", params={"user": ANN, "k": 5}).json()
    assert (found["basis"], len(found["items"])) == ("own", 5)
    assert not had & {each["item"] for each in found["items"]}
    assert {one["item"] for each in found["items"] for one in each["because"]} <= had
    asked = {"user": ANN, "wish": wish("", 1.0, "everything"), "k": 5}
    preview = client.post("/v1/recommendations/preview", json=asked).json()
    assert preview["now"] == found
    assert preview["then"]["basis"] == "general"
    assert client.get("/v1/wishes", params={"user": ANN}).json()["wishes"] == []
    assert client.get("/v1/recommendations", params={"user": "a stranger"}).json()["basis"] == "general"


def test_never_is_served_without_at_once(tmp_path: Path) -> None:
    with open_site(tmp_path) as site:
        client = site.platform()
        found = client.get("/v1/recommendations", params={"user": ANN}).json()
        used = found["items"][0]["because"][0]["item"]
        client.put("/v1/wishes", json={"user": ANN, "wishes": [wish(used, 1.0)]})
        after = client.get("/v1/recommendations", params={"user": ANN}).json()
        assert used not in {one["item"] for each in after["items"] for one in each["because"]}


def test_models_are_trained_published_and_rolled_back(tmp_path: Path) -> None:
    with open_site(tmp_path) as site:
        client = site.platform("models")
        asked = [client.post("/v1/runs", json={}).json() for _ in range(2)]
        assert asked[0]["id"] == asked[1]["id"]  # an equal one waits already
        site.work()
        assert client.get(f"/v1/runs/{asked[0]['id']}").json()["state"] == "done"
        models = client.get("/v1/models").json()["models"]
        assert [model["in_service"] for model in models] == [True, False]
        assert client.post("/v1/models/roll-back").json()["id"] == models[1]["id"]
        published = client.post(f"/v1/models/{models[0]['id']}/publish").json()
        assert (published["id"], published["in_service"]) == (models[0]["id"], True)
        assert client.get("/v1/models/999").status_code == 404
        assert client.post("/v1/models/999/publish").status_code == 404
        assert client.get("/v1/runs/999").status_code == 404


def test_a_repeated_request_is_done_once(empty: Site) -> None:
    client = empty.platform()
    client.post("/v1/interactions", json=interaction())
    once = {"idempotency-key": "monday-7"}
    body = {"user": "ann", "wishes": [wish()]}
    first = client.put("/v1/wishes", json=body, headers=once)
    again = client.put("/v1/wishes", json=body, headers=once)
    assert (again.status_code, again.json()) == (first.status_code, first.json())
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == "true"
    assert len(client.get("/v1/wishes/history", params={"user": "ann"}).json()["wishes"]) == 1
    other = client.put("/v1/wishes", json={**body, "wishes": [wish(unwillingness=1.0)]}, headers=once)
    assert other.status_code == 422
    assert "Idempotency-Key" in other.json()["detail"]
    gone = [
        client.delete(
            "/v1/interactions", params={"user": "ann", "item": "f31"}, headers={"idempotency-key": "d"}
        )
        for _ in range(2)
    ]
    assert [(answer.status_code, answer.content) for answer in gone] == [(204, b"")] * 2
    assert (
        empty.platform("wishes").put("/v1/wishes", json=body, headers=once).status_code == 200
    )  # another key's


def test_a_refused_request_may_be_repeated_and_one_under_way_waits(empty: Site) -> None:
    client = empty.platform()
    once = {"idempotency-key": "k"}
    body = {"user": "ann", "wishes": [wish()]}
    assert client.put("/v1/wishes", json=body, headers=once).status_code == 404
    client.post("/v1/interactions", json=interaction())
    assert client.put("/v1/wishes", json=body, headers=once).status_code == 200
    with empty.database.writing() as session:
        session.execute(update(Reply).values(status=None))
    assert client.put("/v1/wishes", json=body, headers=once).status_code == 409
    with empty.database.writing() as session:
        session.execute(update(Reply).values(created=Reply.created - 61))  # its process died
    assert client.put("/v1/wishes", json=body, headers=once).status_code == 200


def test_a_request_whose_answer_failed_after_its_work_is_done_once(
    empty: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Work and answer are stored together, so that whoever repeats it undoes nothing that was said since."""
    client, once, real = empty.platform(), {"idempotency-key": "k"}, repeat.Once.response
    client.post("/v1/interactions", json=interaction())
    answers = []

    def failing(self: repeat.Once, content: object = None) -> Response:
        answers.append(content)
        if len(answers) == 2:  # the first one is stored, this one would be sent
            raise OSError
        return real(self, content)

    monkeypatch.setattr(repeat.Once, "response", failing)
    assert client.post("/v1/wishes/withdraw", json={"user": "ann"}, headers=once).status_code == 500
    assert client.put("/v1/wishes", json={"user": "ann", "wishes": [wish()]}).status_code == 200
    with empty.database.writing() as session:
        session.execute(update(Reply).values(created=Reply.created - 61))
    again = client.post("/v1/wishes/withdraw", json={"user": "ann"}, headers=once)
    assert (again.status_code, again.headers["idempotency-replayed"]) == (200, "true")
    past = client.get("/v1/wishes/history", params={"user": "ann"}).json()["wishes"]
    assert [each["withdrawal"] for each in past] == [False, True]
    assert again.json()["wishes"][0]["wish"] == past[1]["wish"]


@pytest.mark.parametrize("work", ["wish", "interaction"])
def test_who_lost_the_claim_stores_nothing(empty: Site, monkeypatch: pytest.MonkeyPatch, work: str) -> None:
    client, once = empty.platform(), {"idempotency-key": "k"}
    client.post("/v1/interactions", json=interaction())
    module, name = {"wish": (recorder, "record"), "interaction": (interactions, "add")}[work]
    real = getattr(module, name)

    def late(session: Session, *given: object) -> object:
        session.execute(update(Reply).values(created=Reply.created + 61))  # another process claimed it again
        return real(session, *given)

    def send() -> int:
        if work == "wish":
            body = {"user": "ann", "wishes": [wish()]}
            answer = client.put("/v1/wishes", json=body, headers=once)
        else:
            answer = client.post("/v1/interactions", json=interaction(item="f32"), headers=once)
        return int(answer.status_code)

    def stored() -> int:
        with empty.database.reading() as session:
            return people.totals(session)["interactions"] + people.totals(session)["wishes_open"]

    monkeypatch.setattr(module, name, late)
    assert (send(), stored()) == (409, 1)
    monkeypatch.setattr(module, name, real)
    assert (send() < 300, stored()) == (True, 2)


def test_equal_requests_at_once_are_done_once(empty: Site) -> None:
    client = empty.platform()
    client.post("/v1/interactions", json=interaction())
    body = {"user": "ann", "wishes": [wish()]}
    with ThreadPoolExecutor(6) as threads:
        statuses = [
            threads.submit(client.put, "/v1/wishes", json=body, headers={"idempotency-key": "k"})
            for _ in range(12)
        ]
        assert {future.result().status_code for future in statuses} <= {200, 409}
    assert len(client.get("/v1/wishes/history", params={"user": "ann"}).json()["wishes"]) == 1


def test_answers_with_secrets_are_never_kept(empty: Site) -> None:
    once = {"idempotency-key": "k"}
    links = [empty.platform().post("/v1/links", json={"user": "ann"}, headers=once).json() for _ in range(2)]
    assert links[0]["url"] != links[1]["url"]
    with empty.database.reading() as session:
        assert session.query(Reply).count() == 0


def test_problems_are_rfc_9457(site: Site) -> None:
    client = site.platform()
    for answer in (
        client.get("/v1/nothing"),
        client.patch("/v1/wishes"),
        client.get("/v1/wishes"),
        client.put("/v1/wishes", content=b"{", headers={"content-type": "application/json"}),
        client.put("/v1/wishes", json={"user": ANN, "wishes": [wish(ITEM)], "unwillingnes": 1}),
        client.post("/v1/runs", json={"kind": "publish"}),
    ):
        assert answer.headers["content-type"] == "application/problem+json"
        problem = answer.json()
        assert problem["status"] == answer.status_code
        assert {"type", "title", "detail"} <= set(problem)
    refused = client.put("/v1/wishes", json={"user": ANN, "wishes": [wish(ITEM)], "unwillingnes": 1}).json()
    assert refused["errors"][0]["where"] == "body.unwillingnes"


def test_a_status_has_one_title_wherever_it_comes_from(site: Site) -> None:
    """A body that is announced too large is refused by another part than one that turns out too large."""
    client, large = site.platform(), b"x" * (MOST_BYTES + 1)
    refused = [client.put("/v1/wishes", content=each) for each in (large, iter([large]))]
    assert [each.json()["title"] for each in refused] == ["Too large"] * 2


def test_what_is_sent_as_something_else_than_json_is_told_so(site: Site) -> None:
    refused = site.platform().put("/v1/wishes", data={"user": ANN})
    assert (refused.status_code, "Content-Type: application/json" in refused.json()["detail"]) == (422, True)


def test_metrics_are_counts(site: Site) -> None:
    text = site.platform("metrics").get("/v1/metrics").text
    with site.database.reading() as session:
        totals, queue = people.totals(session), jobs.counts(session)
    found = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert int(found["assent_people"]) == totals["people"] == 32
    assert int(found['assent_jobs{state="done"}']) == queue["done"]
    assert not [name for name in (ANN, BOB, "person-1") if name in text]


def test_the_description_is_whole(site: Site) -> None:
    described = site.client().get("/v1/openapi.json").json()
    paths = described["paths"]
    assert not [path for path in paths if not path.startswith(("/v1/", "/health/"))]
    for path, methods in paths.items():
        for method, about in methods.items():
            assert about["description"], path
            if path.startswith("/v1/"):
                assert about["security"], path
            if method != "get" and not path.startswith(
                ("/v1/keys", "/v1/links", "/v1/receipts", "/v1/recomm")
            ):
                names = [each["name"] for each in about.get("parameters", [])]
                assert "Idempotency-Key" in names, path
            for status, answer in about["responses"].items():
                if status != "200" and int(status) >= 400 and path.startswith("/v1/"):
                    assert list(answer["content"]) == ["application/problem+json"], path
    ids = [about["operationId"] for methods in paths.values() for about in methods.values()]
    assert len(ids) == len(set(ids))


def test_scopes_are_those_of_the_description(site: Site) -> None:
    described = site.client().get("/v1/openapi.json").json()
    assert (
        tuple(described["components"]["schemas"]["KeyIn"]["properties"]["scopes"]["items"]["enum"])
        == security.SCOPES
    )
