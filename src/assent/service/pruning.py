"""Deleting what is over: decisions and run folders of old models, and what failed jobs left."""

import re
import shutil
from pathlib import Path
from time import time
from typing import Final

from sqlalchemy import delete, exists, select
from sqlalchemy.orm import Session

from assent.service import models
from assent.service.database import Database
from assent.service.settings import ServiceSettings
from assent.service.tables import Decision, Job, Model

_FOLDER: Final = re.compile(r"job-(\d+)-\d+")


def prune(database: Database, settings: ServiceSettings) -> None:
    """Delete decisions and run folders of old models, beyond those that are kept, and what failed jobs left.

    Models that may not go back into service, because they know somebody who was erased since, are not kept.
    """
    with database.writing() as session:
        old = select(Model).where(Model.id.in_(_old(session, settings)), Model.pruned.is_(None))
        # Who publishes locks a model too: what is passed over here may be in service a moment later.
        locked = session.scalars(old.with_for_update(skip_locked=True, key_share=True)).all()
        needed = models.needed(session)
        for each in locked:
            each.pruned = None if each.id in needed else time()
    with database.reading() as session:
        left = exists().where(Decision.model_id == Model.id)
        emptied = session.scalars(select(Model.id).where(Model.pruned.is_not(None), left)).all()
    for id in emptied:
        with database.writing() as session:
            session.execute(delete(Decision).where(Decision.model_id == id))
    for folder in _left_over(database, settings):
        shutil.rmtree(folder, ignore_errors=True)


def _old(session: Session, settings: ServiceSettings) -> set[int]:
    """Return the models that are neither needed nor kept to roll back to."""
    there = session.scalars(select(Model).where(Model.pruned.is_(None)).order_by(Model.id.desc())).all()
    needed, now = models.needed(session), models.in_service_id(session)
    others = [each for each in there if each.id not in needed]
    kept = others
    if others and now is not None:
        current = session.get_one(Model, now)
        erased = models.erased_after(session, min(each.trained_upto for each in others))
        kept = [
            each
            for each in others
            if erased is None or each.trained_upto > erased or not models.is_step_back(each, current)
        ]
    kept = kept[: settings.keep_models]
    return {each.id for each in others} - {each.id for each in kept} - models.rested_on(kept)


def _left_over(database: Database, settings: ServiceSettings) -> list[Path]:
    """Return run folders of pruned models, and of jobs that ended without a model."""
    there = {each.name: each for each in settings.runs.glob("*")}
    jobs_of = {name: int(found[1]) for name in there if (found := _FOLDER.fullmatch(name))}
    with database.snapshot() as session:
        known = dict(session.execute(select(Model.folder, Model.pruned).where(Model.folder.in_(there))).all())
        over = select(Job.id).where(Job.id.in_(jobs_of.values()), Job.state.in_(("done", "failed")))
        ended = set(session.scalars(over))
    return [
        each
        for name, each in there.items()
        if (known[name] is not None if name in known else jobs_of.get(name) in ended)
    ]
