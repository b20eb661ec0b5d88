"""The application: routes, pages, errors and the boundary around them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from anyio.to_thread import current_default_thread_limiter
from fastapi import FastAPI
from fastapi.concurrency import run_in_threadpool
from fastapi.openapi.utils import get_openapi
from starlette.staticfiles import StaticFiles

from assent.service import security
from assent.service.access import Service
from assent.service.boundary import Boundary
from assent.service.database import Database
from assent.service.pages import operator, people, previews, visits
from assent.service.pages.render import STATIC, error_page
from assent.service.problems import Problem, answer_errors
from assent.service.recorder import Recorder
from assent.service.routes import ROUTERS
from assent.service.serving import Server, UnreadableModelError
from assent.service.settings import ServiceSettings

THREADS: Final = 3
"""Requests that are worked on at once. More threads only wait for each other, and each wait is a delay."""
PAGES = (visits.router, people.router, previews.router, operator.router)


def make_app(database: Database, settings: ServiceSettings) -> FastAPI:
    """Return the application. Whoever opened the database closes it, after the application has ended."""

    @asynccontextmanager
    async def live(app: FastAPI) -> AsyncIterator[None]:
        recorder, server = Recorder(database, settings), Server(settings)
        secret = security.service_secret(settings.data)
        app.state.service = Service(database, settings, recorder, server, secret)

        def warm() -> None:
            # Without a model people can still say what they mind, and withdraw: `/health/ready` tells of it.
            with database.reading() as session, suppress(UnreadableModelError):
                server.warm(session)

        current_default_thread_limiter().total_tokens = THREADS
        try:
            await run_in_threadpool(warm)
            yield
        finally:
            recorder.close()

    # The pages that FastAPI has for descriptions load scripts from elsewhere.
    app = FastAPI(
        title="assent",
        version="1",
        description="Recommendation that asks before it uses.",
        lifespan=live,
        openapi_url="/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    # A router that is included looks for its route twice, which shows in every request.
    app.router.routes += [route for router in (*ROUTERS, *PAGES) for route in router.routes]
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    answer_errors(app, error_page)
    app.add_middleware(Boundary, is_https=settings.secure_cookies)
    app.openapi = lambda: _described(app)  # type: ignore[method-assign]  # FastAPI's own way to change it
    return app


def _described(app: FastAPI) -> dict[str, Any]:
    """Return the description of the API, with problems (RFC 9457) in the place of FastAPI's own errors."""
    if app.openapi_schema is None:
        found = get_openapi(
            title=app.title, version=app.version, description=app.description, routes=app.routes
        )
        schemas = found["components"]["schemas"]
        for name in ("HTTPValidationError", "ValidationError"):
            schemas.pop(name, None)
        problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas.update(problem.pop("$defs"))
        schemas["Problem"] = problem
        app.openapi_schema = found
    return app.openapi_schema
