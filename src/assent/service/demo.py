"""Demo data: a small simulated log with titles and categories, and a demo person."""

from typing import Final

from assent.service.database import Database
from assent.service.settings import ServiceSettings

DEMO_PERSON: Final = "demo"
"""The platform's id of the demo person."""


def make_demo(database: Database, settings: ServiceSettings) -> None:
    """Fill an empty database with the demo, train a first model and put it into service (a few seconds)."""
    raise NotImplementedError
