"""The command `cep serve`."""

from __future__ import annotations

from cep.app.command_line import takes
from cep.app.durations import refuse
from cep.core.extras import install_command
from cep.server.options import ServeOptions


@takes(ServeOptions)
def serve(options: ServeOptions) -> int:
    """Serve what a program derives: a page, SPARQL, alerts.

    \b
      cep serve rules.cep --input events.jsonl --knowledge stations.ttl
      cep serve rules.cep --input mqtt://broker/hall/# --state kept --keep 30d
      cep serve rules.cep --on spark --input derived --knowledge stations.ttl
      curl localhost:8000/feeds/atom

    After the end of its input, it serves until Ctrl-C. With --state, events keep their IRIs if the server starts again
    over the same files, and live input continues where it stopped.
    """
    try:
        from cep.server.routes import check_routes
        from cep.server.server import run_server
    except ModuleNotFoundError as error:
        if error.name not in ("fastapi", "re2", "starlette", "uvicorn"):
            raise
        raise refuse("`cep serve` needs a web server", install_command("serve")) from None
    return check_routes(options) if options.alerts.check_routes else run_server(options)
