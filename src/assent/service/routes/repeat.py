"""Writes that may be repeated: a request with a known Idempotency-Key gets the answer that it got before.

A key is claimed before the work and gets its answer after it. A claim whose process died is free again after
a minute; what it had stored by then is stored, and doing the work of these routes again adds no second
interaction or job.
"""

import re
import time
from collections.abc import Callable, Coroutine
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Header, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response
from pydantic_core import to_json
from sqlalchemy import delete, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from assent.service.access import KeyedRoute, Service, service_of, shown_key
from assent.service.database import ConflictError
from assent.service.problems import described, operation_id
from assent.service.security import REPLY_SECONDS, hashed
from assent.service.tables import Reply
from assent.support.errors import AssentError

HEADER: Final = "Idempotency-Key"
CLAIM_SECONDS: Final = 60
_ACCEPTED = r"[\x21-\x7e]{1,255}"


async def _described(
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
) -> None:
    """Tell the API's description of the header, and refuse others than these."""


class _Repeatable(KeyedRoute):
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return a handler that looks for an earlier answer first."""
        handle = super().get_route_handler()

        async def handle_once(request: Request) -> Response:
            key = request.headers.get(HEADER)
            if key is None or request.method == "GET" or not re.fullmatch(_ACCEPTED, key):
                return await handle(request)
            holder = await shown_key(request)
            service, body = service_of(request), await request.body()
            asked = hashed(f"{request.method} {request.url.path}?{request.url.query} {body!r}")
            claim = (holder.key_id, key)
            if earlier := await run_in_threadpool(_claimed, service, claim, asked):
                return earlier
            try:
                response = await handle(request)
            except BaseException:
                await run_in_threadpool(_release, service, claim)
                raise
            await run_in_threadpool(_keep, service, claim, response)
            return response

        return handle_once


def _claimed(service: Service, claim: tuple[str, str], asked: str) -> Response | None:
    """Claim a key, or return the answer that was given to it; refuse another request and one under way."""
    now = time.time()
    with service.database.writing() as session:
        insert = postgresql.insert if session.get_bind().dialect.name == "postgresql" else sqlite.insert
        _drop_old(session, claim, now)
        row = insert(Reply).values(key_id=claim[0], idempotency_key=claim[1], request_hash=asked, created=now)
        new = session.execute(row.on_conflict_do_nothing().returning(Reply.created)).first()
        if new is not None:
            return None
        earlier = session.get_one(Reply, claim)
        if earlier.request_hash != asked:
            raise AssentError(
                f"{HEADER}: was given with another request: accepted: a new one for each request"
            )
        if earlier.status is None:
            raise ConflictError(f"{HEADER}: the same request is under way: accepted: the same request later")
        headers = {"Idempotency-Replayed": "true"}
        return Response(earlier.body, earlier.status, headers, "application/json" if earlier.body else None)


def _drop_old(session: Session, claim: tuple[str, str], now: float) -> None:
    mine = (Reply.key_id == claim[0], Reply.idempotency_key == claim[1])
    session.execute(delete(Reply).where(*mine, Reply.created < now - REPLY_SECONDS))
    session.execute(delete(Reply).where(*mine, Reply.status.is_(None), Reply.created < now - CLAIM_SECONDS))


def _keep(service: Service, claim: tuple[str, str], response: Response) -> None:
    body = bytes(response.body).decode()
    with service.database.writing() as session:
        session.execute(
            update(Reply)
            .where(Reply.key_id == claim[0], Reply.idempotency_key == claim[1])
            .values(status=response.status_code, body=body)
        )


def _release(service: Service, claim: tuple[str, str]) -> None:
    with service.database.writing() as session:
        mine = (Reply.key_id == claim[0], Reply.idempotency_key == claim[1])
        session.execute(delete(Reply).where(*mine, Reply.status.is_(None)))


ONCE: Final = Depends(_described)
"""The dependency that describes the header, for routes that write."""


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


def as_json(content: object) -> Response:
    """Return an answer as it is, for the routes that are asked most.

    Tests compare what is sent with the description (schemathesis); checking every row takes as long again.
    """
    return Response(to_json(content), media_type="application/json")
