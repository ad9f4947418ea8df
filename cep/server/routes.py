"""`cep serve --check-routes`: print the receivers of each ALERT of a program."""

from __future__ import annotations

from collections.abc import Sequence

from cep.app.terminal import CLEAN, DEAD_LETTERS
from cep.connectors.receivers.document import Publisher
from cep.connectors.receivers.routes import Routes, lines, unreached
from cep.core.literals import say_duration
from cep.rules.alert import Alert
from cep.runtime.options import EngineOptions
from cep.server.options import ServeOptions
from cep.server.program import program_source


def unreached_warning(options: ServeOptions, routes: Routes | None, alerts: Sequence[Alert]) -> list[str]:
    """Return a list with one warning about the alerts that reach no receiver, or an empty list if there are none."""
    if routes is None or options.alerts.feed:
        return []
    names = unreached(routes, alerts, Publisher(options.name, status=options.alerts.status))
    if not names:
        return []
    reach = "reaches" if len(names) == 1 else "reach"
    return [f"{', '.join(names)}: {reach} no receiver; `--check-routes` prints where each alert goes"]


def check_routes(options: ServeOptions) -> int:
    """Print the receivers of each alert. The exit status is 1 if an alert reaches none.

    Raises CepError if the options, the program or the routes are not valid.
    """
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
