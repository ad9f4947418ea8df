"""The web server, from its first request to its last: the program begins with it and ends with it."""

from __future__ import annotations

import errno
import gc
import logging
import signal
import socket
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any

import uvicorn

from cep.app.durations import refuse
from cep.core.errors import CepError
from cep.core.logs import Log
from cep.server.answers import Answers, answering
from cep.server.options import ServeOptions
from cep.server.program import opened
from connectors.feeds.senders import sending
from connectors.serving import header_timeout
from connectors.serving.guard import HEAD

_ENDING = 5  # seconds in which clients have to go


def served(wish: ServeOptions) -> bool:
    """Run the program and answer for it until Ctrl-C or SIGTERM; False where the program failed. Raises CepError."""
    with ExitStack() as stack:
        wish.check()
        token = wish.token()
        if token is None and not wish.local:
            wish.log("open", f"whoever reaches {wish.host}:{wish.port} may ask", "warning")
        answers = answering(wish, opened(wish, stack), token, stack)
        server = _server(wish, answers)
        stack.enter_context(sending(answers.outbox, wish.receivers, answers.origin, _of_feeds(wish.log)))
        _heard(wish.log, lambda: server.started)
        for number in (signal.SIGINT, signal.SIGTERM):  # uvicorn gives the signal back when it is done
            stack.callback(signal.signal, number, signal.signal(number, lambda number, frame: _ended(server)))
        try:
            server.run()
        except SystemExit as error:
            raise _unserved(wish, error.__context__) from None
        finally:
            answers.run.end()
        wish.log("stop", answers.tally.closing(), **answers.tally.numbers())
    run = answers.run
    if run.error is not None and not isinstance(run.error, CepError):
        raise run.error
    return run.failed is None


def _server(wish: ServeOptions, answers: Answers) -> uvicorn.Server:
    """It starts the program when it answers, and says where; when it ends, whoever still listens is let go."""

    class Server(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            if self.started:
                here = self.servers[0].sockets[0].getsockname()
                name = f"[{here[0]}]" if ":" in here[0] else here[0]
                gc.collect()
                gc.freeze()  # libraries and kernels are no garbage: looking through them takes 0.1 s each time
                wish.log("serving", f"serving http://{name}:{here[1]}/", url=f"http://{name}:{here[1]}/")
                answers.run.start()

        async def shutdown(self, sockets: Any = None) -> None:
            await answers.close()
            await super().shutdown(sockets)

    _roomy()
    return Server(
        uvicorn.Config(
            answers.app,
            host=wish.host,
            port=wish.port,
            log_config=None,
            access_log=False,
            server_header=False,
            http=header_timeout.protocol(),
            h11_max_incomplete_event_size=HEAD,
            timeout_graceful_shutdown=_ENDING,
            lifespan="off",
        )
    )


def _ended(server: uvicorn.Server) -> None:
    server.should_exit = True


def _unserved(wish: ServeOptions, why: BaseException | None) -> CepError:
    """Why there can be no server where it is wished."""
    match why.errno if isinstance(why, OSError) and not isinstance(why, socket.gaierror) else None:
        case errno.EADDRINUSE:
            other = wish.port + 1 if wish.port < 65_535 else wish.port - 1
            told = f"--port {wish.port}: it is in use at {wish.host}, by another program or another `cep serve`"
            return refuse(told, f"`--port {other}`, or `--port 0`, which takes a free one")
        case errno.EACCES:
            return refuse(f"--port {wish.port}: this user may not have it", "a port above 1023: `--port 8000`")
        case errno.EADDRNOTAVAIL | None:
            told = f"--host {wish.host}: this is none of this machine's addresses"
            return refuse(told, "127.0.0.1 is for this machine alone, 0.0.0.0 for everywhere")
        case _:
            return refuse(f"--host {wish.host}: {getattr(why, 'strerror', None) or why}".lower())


def _of_feeds(log: Log) -> Callable[..., None]:
    return lambda name, text, /, **more: log("feed", f"{name}: {text}", **more)


def _heard(told: Log, begun: Callable[[], bool]) -> None:
    """What the web server complains of is told like all else, once it has begun; before, it raises."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if begun():
                told("server", self.format(record), "error" if record.levelno >= logging.ERROR else "warning")

    for name in ("uvicorn.error", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [Handler(logging.WARNING)], False


def _roomy() -> None:
    """As many connections as the system allows: by default it lets a process have fewer than many clients need."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
