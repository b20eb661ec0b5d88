"""A small service to test: thirty-two people, a trained model in service, keys, and clients for everybody."""

import atexit
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from fastapi import FastAPI
from fastapi.testclient import TestClient

from assent.service import interactions, jobs, security
from assent.service.app import make_app
from assent.service.backup import backup
from assent.service.database import Database
from assent.service.interactions import NewInteraction
from assent.service.settings import Controller, ServiceSettings
from assent.service.worker import work_once

PLATFORM = "Corner cinema"
ANN, BOB = "ann-the-first", "bob-the-second"
SECRETS = {
    ANN: ["ann-only-item", "Ann’s own film", "Ann’s own category"],
    BOB: ["bob-only-item", "Bob’s own film", "Bob’s own category"],
}
"""What nobody else may ever read: an id, a title, a category."""
DAY = 86_400.0
BEGAN = 1_767_225_600.0
GENRES = ("Comedy", "Crime", "Health")


def rows() -> list[NewInteraction]:
    """What everybody did. Ann and Bob have an item, with a title and a category, that nobody else has."""
    draws = np.random.default_rng(0)
    people = [ANN, BOB, *(f"person-{number}" for number in range(30))]
    found = []
    for user in people:
        minded = draws.permutation(np.resize([0, 0.25, 0.5, 0.75, 1.0], 10))
        for place, item in enumerate(draws.choice(26, 10, replace=False)):
            found.append(
                NewInteraction(
                    user=user,
                    item=f"film-{item}",
                    at=BEGAN + DAY * place,
                    title=f"Film number {item}",
                    categories=[GENRES[item % 3]],
                    unwillingness=float(minded[place]),
                )
            )
    for user, (item, title, category) in SECRETS.items():
        found.append(NewInteraction(user, item, BEGAN + DAY * 20, title, [category], 0.75))
    return found


@dataclass
class Site:
    """The running service."""

    app: FastAPI
    database: Database
    settings: ServiceSettings
    keys: dict[str, str] = field(default_factory=dict)
    """A key for each scope alone, by scope; `all` has every scope."""

    def client(self) -> TestClient:
        """Somebody without a key or a visit."""
        return TestClient(self.app, base_url=self.settings.public_url, headers={"accept-language": "en"})

    def platform(self, scope: str = "all") -> TestClient:
        """A platform's backend with a key."""
        client = self.client()
        client.headers["authorization"] = f"Bearer {self.keys[scope]}"
        return client

    def person(self, user: str) -> TestClient:
        """A person in a browser, who came in by a link."""
        client = self.client()
        with self.database.writing() as session:
            client.cookies.set(self.app.state.service.cookie, security.start_visit(session, person=user))
        return client

    def operator(self) -> TestClient:
        """The operator in a browser."""
        client = self.client()
        key_id = security.public_part(self.keys["all"])
        with self.database.writing() as session:
            client.cookies.set(self.app.state.service.cookie, security.start_visit(session, key_id=key_id))
        return client

    def csrf(self, client: TestClient) -> str:
        """The token that forms of a visit carry."""
        page: str = client.get("/promises").text
        return page.partition('name="csrf" value="')[2].partition('"')[0]

    def work(self) -> None:
        """Do all jobs that wait."""
        while work_once(self.database, self.settings, worker="test"):
            pass

    def train(self) -> None:
        """Train anew, and publish."""
        with self.database.writing() as session:
            jobs.enqueue(session, "train", by="test")
        self.work()


def settings_for(url: str, folder: Path, **more: Any) -> ServiceSettings:
    """Settings of a service that decides fast: by unwillingness alone."""
    given = {
        "method": "threshold",
        "price": 0.5,
        "seeds": 1,
        "public_url": "http://testserver",
        "secure_cookies": False,
        "controller": Controller(name=PLATFORM),
    }
    return ServiceSettings(database=url, data=folder / "data", **{**given, **more})


@cache
def trained() -> Path:
    """A folder with the database and the models of a service that has trained once."""
    folder = Path(tempfile.mkdtemp(prefix="assent-site-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    settings = settings_for(f"sqlite:///{folder / 'assent.db'}", folder)
    database = Database.open(settings.database)
    fill(database, settings)
    database.close()
    return folder


def fill(database: Database, settings: ServiceSettings) -> None:
    """Bring what everybody did, and train."""
    with database.writing() as session:
        interactions.add(session, rows())
        jobs.enqueue(session, "train", by="test")
    work_once(database, settings, worker="test")


@contextmanager
def serve(database: Database, settings: ServiceSettings) -> Iterator[Site]:
    """Run the service on a database."""
    with database.writing() as session:
        keys = {scope: security.create_key(session, scope, [scope]) for scope in security.SCOPES}
        keys["all"] = security.create_key(session, "all", security.SCOPES)
    app = make_app(database, settings)
    with TestClient(app):
        yield Site(app, database, settings, keys)


@cache
def backed_up() -> Path:
    """A backup of that service."""
    folder = trained()
    settings = settings_for(f"sqlite:///{folder / 'assent.db'}", folder)
    database = Database.open(settings.database)
    backup(database, settings, folder / "backup")
    database.close()
    return folder / "backup"


@contextmanager
def open_site(folder: Path, *, url: str | None = None, **more: Any) -> Iterator[Site]:
    """Run a service on a copy of the trained one, in a folder of its own.

    `url` is of a database that has a copy already (the fixture `place`); without one, it is a file.
    """
    shutil.copytree(trained(), folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("backup"))
    settings = settings_for(url or f"sqlite:///{folder / 'assent.db'}", folder, **more)
    database = Database.open(settings.database)
    with serve(database, settings) as site:
        yield site
    database.close()
