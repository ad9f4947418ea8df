"""A window that goes on after another program, or with another length: what was given until then is final.

Of another program only the states of goals are known as they are now. So nothing goes back to before that.
"""

from __future__ import annotations

from collections.abc import Mapping

from cep.core.relation import Table
from cep.runtime.revision.kept_state import KeptState, copied
from cep.runtime.revision.latest_instant import LatestInstant
from cep.runtime.revision.revision import Revision
from cep.runtime.revision.stretch import Stretch, Windows, window_of


def begin_window(revision: Revision, watermark: int, waiting: Mapping[str, Table] | None = None) -> None:
    """The window begins at a watermark, with the states that goals have now; these rows wait, None: those that do."""
    revision.forget_changes()
    revision.watermark = revision.floor = watermark
    revision.stretches = [Stretch(watermark, KeptState(copied(revision.machine.states())))]
    revision.late, revision.latest = {}, LatestInstant()
    revision.going_back.clear()
    revision.going_back.knowledge.told(watermark, watermark)
    if waiting is not None:
        held: Windows = {}
        for event, table in sorted(waiting.items()):
            window_of(held, event, len(revision.plan.schemas[event].attributes)).add(table)
        revision.waiting = held


def resize(revision: Revision, length: int) -> None:
    """The window was so long until now (microseconds): what was final then stays so."""
    revision.floor = max(revision.floor, revision.watermark - length)
