"""Alerts, told change by change, come to what brute force says of the records that are there (`reference_alerts`): on
events and fluents, in order and with `--revise`, in any batches, over restarts.

`SEMCEP_FUZZ=17` tries 2,040 programs.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from pathlib import Path

import polars as pl
import pytest

from cep.connectors.alerts.listener import AlertListener
from cep.connectors.alerts.outbox import Outbox
from cep.connectors.receivers.document import document
from cep.connectors.records.batch import Batch
from cep.connectors.service import Service
from cep.engine import Engine
from cep.runtime.run_stats import RunStats
from tests.alert_programs import alert_program, batches, in_order
from tests.long import seeds
from tests.reference_alerts import Reading, there
from tests.told_alerts import Told

SECOND = 1_000_000


class Server:
    """A program and its outbox on disk, as a server has them: it may be killed, and goes on from a snapshot and what
    came since, or begins anew with all of it."""

    def __init__(self, text: str, window: int | None, place: Path) -> None:
        self.text, self.window, self.place = text, window, place
        self.batches: list[Batch] = []
        self.records = 0
        self.snapshots: list[tuple[int, bytes]] = []
        self.begin(None)

    def begin(self, blob: bytes | None) -> None:
        revise = None if self.window is None else self.window * SECOND
        engine = Engine.from_text(self.text, alerts=True, begins=True, lateness=0, revise=revise)
        self.engine = engine if blob is None else engine.restore(blob)
        self.outbox = Outbox(self.place)
        self.service = Service(self.engine, self.text, "p.cep", RunStats())
        self.service.listen(AlertListener(self.engine, self.outbox))

    def take(self, records: Sequence[Reading]) -> None:
        """A batch of records."""
        batch = Batch(tables(self.engine, records, self.records), [], [])
        self.records += len(records)
        self.batches.append(batch)
        self._work(batch)

    def _work(self, batch: Batch) -> None:
        self.engine.receive(batch.tables)
        self.engine.take_dead()
        self.service.take(batch, self.engine.advance(self.engine.reached))

    def end(self) -> None:
        """The input has ended."""
        self.service.take(None, self.engine.close())

    def keep(self) -> None:
        """Take a snapshot, from which a later start goes on."""
        self.snapshots.append((len(self.batches), self.engine.snapshot()))

    def kill(self, rng: random.Random) -> None:
        """End, and start again from a snapshot or from nothing."""
        self.outbox.close()
        first, blob = rng.choice([(0, None), *self.snapshots])
        self.begin(blob)
        for batch in self.batches[first:]:
            self._work(batch)

    def told(self) -> list[dict[str, object]]:
        """All changes that were told, as feeds have them."""
        return [document(entry.change) for entry in self.outbox.after(0, 1_000_000)]


def tables(engine: Engine, records: Iterable[Reading], first: int) -> dict[str, pl.DataFrame]:
    """Records as a batch has them, numbered from `first`."""
    by_type: dict[str, list[tuple[int, Reading]]] = {}
    for number, one in enumerate(records, first):
        by_type.setdefault(one.type, []).append((number, one))
    found = {}
    for type, some in by_type.items():
        times = [one.time * SECOND for _, one in some]
        columns = {"start": times, "end": times, "@order": [number for number, _ in some]}
        for place, each in enumerate(engine.inputs[type].attributes):
            columns[each.name] = [one.args[place] for _, one in some]
        table = pl.DataFrame(columns)
        if engine.withdraws:
            table = table.with_columns(pl.Series("@change", [one.change for _, one in some], dtype=pl.Int8))
        found[type] = table
    return found


def reading(time: int, station: str, number: int, level: int, change: int = 1) -> Reading:
    return Reading("reading", (station, number, level), time, change, (station, number))


WARMTH = """event reading(station: string, seq: int, temp: int) TIME time KEY station, seq.
fluent heated(station: string).
initiate heated(S) <- reading(S, _, T) WHERE T > 26.
terminate heated(S) <- reading(S, _, T) WHERE T < 17.
ALERT warmth ON heated(S) SEVERITY "Minor" TITLE "Heated {S}" FOR 5 s KEYED BY S.
"""


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize(
    "records, expected",
    [
        (  # the record of :18 is withdrawn when all of (0, 1] is final
            [(0, "a", 2, 28), (3, "a", 3, 3), (1, "a", 5, 13), (18, "a", 6, 41), (22, "b", 7, 20), (18, "a", 6, 41, -1),
             (23, "a", 8, 18)],
            ["firing 0", "resolved 3", "resolved 1", "firing 18", "withdrawn 22"],
        ),
        (
            [(0, "a", 1, 28), (3, "a", 2, 5), (4, "a", 3, 20), (1, "a", 4, 13), (60, "a", 5, 20)],
            ["firing 0", "resolved 3", "resolved 1"],
        ),
        (  # and back again
            [(0, "a", 1, 28), (3, "a", 2, 5), (1, "a", 4, 13), (1, "a", 4, 13, -1), (3, "a", 2, 20), (30, "b", 1, 20)],
            ["firing 0", "resolved 3", "resolved 1", "resolved 3", "updated 0"],
        ),
    ],
)  # fmt: skip
def test_a_late_end_moves_the_time_at_which_an_alert_was_over(
    records: list[tuple[int, str, int, int]], expected: list[str], killed: bool, tmp_path: Path
) -> None:
    server = Server(WARMTH, 20, tmp_path / "alerts.db")
    for record in records:
        server.take([reading(*record)])
        if killed:
            server.kill(random.Random(0))
    changes = [entry.change for entry in server.outbox.after(0)]
    assert [f"{each.word} {each.time // SECOND}" for each in changes] == expected
    server.outbox.close()


def test_what_still_holds_of_a_key_is_known_after_a_start(tmp_path: Path) -> None:
    """An interval that ends while another of its key holds is told to nobody, and remembered."""
    text = WARMTH.replace("heated(S", "heated(S, N").replace("reading(S, _", "reading(S, N")
    text = text.replace("heated(station: string)", "heated(station: string, seq: int)").replace(" KEY station, seq", "")
    server = Server(text, None, tmp_path / "alerts.db")
    for second, seq, temp in ((0, 1, 30), (1, 2, 30), (2, 1, 5), (3, 0, 20)):
        server.take([reading(second, "a", seq, temp)])
    server.keep()
    server.outbox.close()
    server.begin(server.snapshots[-1][1])
    for second, seq, temp in ((4, 2, 5), (5, 0, 20)):
        server.take([reading(second, "a", seq, temp)])
    changes = [entry.change for entry in server.outbox.after(0)]
    assert [f"{each.word} {each.time // SECOND}" for each in changes] == ["firing 0", "updated 1", "resolved 4"]
    server.outbox.close()


@pytest.mark.parametrize("seed", seeds(60))
def test_what_is_told_is_what_there_is_whatever_comes_late(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    program = alert_program(rng)
    window = rng.choice((3, 8, 20, 60))
    server = Server(program.text, window, tmp_path / "alerts.db")
    told, came = Told(SECOND), []
    for batch in batches(rng, program, window):
        server.take(batch)
        came += batch
        if rng.random() < 0.1:
            server.keep()
        if rng.random() < 0.05:
            server.kill(rng)
        records, latest = there(came, window)
        assert latest is not None and server.engine.watermark == latest * SECOND
        told.take(server.told())
        told.check(program.changes(records, latest, SECOND))
    server.end()
    told.take(server.told())
    told.check(program.changes(records, latest, SECOND, ended=True))
    server.outbox.close()


@pytest.mark.parametrize("revised", [False, True])
@pytest.mark.parametrize("seed", seeds(30))
def test_in_order_each_change_is_told_once(seed: int, revised: bool, tmp_path: Path) -> None:
    """With `--revise` as without it."""
    rng = random.Random(seed)
    program = alert_program(rng)
    server = Server(program.text, rng.choice((3, 20)) if revised else None, tmp_path / "alerts.db")
    told, came = Told(SECOND), []
    for batch in in_order(rng, program):
        server.take(batch)
        came += batch
        if rng.random() < 0.1:
            server.keep()
        if rng.random() < 0.05:
            server.kill(rng)
        until = batch[-1].time - (0 if revised else 1)  # an instant is over when there is a later one
        records, _ = there(came, None)
        told.take(server.told())
        told.check_all(program.changes(records, until, SECOND))
    server.end()
    told.take(server.told())
    told.check_all(program.changes(records, batch[-1].time, SECOND, ended=True))
    server.outbox.close()
