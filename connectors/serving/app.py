"""The application: routers of what is served, who may ask, and how it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.middleware.cors import CORSMiddleware
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.responses import JSONResponse, PlainTextResponse

from connectors.rdf.store import Refused
from connectors.serving.below import Below
from connectors.serving.guard import Guard, Limits
from connectors.serving.sentences import in_sentences


def application(
    routers: Sequence[APIRouter],
    limits: Limits,
    *,
    title: str,
    trouble: Callable[[], str | None],
    lost: Callable[[], Mapping[str, str]] = dict,
    registry: CollectorRegistry,
    origins: Sequence[str] = (),
    root: str = "",
) -> FastAPI:
    """`trouble`: why nothing can be asked, None: it can. `lost`: sources that are, by name, and why.
    `origins`: of whose pages browsers may ask, `*`: of all.
    `root`: the path below which a proxy shows it (`connectors.serving.below`)."""
    made = FastAPI(title=title, docs_url=None, redoc_url=None, openapi_url="/openapi.json")

    @made.get("/health", include_in_schema=False)
    async def health() -> Response:
        """The process answers."""
        return JSONResponse({"status": "ok"})

    @made.get("/ready", include_in_schema=False)
    async def ready() -> Response:
        """Questions are answered, and the program has not failed. `lost`: sources of the input that are, with the
        reason; what is known without them is served all the same."""
        found, away = trouble(), dict(lost())
        return JSONResponse(
            {"status": found or "ok", **({"lost": away} if away else {})}, 200 if found is None else 503
        )

    @made.get("/metrics", include_in_schema=False)
    def metrics() -> Response:
        """For Prometheus."""
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    @made.exception_handler(Refused)
    async def refused(request: Request, error: Refused) -> Response:
        """Of what asks the store without a query of its own."""
        return PlainTextResponse(f"{error}\n", 503, {"Retry-After": "5"})

    in_sentences(made)
    for router in routers:
        made.include_router(router)
    made.add_middleware(Guard, limits=limits)
    if origins:  # outside: a browser reads why it was refused
        made.add_middleware(
            CORSMiddleware,
            allow_origins=list(origins),
            allow_methods=["GET", "HEAD", "POST"],
            allow_headers=["Authorization", "Content-Type", "Accept", "Last-Event-ID"],
        )
    made.add_middleware(Below, path=root)
    return made
