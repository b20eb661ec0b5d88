"""How a route lets somebody in. A route names what it needs, and gets its database sessions from that alone.

    `Annotated[Caller, KeyFor("wishes")]`   a platform with a key of that scope
    `Annotated[Door, VisitOf(PERSON)]`      a person in a browser; who that is comes from the visit alone
    `Annotated[Door, VisitOf(OPERATOR)]`    the operator in a browser
    `Annotated[Door, VisitOf(ANY)]`         either
    `Annotated[Door, PUBLIC]`               anybody

The test of all routes reads these declarations, so that a new route is tested by being there.
"""

import json
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from fastapi import Depends, HTTPException, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.params import Depends as Dependency
from fastapi.responses import Response
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from sqlalchemy.orm import Session
from starlette.datastructures import FormData

from assent.service import security
from assent.service.database import Database
from assent.service.interactions import CONTROL
from assent.service.recorder import Recorder
from assent.service.security import KeyHolder, NotAllowedError, RefusedError, Visitor
from assent.service.serving import Server
from assent.service.settings import ServiceSettings
from assent.support.errors import AssentError

KEY_SECONDS: Final = 2.0
"""For how long a process takes a key that it has checked as good."""
FAILURES: Final = {"most": 30, "seconds": 60}
"""How many wrong keys or links an address may try."""
SAVES: Final = {"most": 120, "seconds": 60}
"""How many forms a visit may send."""
ANY: Final = "any"
"""A visit of either kind."""
_MOST_KEYS: Final = 1000


@dataclass(frozen=True)
class Service:
    """What all requests of a process share."""

    database: Database
    settings: ServiceSettings
    recorder: Recorder
    server: Server
    secret: bytes
    """Of this service, in its folder and not in its database."""
    keys: dict[str, tuple[KeyHolder, float]] = field(default_factory=dict)
    """Keys that were checked, by the hash of their text, and until when that counts."""

    @property
    def cookie(self) -> str:
        """The name of the visit's cookie; browsers bind the prefix `__Host-` to this host and https."""
        return "__Host-assent" if self.settings.secure_cookies else "assent"


def service_of(request: Request) -> Service:
    """Return what all requests share."""
    found: Service = request.app.state.service
    return found


def address_of(request: Request) -> str:
    """Return where a request comes from, for limits alone."""
    return request.client.host if request.client else ""


# Platforms


@dataclass(frozen=True)
class Caller:
    """A platform with a key of the scope that the route needs."""

    service: Service
    holder: KeyHolder

    @property
    def by(self) -> str:
        """How the audit log names the caller."""
        return f"key {self.holder.key_id}"


class Needs:
    """What a route needs: read by the test of all routes."""

    def __init__(self, needs: str) -> None:
        self.needs = needs


class _Key(Needs, HTTPBearer):
    """A key, as the API's description has it. `shown_key` reads it, also for requests that are repeated."""

    def __init__(self, needs: str) -> None:
        Needs.__init__(self, needs)
        HTTPBearer.__init__(self, scheme_name="HTTPBearer", description="A platform key: `assent_…`.")

    async def __call__(self, request: Request) -> Caller:  # type: ignore[override]  # more than what it shows
        """Return the caller; refuse other keys before anything else of the request is looked at."""
        holder = await shown_key(request)
        holder.check(self.needs)
        return Caller(service_of(request), holder)


def KeyFor(scope: str) -> Any:  # noqa: N802  (reads like FastAPI's own)
    """Declare that a route needs a key of a scope."""
    return Depends(_Key(scope))


class KeyedRoute(APIRoute):
    """A route of platforms: without a key, nothing of a request is read."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return a handler that asks for the key first; FastAPI would read the body first."""
        handle = super().get_route_handler()

        async def handle_known(request: Request) -> Response:
            await shown_key(request)
            if len(request.query_params) < len(request.query_params.multi_items()):
                raise HTTPException(400, "a name comes twice in the address: accepted: once")
            return await handle(strict(request))

        return handle_known


class StrictRequest(Request):
    """A request in whose JSON a name that comes twice is refused: which one counts would be a guess."""

    async def json(self) -> Any:
        """Return what the body has."""
        if not hasattr(self, "_json"):
            self._json = json.loads(await self.body(), object_pairs_hook=_object)
        return self._json


def strict(request: Request) -> StrictRequest:
    """Return a request whose JSON is read strictly; its body is not read yet."""
    if isinstance(request, StrictRequest):
        return request
    return StrictRequest(request.scope, request.receive)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise HTTPException(400, "a name comes twice in an object: accepted: once")
    return found


async def shown_key(request: Request) -> KeyHolder:
    """Return whose key a request shows."""
    service = service_of(request)
    scheme, _, text = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not text:
        raise RefusedError("there is no key: accepted: the header Authorization: Bearer KEY")
    place, now = security.hashed(text), time.monotonic()
    holder, until = service.keys.get(place, (None, 0.0))
    if holder is None or until < now:
        holder = await run_in_threadpool(_checked, service, text.strip(), address_of(request))
        if len(service.keys) >= _MOST_KEYS:
            service.keys.clear()
        service.keys[place] = (holder, now + KEY_SECONDS)
    return holder


def _checked(service: Service, text: str, address: str) -> KeyHolder:
    """Look a key up. A wrong one is counted; a good one works however many wrong ones were tried."""
    try:
        with service.database.reading() as session:
            holder = security.check_key(session, text)
    except RefusedError:
        count_failure(service, f"key {address}")
        raise
    if holder.is_stale:
        with service.database.writing() as session:
            security.note_use(session, holder)
    return holder


def count_failure(service: Service, who: str) -> None:
    """Count a wrong key or link; refuse whoever tries too many."""
    with service.database.writing() as session:
        security.count_attempt(session, service.secret, who, **FAILURES)


# People and operators in a browser


class Door:
    """What a page's route gets: sessions of the database, once the visit (and a form's token) was checked."""

    def __init__(self, request: Request, needs: str | None, form: FormData | None) -> None:
        self.request = request
        self.service = service_of(request)
        self.form = form
        self._needs = needs

    @contextmanager
    def reading(self) -> Iterator[tuple[Session, Visitor]]:
        """Yield a session to read with, and who visits."""
        with self.service.database.reading() as session:
            visitor = self._checked(session)
            yield session, visitor
        if visitor.is_stale:
            with self.service.database.writing() as session:
                security.note_visit(session, visitor)

    @contextmanager
    def snapshot(self) -> Iterator[tuple[Session, Visitor]]:
        """Yield a session for one long consistent reading, and who visits."""
        with self.service.database.snapshot() as session:
            yield session, self._checked(session)

    @contextmanager
    def writing(self) -> Iterator[tuple[Session, Visitor]]:
        """Yield a session that is committed at the end, and who visits."""
        with self.service.database.writing() as session:
            visitor = self._checked(session)
            yield session, visitor

    def check(self) -> Visitor:
        """Return who visits, for a route that hands its work to others. Counts what is sent."""
        with self.service.database.writing() as session:
            visitor = self._checked(session)
            security.count_attempt(session, self.service.secret, f"visit {visitor.token_hash}", **SAVES)
        return visitor

    def asked(self, name: str) -> str:
        """Return a text of the address's query; empty if there is none."""
        return _printable(name, self.request.query_params.get(name, ""))

    @property
    def posted(self) -> FormData:
        """The form that was sent."""
        assert self.form is not None  # routes of forms are those of POST
        return self.form

    def visitor(self, session: Session) -> Visitor | None:
        """Return who visits, if anybody does."""
        secret = self.request.cookies.get(self.service.cookie)
        return security.find_visit(session, secret) if secret else None

    def _checked(self, session: Session) -> Visitor:
        visitor = self.visitor(session)
        if visitor is None or self._needs is None:
            raise RefusedError("nobody visits: accepted: a new link from the platform")
        if self._needs not in (visitor.kind, ANY):
            raise NotAllowedError(f"this page is for a visit of another kind: {self._needs}", self._needs)
        if self.form is not None and not security.same(visitor.csrf, text_of(self.form, "csrf")):
            raise NotAllowedError(
                "this form is not of this visit: accepted: the form as it was shown", "form"
            )
        return visitor


class _Visit(Needs):
    async def __call__(self, request: Request) -> Door:
        """Return the door; a form is read here, so that no route can forget its token."""
        needs = None if self.needs == "public" else self.needs
        form = await request.form(max_files=0, max_fields=1000) if request.method == "POST" else None
        return Door(request, needs, form)


def VisitOf(kind: str) -> Any:  # noqa: N802
    """Declare that a route needs the visit of a person or of the operator."""
    return Depends(_Visit(kind))


PUBLIC: Final = Depends(_Visit("public"))
"""Declare that anybody may call a route."""


def needs_of(dependencies: list[Any]) -> set[str]:
    """Return what a route's dependencies declare."""
    calls = [each.dependency if isinstance(each, Dependency) else each.call for each in dependencies]
    return {call.needs for call in calls if isinstance(call, Needs)}


def text_of(form: FormData, name: str) -> str:
    """Return a text of a form; empty if there is none."""
    found = form.get(name)
    return _printable(name, found) if isinstance(found, str) else ""


def texts_of(form: FormData, name: str) -> list[str]:
    """Return all texts of a name, in the order of the form."""
    return [_printable(name, each) for each in form.getlist(name) if isinstance(each, str)]


def _printable(name: str, text: str) -> str:
    """Return a text; refuse what no id, title or category has, and no database takes."""
    if CONTROL.search(text):
        raise AssentError(f"{name}: control characters: accepted: printable text")
    return text
