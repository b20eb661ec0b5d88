"""`assent serve`: the demo runs until a page answers, and people are sent to where it listens."""

import io
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from assent.service.database import Database
from assent.service.people import totals
from tests.conftest import Assent

SETTINGS = "ASSENT_SERVICE_SETTINGS"


def test_the_demo_opens_pages_to_click_through(tmp_path: Path) -> None:
    command = ["serve", "--demo", "--port", "0", "--data", str(tmp_path / "demo")]
    process = subprocess.Popen(
        [sys.executable, "-m", "assent", *command], stdout=subprocess.PIPE, text=True, env={**os.environ}
    )
    try:
        assert process.stdout is not None
        told = (re.search(r"Serving at (http://127\.0\.0\.1:\d+) ", line) for line in process.stdout)
        address = next(found[1] for found in told if found)
        with httpx.Client(base_url=address, follow_redirects=True, timeout=60) as person:
            while not answers(person):
                assert process.poll() is None
                time.sleep(0.1)
            first = person.get("/").text
            assert ("Come in as a person" in first) != ("The first model is being trained" in first)
            while "Come in as a person" not in person.get("/").text:
                assert process.poll() is None
                time.sleep(0.5)
            mine = person.post("/demo", data={"who": "person"})
            assert mine.url.path == "/me"
            assert "entries are known of you" in mine.text
            for page in re.findall(r'<li><a href="(/me/[a-z]+)"', mine.text):
                assert person.get(page).status_code == 200
            assert person.get("/me/recommendations").text.count("Because of") > 0
    finally:
        process.terminate()
        process.wait()


def test_the_demo_has_a_database_of_its_own(
    assent: Assent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(SETTINGS, "")
    monkeypatch.setattr("uvicorn.run", lambda *_, **__: None)
    monkeypatch.setattr("subprocess.Popen", NoWorker)
    for _ in range(2):  # the second time it goes on where it was
        assert assent("serve", "--demo")[0] == 0
    assert [each.name for each in tmp_path.iterdir()] == ["assent-demo"]
    shop = ("keys", "create", "--name", "shop", "--scopes", "links", "--data", tmp_path / "shop")
    assert assent(*shop)[0] == 0
    file = tmp_path / "demo.yaml"
    file.write_text("demo: true\n")
    for words in (["--demo"], ["--settings", str(file)]):
        code, out, err = assent("serve", *words, "--data", tmp_path / "shop")
        assert (code, out) == (2, "")
        assert "no demo's, and not empty; accepted: a folder of its own" in err
    database = Database.open(f"sqlite:///{tmp_path / 'shop' / 'assent.db'}")
    with database.reading() as session:
        assert totals(session)["people"] == 0
    database.close()


class NoWorker:
    """In the place of a worker's process."""

    def __init__(self, *_: object, **__: object) -> None:
        self.stdin = io.BytesIO()

    def wait(self, _: float | None = None) -> int:
        return 0


def answers(client: httpx.Client) -> bool:
    try:
        return client.get("/health/ready").status_code == 200
    except httpx.TransportError:
        return False


@pytest.mark.parametrize(
    ("host", "here"),
    [
        ("127.0.0.1", "http://127.0.0.1:9000"),
        ("0.0.0.0", "http://127.0.0.1:9000"),
        ("::1", "http://[::1]:9000"),
    ],
)
def test_people_are_sent_to_where_it_listens(
    assent: Assent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str, here: str
) -> None:
    served: list[str] = []

    def run(*_: object, **__: object) -> None:
        served.append(json.loads(os.environ[SETTINGS])["public_url"])

    monkeypatch.setenv(SETTINGS, "")  # so that it is as before when the test has ended
    monkeypatch.setattr("uvicorn.run", run)
    listening = ("serve", "--host", host, "--port", "9000", "--data", tmp_path)
    code, out, err = assent(*listening)
    assert (code, served.pop()) == (0, here)
    assert f"Serving at {here} (" in out
    assert "nobody stays in" in err
    file = tmp_path / "service.yaml"
    file.write_text("public_url: https://choices.example.org\n")
    code, out, err = assent(*listening, "--settings", file)
    assert (code, served.pop()) == (0, "https://choices.example.org")
    assert "nobody stays in" not in err
    assert f"Serving at {here}, for https://choices.example.org (" in out
    file.write_text("secure_cookies: false\n")
    assert "nobody stays in" not in assent(*listening, "--settings", file)[2]
