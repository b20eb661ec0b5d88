"""Group commit: the wishes that people say at the same time are stored together."""

import queue
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Thread
from typing import Final

from sqlalchemy.orm import Session

from assent.service.database import Database
from assent.service.settings import ServiceSettings
from assent.service.wishes import Recorded, Said, record

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
            while len(batch) < self.MOST:
                try:
                    batch.append(self._waiting.get_nowait())
                except queue.Empty:
                    break
            ended = None in batch
            requests = [each for each in batch if each is not None]
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
            found = [error] * len(requests)
        for request, answer in zip(requests, found, strict=True):
            if isinstance(answer, Exception):
                request.done.set_exception(answer)
            else:
                request.done.set_result(answer)
