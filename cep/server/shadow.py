"""A shadow: a program that runs on the same input as the served program, without publishing results.

The server counts the differences between the events of the two programs.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from cep.app.knowledge_updates import KnowledgeUpdates
from cep.app.pipeline import Interrupt
from cep.connectors.alerts.text import json_value
from cep.connectors.records.batch import Batch
from cep.connectors.serving.outline import parameter_values
from cep.connectors.serving.programs import version_time
from cep.connectors.why.text import Explainer
from cep.core.durable_files import write_whole
from cep.core.errors import CepError
from cep.core.schema import Schema
from cep.diff.matching import KINDS, Difference, compared_event, names_of
from cep.diff.reasons import Reasons
from cep.diff.rows import FIRST, DerivedRows, Row, row_key
from cep.engine import Engine

KEPT = "shadow.json"
"""The file in a server's folder that stores the texts of a shadow, so that it runs again after a restart."""

MOST = 20_000
"""The greatest number of rows that are kept, per event type and program.

Only rows that the other program has not derived are kept. If there are too many, the oldest are dropped.
"""


def keep_texts(folder: Path, texts: Mapping[str, str]) -> None:
    """Write the texts of a shadow. Raises OSError if they cannot be written."""
    write_whole(folder / KEPT, json.dumps(dict(texts), ensure_ascii=False).encode())


def kept_texts(folder: Path | None, names: Sequence[str]) -> dict[str, str] | None:
    """Return the program texts of the shadow that ran when the server ended, by file name.

    Returns None if no shadow ran, or if the file names differ from `names`.
    """
    try:
        texts = None if folder is None else json.loads((folder / KEPT).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    return texts if isinstance(texts, dict) and texts.keys() == set(names) else None


def forget_texts(folder: Path) -> None:
    (folder / KEPT).unlink(missing_ok=True)


class Shadow:
    """An engine that runs beside the served engine, starting at one of its watermarks.

    - `updates`: the changes of the knowledge for this engine.
    - `texts`: the texts of its program, by file.
    - `failed`: the reason why it has stopped, or None.

    Callers of its methods must hold the lock of the served program's batches (`batches.lock`).
    """

    def __init__(self, served: Engine, engine: Engine, texts: Mapping[str, str], updates: KnowledgeUpdates) -> None:
        self.texts, self._engine, self._updates = texts, engine, updates
        engine.set_lineage_columns()  # lineage is requested by explanations only
        self.failed: str | None = None
        self._batch: Batch | None = None
        self.begin(served)

    def begin(self, served: Engine) -> None:
        """Start to compare this engine with the engine `served`, from that engine's current watermark on."""
        self._served, self.since = served, served.watermark
        self._rows: tuple[dict[str, Counter[Row]], dict[str, Counter[Row]]] = ({}, {})
        self._same: Counter[str] = Counter()
        self._left_out: Counter[str] = Counter()

    def take(self, batch: Batch | None, derived: Mapping[str, pl.DataFrame]) -> None:
        """Process a batch of the served program. `derived`: the results that the served program derived from it."""
        if self.failed is not None:
            return
        engine = self._engine
        try:
            if batch is not None and batch is not self._batch:
                engine.receive({name: table for name, table in batch.whole.items() if name in engine.inputs}, True)
                engine.take_dead()
            own = list(self._updates.bring(engine, self._served.watermark, Interrupt()))
        except CepError as error:
            self.failed = error.message
            return
        self._batch = batch
        self._add(0, derived, self._served.outputs)
        for tables in own:
            self._add(1, tables, engine.outputs)
        for name in {*self._rows[0], *self._rows[1]}:
            self._cancel(name)

    def shown(self, first: int, told: int = 0, explain: Callable[[Engine], Explainer] | None = None) -> dict[str, Any]:
        """Return the differences between the programs as JSON: their number by kind and event type, and the last ones
        of each kind.

        - `first`: the number of differences to return, for each kind.
        - `told`: the number of these differences that include their reasons.
        - `explain`: a function that creates an explainer of an engine. If it is None, the engines keep nothing to
          explain.
        """
        events, shown = dict[str, dict[str, int]](), list[dict[str, Any]]()
        old, new = self._served, self._engine
        reasons: Reasons | None = None
        for name in dict.fromkeys((*new.outputs, *old.outputs)):
            event = compared_event(name, old.outputs.get(name), new.outputs.get(name), old.alerts, new.alerts)
            differences = event.compare(*(rows.get(name, Counter()) for rows in self._rows))
            counts = Counter(difference.kind for difference in differences)
            events[name] = {str(kind): counts[kind] for kind in KINDS}
            events[name] |= {"same": self._same[name], "left_out": self._left_out[name]}
            for kind in KINDS:
                own = [difference for difference in differences if difference.kind == kind]
                last = own[max(0, len(own) - first) :]
                for number, difference in enumerate(last):
                    document = self._document(difference)
                    if explain is not None and number >= len(last) - told:
                        reasons = reasons or Reasons(explain(old), explain(new))
                        document["reasons"] = _reasons(reasons, difference)
                    shown.append(document)
        return {
            "files": dict(self.texts),
            "since": version_time(self.since),
            "until": version_time(old.watermark),
            "failed": self.failed,
            "parameters": parameter_values(self._engine),
            "explained": old.explain,
            "events": events,
            "differences": shown,
        }

    def _add(self, side: int, derived: Mapping[str, pl.DataFrame], schemas: Mapping[str, Schema]) -> None:
        """Add the rows that one program derived and that end after the shadow began.

        An interval of a fluent is added when it has ended. If both programs have derived a row and one program
        withdraws it, the row becomes a difference.
        """
        differences = DerivedRows()
        for name, table in derived.items():
            if name in schemas and table.height:
                differences.add({name: table.filter(pl.col("end") > self.since)})
        for name, rows in differences.changes().items():
            own, other = (self._rows[row].setdefault(name, Counter()) for row in (side, 1 - side))
            for row, number in rows.items():
                own[row] += number
                if own[row] <= 0:
                    number = -own.pop(row)
                    if number:
                        other[row] += number
                        self._same[name] -= number

    def _cancel(self, name: str) -> None:
        """Remove the rows that both programs have derived. Both engines must have reached the same watermark.

        If more than MOST rows of a program remain, drop its oldest rows that the served program can no longer withdraw.
        """
        old, new = (rows.setdefault(name, Counter()) for rows in self._rows)
        for row in [row for row in (old if len(old) < len(new) else new) if row in old and row in new]:
            number = min(old[row], new[row])
            self._same[name] += number
            for own in (old, new):
                own[row] -= number
                if not own[row]:
                    del own[row]
        for own in (old, new):
            if len(own) > MOST:
                for row in sorted(own, key=row_key)[: len(own) - MOST]:
                    if row[1] <= self._served.stable:
                        self._left_out[name] += own.pop(row)

    def _document(self, difference: Difference) -> dict[str, Any]:
        name = difference.event
        rows = (difference.old, self._served.outputs), (difference.new, self._engine.outputs)
        old, new = (None if row is None else _row(row, schemas[name]) for row, schemas in rows)
        return {"kind": difference.kind, "event": name, "old": old, "new": new}


def _reasons(reasons: Reasons, difference: Difference) -> dict[str, Any] | None:
    """Return the reasons of both programs for a difference. Returns None if the programs no longer remember them, or if
    finding them takes too long."""
    try:
        reason = reasons.of(difference)
    except (CepError, TimeoutError):
        return None
    deriving = reason.old if difference.new is None else reason.new
    return None if deriving is None else {"old": reason.old, "new": reason.new}


def _row(row: Row, schema: Schema) -> dict[str, Any]:
    values = dict(zip(names_of(schema), row[FIRST:]))
    types = {attribute.name: attribute.type for attribute in schema.attributes}
    return {
        "start": version_time(row[0]),
        "end": version_time(row[1]),
        "values": {name: json_value(value, types[name]) for name, value in values.items()},
    }
