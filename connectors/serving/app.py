"""The web application: its routers, its middleware, and the checks of health and readiness."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.middleware.cors import CORSMiddleware
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.responses import JSONResponse, PlainTextResponse

from cep.connectors.rdf.question import QueryRefused
from cep.connectors.serving.codings import Codings
from cep.connectors.serving.docs import documented
from cep.connectors.serving.guard import Guard, Limits
from cep.connectors.serving.methods import Methods, RouteMethods
from cep.connectors.serving.negotiation import Acceptable
from cep.connectors.serving.openapi import Responses, description, route_responses
from cep.connectors.serving.request_errors import in_sentences
from cep.connectors.serving.root_path import RootPath

_STATUS = {"type": "object", "properties": {"status": {"type": "string"}}, "required": ["status"]}
_LOST = {"type": "object", "additionalProperties": {"type": "string"}}
_READY = {**_STATUS, "properties": {**_STATUS["properties"], "lost": _LOST, "ahead": {"type": "integer"}}}  # type: ignore[dict-item]
_FAILED: Responses = {
    503: {"description": "The program has failed.", "content": {"application/json": {"schema": _STATUS}}}
}
_UNREADY: Responses = {
    503: {
        "description": "The server is not ready yet, or no longer.",
        "content": {"application/json": {"schema": _READY}},
    }
}


# FastAPI ignores this warning in a block of its own, which is not safe if several threads make applications.
warnings.filterwarnings("ignore", "The 'alias' attribute with value .* was provided to the `Field", UserWarning)


def application(
    routers: Sequence[APIRouter],
    limits: Limits,
    *,
    title: str,
    trouble: Callable[[], str | None],
    registry: CollectorRegistry,
    failed: Callable[[], str | None] = lambda: None,
    lost: Callable[[], Mapping[str, str]] = dict,
    ahead: Callable[[], int] = int,
    origins: Sequence[str] = (),
    root: str = "",
) -> FastAPI:
    """Build the web application from its routers.

    - `failed`: returns the reason why the program has failed, or None.
    - `trouble`: returns the reason why queries cannot be answered, or None.
    - `lost`: returns the lost sources, with the reason for each name.
    - `ahead`: returns the number of records that were refused because their time was ahead of the clock.
    - `origins`: the websites whose pages may send requests; `*`: all.
    - `root`: the path below which a proxy publishes the application (see `cep.connectors.serving.root_path`).
    """
    app = FastAPI(title=title, docs_url=None, redoc_url=None, openapi_url=None)
    own = _own(app, failed, trouble, lost, ahead, registry)

    @app.exception_handler(QueryRefused)
    async def refused(request: Request, error: QueryRefused) -> Response:
        """Return a response for a request outside `/sparql` that the store refuses."""
        return PlainTextResponse(f"{error}\n", 503, {"Retry-After": "5"})

    paths = RouteMethods(route for router in (own, *routers) for route in router.routes)
    in_sentences(app, paths)
    for router in (own, *routers):
        app.include_router(router)
    app.openapi = description(app, limits.people is not None)  # type: ignore[method-assign]
    app.add_middleware(Acceptable)
    app.add_middleware(Codings, most=limits.body)
    app.add_middleware(Methods, paths=paths)
    app.add_middleware(Guard, limits=limits)
    if origins:  # outermost, so that browsers can read the reason of a refusal
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(origins),
            allow_methods=["GET", "HEAD", "POST", "DELETE"],
            allow_headers=["Authorization", "Content-Type", "Content-Encoding", "Accept", "Last-Event-ID"],
            expose_headers=["ETag", "Retry-After"],
        )
    app.add_middleware(RootPath, path=root)
    return app


def _own(
    app: FastAPI,
    failed: Callable[[], str | None],
    trouble: Callable[[], str | None],
    lost: Callable[[], Mapping[str, str]],
    ahead: Callable[[], int],
    registry: CollectorRegistry,
) -> APIRouter:
    """Return the routes that report the state of the server itself."""
    routes = APIRouter(tags=["server"], default_response_class=Response)

    @routes.get("/health", responses={**route_responses("application/json", json=_STATUS), **_FAILED})
    async def health() -> Response:
        """Return 200 while the process answers and the program has not failed."""
        failure = failed()
        return JSONResponse({"status": failure or "ok"}, 200 if failure is None else 503)

    @routes.get("/ready", responses={**route_responses("application/json", json=_READY), **_UNREADY})
    async def ready() -> Response:
        """Return 200 if queries are answered, the program has not failed, and each live source has connected at least
        once.

        `lost`: the lost input sources, each with the reason. A source that is lost later does not change the status.
        `ahead`: the number of records that were refused because their time is ahead of the clock.
        """
        problem, away, early = trouble(), dict(lost()), ahead()
        body = {"status": problem or "ok", **({"lost": away} if away else {}), **({"ahead": early} if early else {})}
        return JSONResponse(body, 200 if problem is None else 503)

    @routes.get("/metrics", responses=route_responses("text/plain"))
    def metrics() -> Response:
        """Return metrics of the run for Prometheus."""
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    @routes.get("/openapi.json", responses=route_responses("application/json", json={"type": "object"}))
    def openapi(request: Request) -> Response:
        """Return the description of the API as OpenAPI."""
        root = request.scope.get("root_path", "")
        return JSONResponse(app.openapi() | ({"servers": [{"url": root}]} if root else {}))

    @routes.get("/docs", responses=route_responses("text/html"))
    def docs() -> Response:
        """Return the description of the API as a web page."""
        return documented(app)

    return routes
