"""A small service with a trained model: made once, as a backup that every test restores its own from."""

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

import numpy as np

from assent.service import interactions, jobs, wishes
from assent.service.backup import backup, restore
from assent.service.database import Database
from assent.service.interactions import NewInteraction
from assent.service.settings import ServiceSettings
from assent.service.tables import Model
from assent.service.wishes import Said
from assent.service.worker import work_once

Service = tuple[Database, ServiceSettings]
QUICK = {"seeds": 1, "unsaid": 0.3, "k": 5}
GENRES = ("comedy", "crime", "health")


def say(service: Service, user: str, *said: Said) -> int:
    """Let somebody say something; the last wish's number."""
    with service[0].writing() as session:
        [found] = wishes.record(session, service[1], [(user, said)])
    assert isinstance(found, list)
    return found[-1].wish


def rows() -> list[NewInteraction]:
    """What 24 people did with 20 items; of a few rows the platform knows that they are never to be used."""
    draws = np.random.default_rng(1)
    found = []
    for person in range(24):
        minded = draws.permutation(np.resize([0.0, 0.25, 0.5, 0.75, None, 1.0], 9))
        for place, item in enumerate(draws.choice(20, 9, replace=False)):
            found.append(
                NewInteraction(
                    f"u{person:02}", f"i{item:02}", place, f"Item {item}", [GENRES[item % 3]], minded[place]
                )
            )
    return found


@cache
def _kept() -> Path:
    """The backup."""
    folder = Path(tempfile.mkdtemp(prefix="assent-tests-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    url = f"sqlite:///{folder / 'assent.db'}"
    database, settings = Database.open(url), ServiceSettings(database=url, data=folder, **QUICK)
    with database.writing() as session:
        interactions.add(session, rows())
        said = [Said("category", "health", 0.75), Said("item", "i00", 1.0), Said("item", "i00", 0.9)]
        wishes.record(session, settings, [("u00", said), ("u01", [Said("everything", "", 0.5)])])
        jobs.enqueue(session, "train", by="tests")
    assert work_once(database, settings, worker="tests")
    backup(database, settings, folder / "backup")
    database.close()
    return folder / "backup"


def restored(url: str, data: Path) -> tuple[Database, ServiceSettings]:
    """The service, restored into a new database and a new folder."""
    database, settings = Database(url), ServiceSettings(database=url, data=data, **QUICK)
    restore(database, settings, _kept())
    return database, settings


def copied(model: Model, **other: object) -> Model:
    """A row like that of a model, of no job."""
    columns = {each.key for each in Model.__table__.columns} - {"id", "job_id"}
    return Model(**{key: getattr(model, key) for key in columns} | other)
