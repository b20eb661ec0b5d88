"""The worker: takes jobs, trains, writes decisions, publishes."""

from assent.service.database import Database
from assent.service.settings import ServiceSettings


def work_once(database: Database, settings: ServiceSettings, *, worker: str) -> bool:
    """Take and do one job; return False if there is none."""
    raise NotImplementedError
