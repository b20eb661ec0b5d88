"""How a page is drawn: templates, the texts of the reader's language, and what all pages have."""

import re
from collections.abc import Callable
from functools import cache, lru_cache
from importlib import resources
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from fastapi import Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from assent.service.access import service_of
from assent.service.security import PERSON, Visitor
from assent.service.texts import Texts, texts_for

STATIC: Final = str(resources.files("assent.service.pages").joinpath("static"))
NONE: Final = "none"
"""What a form sends to take a choice back."""
SAID_SECONDS: Final = 60
"""How long a browser keeps what the next page says first."""
_PEOPLE: Final = {
    "/me": "nav.overview",
    "/me/entries": "nav.entries",
    "/me/categories": "nav.categories",
    "/me/recommendations": "nav.recommendations",
    "/me/history": "nav.history",
    "/me/data": "nav.data",
}
_OPERATOR: Final = {
    "/operator": "nav.operator",
    "/operator/models": "nav.models",
    "/operator/frontier": "nav.frontier",
    "/operator/jobs": "nav.jobs",
    "/operator/audit": "nav.audit",
}


class _Translated(PackageLoader):
    """The templates in one language: texts that take no values are put in when a template is read."""

    def __init__(self, texts: Texts) -> None:
        super().__init__("assent.service.pages")
        self._texts = texts

    def get_source(
        self, environment: Environment, template: str
    ) -> tuple[str, str, Callable[[], bool] | None]:
        """Return a template with its texts."""
        source, file, is_current = super().get_source(environment, template)
        return _TEXT.sub(lambda found: escape(self._texts(found[1])), source), file, is_current


_TEXT: Final = re.compile(r'\{\{ t\("([\w.]+)"\) \}\}')


@cache
def templates(texts: Texts) -> Environment:
    """Return the templates. Every value is escaped; one that is missing is an error, not a blank."""
    return Environment(
        loader=_Translated(texts),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )


def texts_of(request: Request) -> Texts:
    """Return the texts of the reader's language."""
    return texts_for(request.headers.get("accept-language", ""))


def draw(
    request: Request, template: str, *, visitor: Visitor | None = None, status: int = 200, **values: Any
) -> Response:
    """Return a page."""
    settings, texts = service_of(request).settings, texts_of(request)
    here = request.url.path
    pages = _PEOPLE if visitor is None or visitor.kind == PERSON else _OPERATOR
    said = f"said.{request.cookies.get(_said(request), '')}"
    page = templates(texts).get_template(template)
    html = page.render(
        t=texts,
        platform=settings.controller.name,
        base=base_of(request),
        here=here,
        visitor=visitor,
        navigation=[(address, texts(key)) for address, key in pages.items()],
        choices=texts.offered(settings.closed),
        said=texts(said) if texts.has(said) else None,
        **values,
    )
    vary = {"Vary": "Accept-Language, Cookie", "Content-Language": texts.language}
    response = HTMLResponse(html, status, vary)
    if _said(request) in request.cookies:
        response.delete_cookie(_said(request), **_held(request))
    return response


def base_of(request: Request) -> str:
    """Return the path under which the service is reached, without a slash at the end."""
    return urlsplit(service_of(request).settings.public_url).path.rstrip("/")


def address(request: Request, path: str, **query: str | None) -> str:
    """Return the address of a page, with what is given of its query."""
    given = {name: value for name, value in query.items() if value}
    return f"{base_of(request)}{path}{'?' if given else ''}{urlencode(given)}"


def go(request: Request, path: str, *, said: str | None = None, **query: str | None) -> Response:
    """Send a browser to another page, after a form.

    `said` is the key of what that page says first. It goes by a cookie that is read once: an address that
    anybody can write must not make the service say what is not so.
    """
    response = RedirectResponse(address(request, path, **query), 303)
    if said is not None:
        response.set_cookie(_said(request), said, max_age=SAID_SECONDS, **_held(request))
    return response


def _said(request: Request) -> str:
    return f"{service_of(request).cookie}-said"


def _held(request: Request) -> dict[str, Any]:
    return {
        "secure": service_of(request).settings.secure_cookies,
        "httponly": True,
        "samesite": "lax",
    }


def error_page(request: Request, status: int, cause: str | None = None) -> Response:
    """Return the page of an error; several causes of one status have a text each."""
    texts = texts_of(request)
    keys = (f"error.{status}.{cause}", f"error.{status}", "error.400" if status < 500 else "error.500")
    key = next(each for each in keys if texts.has(each))
    return draw(request, "error.html", status=status, title=texts(key), detail=texts(f"{key}.detail"))


def options(
    texts: Texts, own: float | None, source: str, inherited: float | None, category: str | None = None
) -> Markup:
    """Return the options of a choice in a list: `own` was said of it, `inherited` counts otherwise.

    `source` is who said what is inherited, as in `Row.source`; `category`, of which, where it is one.
    """
    return _options(texts, own, source, None if inherited is None else texts.choice(inherited), category)


@lru_cache(maxsize=1000)
def _options(
    texts: Texts, own: float | None, source: str, inherited: str | None, category: str | None
) -> Markup:
    rest = texts("choice.none")
    if inherited is not None:
        rest = texts(f"choice.as.{source}", choice=inherited, category=category)
    listed = {NONE: rest, **{choice.value: choice.label for choice in texts.choices}}
    if own is not None:
        listed.setdefault(sent(own), texts.choice(own))
    return Markup("").join(
        Markup('<option value="{}"{}>{}</option>').format(
            value, Markup(" selected") if value == sent(own) else "", escape(label)
        )
        for value, label in listed.items()
    )


def sent(unwillingness: float | None) -> str:
    """Return how a form sends an unwillingness."""
    return NONE if unwillingness is None else f"{unwillingness:g}"
