"""What every request passes: bounds on its size, where a form may come from, headers, the log of requests.

The log has the method, the route's template, the status and the time that it took. It has no path, query, id,
address or token: those say who did what.
"""

import json
import logging
import time
import traceback
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

API: Final = "/v1/"
BULK: Final = "/bulk"
MOST_BYTES: Final = 256 * 1024
MOST_BULK_BYTES: Final = 8 * 1024 * 1024
MOST_ADDRESS_BYTES: Final = 8 * 1024
TITLES: Final = {
    400: "The request cannot be read",
    401: "A key is needed",
    403: "Not allowed",
    404: "Not found",
    405: "This method is not offered here",
    409: "Conflict",
    413: "Too large",
    414: "The address is too long",
    422: "Not accepted",
    429: "Too many attempts",
    500: "Something went wrong",
    503: "Not available now",
}
"""Of problems, by status."""
_SAFE: Final = ("GET", "HEAD", "OPTIONS")
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), browsing-topics=()",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_log = logging.getLogger("assent.access")
_errors = logging.getLogger("assent.errors")


class Boundary:
    """The outermost layer of the application."""

    def __init__(self, app: ASGIApp, *, is_https: bool) -> None:
        self.app = app
        held = {**_HEADERS, "Strict-Transport-Security": "max-age=31536000"} if is_https else _HEADERS
        self.headers = [(name.lower().encode(), value.encode()) for name, value in held.items()]
        """As they are sent; no route sets one of these."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun, status = time.perf_counter(), 500

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                own = list(message.get("headers", ()))
                if not any(name == b"cache-control" for name, _ in own):
                    own.append((b"cache-control", b"no-store"))
                message = {**message, "headers": [*own, *self.headers]}
            await send(message)

        try:
            if refusal := refused(scope):
                await plain(scope, answer, *refusal)
            else:
                await self.app(scope, bounded(scope, receive), answer)
        except Exception as error:  # nothing of an exception's text goes anywhere: it may name people
            last = traceback.extract_tb(error.__traceback__)[-1]
            _errors.error("%s at %s:%d", type(error).__name__, last.filename, last.lineno or 0)
            await plain(scope, answer, 500, "something went wrong here: accepted: the same again later")
        route = getattr(scope.get("route"), "path", "-")
        milliseconds = (time.perf_counter() - begun) * 1000
        _log.info("%s %s %d %.1f ms", scope["method"], route, status, milliseconds)


def refused(scope: Scope) -> tuple[int, str] | None:
    """Return the status and words for a request that is not looked at any further."""
    headers = Headers(scope=scope)
    if len(scope.get("raw_path") or b"") + len(scope["query_string"]) > MOST_ADDRESS_BYTES:
        return 414, f"the address is too long: accepted: up to {MOST_ADDRESS_BYTES} bytes"
    length = headers.get("content-length", "0")
    if not length.isascii() or not length.isdigit():
        return 400, "content-length: accepted: a number of bytes"
    if len(length) > 15 or int(length) > most_bytes(scope):
        return 413, f"the request is too large: accepted: up to {most_bytes(scope)} bytes"
    if scope["method"] not in _SAFE and not scope["path"].startswith(API) and comes_from_elsewhere(headers):
        return 403, "this form was sent by another site: accepted: forms of this one"
    return None


def most_bytes(scope: Scope) -> int:
    """Return how large the body of a request may be."""
    return MOST_BULK_BYTES if scope["path"].endswith(BULK) else MOST_BYTES


def comes_from_elsewhere(headers: Headers) -> bool:
    """Whether a browser says that another site sent the form."""
    if site := headers.get("sec-fetch-site"):
        return site not in ("same-origin", "none")
    origin = headers.get("origin")
    return origin is not None and urlsplit(origin).netloc != headers.get("host")


def bounded(scope: Scope, receive: Receive) -> Receive:
    """Return a `receive` that refuses bodies that turn out too large."""
    most, received = most_bytes(scope), 0

    async def receive_some() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > most:
            raise HTTPException(413, f"the request is too large: accepted: up to {most} bytes")
        return message

    return receive_some


async def plain(scope: Scope, send: Send, status: int, detail: str) -> None:
    """Answer before the application is reached, or after it failed: to programs with a problem (RFC 9457)."""
    if scope["path"].startswith(API):
        kind = b"application/problem+json"
        title = TITLES[status]
        body = json.dumps({"type": "about:blank", "title": title, "status": status, "detail": detail})
    else:
        kind = b"text/plain; charset=utf-8"
        body = f"{detail[0].upper()}{detail[1:]}.\n"
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", kind)]})
    await send({"type": "http.response.body", "body": body.encode()})
