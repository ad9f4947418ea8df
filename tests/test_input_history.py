"""The input that a server keeps for new rules: how much of it they need, and that it is read back in order, once."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import polars as pl
import pytest

from cep.app.knowledge_updates import KnowledgeUpdates
from cep.connectors.journal import Handover, Journal
from cep.connectors.records.batch import Batch, Block
from cep.core.errors import CepError
from cep.engine import Engine
from cep.plan.input_horizon import InputHorizon
from cep.server.warming import warm

SECOND = 1_000_000
PROGRAM = "event a(x: int) TIME time. e(X) <- a(X) WHERE X > 0."
SCHEMAS = Engine.from_text(PROGRAM).inputs


@pytest.mark.parametrize(
    ("rules", "seconds", "bounded"),
    [
        ("e(X) <- a(X) WHERE X > 1.", 0, True),
        ("e(X) <- a(X) SEQ a(X) WITHIN 9 s.", 9, True),
        ("e(X) <- a(X) UNLESS a(X) WITHIN 4 s.", 4, True),
        ("e(X) <- a(X) SEQ a(X) WITHIN 9 s. f(X) <- e(X) UNLESS a(X) WITHIN 4 s.", 13, True),
        ("e(X) <- a(X) SEQ a(X) WITHIN 9 s. f(X) <- a(X) UNLESS a(X) WITHIN 4 s.", 9, True),
        ("e(N) <- a(X) AGGREGATE N = count() OVER LAST 5 s.", 5, True),
        ("e(X) <- a(X) SEQ a(X) WITHIN 9 s POLICY chronological.", 9, False),
        ("e(X) <- a(X) SEQ a(X).", 0, False),
        ("fluent s(x: int). initiate s(X) <- a(X). terminate s(X) <- a(X) SEQ a(X) WITHIN 3 s.", 3, False),
    ],
)
def test_the_horizon_of_rules(rules: str, seconds: int, bounded: bool) -> None:
    found = InputHorizon.of(Engine.from_text(f"event a(x: int) TIME time. {rules}").plan)
    assert found == InputHorizon(seconds * SECOND, bounded)


def batch(number: int) -> Batch:
    """A record at a second."""
    time = [number * SECOND]
    table = pl.DataFrame({"start": time, "end": time, "@order": [number], "x": [number]})
    return Batch({"a": table}, [], [Block("-", number, 1, number + 1)])


def numbers(journal: Journal, since: int = 0, seconds: int = -100) -> list[int]:
    """The records that are kept, in the order in which they are read."""
    return [
        x
        for _, each in journal.history(since, SCHEMAS, seconds * SECOND)
        for table in each.tables.values()
        for x in table["x"].to_list()
    ]


def test_batches_are_read_back_in_order_and_once(tmp_path: Path) -> None:
    with closing(Journal(tmp_path, SCHEMAS, keeps=True)) as journal:
        for number in range(10):
            journal.add(batch(number))
            if number in (3, 4, 8):
                point = journal.point(number * SECOND)
                if number == 8:
                    journal.add(batch(100))  # it is behind the snapshot, and in two files
                journal.save(str(number).encode(), point)
        assert numbers(journal) == [0, 1, 2, 3, 4, 5, 6, 7, 8, 100, 9]
        assert numbers(journal, 5) == [5, 6, 7, 8, 100, 9] and numbers(journal, 11) == []
        assert numbers(journal, 0, 4) == [4, 5, 6, 7, 8, 100, 9], "a file of before is left out"
        first = [beyond for beyond, _ in journal.history(0, SCHEMAS, -SECOND)]
        assert first == list(range(1, 12))
    with closing(Journal(tmp_path, SCHEMAS, keeps=True)) as journal:
        assert [each.rows for each in journal.replayed()] == [1, 1, 0] and numbers(journal, 8) == [8, 100, 9]
        journal.add(batch(11))
        journal.save(b"again", journal.point(11 * SECOND))
        assert numbers(journal, 8) == [8, 100, 9, 11]
        journal.forget_input(5 * SECOND)
        assert numbers(journal) == [5, 6, 7, 8, 100, 9, 11]


def test_input_before_a_gap_is_not_read(tmp_path: Path) -> None:
    with closing(Journal(tmp_path, SCHEMAS, keeps=True)) as journal:
        for number in range(6):
            journal.add(batch(number))
            journal.save(str(number).encode(), journal.point(number * SECOND))
        sorted((tmp_path / "input").iterdir())[2].unlink()
        assert numbers(journal) == [3, 4, 5]
        sorted((tmp_path / "input").iterdir())[3].write_bytes(b"damaged" * 100)
        with pytest.raises(CepError, match="the stored earlier input is damaged"):
            numbers(journal)


def test_a_handover_is_a_version_and_the_first_batch_behind_it(tmp_path: Path) -> None:
    with closing(Journal(tmp_path, SCHEMAS, keeps=True)) as journal:
        journal.add(batch(1))
        held = pl.DataFrame({"start": [7], "end": [None], "x": ["y"]}, schema_overrides={"end": pl.Int64})
        journal.save(b"new", journal.point(SECOND), Handover(5, "<urn:a> <urn:b> <urn:ü> .\n", {"s": held}))
        journal.add(batch(2))
    with closing(Journal(tmp_path, SCHEMAS, keeps=True)) as journal:
        assert journal.version == 5
        begun, other, _ = journal.replayed()
        assert begun.handover == "<urn:a> <urn:b> <urn:ü> .\n" and begun.held["s"].equals(held)
        assert (other.handover, other.rows) == (None, 1)
        assert numbers(journal) == [1, 2]


def test_without_a_place_nothing_is_kept(tmp_path: Path) -> None:
    with closing(Journal(tmp_path, SCHEMAS)) as journal:
        journal.add(batch(1))
        journal.save(b"1", journal.point(SECOND))
        assert numbers(journal) == [] and not (tmp_path / "input").exists()


def test_it_is_noted_since_when_the_input_is_read_for_an_event(tmp_path: Path) -> None:
    both = Engine.from_text(f"{PROGRAM} event b(x: int) TIME time. f(X) <- b(X).").inputs
    with closing(Journal(tmp_path, both, keeps=True)) as journal:
        journal.add(batch(0))
        assert journal.read_since(["a", "b"]) == 0
    with closing(Journal(tmp_path, SCHEMAS, keeps=True)) as journal:
        list(journal.replayed())
        journal.add(batch(1))
        journal.save(b"1", journal.point(SECOND))
        assert journal.read_since(["a"]) == 0
    with closing(Journal(tmp_path, both, keeps=True)) as journal:
        assert (journal.read_since(["a"]), journal.read_since(["a", "b"])) == (0, 2)
        journal.add(batch(2))
    other = Engine.from_text("event a(x: float) TIME time. e(X) <- a(X) WHERE X > 0.").inputs
    with closing(Journal(tmp_path, other, keeps=True)) as journal:
        assert journal.read_since(["a"]) == 3, "its records were of other fields"
        beside = [each.beside.keys() for each in journal.replayed()]
        assert beside == [{"a"}, set()], "they move the time all the same"


def test_a_program_says_since_when_all_of_its_input_was_read(tmp_path: Path) -> None:
    text = f"{PROGRAM} event b(x: int) TIME time. f(X) <- b(X) SEQ a(X) WITHIN 9 s."
    with closing(Journal(tmp_path, SCHEMAS, keeps=True)) as journal:
        journal.add(batch(1))
    with closing(Journal(tmp_path, Engine.from_text(text).inputs, keeps=True)) as journal:
        list(journal.replayed())
        journal.add(batch(3))
        engine = Engine.from_text(text, lateness=0)
        none = KnowledgeUpdates(())
        assert warm(engine, journal, 3 * SECOND, none, lambda: 3 * SECOND).since == 3 * SECOND
        shorter = Engine.from_text(PROGRAM, lateness=0)
        assert warm(shorter, journal, 3 * SECOND, none, lambda: 3 * SECOND).since == SECOND
        with pytest.raises(CepError, match="have a later time than it has reached"):
            warm(Engine.from_text(text, lateness=0), journal, 3 * SECOND, none, lambda: SECOND)


def test_records_that_a_program_does_not_read_move_its_time() -> None:
    engine = Engine.from_text(PROGRAM, lateness=SECOND)
    engine.pass_by({"b": pl.DataFrame({"start": [5 * SECOND, 9 * SECOND], "end": [5 * SECOND, 8 * SECOND]})})
    assert engine.reached == 4 * SECOND - 1, "one that ends before it starts is none"
    engine.pass_by({"b": pl.DataFrame({"start": [2 * SECOND], "end": [2 * SECOND]})})
    assert engine.reached == 4 * SECOND - 1
    by_key = Engine.from_text(PROGRAM, lateness=SECOND, lateness_by="x")
    by_key.pass_by({"b": pl.DataFrame({"start": [5 * SECOND], "end": [5 * SECOND]})})
    assert by_key.reached == by_key.watermark
