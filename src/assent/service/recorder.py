"""Group commit: the wishes that people say at the same time are stored together."""

import queue
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Thread
from typing import Final

from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as NoConnectionError
from sqlalchemy.orm import Session

from assent.service.database import Database
from assent.service.settings import ServiceSettings
from assent.service.wishes import Recorded, Said, record

_NO_ANSWER: Final = (OperationalError, InterfaceError, NoConnectionError)
"""Errors of a database that does not answer: asked for each request, it would take as long each time."""


Then = Callable[[Session, list[Recorded]], object]
"""What is done in the transaction that stores wishes; if it fails they are not stored."""


@dataclass
class _Request:
    user: str
    said: tuple[Said, ...]
    then: "Then | None"
    done: "Future[list[Recorded]]" = field(default_factory=Future)


class Recorder:
    """Writes the wishes of a web process: one thread, one transaction for all that waits (group commit).

    While a transaction is being written to disk, requests gather for the next. So the disk limits how long
    one wish takes, and hardly how many are stored in a second.
    """

    MOST: Final = 256
    """Requests in one transaction."""
    MOST_WISHES: Final = 2000
    """Wishes in one transaction, but for what the last of its requests has more of: others wait for it."""

    def __init__(self, database: Database, settings: ServiceSettings) -> None:
        self._database, self._settings = database, settings
        self._waiting: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        self._thread = Thread(target=self._run, name="assent-recorder", daemon=True)
        self._thread.start()

    def submit(self, user: str, said: Sequence[Said], then: Then | None = None) -> "Future[list[Recorded]]":
        """Return a future that is done once the wishes are durably stored, or refused by an exception."""
        request = _Request(user, tuple(said), then)
        self._waiting.put(request)
        return request.done

    @property
    def is_at_work(self) -> bool:
        """Whether wishes are written."""
        return self._thread.is_alive()

    def close(self) -> None:
        """Write what waits, and end the thread."""
        self._waiting.put(None)
        self._thread.join()

    def _run(self) -> None:
        ended = False
        while not ended:
            batch = [self._waiting.get()]
            wishes = _wishes_of(batch[0])
            while len(batch) < self.MOST and wishes < self.MOST_WISHES:
                try:
                    batch.append(self._waiting.get_nowait())
                except queue.Empty:
                    break
                wishes += _wishes_of(batch[-1])
            ended = None in batch
            # Whoever has given up meanwhile is left out; from here on nobody can.
            requests = [each for each in batch if each and each.done.set_running_or_notify_cancel()]
            if requests:
                self._write(requests)

    def _write(self, requests: Sequence[_Request]) -> None:
        try:
            with self._database.writing() as session:
                found = record(session, self._settings, [(each.user, each.said) for each in requests])
                for request, answer in zip(requests, found, strict=True):
                    if request.then is not None and not isinstance(answer, Exception):
                        request.then(session, answer)
        except Exception as error:  # whatever it is, everybody who waits has to learn of it
            if len(requests) > 1 and not isinstance(error, _NO_ANSWER):
                for each in requests:  # one of them cannot be written: the others can
                    self._write([each])
                return
            found = [error] * len(requests)
        for request, answer in zip(requests, found, strict=True):
            if isinstance(answer, Exception):
                request.done.set_exception(answer)
            else:
                request.done.set_result(answer)


def _wishes_of(request: _Request | None) -> int:
    return 0 if request is None else len(request.said)
