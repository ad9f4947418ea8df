"""The web server: it starts the program, answers requests, and stops the program."""

from __future__ import annotations

import errno
import gc
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from time import sleep
from typing import Any

import uvicorn
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from cep.app.durations import refuse
from cep.app.terminal import CLEAN, FAILED, REFUSED
from cep.connectors.receivers.senders import sending
from cep.connectors.serving import header_timeout
from cep.connectors.serving.guard import HEAD, RememberPeer
from cep.connectors.serving.programs import ChangeRefused
from cep.connectors.serving.versions import FILES
from cep.core.errors import NO_ROOM, CepError, lacks_room, reason_of
from cep.core.logs import Log, in_background
from cep.server.answers import ServerParts
from cep.server.options import ServeOptions, ServerOptions
from cep.server.program import open_program
from cep.server.routes import unreached_warning
from cep.server.shadow import kept_texts
from cep.server.watch import FileWatch, TokenFileWatch

_SOON = 0.2  # seconds until the next attempt to start a shadow
_ENDING = 5  # seconds for clients to disconnect


def run_server(options: ServeOptions) -> int:
    """Run the program and answer requests, until Ctrl-C or SIGTERM. Returns the exit status.

    Without `--stay`, the server also stops if the program fails. Raises CepError if the server cannot start.
    """
    with in_background(options.log), may_pass(), ExitStack() as stack:
        options.check()
        people = options.server.people()
        if people is None and not options.server.local:
            options.log(
                "open", f"anyone who reaches {options.server.host}:{options.server.port} can send requests", "warning"
            )
        program = open_program(options, stack)
        parts = ServerParts(options, program, people, stack)
        if people is not None and options.server.token_file is not None:
            tokens = TokenFileWatch(options.server.token_file, people, options.log)
            stack.callback(tokens.close)
            tokens.start()
        server = _server(options, parts)
        routes = options.alerts.routing
        if routes is not None:
            routes.check_names(program.engine.alerts, parts.origin)
        for text in unreached_warning(options, routes, program.engine.alerts):
            options.log("routes", text, "warning")
        if options.alerts.receivers and (text := options.server.link_warning):
            options.log("links", text, "warning")
        stack.enter_context(
            sending(parts.outbox, options.alerts.receivers, parts.origin, _feed_log(options.log), routes)
        )
        texts, author = options.shadow_texts() if options.server.shadow else None, FILES
        if texts is not None:
            parts.live.check_shadow()
        elif options.changeable:
            texts, author = kept_texts(options.retention.state, options.file_names), ""
        if texts is not None:
            threading.Thread(target=_shadow, args=[options, parts, texts, author], name="shadow", daemon=True).start()
        if options.server.watch:
            parts.live.check_changeable("--watch")
            watch = FileWatch(options, parts.live)
            stack.callback(watch.close)
            watch.start()
        _forward_log(options.log, lambda: server.started)
        if not options.server.stay:
            parts.run.on_failure = partial(_stop, server)
            if parts.run.failed is not None:  # the program may have failed in the meantime
                _stop(server)
        for number in (signal.SIGINT, signal.SIGTERM):  # uvicorn raises the signal again at its end
            stack.callback(signal.signal, number, signal.signal(number, lambda number, frame: _stop(server)))
        try:
            server.run()
        except SystemExit as error:
            raise _unserved(options.server, error.__context__) from None
        finally:
            parts.run.end()
        options.log("stop", parts.stats.closing(), **parts.stats.numbers())
    run = parts.run
    return CLEAN if run.failed is None else FAILED if run.may_pass else REFUSED


@contextmanager
def may_pass() -> Iterator[None]:
    """Set the code `failed` in errors of the start that report a full disk or quota, because a restart may succeed."""
    try:
        yield
    except CepError as error:
        if lacks_room(error) or NO_ROOM in error.message:
            error.code = "failed"
        raise
    except OSError as error:
        if not lacks_room(error):
            raise
        where = "" if error.filename is None else f"{error.filename}: "
        raise CepError(f"{where}{reason_of(error)}", hint="make room there", code="failed") from None


def _server(options: ServeOptions, parts: ServerParts) -> uvicorn.Server:
    """Return a web server. Once the server listens, it starts the program and logs its own address.

    When the server stops, it disconnects its clients.
    """

    class Server(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            if self.started:
                here = self.servers[0].sockets[0].getsockname()
                name = f"[{here[0]}]" if ":" in here[0] else here[0]
                gc.collect()
                gc.freeze()  # libraries and kernels are never garbage; searching them would take 0.1 s each time
                options.log("serving", f"serving http://{name}:{here[1]}/", url=f"http://{name}:{here[1]}/")
                parts.run.start()

        async def shutdown(self, sockets: Any = None) -> None:
            await parts.close()
            await super().shutdown(sockets)

    _raise_file_limit()
    return Server(
        uvicorn.Config(
            _behind_proxies(parts.app),
            proxy_headers=False,
            host=options.server.host,
            port=options.server.port,
            log_config=None,
            access_log=False,
            server_header=False,
            http=header_timeout.protocol(),
            h11_max_incomplete_event_size=HEAD,
            timeout_graceful_shutdown=_ENDING,
            lifespan="off",
        )
    )


def _behind_proxies(app: Any) -> Any:
    """Add middleware for proxies to the application, as uvicorn does.

    The outer layer first records the address that has actually connected.
    """
    named: Any = ProxyHeadersMiddleware(app, os.environ.get("FORWARDED_ALLOW_IPS", "127.0.0.1,::1"))
    return RememberPeer(named)


def _shadow(options: ServeOptions, parts: ServerParts, texts: Mapping[str, str], author: str) -> None:
    while True:
        try:
            parts.live.begin_shadow(texts, author)
        except ChangeRefused as error:
            if error.busy:
                sleep(_SOON)
                continue
            options.log("shadow", f"the shadow program cannot start: {error}", "error")
        return


def _stop(server: uvicorn.Server) -> None:
    server.should_exit = True


def _unserved(server: ServerOptions, why: BaseException | None) -> CepError:
    """Return the error of a server that cannot listen at its host and port. `why`: the system's error, or None."""
    host, port = server.host, server.port
    match why.errno if isinstance(why, OSError) and not isinstance(why, socket.gaierror) else None:
        case errno.EADDRINUSE:
            other = port + 1 if port < 65_535 else port - 1
            message = f"--port {port}: the port is in use at {host}, by another program or another `cep serve`"
            return refuse(message, f"use `--port {other}`, or `--port 0` for a free port")
        case errno.EACCES:
            return refuse(f"--port {port}: this user may not use this port", "use a port above 1023: `--port 8000`")
        case errno.EADDRNOTAVAIL | None:
            message = f"--host {host}: this machine does not have this address"
            return refuse(message, "use 127.0.0.1 for this machine alone, or 0.0.0.0 for requests from everywhere")
        case _:
            assert why is not None, "what has a number is an error"
            return refuse(f"--host {host}: {reason_of(why)}")


def _feed_log(log: Log) -> Callable[..., None]:
    return lambda name, text, /, **more: log("feed", f"{name}: {text}", **more)


def _forward_log(log: Log, begun: Callable[[], bool]) -> None:
    """Forward warnings and errors of the web server to the log after the server has started.

    Earlier messages are dropped, because a failed start raises an error (`_unserved`).
    """

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if begun():
                log("server", self.format(record), "error" if record.levelno >= logging.ERROR else "warning")

    for name in ("uvicorn.error", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [Handler(logging.WARNING)], False


def _raise_file_limit() -> None:
    """Raise the limit of open files to the system's maximum. The default is too low for many clients."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
