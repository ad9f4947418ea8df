"""State on disk that is not what was written: every flipped bit is reported, or changes nothing, and no kernel writes
beside what it has."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from cep.compile import compiled, divided
from cep.core import checksum
from cep.core.errors import CepError
from cep.engine import Engine
from cep.events import Event
from cep.operators.goals.contract import from_arrow, to_arrow
from cep.operators.goals.store import HEADER, NEXT, OTHER, SIDE, SLOT
from cep.operators.goals.windows import general_window
from cep.runtime import snapshot
from cep.runtime.prior_state import PriorState
from tests.damage import cut, flipped

SECOND = 1_000_000
ALL = """
event a(k: string, x: int).  event b(k: string, x: int).  event n(k: string).
pair(K, X, Y) <- a(K, X) SEQ b(K, Y) WITHIN 30 s.
free(X, Y) <- NOT(n(K)).[a(K, X), b(K, Y)] WITHIN 30 s.
both(K, X) <- a(K, X) AND b(K, Y) WITHIN 60 s.
absent(K, X) <- a(K, X) UNLESS b(K, Y) WITHIN 20 s.
last(K, S, F) <- a(K, X) AGGREGATE S = sum(X), F = first(K) OVER LAST 3 EVENTS BY K.
long(K, S, D) <- a(K, X) AGGREGATE S = sum(X), D = count(distinct X) OVER LAST 40 s BY K.
many(S) <- b(K, X) AGGREGATE S = max(X) OVER LAST 100 EVENTS.
middle(K, M) <- b(K, X) AGGREGATE M = median(X) OVER LAST 40 s BY K.
run(K, X) <- a(K, X).  run(K, X + Y) <- run(K, X) SEQ b(K, Y) WITHIN 20 s.
due <- 1970-01-01T00:01:20Z.
"""


def events(random: Random, first: int, count: int) -> list[Event]:
    """In time, of few keys, some with an interval."""
    found = []
    for number in range(first, first + count):
        end = number * SECOND
        start = end - random.choice([0, 0, 3 * SECOND])
        name = random.choice("abn")
        arguments = (f"k{random.randrange(3)}", random.randrange(5)) if name != "n" else (f"k{random.randrange(3)}",)
        found.append(Event(name, arguments, start, end))
    return found


def begun(**options: Any) -> tuple[bytes, Callable[[bytes], Any]]:
    """A snapshot of a program with all kinds of goals, and what is derived from it on."""
    random = Random(4)
    compiling, running = divided({"lateness": 5 * SECOND, **options})
    program = compiled(ALL, "<program>", compiling)
    engine = Engine(program, running)
    engine.push(events(random, 1, 60))
    later = events(random, 61, 40)

    def then(blob: bytes) -> Any:
        again = Engine(program, running).restore(blob)
        made = [again.push(later), again.close()]
        return {name: [each[name].rows() for each in made if name in each] for name in again.outputs}

    return engine.snapshot(), then


@pytest.mark.parametrize("explain", [False, True])
def test_flipped_bits_of_a_snapshot(explain: bool) -> None:
    blob, then = begun(explain=explain)
    assert all(then(blob).values()), "every goal has something to do"
    for place, damaged in flipped(blob, 300, Random(1)):
        with pytest.raises(CepError, match="snapshot") as caught:
            then(damaged)
        assert caught.value.code == "damaged", place
    for damaged in cut(blob, Random(2)):
        with pytest.raises(CepError, match="not a snapshot, or it is damaged"):
            then(damaged)


def test_a_snapshot_of_another_version_is_refused() -> None:
    blob, then = begun()
    later = resealed(blob, lambda header, batches: header.update(version=9))
    with pytest.raises(CepError, match="has version 9, but this semcep reads version 4"):
        then(later)


Change = Callable[[dict[str, Any], list[pa.RecordBatch]], None]


def resealed(blob: bytes, change: Change) -> bytes:
    """A snapshot with other contents, and the hash of these."""
    header, batches = snapshot.load(blob, None)
    change(header, batches)
    parts = [snapshot.stream(batch) for batch in batches]
    text = json.dumps(header | {"lengths": [len(part) for part in parts]}).encode()
    return checksum.seal(len(text).to_bytes(8, "little"), text, *parts)


WRONG = (-(2**40), -2, 2**20, 2**62)


def wrong_cells() -> Mapping[str, tuple[tuple[str, int], ...]]:
    """Cells by the arrays of a goal's state that kernels take for a place, a count or a code."""
    return {
        "hot": (("cold", SLOT), ("cold", SIDE), ("cold", OTHER)),
        "absent_hot": (("absent_cold", SLOT), ("absent_cold", SIDE)),
        "rings": (("groups", 0), ("groups", 1)),
        "store": (
            *(("groups", cell) for cell in (general_window.G_HEAD, general_window.G_TAIL, general_window.G_BACK)),
            ("groups", general_window.G_COUNT),
            *(("store", cell) for cell in (general_window.NEXT, general_window.PREVIOUS, general_window.SLOT)),
        ),
    }


def test_what_is_well_sealed_and_wrong_is_refused() -> None:
    """Nothing that a kernel takes for a place is beside what there is."""
    blob, then = begun()
    header, batches = snapshot.load(blob, None)
    tried = set()
    for number, batch in enumerate(batches):
        if number < header["values"] + 1 or batch.schema.names == ["nothing"]:
            continue
        arrays = from_arrow(batch)
        for kind, cells in wrong_cells().items():
            fits = {kind, *(name for name, _ in cells)} <= arrays.keys()
            for name, cell in cells if fits else ():
                if not len(arrays[name]):
                    continue
                tried.add((name, cell))
                for value in WRONG:
                    changed = {each: array.copy() for each, array in arrays.items()}
                    changed[name][len(changed[name]) // 2, cell] = value
                    with pytest.raises(CepError, match="damaged"):
                        then(resealed(blob, lambda _, all, n=number, to=changed: all.__setitem__(n, to_arrow(to))))
        for name, array in arrays.items():  # of another shape
            changed = arrays | {name: np.zeros((len(array) + 1, array.shape[-1] + 1), np.int64)}
            with pytest.raises(CepError, match="damaged"):
                then(resealed(blob, lambda _, all, n=number, to=changed: all.__setitem__(n, to_arrow(to))))
    assert tried == {cell for cells in wrong_cells().values() for cell in cells}, "there is one of each"
    for key, value in (("position", -1), ("watermark", 2**63), ("latest", "x"), ("values", 99), ("goals", 7)):
        if key != "goals":
            with pytest.raises(CepError, match="damaged"):
                then(resealed(blob, lambda header, _, k=key, v=value: header.update({k: v})))
    with pytest.raises(CepError, match="damaged"):
        then(resealed(blob, lambda _, all: all.pop()))


def test_codes_beyond_the_pool_are_refused() -> None:
    blob, then = begun()
    header, batches = snapshot.load(blob, None)
    assert header["values"] == 1
    waiting = from_arrow(batches[1])
    waiting[min(waiting)][4, 0] = 2**30
    with pytest.raises(CepError, match="damaged"):
        then(resealed(blob, lambda _, all: all.__setitem__(1, to_arrow(waiting))))
    for number, batch in enumerate(batches[2:], 2):
        arrays = from_arrow(batch) if batch.schema.names != ["nothing"] else {}
        if "hot" in arrays and len(arrays["hot"]) and not len(arrays["absent_hot"]):
            arrays["cold"][0, HEADER] = 2**30
            with pytest.raises(CepError, match="damaged"):
                then(resealed(blob, lambda _, all, n=number, to=arrays: all.__setitem__(n, to_arrow(to))))
            return
    raise AssertionError("a join waits")


def test_damage_is_told_to_another_program_as_well() -> None:
    blob, _ = begun()
    other = "event a(k: string, x: int). q(K, X) <- a(K, X) SEQ a(K, Y)."
    Engine.from_text(other, before=PriorState(blob))
    for _, damaged in flipped(blob, 30, Random(5)):
        with pytest.raises(CepError, match="snapshot"):
            Engine.from_text(other, before=PriorState(damaged))
        with pytest.raises(CepError, match="snapshot"):
            Engine.from_text(other).goes_on(damaged)


def test_links_of_rows_are_made_anew() -> None:
    """Whatever the state says of them."""
    blob, then = begun()
    wanted = then(blob)

    def tangled(_: dict[str, Any], batches: list[pa.RecordBatch]) -> None:
        for number, batch in enumerate(batches[2:], 2):
            arrays = from_arrow(batch) if batch.schema.names != ["nothing"] else {}
            if "hot" in arrays:
                arrays["hot"][:, NEXT : NEXT + 2] = 2**40
                batches[number] = to_arrow(arrays)

    assert then(resealed(blob, tangled)) == wanted


def test_lineage_that_goes_round_is_refused() -> None:
    blob, then = begun(explain=True)

    def round_(_: dict[str, Any], batches: list[pa.RecordBatch]) -> None:
        arrays = from_arrow(batches[-1])
        arrays["parts"] = arrays["wholes"].copy()
        batches[-1] = to_arrow(arrays)

    def nameless(_: dict[str, Any], batches: list[pa.RecordBatch]) -> None:
        tables = from_arrow(batches[-2])
        batches[-2] = to_arrow({name: table[:, :0] for name, table in tables.items()})

    for change in (round_, nameless):
        with pytest.raises(CepError, match="damaged"):
            then(resealed(blob, change))


def test_seals() -> None:
    blob = checksum.seal(b"one", b"two", of=b"7")
    assert bytes(checksum.content(blob, b"7")) == b"onetwo"
    assert checksum.name(blob) != checksum.name(b"onetwo")
    for damaged in (*(each for _, each in flipped(blob, 8 * len(blob), None)), *(blob[:n] for n in range(len(blob)))):
        with pytest.raises(checksum.Broken):
            checksum.content(damaged, b"7")
    with pytest.raises(checksum.Broken):
        checksum.content(blob, b"8")


def test_records_of_which_any_bit_may_flip() -> None:
    """A flipped bit is reported wherever it is; only what is cut short, or was never on disk, is torn."""
    whole = [checksum.record(b"head %d" % n, bytes(n) + b"x" * n) for n in range(4)]
    data = b"".join(whole)
    ends = [len(b"".join(whole[: n + 1])) for n in range(4)]
    assert [(bytes(head), stop) for head, _, stop in checksum.read_records(data)] == [
        (b"head %d" % n, end) for n, end in enumerate(ends)
    ]
    for place, damaged in flipped(data, 8 * len(data), None):
        with pytest.raises(checksum.Broken) as caught:
            list(checksum.read_records(damaged))
        assert caught.value.number == sum(end <= place // 8 for end in ends)
    for size in range(len(data)):
        found = [stop for _, _, stop in checksum.read_records(data[:size])]
        assert found == [end for end in ends if end <= size]
        if size - max([0, *found]) < len(whole[len(found)]) - checksum.SIZE:
            assert [stop for _, _, stop in checksum.read_records(data[:size] + bytes(len(data)))] == found, (
                "never on disk"
            )


def test_lines_in_a_chain() -> None:
    texts = [json.dumps({"n": n, "t": "ä\\"}, ensure_ascii=False).encode() for n in range(4)]
    chain = checksum.Chain(b"x")
    lines = [chain.add(text) for text in texts]
    assert [json.loads(line)["n"] for line in lines] == [0, 1, 2, 3]

    def read(lines: list[bytes], of: bytes = b"x") -> list[bytes]:
        chain = checksum.Chain(of)
        return [chain.read(line) for line in lines]

    assert read(lines) == texts
    for wrong in (
        [text + b"\n" for text in texts],
        lines[1:],
        lines[:1] + lines[2:],
        lines[::-1],
        [lines[0], texts[1] + b"\n"],
    ):
        with pytest.raises(checksum.Broken):
            read(wrong)
    with pytest.raises(checksum.Broken):
        read(lines, b"y")
    data = b"".join(lines)
    last = len(data) - len(lines[-1])
    for place, damaged in flipped(data, 8 * last, None, until=last):
        found = [line for line in damaged.split(b"\n") if line]
        with pytest.raises(checksum.Broken):
            read([line + b"\n" for line in found])
        assert place < 8 * last
