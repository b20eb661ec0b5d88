"""The pages: what people read and do there, without scripts; form and accessibility of every page."""

import ast
import json
import re
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from importlib import resources
from itertools import pairwise
from pathlib import Path

import pytest
from fastapi import Request
from fastapi.testclient import TestClient

from assent.service import access, interactions, texts
from assent.service.interactions import NewInteraction
from assent.service.pages import render
from assent.service.pages.drawing import Axis, Point, axis_of, chart
from assent.service.pages.render import options
from assent.service.texts import CATALOGUES, PROMISES, UNWILLINGNESS, Texts, texts_for
from tests.service.site import ANN, BEGAN, BOB, DAY, SECRETS, Site, open_site

README = Path(__file__).parents[2] / "README.md"
PAGES = resources.files("assent.service.pages")
PEOPLE = [
    "/me",
    "/me/entries",
    "/me/categories",
    "/me/recommendations",
    "/me/history",
    "/me/data",
    "/me/withdraw",
]
OPERATOR = ["/operator", "/operator/models", "/operator/frontier", "/operator/jobs", "/operator/audit"]
PUBLIC = ["/", "/promises", f"/enter?link={'x' * 43}", "/operator/enter", "/nothing"]
ITEM, TITLE, CATEGORY = SECRETS[ANN]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, place: Callable[[], str | None]) -> Iterator[Site]:
    """A service that tests read and do not change."""
    with open_site(tmp_path_factory.mktemp("pages"), url=place()) as site:
        yield site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with open_site(tmp_path) as site:
        yield site


def wished(site: Site, user: str) -> dict[tuple[str, str], float]:
    found = site.platform().get("/v1/wishes", params={"user": user}).json()["wishes"]
    return {(each["scope"], each["target"]): each["unwillingness"] for each in found}


def rows_of(page: str) -> list[tuple[str, str, str]]:
    """The item, the choice that was shown and the state of each row of the list."""
    pattern = (
        r'class="pill (\w+)".*?name="item" value="([^"]*)"><input type="hidden" name="was" value="([^"]*)"'
    )
    return [(item, was, state) for state, item, was in re.findall(pattern, page, re.DOTALL)]


# What people read and do


def test_everything_known_is_listed_latest_first(shared: Site) -> None:
    page = shared.person(ANN).get("/me/entries").text
    listed = shared.platform().get("/v1/interactions", params={"user": ANN}).json()["interactions"]
    assert [item for item, _, _ in rows_of(page)] == [each["item"] for each in listed]
    assert [state for _, _, state in rows_of(page)] == [each["state"] for each in listed]
    assert {"used", "withheld", "never"} <= {state for _, _, state in rows_of(page)}
    assert TITLE in page
    assert "21 January 2026" in page


def test_lists_are_found_by_words_category_and_state(shared: Site) -> None:
    client = shared.person(ANN)
    every = {item: state for item, _, state in rows_of(client.get("/me/entries").text)}
    for state in ("used", "withheld", "never"):
        found = rows_of(client.get("/me/entries", params={"state": state}).text)
        assert {item for item, _, _ in found} == {item for item, is_so in every.items() if is_so == state}
    assert [
        item for item, _, _ in rows_of(client.get("/me/entries", params={"search": "OWN film"}).text)
    ] == [ITEM]
    assert [
        item for item, _, _ in rows_of(client.get("/me/entries", params={"category": CATEGORY}).text)
    ] == [ITEM]
    for search in ("nothing like it", "%", "_", "'"):
        empty = client.get("/me/entries", params={"search": search}).text
        assert (rows_of(empty) == []) == ("Nothing fits this search." in empty)
    assert rows_of(client.get("/me/entries", params={"search": "%"}).text) == []


@pytest.mark.parametrize("text", ["\0", "a\0b", "\x1b[2J", "a\nb", "\x7f"])
def test_what_no_database_takes_is_refused(shared: Site, text: str) -> None:
    client = shared.person(ANN)
    for name in ("search", "category", "state", "cursor"):
        assert client.get("/me/entries", params={name: text}).status_code == 422
    for path, name in (
        ("entry", "item"),
        ("category", "category"),
        ("history", "cursor"),
        ("data", "cursor"),
    ):
        assert client.get(f"/me/{path}", params={name: text}).status_code == 422
    one = {"csrf": shared.csrf(client), "scope": "item", "target": text, "choice": "1"}
    for path in ("entry", "category", "preview"):
        assert client.post(f"/me/{path}", data=one).status_code == 422
    several = {**one, "item": text, "category": text, "was": "none"}
    for path in ("entries", "entries/preview", "categories", "categories/preview"):
        assert client.post(f"/me/{path}", data=several).status_code == 422


def test_long_lists_come_in_pages(site: Site) -> None:
    more = [
        NewInteraction(ANN, f"more-{n}", BEGAN + DAY * 30 + n, f"More {n}", ["Comedy"], 0.5)
        for n in range(120)
    ]
    with site.database.writing() as session:
        interactions.add(session, more)
    client, address, seen = site.person(ANN), "/me/entries?category=Comedy", []
    while address:
        page = client.get(address).text
        seen += [item for item, _, _ in rows_of(page)]
        following = re.search(r'<a href="([^"]+)" rel="next">', page)
        address = following[1].replace("&amp;", "&") if following else ""
    assert len(seen) == len(set(seen)) > 120
    assert seen[0] == "more-119"
    assert "It is newer than the model in service" in client.get("/me/entries").text


@pytest.mark.parametrize("choice", UNWILLINGNESS)
def test_one_entry_can_be_chosen_for(site: Site, choice: str) -> None:
    client = site.person(ANN)
    form = {"csrf": site.csrf(client), "scope": "item", "target": ITEM, "choice": choice}
    page = client.post("/me/entry", data=form)
    assert "Saved." in page.text
    assert wished(site, ANN) == {("item", ITEM): float(choice)}
    assert f'value="{choice}" checked' in page.text
    again = client.post("/me/entry", data=form)
    assert "Nothing changed" in again.text
    back = client.post("/me/entry", data={**form, "choice": "none"})
    assert "Saved." in back.text
    assert wished(site, ANN) == {}
    history = site.platform().get("/v1/wishes/history", params={"user": ANN}).json()["wishes"]
    assert [each["unwillingness"] for each in history] == [None, float(choice)]


def test_a_page_of_choices_stores_those_that_changed(site: Site) -> None:
    client = site.person(ANN)
    rows = rows_of(client.get("/me/entries").text)
    site.platform().put(
        "/v1/wishes",
        json={"user": ANN, "wishes": [{"scope": "item", "target": rows[2][0], "unwillingness": 0.25}]},
    )  # meanwhile, elsewhere
    choices = ["1", "0", *(was for _, was, _ in rows[2:])]
    form = {
        "csrf": site.csrf(client),
        "item": [item for item, _, _ in rows],
        "was": [was for _, was, _ in rows],
        "choice": choices,
        "category": "Comedy",
    }
    saved = client.post("/me/entries", data=form)
    assert saved.url.params["category"] == "Comedy"  # back where they were
    assert wished(site, ANN) == {
        ("item", rows[0][0]): 1.0,
        ("item", rows[1][0]): 0.0,
        ("item", rows[2][0]): 0.25,
    }
    assert "Nothing changed" in client.post("/me/entries", data={**form, "choice": form["was"]}).text


def test_categories_and_everything_can_be_chosen_for(site: Site) -> None:
    client = site.person(ANN)
    page = client.get("/me/categories").text
    names = re.findall(r'name="category" value="([^"]*)"', page)
    assert set(names) == {CATEGORY, "Comedy", "Crime", "Health"}
    token = {"csrf": site.csrf(client)}
    form = {
        **token,
        "category": names,
        "was": ["none"] * 4,
        "choice": ["1" if n == "Health" else "none" for n in names],
    }
    assert "Saved." in client.post("/me/categories", data=form).text
    assert "Saved." in client.post("/me/everything", data={**token, "choice": "0.25"}).text
    assert "Saved." in client.post("/me/category", data={**token, "target": "Crime", "choice": "0.75"}).text
    assert wished(site, ANN) == {
        ("everything", ""): 0.25,
        ("category", "Health"): 1.0,
        ("category", "Crime"): 0.75,
    }
    assert re.search(r'value="0.25" checked', client.get("/me").text)
    shown = client.get("/me/entry", params={"item": ITEM}).text
    assert "You said so of everything." in shown


@pytest.mark.parametrize(
    "form",
    [
        {"choice": "2"},
        {"choice": "-0.1"},
        {"choice": "nan"},
        {"choice": "inf"},
        {"choice": ""},
        {"choice": "never"},
        {},
    ],
    ids=str,
)
def test_other_choices_are_refused(shared: Site, form: dict[str, str]) -> None:
    client = shared.person(ANN)
    for path in ("/me/everything", "/me/entry", "/me/preview"):
        data = {**form, "csrf": shared.csrf(client), "scope": "item", "target": ITEM}
        answer = client.post(path, data=data)
        assert answer.status_code == 422
        assert "Nothing was stored." in answer.text
    assert wished(shared, ANN) == {}


def test_a_preview_shows_what_would_change_and_stores_nothing(shared: Site) -> None:
    client = shared.person(ANN)
    token = {"csrf": shared.csrf(client)}
    page = client.post("/me/preview", data={**token, "scope": "everything", "target": "", "choice": "1"}).text
    assert "would go" in page
    assert "would be new" in page
    assert "Nothing is stored yet." in page
    assert wished(shared, ANN) == {}
    same = client.post(
        "/me/preview", data={**token, "scope": "category", "target": CATEGORY, "choice": "none"}
    ).text
    assert "would stay the same" in same


def test_recommendations_say_why(shared: Site) -> None:
    page = shared.person(ANN).get("/me/recommendations").text
    found = shared.platform().get("/v1/recommendations", params={"user": ANN}).json()["items"]
    assert re.findall(r"<li><bdi>([^<]*)</bdi>", page) == [each["title"] for each in found]
    assert f"Because of “{found[0]['because'][0]['title']}”" in page
    stranger = shared.person("nobody yet").get("/me/recommendations").text
    assert "you get what most people like" in stranger


def test_a_person_of_whom_nothing_is_known_sees_that(shared: Site) -> None:
    client = shared.person("nobody yet")
    assert "Nothing is known of you so far." in client.get("/me").text
    assert "Nothing is known of you so far." in client.get("/me/entries").text
    assert "You have said nothing yet." in client.get("/me/history").text
    for page in PEOPLE:
        assert client.get(page).status_code == 200


def test_withdrawing_everything_asks_first(site: Site) -> None:
    client = site.person(ANN)
    asked = client.get("/me/withdraw").text
    assert "11 entries" in asked
    assert "To have them deleted, ask: the platform that sent you here." in asked
    assert wished(site, ANN) == {}
    done = client.post("/me/withdraw", data={"csrf": site.csrf(client)})
    assert "Everything is withdrawn." in done.text
    assert wished(site, ANN) == {("everything", ""): 1.0}
    assert "you get what most people like" in client.get("/me/recommendations").text
    assert "Everything withdrawn" in client.get("/me/history").text


def test_nobody_is_told_what_is_not_so(site: Site) -> None:
    """What is withdrawn is known to the model in service until another one is trained."""
    client = site.person(ANN)
    asked = client.get("/me/withdraw").text
    told = client.post("/me/withdraw", data={"csrf": site.csrf(client)}).text
    for page in (asked, told):
        assert "nothing of yours is used for your recommendations" in page
        assert "The model in service still knows what it learnt, until another one is trained" in page
    [used] = re.findall(r'<dd class="used">(\d+)</dd>', told)
    assert int(used) > 0
    assert "Everything is withdrawn." not in client.get("/me").text  # it is said once
    assert "Nothing of yours is used." not in client.get("/me/history").text
    assert "Nothing was stored" not in str(render.error_page(_request(site), 503).body)


def _request(site: Site) -> Request:
    scope = {"type": "http", "app": site.app, "path": "/me", "headers": [], "query_string": b""}
    return Request(scope)


@pytest.mark.parametrize("word", ["withdrawn", "saved", "published", "left"])
def test_no_address_makes_a_page_say_something(shared: Site, word: str) -> None:
    for path in ("/", "/me", "/promises"):
        assert 'class="notice"' not in shared.person(ANN).get(path, params={"said": word}).text


def test_what_changed_since_the_model_before_is_found(site: Site) -> None:
    def states() -> dict[str, str]:
        found = site.platform().get("/v1/decisions", params={"user": ANN}).json()["decisions"]
        return {each["item"]: each["state"] for each in found}

    client, before = site.person(ANN), states()
    assert "See what changed" not in client.get("/me").text
    assert rows_of(client.get("/me/entries?state=changed").text) == []
    [gone, *_] = [item for item, state in before.items() if state == "used"]
    client.post("/me/entry", data={"csrf": site.csrf(client), "target": gone, "choice": "1"})
    site.platform().post(
        "/v1/interactions", json={"user": ANN, "item": "film-0", "time": "2026-03-01T12:00:00Z"}
    )
    site.train()
    after = states()
    changed = {item for item, state in after.items() if state != before.get(item, "undecided")}
    assert gone in changed
    page = client.get("/me/entries?state=changed").text
    assert {item for item, _, _ in rows_of(page)} == changed
    assert "In the model before: Used" in page
    assert "In the model before: Used" in client.get("/me/entry", params={"item": gone}).text
    assert "See what changed" in client.get("/me").text
    same = next(item for item in after if item not in changed)
    assert "In the model before" not in client.get("/me/entry", params={"item": same}).text


def test_every_choice_can_be_previewed_where_it_is_made(site: Site) -> None:
    client = site.person(ANN)
    token = {"csrf": site.csrf(client)}
    page = client.get("/me/categories").text
    assert 'formaction="/me/categories/preview"' in page
    [address] = re.findall(r'<a href="(/me/category\?category=Crime)">', page)
    form = client.get(address).text
    assert 'formaction="/me/preview"' in form
    assert 'name="scope" value="category"' in form
    one = client.post(
        "/me/preview", data={**token, "scope": "category", "target": "Crime", "choice": "1"}
    ).text
    assert "If you choose “Never” for the category Crime" in one
    assert f'href="{address}">Go back' in one
    assert client.get("/me/category?category=nothing").status_code == 404

    names = re.findall(r'name="category" value="([^"]*)"', page)
    lists = {
        "category": names,
        "was": ["none"] * len(names),
        "choice": ["1"] * 2 + ["none"] * (len(names) - 2),
    }
    many = client.post("/me/categories/preview", data={**token, **lists}).text
    assert many.count("If you choose “Never” for the category") == 2
    assert wished(site, ANN) == {}
    hidden = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', many)
    sent: dict[str, list[str]] = {}
    for name, value in hidden:
        sent.setdefault(name, []).append(value)
    assert "Saved." in client.post("/me/categories", data=sent).text
    assert wished(site, ANN) == {("category", name): 1.0 for name in names[:2]}


def test_a_page_of_choices_can_be_previewed(site: Site) -> None:
    client = site.person(ANN)
    page = client.get("/me/entries?category=Comedy").text
    assert 'formaction="/me/entries/preview"' in page
    rows = rows_of(page)
    form = {
        "csrf": site.csrf(client),
        "category": "Comedy",
        "item": [item for item, _, _ in rows],
        "was": [was for _, was, _ in rows],
        "choice": ["1", *(was for _, was, _ in rows[1:])],
    }
    shown = client.post("/me/entries/preview", data=form).text
    assert shown.count(rows[0][0]) == 1
    assert not [item for item, _, _ in rows[1:] if f'value="{item}"' in shown]
    assert 'href="/me/entries?category=Comedy">Go back' in shown
    assert wished(site, ANN) == {}
    nothing = client.post("/me/entries/preview", data={**form, "choice": form["was"]})
    assert nothing.url.path == "/me/entries"
    assert "Nothing changed" in nothing.text


def test_wishes_go_four_steps_with_a_receipt_each(site: Site) -> None:
    client = site.person(ANN)
    client.post("/me/entry", data={"csrf": site.csrf(client), "target": ITEM, "choice": "1"})
    page = client.get("/me/history").text
    assert page.count('<li class="done">') == 1
    site.train()
    page = client.get("/me/history").text
    assert page.count('<li class="done">') == 4
    receipts = re.findall(r'href="(/me/receipts/[0-9a-f-]{36})"', page)
    assert len(receipts) == 4
    for receipt in receipts:
        shown = client.get(receipt).text
        assert "this receipt is what was written" in shown
        assert TITLE in shown
        kept = client.get(f"{receipt}/receipt.json")
        assert "attachment" in kept.headers["content-disposition"]
        assert site.platform().post("/v1/receipts/verify", json=kept.json()).json()["verified"] is True
    assert client.get("/me/entry", params={"item": ITEM}).text.count("Never used") == 1
    listed = client.get("/me/data").text
    assert all(receipt in listed for receipt in receipts)


def test_a_receipt_that_does_not_fit_says_so(site: Site) -> None:
    client = site.person(ANN)
    client.post("/me/entry", data={"csrf": site.csrf(client), "target": ITEM, "choice": "1"})
    site.platform().delete("/v1/interactions", params={"user": ANN, "item": ITEM})
    [address] = re.findall(r'href="(/me/receipts/[0-9a-f-]{36})"', client.get("/me/history").text)
    assert ITEM in client.get(address).text  # the entry is gone, the receipt is not
    with site.database.writing() as session:
        session.connection().exec_driver_sql("update receipt set content = replace(content, '1.0', '0.0')")
    assert "does not fit the ledger" in client.get(address).text


def test_the_export_holds_all_that_is_known(site: Site) -> None:
    client = site.person(ANN)
    client.post("/me/entry", data={"csrf": site.csrf(client), "target": ITEM, "choice": "1"})
    answer = client.get("/me/export.json")
    assert "attachment" in answer.headers["content-disposition"]
    found = answer.json()
    assert len(found["interactions"]) == 11
    assert len(found["receipts"]) == 1
    assert BOB not in answer.text
    [mine] = [each for each in found["interactions"] if each["item"] == ITEM]
    assert (mine["unwillingness"], mine["brought"], mine["because"]["source"]) == (1.0, 0.75, "item")
    assert [each["model"] for each in found["decisions"]] == [1] * 11
    assert len(found["visits"]) == 1
    site.train()
    again = client.get("/me/export.json").json()
    assert [each["model"] for each in again["decisions"]] == [2] * 11 + [1] * 11
    assert site.platform().get("/v1/export", params={"user": ANN}).json() == again
    assert site.platform().get("/v1/export", params={"user": "nobody"}).json()["pseudonym"] is None


def test_a_demo_lets_anybody_in(tmp_path: Path) -> None:
    with open_site(tmp_path, demo=True) as site:
        for who, path in (("person", "/me"), ("operator", "/operator")):
            client = site.client()
            assert "Come in as" in client.get("/").text
            assert client.post("/demo", data={"who": who}).url.path == path
            assert client.get("/").url.path == path  # those who visit are sent to their page
            assert client.post("/leave", data={"csrf": site.csrf(client)}).url.path == "/"
            assert client.get(path).status_code == 401


# The operator


def test_a_refused_publication_says_why_on_the_page_of_models(site: Site) -> None:
    client = site.operator()
    token = {"csrf": site.csrf(client)}
    assert "Roll back" not in client.get("/operator/models").text  # no other model has been in service
    site.train()
    assert "Roll back" in client.get("/operator/models").text
    site.platform("wishes").post("/v1/wishes/withdraw", json={"user": ANN})
    site.train()
    page = client.get("/operator/models").text
    assert re.search(r"Not possible: model 1: it used \d+ interactions? that may no longer be used", page)
    assert re.search(
        r"Rolling back to the model before is not possible: model \d: it used \d+ interactions? that may",
        page,
    )
    assert "<button" not in page.partition("<table")[2]  # nothing is offered that would be refused
    for path, data in (("publish", {**token, "model": "1"}), ("roll-back", token)):
        refused = client.post(f"/operator/models/{path}", data=data)
        assert refused.status_code == 409
        assert re.search(r"Nothing was changed: model \d: it used \d+ interactions? that may", refused.text)
        assert 'href="/operator/jobs"' in refused.text  # the menu is there
    site.platform("interactions").delete("/v1/people", params={"user": ANN})
    site.train()
    page = client.get("/operator/models").text
    assert "Not possible: model 1: its files were deleted" in page  # somebody was erased since
    assert 'aria-label="Put model 1 into service"' not in page
    assert "Roll back" not in page


def test_the_operator_starts_publishes_and_rolls_back(site: Site) -> None:
    client = site.operator()
    token = {"csrf": site.csrf(client)}
    assert "waits for a worker" in client.post("/operator/jobs", data={**token, "kind": "train"}).text
    assert "waiting" in client.get("/operator/jobs").text
    site.work()
    page = client.get("/operator/models").text
    assert page.count("<svg") == 2  # violation and quality over the models
    assert "Put model 1 into service" in page
    assert (
        "The model is in service."
        in client.post("/operator/models/publish", data={**token, "model": "1"}).text
    )
    assert "Put model 2 into service" in client.get("/operator/models").text
    assert "The model is in service." in client.post("/operator/models/roll-back", data=token).text
    assert "Put model 1 into service" in client.get("/operator/models").text
    events = client.get("/operator/audit").text
    assert "model published" in events
    for wrong in ({"model": "x"}, {"model": "9" * 30}, {}):
        assert client.post("/operator/models/publish", data={**token, **wrong}).status_code == 422
    assert client.post("/operator/models/publish", data={**token, "model": "99"}).status_code == 404
    assert client.post("/operator/jobs", data={**token, "kind": "destroy"}).status_code == 422


def test_the_operator_sees_figures(site: Site) -> None:
    client = site.operator()
    overview = client.get("/operator").text
    totals = dict(re.findall(r"<dt>([^<]+)</dt><dd>([\d,]+)</dd>", overview))
    assert (totals["people"], totals["interactions"]) == ("32", "322")
    assert totals["wishes in force"] == "0"
    platform = site.platform()
    for choice in (0.5, 1.0, None, 1.0):
        wish = {"scope": "item", "target": ITEM, "unwillingness": choice}
        platform.put("/v1/wishes", json={"user": ANN, "wishes": [wish]})
    overview = client.get("/operator").text
    totals = dict(re.findall(r"<dt>([^<]+)</dt><dd>([\d,]+)</dd>", overview))
    assert (totals["wishes in force"], totals["of these wishes say never"]) == ("1", "1")
    facts = platform.get("/v1/models/1").json()["facts"]
    assert totals["Never used"] == str(facts["never"])
    assert client.get("/operator/frontier").text.count("<tr><th") == 2  # the heading, and a model of nothing
    with site.database.writing() as session:
        facts = json.loads(session.connection().exec_driver_sql("select facts from model").scalar() or "")
        facts["frontier"] = [
            {"method": facts["method"], "point": point, "violation_share": point, "ndcg": ndcg, "seed": seed}
            for point, ndcg in ((0.25, 0.1), (0.5, 0.2), (0.75, 0.22))
            for seed in (0, 1)
        ]
        session.connection().exec_driver_sql("update model set facts = ?", (json.dumps(facts),))
    page = client.get("/operator/frontier").text
    assert page.count("<circle") == 6  # with nothing, and the operating point twice
    assert "The operating point" in page
    assert page.count("<tr><th") == 5
    ledger = client.get("/operator/audit/ledger.jsonl").text.splitlines()
    assert json.loads(ledger[0])["leaves"] == len([line for line in ledger if '"leaf":' in line])


def test_charts_hold_their_points() -> None:
    points = [Point(0.0, 0.0), Point(50.0, 0.2, 0.1, 0.3), Point(100.0, 0.25, 0.2, 0.3)]
    drawn = chart(
        "a <title>", points, axis_of("x & y", [0.0, 100.0]), axis_of("y", [0.0, 0.3]), here=points[1]
    )
    assert "&lt;title&gt;" in drawn
    assert "x &amp; y" in drawn
    places = [tuple(map(float, pair)) for pair in re.findall(r'c?x="([\d.]+)" c?y="([\d.]+)"', drawn)]
    assert all(0 <= x <= 440 and 0 <= y <= 270 for x, y in places)
    assert "style=" not in drawn


def test_axes_of_whole_numbers_have_whole_ticks() -> None:
    assert Axis("", 0.5, 2.5, whole=True).ticks() == [1, 2]
    assert Axis("", 0.5, 60.5, whole=True).ticks()[1:3] == [40, 60]


@pytest.mark.parametrize("values", [[0.0], [0.0, 0.0], [5.0], [0.1, 1e9], [1e-9, 2e-9], [-3.0, 4.0]])
def test_axes_have_round_ticks(values: list[float]) -> None:
    axis = axis_of("", values)
    ticks = axis.ticks()
    assert 2 <= len(ticks) <= 7
    assert all(axis.low <= tick <= axis.high * (1 + 1e-9) for tick in ticks)


# Texts


def test_the_promises_are_those_of_the_readme() -> None:
    readme = " ".join(README.read_text(encoding="utf-8").replace("`", "").split())
    for name, text in PROMISES.items():
        assert f"**{name}** {text.replace('{closed}', '0.8')}" in readme


def test_without_a_limit_the_third_promise_is_an_example(shared: Site) -> None:
    assert "here no such limit is set" in shared.client().get("/promises").text
    assert "The limit that is set here" not in shared.person(ANN).get("/me").text


def test_the_closed_limit_is_told(tmp_path: Path) -> None:
    with open_site(tmp_path, closed=0.6) as site:
        page = site.client().get("/promises").text
        assert "About the third promise: here the limit is 0.6." in page
        for address in ("/me", f"/me/entry?item={ITEM}", "/me/category?category=Crime", "/promises"):
            shown = site.person(ANN).get(address).text
            assert shown.count("It is not looked at and not used. The limit that is set here is 0.6.") == 1
            assert "only if it helps very much" not in shown
        assert "interactions of unwillingness above 0.6 are not looked at" in page
        for name in PROMISES:
            assert name in page


def _begun(code: list[str]) -> Iterator[str]:
    """The fixed beginnings of texts' keys that are made in f-strings."""
    for node in (node for source in code for node in ast.walk(ast.parse(source))):
        match node:
            case ast.JoinedStr(values=[ast.Constant(value=str(begun)), *_]) if re.fullmatch(
                r"[a-z_.]+\.", begun
            ):
                yield begun


def test_every_text_is_there_and_used() -> None:
    templates = [each.read_text(encoding="utf-8") for each in PAGES.joinpath("templates").iterdir()]
    sources = [Path(str(each)) for each in (PAGES, Path(texts.__file__))]
    code = [
        file.read_text()
        for source in sources
        for file in ([source] if source.is_file() else source.glob("*.py"))
    ]
    written = "\n".join([*templates, *code])
    wanted = set(re.findall(r"""\bt(?:exts)?\(\s*["']([\w. ]+)["']\s*[,)]""", written))
    counted = re.findall(r"""\bcounted\(\s*["']([\w. ]+)["']""", written)
    wanted |= {f"{key}.{number}" for key in counted for number in ("one", "other")}
    for language, catalogue in CATALOGUES.items():
        assert not wanted - set(catalogue), f"{language} lacks texts"
        assert set(catalogue) == set(CATALOGUES["en"])
    beginnings = tuple({*re.findall(r"""\bt\(["']([a-z_.]+\.)["'] ~""", written), *_begun(code)})
    constants = {
        node.value
        for source in code
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    unused = [
        key for key in CATALOGUES["en"] if key not in wanted | constants and not key.startswith(beginnings)
    ]
    assert not unused


def test_english_is_where_no_other_language_is() -> None:
    for accepted in ("", "de-CH, de;q=0.9", "en-GB", "*", "x" * 10_000, ",,;;"):
        assert texts_for(accepted).language == "en"


def test_a_day_is_told_once() -> None:
    english, noon = Texts(), 1_767_268_800.0
    assert english.when(noon) == "1 January 2026, 12:00 UTC"
    assert english.when(noon + 60, noon) == "12:01 UTC"
    assert english.when(noon + 86_400, noon) == "2 January 2026, 12:00 UTC"


def test_inherited_choices_name_where_they_come_from() -> None:
    for source, category, told in (
        ("category", "Health", "I mind: as for Health"),
        ("everything", None, "I mind: as for everything"),
        ("platform", None, "I mind: told before"),
        ("kept", "Crime", "I mind: as before"),
        ("unsaid", None, "I mind: nothing said"),
    ):
        assert f"selected>{told}</option>" in options(Texts(), None, source, 0.5, category)


def test_numbers_between_the_choices_are_told() -> None:
    english = Texts()
    assert english.choice(0.75) == "I mind a lot"
    assert english.choice(0.92) == "I mind a lot (0.92)"
    assert english.choice(0.999) == "I mind a lot (0.99)"  # not “Never”
    assert english.choice(0.001) == "I mind a little (0.01)"
    assert "0.32" in english.choice(0.3175)
    assert english.duration(90061) == "25.0 h"
    assert english.duration(None) == "–"


# Form and accessibility


class Elements(HTMLParser):
    """All start tags of a page, with their attributes, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.open: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in ("meta", "link", "input", "br", "line", "circle", "polyline", "polygon"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self.open:
            assert self.open.pop() == tag, f"</{tag}> closes another element"

    def all(self, *names: str) -> list[dict[str, str]]:
        return [attributes for tag, attributes in self.tags if tag in names]


def visited(site: Site) -> Iterator[tuple[str, str]]:
    """Every page as those who may see it get it: its address and HTML."""
    person, operator = site.person(ANN), site.operator()
    token = {"csrf": site.csrf(person)}
    for client, addresses in ((site.client(), PUBLIC), (person, PEOPLE), (operator, OPERATOR)):
        for address in addresses:
            yield address, client.get(address).text
    yield "category", person.get("/me/category", params={"category": CATEGORY}).text
    yield "entry", person.get("/me/entry", params={"item": ITEM}).text
    saved = person.post("/me/entry", data={**token, "target": ITEM, "choice": "1"})
    yield "saved", saved.text
    yield (
        "preview",
        person.post("/me/preview", data={**token, "scope": "item", "target": ITEM, "choice": "0"}).text,
    )
    history = person.get("/me/history").text
    yield "history", history
    yield "receipt", person.get(re.findall(r'href="(/me/receipts/[0-9a-f-]{36})"', history)[0]).text
    yield "data", person.get("/me/data").text


def test_every_page_is_well_made(site: Site) -> None:
    for address, page in visited(site):
        check_page(address, page)


def check_page(address: str, page: str) -> None:
    found = Elements(page)
    assert not found.open, f"{address}: not closed: {found.open}"
    [html] = found.all("html")
    assert html["lang"] == "en"
    for landmark in ("main", "header", "footer", "title"):
        assert len(found.all(landmark)) == 1, f"{address}: {landmark}"
    levels = [int(tag[1]) for tag, _ in found.tags if re.fullmatch("h[1-6]", tag)]
    assert levels.count(1) == 1, address
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels)), address
    ids = [attributes["id"] for _, attributes in found.tags if "id" in attributes]
    assert len(ids) == len(set(ids)), address
    labelled = {label.get("for") for label in found.all("label")}
    inside = re.findall(r"<label[^>]*>\s*<input[^>]*>", page)
    for control in found.all("input", "select"):
        named = (
            control.get("type") == "hidden"
            or {"aria-label", "aria-labelledby"} & set(control)
            or control.get("id") in labelled
        )
        assert named or any(f'value="{control.get("value")}"' in each for each in inside), (address, control)
    for reference in re.findall(r'aria-labelledby="([^"]+)"', page):
        assert set(reference.split()) <= set(ids), address
    assert (
        found.tags[next(n for n, (tag, _) in enumerate(found.tags) if tag == "body") + 1][1]["href"]
        == "#main"
    )
    # Nothing inline, nothing from elsewhere.
    for tag, attributes in found.tags:
        assert "style" not in attributes, f"{address}: <{tag} style>"
        assert not [name for name in attributes if name.startswith("on")], address
        for name in ("src", "href", "action", "formaction"):
            assert attributes.get(name, "/").startswith(("/", "#")), (address, attributes)
    assert "<style" not in page
    assert re.findall(r"<script[^>]*>(.*?)</script>", page, re.DOTALL) == [""]
    for form in re.findall(r'<form method="post".*?</form>', page, re.DOTALL):
        assert 'name="csrf"' in form or 'action="/enter"' in form or "/operator/enter" in form, address


def test_texts_of_the_platform_never_act(site: Site) -> None:
    nasty = '"><script>alert(1)</script>{{7*7}}'
    more = [NewInteraction(ANN, nasty, BEGAN + DAY * 40, nasty, [nasty], 0.5)]
    with site.database.writing() as session:
        interactions.add(session, more)
    client = site.person(ANN)
    for address in (*PEOPLE, "/me/entries?search=<script>"):
        page = client.get(address).text
        assert "<script>alert" not in page
        check_page(address, page)
    shown = client.get("/me/entry", params={"item": nasty})
    assert shown.status_code == 200
    assert "&lt;script&gt;" in shown.text
    saved = client.post("/me/entry", data={"csrf": site.csrf(client), "target": nasty, "choice": "1"})
    assert "Saved." in saved.text


def luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_colours_can_be_read_by_day_and_by_night() -> None:
    css = PAGES.joinpath("static/style.css").read_text(encoding="utf-8")
    palettes = [
        dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block))
        for block in re.findall(r":root \{(.*?)\}", css, re.DOTALL)
    ]
    assert [len(palette) for palette in palettes] == [13, 13]
    for palette in palettes:
        for ground in ("page", "card", "tint"):
            for ink in ("ink", "soft", "accent", "used", "withheld", "never", "waiting"):
                assert contrast(palette[ink], palette[ground]) >= 4.5, (ink, ground)
            assert contrast(palette["edge"], palette[ground]) >= 3  # edges of fields
        assert contrast(palette["on-accent"], palette["accent"]) >= 4.5
        assert contrast(palette["card"], palette["never"]) >= 4.5  # the button that withdraws
    named = set(re.findall(r"var\(--([\w-]+)\)", css))
    assert named == set(palettes[0])
    assert "url(" not in css
    assert "@import" not in css


def test_a_person_may_save_often_and_not_endlessly(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(access.SAVES, "most", 4)
    monkeypatch.setitem(access.SAVES, "seconds", 10**6)
    client: TestClient = site.person(ANN)
    token = site.csrf(client)
    statuses = [
        client.post("/me/everything", data={"csrf": token, "choice": UNWILLINGNESS[n % 5]}).status_code
        for n in range(6)
    ]
    assert statuses == [200] * 4 + [429] * 2
