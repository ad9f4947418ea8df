"""From rounds of the engine to the outbox: the one place where alerts live while a program runs."""

from __future__ import annotations

from cep.engine import Engine
from connectors.alerts.life import Lives
from connectors.alerts.outbox import Outbox
from connectors.serving.service import Round


class Alerting:
    """Listens to a service: what its ALERT statements tell of goes into the outbox, each round's at once.

    After a start the engine is given its input again, or goes on from a snapshot; either way nothing comes twice.
    """

    def __init__(self, engine: Engine, outbox: Outbox) -> None:
        """`engine` was made with `alerts=True`."""
        live, reached = outbox.begin(engine.program)
        schemas = {alert.table: engine.plan.schemas[alert.table] for alert in engine.alerts}
        read = engine.inputs.keys() - engine.outputs.keys()
        self.lives = Lives(engine.alerts, schemas, read, engine.program, live, reached)
        self.outbox = outbox

    def __call__(self, round: Round) -> None:
        changes = self.lives.take(round.alerts, round.watermark)
        self.outbox.add(changes, self.lives.program, self.lives.reached)
