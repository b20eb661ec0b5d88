"""Several web processes and several workers on one database: to whoever asks they are one service."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import func, select

from assent.service import jobs, ledger, models, security
from assent.service.ledger_check import check_ledger
from assent.service.settings import ServiceSettings
from assent.service.tables import Publication, Wish
from tests.service.postgres import free_port
from tests.service.trained import Service

PATIENCE = 300.0
"""Seconds after which something that should happen never will."""


def until(happens: Callable[[], bool]) -> None:
    """Wait until something happens."""
    end = time.monotonic() + PATIENCE
    while not happens():
        assert time.monotonic() < end
        time.sleep(0.1)


@contextmanager
def started(settings: ServiceSettings, kind: str, *more: str) -> Iterator["subprocess.Popen[bytes]"]:
    """Run `assent serve` or `assent work` as a process of its own."""
    file = settings.data / "service.yaml"
    file.write_text(settings.model_dump_json(exclude={"database", "data"}))
    words = [kind, "--data", str(settings.data), "--settings", str(file), *more]
    process = subprocess.Popen(
        [sys.executable, "-m", "assent", *words],
        env={**os.environ, "ASSENT_DATABASE": settings.database},
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def web_processes(serve: "subprocess.Popen[bytes]") -> list[int]:
    """The processes that answer: those that `assent serve` started and that load the application."""
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parent = int((each / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == serve.pid and b"spawn_main" in (each / "cmdline").read_bytes():
                found.append(int(each.name))
    return found


@dataclass(frozen=True)
class Platform:
    """A platform's backend. Each request has a connection of its own: any of the processes may get it."""

    address: str
    key: str

    def ask(self, method: str, path: str, **given: Any) -> httpx.Response:
        """Ask, and return the answer."""
        bearer = {"authorization": f"Bearer {self.key}"}
        with httpx.Client(base_url=self.address, timeout=60, headers=bearer) as client:
            return client.request(method, path, **given)

    def is_answered(self) -> bool:
        """Whether the service is ready."""
        with suppress(httpx.HTTPError):
            return self.ask("GET", "/health/ready").status_code == 200
        return False

    def say(self, user: str, item: str, unwillingness: float) -> int:
        """Say something for somebody; returns the wish's number."""
        wish = {"scope": "item", "target": item, "unwillingness": unwillingness}
        said = self.ask("PUT", "/v1/wishes", json={"user": user, "wishes": [wish]})
        assert said.status_code == 200, said.text
        number: int = said.json()["wishes"][0]["wish"]
        return number

    def speaking(self, user: str) -> set[str]:
        """What speaks for somebody's recommendations."""
        listed = self.ask("GET", "/v1/recommendations", params={"user": user}).json()["items"]
        return {because["item"] for each in listed for because in each["because"]}


def test_processes_act_as_one(service: Service) -> None:
    database, settings = service
    if database.is_sqlite:
        pytest.skip("one web process")
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    settings = settings.model_copy(
        update={"public_url": address, "secure_cookies": False, "update_after": 0.2, "train_after": 1e9}
    )
    with database.writing() as session:
        key, admin = (security.create_key(session, each, security.SCOPES) for each in ("shop", "admin"))

    shop, boss = Platform(address, key), Platform(address, admin)
    with ExitStack() as stack, ThreadPoolExecutor(8) as pool:
        serve = stack.enter_context(started(settings, "serve", "--port", str(port), "--processes", "2"))
        for _ in range(2):
            stack.enter_context(started(settings, "work"))
        until(shop.is_answered)
        until(lambda: len(web_processes(serve)) == 2)

        said = list(pool.map(lambda n: shop.say(f"u{n % 12:02}", f"i{n % 20:02}", n % 4 / 4), range(60)))
        assert len(set(said)) == 60

        item = min(shop.speaking("u03"))
        said.append(shop.say("u03", item, 1.0))
        assert not any(
            item in each for each in pool.map(shop.speaking, ["u03"] * 24)
        )  # whoever answers, at once

        link = shop.ask("POST", "/v1/links", json={"user": "u03"}).json()["url"].partition("link=")[2]
        used = list(
            pool.map(lambda each: each.ask("POST", "/enter", data={"link": link}).status_code, [shop] * 8)
        )
        assert Counter(used) == {303: 1, 401: 7}

        os.kill(web_processes(serve)[0], signal.SIGKILL)
        until(lambda: len(web_processes(serve)) == 2)
        until(shop.is_answered)
        said.append(shop.say("u05", "i07", 0.5))

        assert boss.ask("DELETE", f"/v1/keys/{security.public_part(key)}").status_code == 204
        until(lambda: {each.ask("GET", "/v1/models").status_code for each in [shop] * 12} == {401})

        def all_served() -> bool:
            with database.reading() as session:
                served = select(func.count()).where(Wish.id.in_(said), Wish.served.is_not(None))
                return session.scalar(served) == len(said)

        until(all_served)
    with database.snapshot() as session:
        assert check_ledger(ledger.export_lines(session), "ledger")[1] == []
        assert jobs.counts(session)["failed"] == 0
        assert max(Counter(session.scalars(select(Publication.model_id))).values()) == 1
        now = models.in_service(session)
        assert now is not None
        assert now.trained_upto >= max(said)
