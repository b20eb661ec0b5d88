"""The whole story in a real browser; every page on a phone, by keyboard, and by axe-core.

axe-core is no part of assent: `make axe` fetches it, as CI does. Without it, its test is skipped.
"""

import json
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from assent.service import security
from assent.service.app import make_app
from assent.service.database import Database
from assent.service.ledger_check import check_ledger, check_receipt
from assent.service.settings import ServiceSettings
from assent.service.worker import work_once
from tests.service.site import ANN, fill, settings_for, trained
from tests.service.test_pages import OPERATOR, PEOPLE, PUBLIC

playwright = pytest.importorskip("playwright.sync_api", reason="needs Playwright")
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
AXE = Path(__file__).parents[2] / ".axe/node_modules/axe-core/axe.min.js"
PHONE, DESK = {"width": 360, "height": 740}, {"width": 1200, "height": 800}
pytestmark = pytest.mark.skipif(BROWSER is None, reason="needs a browser: no chromium in PATH")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as run:
        opened = run.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield opened
        opened.close()


@contextmanager
def running(database: Database, settings: ServiceSettings, door: socket.socket) -> Iterator[str]:
    """Run the service as `assent serve` does; yields where."""
    config = uvicorn.Config(make_app(database, settings), access_log=False, log_level="error")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [door]})
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.02)
    try:
        yield settings.public_url
    finally:
        server.should_exit = True
        thread.join()


@contextmanager
def a_door() -> Iterator[tuple[socket.socket, str]]:
    """A free port of the loopback, and its address."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        yield door, f"http://127.0.0.1:{door.getsockname()[1]}"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """A service that lets anybody in as operator, and Ann by links: its address, and a key for links."""
    folder = tmp_path_factory.mktemp("browser")
    shutil.copytree(trained(), folder, dirs_exist_ok=True)
    with a_door() as (door, url):
        settings = settings_for(f"sqlite:///{folder / 'assent.db'}", folder, public_url=url, demo=True)
        database = Database.open(settings.database)
        with database.writing() as session:
            key = security.create_key(session, "test", ["links"])
        with running(database, settings, door):
            yield url, key
        database.close()


@contextmanager
def page_of(browser: Any, url: str, **context: Any) -> Iterator[Any]:
    """A page in a browser of its own, that must load nothing from elsewhere and violate no policy."""
    opened = browser.new_context(base_url=url, locale="en", **context)
    page, wrong = opened.new_page(), []
    page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda asked: None if asked.url.startswith(url) else wrong.append(asked.url))
    page.set_default_timeout(10_000)
    try:
        yield page
    finally:
        opened.close()
    assert [each for each in wrong if not any(status in each for status in ("401", "403", "404"))] == []


def come_in(page: Any, url: str, key: str, user: str = ANN) -> None:
    """Come in by a personal link, as a person does."""
    asked = page.context.request.post(
        f"{url}/v1/links", headers={"authorization": f"Bearer {key}"}, data={"user": user}
    )
    page.goto(asked.json()["url"])
    page.get_by_role("button", name="Open my pages").click()


def sees(page: Any, words: str) -> None:
    """Wait until a page shows these words."""
    page.get_by_text(words).first.wait_for()


def visit_all(page: Any, url: str, key: str) -> Iterator[str]:
    """Open every page, one after the other; yields its address."""
    for address in PUBLIC:
        page.goto(url + address)
        yield address
    come_in(page, url, key)
    for address in PEOPLE:
        page.goto(url + address)
        yield address
    page.goto(f"{url}/me/categories")
    page.locator("tbody a").first.click()
    page.wait_for_load_state()
    yield "/me/category"
    page.goto(f"{url}/me/entries")
    for place, choice in enumerate(("1", "0")):
        page.locator("tbody select").nth(place).select_option(choice)
    page.get_by_role("button", name="Preview").click()
    page.wait_for_load_state()
    yield "/me/entries/preview"
    page.goto(f"{url}/me/entries")
    page.locator("tbody a").first.click()
    page.wait_for_load_state()
    yield "/me/entry"
    page.locator("input[value='1']").check()
    page.get_by_role("button", name="See what it would change").click()
    page.wait_for_load_state()
    yield "/me/preview"
    page.get_by_role("button", name="Save this choice").click()
    page.get_by_role("link", name="History").click()
    page.locator(".steps a").first.click()
    page.wait_for_load_state()
    yield "/me/receipts/…"
    for address in ("/me/nothing", "/me/entry?item=nothing", "/operator"):  # not there, not theirs
        page.goto(url + address)
        yield address
    page.goto(f"{url}/me")
    page.get_by_role("button", name="Leave").click()
    page.get_by_role("button", name="Come in as the operator").click()
    for address in OPERATOR:
        page.goto(url + address)
        yield address


def test_the_whole_story(browser: Any, database: Database, settings: ServiceSettings, tmp_path: Path) -> None:
    """Mind something, see it decided, trained without, served without; the receipt is verified offline."""
    with a_door() as (door, url):
        settings = settings_for(settings.database, tmp_path, public_url=url)
        fill(database, settings)
        with database.writing() as session:
            key = security.create_key(session, "platform", ["links", "admin"])
        with (
            running(database, settings, door),
            page_of(browser, url, java_script_enabled=False) as page,
            page_of(browser, url) as operator,
        ):
            come_in(page, url, key)
            title = mind_something(page)
            start_update(operator, url, key)
            while work_once(database, settings, worker="test"):
                pass
            operator.get_by_role("link", name="Models").click()
            sees(operator, "Every model that was trained")
            assert operator.get_by_role("row").filter(has_text="In service").count() == 2  # and the heading
            page.reload()
            assert page.locator(".steps .done").count() == 4
            page.get_by_role("link", name="model trained accordingly").click()
            sees(page, "Nothing that was withheld by then was in that training.")
            page.go_back()
            page.get_by_role("link", name="that model is in service").click()
            sees(page, "this receipt is what was written")
            receipt = json.loads(kept(page, "Keep it (JSON)"))
            assert check_receipt(receipt) == []
            lines = kept(page, "The ledger, without personal data").splitlines()
            assert check_ledger(lines, "ledger", {"receipt": receipt})[1] == []
            page.goto(f"{url}/me/entries?state=never")
            assert page.get_by_role("link", name=title, exact=True).is_visible()


def mind_something(page: Any) -> str:
    """Say never to what speaks for the first recommendation, by keyboard alone; return its title."""
    sees(page, "Your data, your say")
    press(page, "Recommended")
    sees(page, "What is recommended to you")
    title: str = page.locator(".ranked small").first.inner_text().partition("“")[2].partition("”")[0]
    press(page, "What is known")
    sees(page, "The latest come first.")
    press(page, title)
    sees(page, "How may this be used?")
    assert page.locator("main .pill").inner_text() == "Used"
    to(page, lambda at: at.get_attribute("type") == "radio")
    for _ in range(5):
        page.keyboard.press("ArrowDown")
    assert page.locator(":focus").get_attribute("value") == "1"
    press(page, "See what it would change")
    sees(page, "Nothing is stored yet.")
    press(page, "Save this choice")
    sees(page, "You said never since.")
    press(page, "Recommended")
    sees(page, "What is recommended to you")
    assert f"“{title}”" not in page.locator(".ranked").inner_text()  # served without, at once
    press(page, "History")
    sees(page, "All that you said")
    assert page.locator(".steps .done").count() == 1
    return title


def press(page: Any, name: str) -> None:
    """Go to what is called so by the tabulator, and press it."""
    to(page, lambda at: at.inner_text() == name)
    page.keyboard.press("Enter")


def to(page: Any, is_there: Callable[[Any], bool]) -> None:
    """Press the tabulator until the focus is there."""
    for _ in range(100):
        page.keyboard.press("Tab")
        at = page.locator(":focus")
        if at.count() and is_there(at):
            return
    raise AssertionError("nothing of this name can be reached by keyboard")


def start_update(page: Any, url: str, key: str) -> None:
    """Come in as the operator, and ask for an update."""
    page.goto(f"{url}/operator/enter")
    page.get_by_label("Key").fill(key)
    page.get_by_role("button", name="Come in").click()
    sees(page, "Counts and figures.")
    page.get_by_role("link", name="Queue").first.click()
    page.get_by_role("button", name="Update the model").click()
    sees(page, "The job waits for a worker.")


def kept(page: Any, link: str) -> str:
    """The content of a file that a link downloads."""
    with page.expect_download() as download:
        page.get_by_role("link", name=link).click()
    return Path(download.value.path()).read_text(encoding="utf-8")


@pytest.mark.parametrize("screen", [PHONE, DESK], ids=["phone", "desk"])
def test_every_page_fits_the_screen(browser: Any, demo: tuple[str, str], screen: dict[str, int]) -> None:
    with page_of(browser, demo[0], viewport=screen) as page:
        for address in visit_all(page, *demo):
            page.wait_for_load_state("load")  # the styles too
            assert page.evaluate("document.documentElement.scrollWidth") <= screen["width"], address
            small = page.evaluate(
                "[...document.querySelectorAll('button, select, .button, nav a')]"
                ".filter(each => each.getBoundingClientRect().height < 24).map(each => each.outerHTML)"
            )
            assert not small, address  # large enough for a finger
            assert not page.evaluate(CUT), address
            tiny = page.evaluate(
                "[...document.querySelectorAll('svg text')]"
                ".filter(each => each.getBoundingClientRect().height < 12).map(each => each.textContent)"
            )
            assert not tiny, address  # charts can be read


CUT = """
[...document.querySelectorAll('.rows select')].filter(each => {
  const pen = document.createElement('canvas').getContext('2d'), style = getComputedStyle(each);
  pen.font = `${style.fontSize} ${style.fontFamily}`;
  const arrow = 20, room = each.clientWidth - 2 * parseFloat(style.paddingLeft) - arrow;
  return pen.measureText(each.selectedOptions[0].text).width > room;
}).map(each => each.selectedOptions[0].text)
"""
"""Choices that are shown and do not fit into their field."""


def test_pages_are_used_by_keyboard(browser: Any, demo: tuple[str, str]) -> None:
    with page_of(browser, demo[0]) as page:
        page.goto(demo[0])
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Come in as a person"
        come_in(page, *demo)
        page.wait_for_load_state("load")  # the styles too
        page.locator("input[type=radio]").first.focus()
        for _ in range(5):
            page.keyboard.press("ArrowDown")
        assert page.evaluate("document.activeElement.value") == "1"
        outline = "getComputedStyle(document.activeElement.closest('label')).outlineStyle"
        assert page.evaluate(outline) == "solid"


def test_the_script_counts_what_is_not_saved(browser: Any, demo: tuple[str, str]) -> None:
    with page_of(browser, demo[0]) as page:
        come_in(page, *demo)
        page.goto(f"{demo[0]}/me/entries")
        selects = page.locator("form[data-unsaved] select")
        selects.nth(2).select_option("1")
        assert page.locator("[data-said]").inner_text() == "1 change is not saved yet"
        selects.nth(3).select_option("0")
        assert page.locator("[data-said]").inner_text() == "2 changes are not saved yet"
        selects.nth(2).select_option("none")
        selects.nth(3).select_option("none")
        assert page.locator("[data-said]").inner_text() == ""


@pytest.mark.skipif(not AXE.exists(), reason="needs axe-core: make axe fetches it")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(browser: Any, demo: tuple[str, str], scheme: str) -> None:
    source = AXE.read_text(encoding="utf-8")
    with page_of(browser, demo[0], color_scheme=scheme, bypass_csp=True, viewport=PHONE) as page:
        for address in visit_all(page, *demo):
            page.evaluate(source)
            found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")  # of others, one node
            assert found["passes"]
            wrong = [(each["id"], [node["html"] for node in each["nodes"]]) for each in found["violations"]]
            assert wrong == [], address
