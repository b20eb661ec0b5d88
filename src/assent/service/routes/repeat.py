"""Writes that may be repeated: a request with a known Idempotency-Key gets the answer that it got before.

A key is claimed before the work, and gets its answer in the transaction of the work: either both are stored,
or neither is. A claim whose process died before that is free again after a minute. Who works for longer than
that loses the claim if the request comes again meanwhile, and then stores nothing.
"""

import re
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Annotated, Any, Final, cast

from fastapi import APIRouter, Depends, Header, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response
from pydantic_core import to_json
from sqlalchemy import ColumnElement, CursorResult, and_, delete, or_, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from assent.service.access import KeyedRoute, Service, service_of, shown_key, strict
from assent.service.database import ConflictError
from assent.service.problems import described, operation_id
from assent.service.security import REPLY_SECONDS, hashed, keyed
from assent.service.tables import Reply
from assent.support.errors import AssentError

HEADER: Final = "Idempotency-Key"
CLAIM_SECONDS: Final = 60
_ACCEPTED = r"[\x21-\x7e]{1,255}"


@dataclass
class Claim:
    """A request's right to be done, by its Idempotency-Key."""

    holder: str
    key: str
    created: float
    """Tells it from a later claim of the same key."""
    is_answered: bool = False

    @property
    def mine(self) -> ColumnElement[bool]:
        """The row of this claim, until it has an answer."""
        same = (Reply.key_id == self.holder, Reply.idempotency_key == self.key)
        return and_(*same, Reply.created == self.created, Reply.status.is_(None))


@dataclass(frozen=True)
class Once:
    """What a route that writes answers with."""

    claim: Claim | None
    """None without an Idempotency-Key."""
    status: int

    def response(self, content: object = None) -> Response:
        """Return the answer, as JSON if there is any."""
        return Response(status_code=self.status) if content is None else as_json(content, self.status)

    def answer(self, session: Session, content: object = None, *, user: str | None = None) -> Response:
        """Return the answer, and keep it in the transaction of the work, until its `user` is erased.

        `ConflictError` if another request has the claim by now: nothing may be stored then.
        """
        response = self.response(content)
        if self.claim is None:
            return response
        kept = update(Reply).where(self.claim.mine)
        values = {"status": self.status, "body": bytes(response.body).decode() or None}
        person = None if user is None else hashed(user)
        done = cast("CursorResult[None]", session.execute(kept.values(person=person, **values)))
        if done.rowcount != 1:
            raise ConflictError(f"{HEADER}: the same request came again: accepted: the same request later")
        self.claim.is_answered = True
        return response


async def _once(
    request: Request,
    key: Annotated[
        str | None,
        Header(
            alias=HEADER,
            min_length=1,
            max_length=255,
            pattern=f"^{_ACCEPTED}$",
            description="A text of your own. The same request with the same text is done once.",
        ),
    ] = None,
) -> Once:
    """Return what a request is answered by; refuse keys that are none."""
    del key  # it is claimed before anything else of the request is read
    return Once(getattr(request.state, "claim", None), request.scope["route"].status_code or 200)


Answering = Annotated[Once, Depends(_once)]
"""What routes declare that write."""


class _Repeatable(KeyedRoute):
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return a handler that looks for an earlier answer first."""
        handle = super().get_route_handler()

        async def handle_once(request: Request) -> Response:
            key = request.headers.get(HEADER)
            if key is None or request.method == "GET" or not re.fullmatch(_ACCEPTED, key):
                return await handle(request)
            holder, request = await shown_key(request), strict(request)
            service, body = service_of(request), await request.body()
            asked = keyed(service.secret, f"{request.method} {request.url.path}?{request.url.query} {body!r}")
            claim = await run_in_threadpool(_claimed, service, holder.key_id, key, asked)
            if isinstance(claim, Response):
                return claim
            request.state.claim = claim
            try:
                response = await handle(request)
            except BaseException:
                await run_in_threadpool(_release, service, claim)
                raise
            if not claim.is_answered:
                await run_in_threadpool(_release, service, claim)
            return response

        return handle_once


def _claimed(service: Service, holder: str, key: str, asked: str) -> Claim | Response:
    """Claim a key, or return the answer that was given to it; refuse another request and one under way."""
    now = time.time()
    with service.database.writing() as session:
        insert = postgresql.insert if session.get_bind().dialect.name == "postgresql" else sqlite.insert
        mine = (Reply.key_id == holder, Reply.idempotency_key == key)
        lost = and_(Reply.status.is_(None), Reply.created < now - CLAIM_SECONDS)
        session.execute(delete(Reply).where(*mine, or_(Reply.created < now - REPLY_SECONDS, lost)))
        row = insert(Reply).values(key_id=holder, idempotency_key=key, request_hash=asked, created=now)
        new = session.execute(row.on_conflict_do_nothing().returning(Reply.created)).first()
        if new is not None:
            return Claim(holder, key, now)
        earlier = session.get_one(Reply, (holder, key))
        if earlier.request_hash != asked:
            raise AssentError(
                f"{HEADER}: was given with another request: accepted: a new one for each request"
            )
        if earlier.status is None:
            raise ConflictError(f"{HEADER}: the same request is under way: accepted: the same request later")
        headers = {"Idempotency-Replayed": "true"}
        return Response(earlier.body, earlier.status, headers, "application/json" if earlier.body else None)


def _release(service: Service, claim: Claim) -> None:
    with service.database.writing() as session:
        session.execute(delete(Reply).where(claim.mine))


def api_router(tag: str) -> APIRouter:
    """Return a router of the API whose writes may be repeated."""
    errors = described(400, 401, 403, 404, 409, 413, 422, 429, 503)
    return APIRouter(
        prefix="/v1",
        tags=[tag],
        route_class=_Repeatable,
        responses=errors,
        generate_unique_id_function=operation_id,
    )


def as_json(content: object, status: int = 200) -> Response:
    """Return an answer as it is, for the routes that are asked most.

    Tests compare what is sent with the description (schemathesis); checking every row takes as long again.
    """
    return Response(to_json(content), status, media_type="application/json")
