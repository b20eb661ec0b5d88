"""Coming in and leaving: the first page, personal links, the operator's key, the promises."""

import re
from typing import Annotated, Final

from fastapi import APIRouter
from fastapi.responses import Response

from assent.service import ledger, security
from assent.service.access import ANY, PUBLIC, Door, VisitOf, address_of, count_failure, text_of
from assent.service.demo import DEMO_PERSON, first_model
from assent.service.pages.render import draw, go, texts_of
from assent.service.security import OPERATOR, VISIT_SECONDS, NotAllowedError, RefusedError

router = APIRouter(include_in_schema=False)
Anybody = Annotated[Door, PUBLIC]
_LINK: Final = re.compile(r"[A-Za-z0-9_-]{43}")


@router.get("/")
def welcome(door: Anybody) -> Response:
    """The first page; those who visit are sent to theirs."""
    demo = door.service.settings.demo
    with door.service.database.reading() as session:
        visitor = door.visitor(session)
        waiting = first_model(session) if demo else None
    if visitor is not None:
        return go(door.request, "/operator" if visitor.kind == OPERATOR else "/me")
    return draw(door.request, "welcome.html", demo=demo, waiting=waiting)


@router.get("/promises")
def promises(door: Anybody) -> Response:
    """What is promised, and what the words mean."""
    with door.service.database.reading() as session:
        visitor = door.visitor(session)
    settings, texts = door.service.settings, texts_of(door.request)
    return draw(
        door.request,
        "promises.html",
        visitor=visitor,
        promises=texts.promises(settings.closed),
        limit=texts.limit(settings.closed),
        updates=f"promises.updates.{settings.update_vectors}",
    )


@router.get("/enter")
def show_link(door: Anybody) -> Response:
    """A page with a button: programs that follow links do not use a link up."""
    link = door.asked("link")
    if not _LINK.fullmatch(link):
        raise RefusedError("this is no link: accepted: a new link from the platform", "link")
    return draw(door.request, "enter.html", link=link)


@router.post("/enter")
def use_link(door: Anybody) -> Response:
    """Use a link up and begin a visit."""
    service, link = door.service, text_of(door.posted, "link")
    try:
        with service.database.writing() as session:
            guest = security.use_link(session, link)
            secret = security.start_visit(session, person=guest.person, key_id=guest.key_id)
    except RefusedError:
        count_failure(service, f"link {address_of(door.request)}")
        raise
    return _with_cookie(door, go(door.request, "/me"), secret)


@router.get("/operator/enter")
def show_operator(door: Anybody) -> Response:
    """Where the operator comes in."""
    return draw(door.request, "operator_enter.html")


@router.post("/operator/enter")
def enter_operator(door: Anybody) -> Response:
    """Begin the operator's visit with a key of the scope admin."""
    service = door.service
    try:
        with service.database.writing() as session:
            holder = security.check_key(session, text_of(door.posted, "key").strip())
            holder.check("admin")
            ledger.note(session, "operator came in", key=holder.key_id)
            secret = security.start_visit(session, key_id=holder.key_id)
    except (RefusedError, NotAllowedError):
        count_failure(service, f"key {address_of(door.request)}")
        raise
    return _with_cookie(door, go(door.request, "/operator"), secret)


@router.post("/demo")
def enter_demo(door: Anybody) -> Response:
    """Let anybody in, where the service is a demo and says so."""
    service = door.service
    if not service.settings.demo:
        raise NotAllowedError("this is no demo")
    is_operator = text_of(door.posted, "who") == OPERATOR
    with service.database.writing() as session:
        secret = security.start_visit(session, person=None if is_operator else DEMO_PERSON)
    return _with_cookie(door, go(door.request, "/operator" if is_operator else "/me"), secret)


@router.post("/leave")
def leave(door: Annotated[Door, VisitOf(ANY)]) -> Response:
    """End the visit."""
    with door.writing() as (session, visitor):
        security.end_visit(session, visitor)
    response = go(door.request, "/", said="left")
    response.delete_cookie(
        door.service.cookie, secure=door.service.settings.secure_cookies, httponly=True, samesite="lax"
    )
    return response


def _with_cookie(door: Door, response: Response, secret: str) -> Response:
    response.set_cookie(
        door.service.cookie,
        secret,
        max_age=VISIT_SECONDS,
        secure=door.service.settings.secure_cookies,
        httponly=True,
        samesite="lax",
    )
    return response
