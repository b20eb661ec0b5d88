"""Errors: as RFC 9457 problems for programs, as a plain page for people. Nothing of a request is repeated."""

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel, Field
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from starlette.exceptions import HTTPException

from assent.service.boundary import API, TITLES
from assent.service.database import ConflictError, NotFoundError
from assent.service.security import NotAllowedError, RefusedError, TooManyError
from assent.service.serving import UnreadableModelError
from assent.support.errors import AssentError

_log = logging.getLogger("assent.errors")


class Wrong(BaseModel):
    """One thing that is wrong with a request."""

    where: str = Field(description="The place in the request, such as `body.interactions.3.item`.")
    what: str


class Problem(BaseModel):
    """What went wrong, as RFC 9457 has it."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    errors: list[Wrong] | None = None


class ProblemResponse(JSONResponse):
    """A response of the type that RFC 9457 names."""

    media_type = "application/problem+json"


def described(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return how the API's description names the problems of these statuses."""
    content = {ProblemResponse.media_type: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {status: {"description": TITLES[status], "content": content} for status in statuses}


def operation_id(route: APIRoute) -> str:
    """Return how the API's description names what a route does: programs that it generates are called so."""
    return f"{route.name}_{route.tags[0]}".replace(" ", "_")


ErrorPage = Callable[[Request, int, str | None], Response]
"""Draws the page of a status, and of its cause where there are several."""


def answer_errors(app: FastAPI, page: ErrorPage) -> None:
    """Answer every error of the routes: with a problem under /v1, with a page elsewhere."""

    def answer(
        request: Request,
        status: int,
        detail: str,
        *,
        errors: Sequence[Wrong] = (),
        wait: int | None = None,
        cause: str | None = None,
    ) -> Response:
        if is_api(request):
            problem = Problem(
                title=TITLES.get(status, "Error"), status=status, detail=detail, errors=list(errors) or None
            )
            response: Response = ProblemResponse(problem.model_dump(exclude_none=True), status)
        else:
            response = page(request, status, cause)
        if status == 401:
            response.headers["WWW-Authenticate"] = "Bearer"
        if wait is not None:
            response.headers["Retry-After"] = str(wait)
        return response

    def of_http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        response = answer(request, error.status_code, str(error.detail))
        response.headers.update(error.headers or {})
        return response

    def of_validation(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        found = error.errors()
        errors = [Wrong(where=".".join(map(_place, each["loc"])), what=_what(each["msg"])) for each in found]
        if any(each["type"] == "model_attributes_type" and each["loc"] == ("body",) for each in found):
            errors = [Wrong(where="body", what="accepted: an object, with Content-Type: application/json")]
        malformed = any(each["type"] == "json_invalid" for each in found)
        first = f"{errors[0].where}: {errors[0].what}" if errors else "the request is not accepted"
        return answer(request, 400 if malformed else 422, first, errors=errors)

    def of_assent(request: Request, error: Exception) -> Response:
        wait = error.retry_after if isinstance(error, TooManyError) else None
        cause = error.cause if isinstance(error, RefusedError | NotAllowedError) else None
        return answer(request, status_of(error), str(error), wait=wait, cause=cause)

    def of_database(request: Request, error: Exception) -> Response:
        # The text of such an error has the statement's values, which name people.
        _log.error("%s: the database did not answer", type(error).__name__)
        return answer(request, 503, "the database did not answer: accepted: the same request later", wait=1)

    app.add_exception_handler(HTTPException, of_http)
    app.add_exception_handler(RequestValidationError, of_validation)
    app.add_exception_handler(AssentError, of_assent)
    app.add_exception_handler(DBAPIError, of_database)
    app.add_exception_handler(SQLAlchemyError, of_database)


def is_api(request: Request) -> bool:
    """Whether a program asks."""
    return request.url.path.startswith((API, "/health/"))


def status_of(error: Exception) -> int:
    """Return the status of an error of assent."""
    return next((status for kind, status in _STATUSES.items() if isinstance(error, kind)), 422)


_STATUSES: Final = {
    RefusedError: 401,
    NotAllowedError: 403,
    NotFoundError: 404,
    ConflictError: 409,
    TooManyError: 429,
    UnreadableModelError: 503,
}


def _place(part: object) -> str:
    """A part of a place: names of fields that a client made up are cut."""
    return str(part)[:60].encode("ascii", "replace").decode()


def _what(message: str) -> str:
    return message.removeprefix("Value error, ")
