"""`cep serve --check-routes`: which receivers each ALERT of a program reaches."""

from __future__ import annotations

from cep.app.terminal import CLEAN, DEAD_LETTERS
from cep.connectors.receivers.document import Publisher
from cep.connectors.receivers.routes import lines, unreached
from cep.core.literals import say_duration
from cep.runtime.options import EngineOptions
from cep.server.options import ServeOptions
from cep.server.program import program_source


def check_routes(options: ServeOptions) -> int:
    """Print where alerts go; the status is 1 if one reaches no receiver. Raises CepError."""
    options.check()
    alerts = program_source(options).engine(EngineOptions(), alerts=True).alerts
    origin = Publisher(options.name, status=options.alerts.status)
    routes = options.alerts.routing
    assert routes is not None, "the options are checked"
    routes.check_names(alerts, origin)
    if not alerts:
        print("the program has no ALERT")
        return CLEAN
    for line in lines(routes, alerts, origin, say_duration):
        print(line)
    every = [target.name for target in options.alerts.receivers if target.receiver is None]
    if every:
        print(f"every alert: {', '.join(every)}")
    return DEAD_LETTERS if not every and unreached(routes, alerts, origin) else CLEAN
