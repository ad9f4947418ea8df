"""Shapes of records: paths, lists, topics, keys, missing values, dialects; fast readers against that of single ones."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from threading import Thread
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from benchmarks.records import SHAPES, WEATHER, write
from cep.connectors.brokers.messages import Inbox, Messages
from cep.connectors.dead_letters import DeadLetters
from cep.connectors.files import read
from cep.connectors.formats.csv import Dialect, Fields
from cep.connectors.formats.jsonl import LineReader
from cep.connectors.inputs import Input
from cep.connectors.records.batch import DeadLetter
from cep.connectors.records.records import Record, read_events, read_fields
from cep.connectors.records.values import Unreadable
from cep.core.errors import CepError
from cep.core.schema import Schema
from cep.engine import Engine
from cep.runtime.encode import RefusedRow
from tests.long import examples
from tests.waiting import pause


def schemas(*declarations: str) -> dict[str, Schema]:
    """The schemas of declared events."""
    names = [text.split("(")[0].removeprefix("event ") for text in declarations]
    firsts = [text.split("(")[1].split(":")[0] for text in declarations]
    rules = [f"found{i}(X) <- {name}({first}: X)." for i, (name, first) in enumerate(zip(names, firsts))]
    engine = Engine.from_text("\n".join([*declarations, *rules]))
    return {name: engine.plan.schemas[name] for name in names}


NESTED = schemas(
    'event pump(id: string FROM "pump.id", bar: float? FROM pump.state.bar MISSING -1, ok: bool? FROM "pump.ok")'
    ' TIME "meta.ts".',
    'event probe(id: string, v: float? FROM readings[].value MISSING -999, "n/a", seen: time? FROM readings[].t)'
    " TIME ts.",
    "event flat(n: int FROM values[]) TIME ts.",
)


def by_one(data: bytes, known: dict[str, Schema]) -> tuple[list[tuple[int, str, str]], list[str]]:
    """What the reader of single records makes of lines: dead letters, and records with their line."""
    dead, found = [], []
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip(b" \t\r"):
            continue
        try:
            events = read_events(line, known)
        except Unreadable as reason:
            events = [reason]
        for event in events:
            if isinstance(event, Unreadable):
                dead.append((number, event.code, event.reason))
            else:
                found.append(f"{number} {event!r}")
    return dead, found


def by_columns(data: bytes, known: dict[str, Schema]) -> tuple[list[tuple[int, str, str]], list[str]]:
    tables, letters, block = LineReader(known, None, False).read("f", data, 0, 1, 0)
    assert block.count == len(letters) + sum(table.height for table in tables.values())
    texts = [line.decode("utf-8", "replace").strip("\r") for line in data.split(b"\n")]
    assert all(letter.text == texts[letter.line - 1] for letter in letters)
    found = []
    for type, table in tables.items():
        for start, end, order, *values in zip(*[table[name].to_list() for name in table.columns]):
            _, line, text = block.at(order)
            assert text == texts[line - 1]
            found.append((order, f"{line} {Record(type, start, end, tuple(values))!r}"))
    orders = [order for order, _ in found]
    assert len(set(orders)) == len(orders), "each record has a number of its own"
    return [(one.line, one.code, one.reason) for one in letters], [text for _, text in sorted(found)]


numbers = st.sampled_from([1, 2.5, -999, -999.0, -1, "n/a", "x", None, True, [1], {"a": 1}, 1e300])
leaf = st.one_of(numbers, st.just("2024-01-01T00:00:00Z"))
element = st.one_of(numbers, st.dictionaries(st.sampled_from(["value", "t", "u"]), leaf, max_size=3))
inner: st.SearchStrategy[Any] = st.one_of(
    numbers,
    st.dictionaries(
        st.sampled_from(["id", "state", "ok", "x"]),
        st.one_of(numbers, st.dictionaries(st.sampled_from(["bar", "b"]), numbers, max_size=2)),
        max_size=4,
    ),
)
records = st.fixed_dictionaries(
    {"type": st.sampled_from(["pump", "probe", "flat"]), "ts": st.just(4)},
    optional={
        "pump": inner,
        "meta": st.one_of(st.just({"ts": 7}), st.just({"ts": "2024-01-01"}), inner),
        "id": st.sampled_from(["a", "b", 3]),
        "pump.id": st.just("flat"),
        "readings": st.one_of(st.lists(element, max_size=4), inner),
        "values": st.one_of(st.lists(numbers, max_size=4), numbers),
        "args": st.just([1, 2]),
    },
)
TWICE = (
    b'{"type": "pump", "pump": {"id": "a", "id": "b"}, "meta": {"ts": 1}}',
    b'{"type": "pump", "pump": {"id": "a"}, "pump": {}, "meta": {"ts": 1}}',
    b'{"type": "pump", "pu\\u006dp": {"id": "a"}, "meta": {"t\\u0073": 1}}',
    b'{"type": "probe", "id": "a", "ts": 1, "readings": [{"value": 1, "value": 2}, {"value": 3}]}',
    b'{"type": "probe", "id": "a", "ts": 1, "readings": [{"v\\u0061lue": 1}, {"value": 0.1e1}]}',
    b'{"type": "probe", "id": "a", "ts": 1, "readings": [{"value": 1}, {"value": 2 ]}',
    b'{"type": "probe", "id": "\xff", "ts": 1, "readings": [{"value": 1}]}',
    b'{"type": "flat", "ts": 1, "values": [ 1 , 2,3 ]  }\r',
    b"",
    b"nonsense",
)
lines = st.one_of(records.map(lambda each: json.dumps(each).encode()), st.sampled_from(TWICE))


@examples(250)
@given(st.lists(lines, min_size=1, max_size=8))
@example(list(TWICE))
def test_nested_records_are_read_as_one_by_one(data: list[bytes]) -> None:
    text = b"\n".join(data) + b"\n"
    assert by_columns(text, NESTED) == by_one(text, NESTED)


def test_an_event_comes_of_each_element() -> None:
    text = b'{"type": "probe", "id": "a", "ts": 4, "readings": [{"value": 1.5, "t": 1}, {"value": "n/a"}, null]}\n'
    dead, found = by_columns(text, NESTED)
    assert not dead
    assert found == [
        "1 " + repr(Record("probe", 4_000_000, 4_000_000, ("a", 1.5, 1_000_000))),
        "1 " + repr(Record("probe", 4_000_000, 4_000_000, ("a", None, None))),
        "1 " + repr(Record("probe", 4_000_000, 4_000_000, ("a", None, None))),
    ]
    assert by_columns(b'{"type": "probe", "id": "a", "ts": 4, "readings": []}\n', NESTED) == ([], [])
    ((line, code, reason),), found = by_columns(b'{"type": "probe", "id": "a", "ts": 4}\n', NESTED)
    assert (line, code, reason, found) == (1, "args", "`readings` is missing", [])


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ('{"pump": {"id": "p", "x": 1}, "ts": 1}', 'pump: expected string, found an object; `pump` is an object with '
         '`id`, `x`: write FROM "pump.id"'),
        ('{"pump": [{"id": "p"}], "ts": 1}', 'pump: expected string, found a list; `pump` is a list with '
         '`[].id`: write FROM "pump[].id"'),
        ('{"pump": "a", "meta": {"ts": 1}}', 'no time: `ts` is missing; `meta` has `ts`: write TIME "meta.ts"'),
        ('{"pump": "a", "Ts": 1}', 'no time: `ts` is missing; there is `Ts`: write TIME Ts'),
        ('{"pump": "a", "tss": 1}', 'no time: `ts` is missing; there is `tss`: write TIME tss'),
        ('{"pump": "a", "ts": null, "tss": 1}', 'no time: `ts` is missing'),
    ],
)  # fmt: skip
def test_a_record_that_has_it_elsewhere_says_where(record: str, reason: str) -> None:
    known = schemas("event r(pump: string) TIME ts.")
    _, (letter,), _ = LineReader(known, "r", True).read("f", record.encode() + b"\n", 0, 1, 0)
    assert letter.reason == reason


@pytest.mark.parametrize(
    ("record", "where"),
    [
        ('{"deviceId": "p", "ts": 1}', "; there is `deviceId`: write FROM deviceId"),
        ('{"Device-ID": "p", "ts": 1}', '; there is `Device-ID`: write FROM "Device-ID"'),
        ('{"meta": {"deviceId": "p"}, "ts": 1}', '; `meta` has `deviceId`: write FROM "meta.deviceId"'),
        ('{"dvice_id": "p", "ts": 1}', "; there is `dvice_id`: write FROM dvice_id"),
        ('{"device_id": null, "dvice_id": "p", "ts": 1}', ""),
    ],
)
def test_a_missing_value_is_known_by_a_name_that_is_nearly_its_own(tmp_path: Path, record: str, where: str) -> None:
    (tmp_path / "r.jsonl").write_text(record + "\n")
    (batch,) = read([f"r={tmp_path / 'r.jsonl'}"], schemas("event r(device_id: string) TIME ts."))
    letters = DeadLetters()
    letters.reject(batch, [RefusedRow("r", 0, "missing", "`device_id` is missing")])
    assert letters.first is not None and letters.first.reason == f"`device_id` is missing{where}"


def test_a_missing_value_says_where_it_seems_to_be(tmp_path: Path) -> None:
    (tmp_path / "r.jsonl").write_text('{"pump": {"id": "p"}, "ts": 1}\n')
    known = schemas("event r(id: string) TIME ts.")
    (batch,) = read([f"r={tmp_path / 'r.jsonl'}"], known)
    letters = DeadLetters()
    letters.reject(batch, [RefusedRow("r", 0, "missing", "`id` is missing")])
    assert letters.first == DeadLetter(
        str(tmp_path / "r.jsonl"),
        1,
        '`id` is missing; `pump` has `id`: write FROM "pump.id"',
        "missing",
        '{"pump": {"id": "p"}, "ts": 1}',
    )


def test_paths_go_to_the_columns_of_parquet(tmp_path: Path) -> None:
    table = pa.table(
        {
            "pump": [{"id": "a", "state": {"bar": 1.5}}, {"id": "b", "state": None}, None],
            "readings": [[{"value": 1.0}, {"value": -999.0}], [], None],
            "ts": [1, 2, 3],
        }
    )
    pq.write_table(table, tmp_path / "r.parquet")
    known = schemas('event r(id: string? FROM "pump.id", bar: float? FROM pump.state.bar) TIME ts.')
    (batch,) = read([f"r={tmp_path / 'r.parquet'}"], known)
    assert batch.tables["r"]["id"].to_list() == ["a", "b", None]
    assert batch.tables["r"]["bar"].to_list() == [1.5, None, None]
    known = schemas('event r(id: string? FROM "pump.id", v: float? FROM readings[].value MISSING -999) TIME ts.')
    (batch,) = read([f"r={tmp_path / 'r.parquet'}"], known)
    assert batch.tables["r"].select("id", "v").rows() == [("a", 1.0), ("a", None)]
    assert [(one.line, one.reason) for one in batch.dead] == [(3, "`readings` is missing")]
    assert batch.origin("r", 1) == (str(tmp_path / "r.parquet"), 1, None)
    with pytest.raises(CepError, match="holds a struct") as caught:
        list(read([f"r={tmp_path / 'r.parquet'}"], schemas("event r(p: string FROM pump) TIME ts.")))
    assert caught.value.hint == 'read a value inside it, with `FROM "pump.id"`'


# --- what a message says besides its record


def inbox(known: dict[str, Schema], name: str) -> Inbox:
    return Inbox(Input("mqtt://h/t", "jsonl", name, True), known)


def test_the_time_may_stand_at_a_path_and_no_sentinel_passes() -> None:
    """Behind the declaration MISSING is for all attributes, those without `?` too."""
    known = schemas('event r(i: int, w: float) TIME x.at MISSING -999, "n/a".')
    (fine,) = read_events(b'{"i": 1, "w": 2, "x": {"at": 5}}', known, "r")
    assert fine == Record("r", 5_000_000, 5_000_000, (1, 2.0))
    for lost in (b'{"i": 1, "w": -999.0, "x": {"at": 5}}', b'{"i": 1, "w": "n/a", "x": {"at": 5}}'):
        assert read_events(lost, known, "r") == [Record("r", 5_000_000, 5_000_000, (1, None))]


def test_levels_of_a_topic() -> None:
    known = schemas("event r(site: string FROM topic[1], floor: int? FROM topic[3], v: float) TIME ts.")
    topics = ["s/zurich/v/3", "s/bern/v", "s//v/x", "s/chur/v/5"]
    payloads = [b'{"ts": %d, "v": %d}' % (i, i) for i in range(4)]
    messages = Messages([f"mqtt://h/{topic}" for topic in topics], range(4), payloads, topics=topics)
    batch = inbox(known, "r").batch(messages, 0)
    assert batch.tables["r"].select("site", "floor", "v").rows() == [
        ("zurich", 3, 0.0),
        ("bern", None, 1.0),
        ("chur", 5, 3.0),
    ]
    assert [(one.line, one.reason) for one in batch.dead] == [(2, "floor: expected int, found `x`")]


def test_the_key_of_a_message_unless_its_record_has_one() -> None:
    known = schemas("event r(key: string?, v: int) TIME ts.", "event s(id: int FROM key) TIME ts.")
    payloads = [b'{"ts": 1, "v": 1}', b'{"ts": 2, "v": 2, "key": "own"}', b'{"ts": 3, "v": 3}', b'{"ts": 4, "v": 4}']
    messages = Messages(["k"] * 4, range(4), payloads, keys=[b"a", b"b", None, b"\xff"])
    assert inbox(known, "r").batch(messages, 0).tables["r"]["key"].to_list() == ["a", "own", None, None]
    batch = inbox(known, "s").batch(Messages(["k"] * 2, range(2), payloads[:1] * 2, keys=[b"7", b"x"]), 0)
    assert batch.tables["s"]["id"].to_list() == [7]
    assert [one.reason for one in batch.dead] == ["id: expected int, found `x`"]


def test_a_file_has_no_topic(tmp_path: Path) -> None:
    known = schemas("event r(site: string FROM topic[1]) TIME ts.")
    (tmp_path / "r.jsonl").write_text('{"ts": 1}\n')
    (tmp_path / "r.csv").write_text("ts\n1\n")
    with pytest.raises(CepError, match="`site` of r is a level of an MQTT topic"):
        list(read([f"r={tmp_path / 'r.jsonl'}"], known))
    with pytest.raises(CepError) as caught:
        list(read([f"r={tmp_path / 'r.csv'}"], known))
    assert "`topic[1]` is a level of an MQTT topic, but this is a file" in str(caught.value.hint)


# --- tables


GERMAN = 'FORMAT csv(separator: ";", decimal: ",", comment: "#")'
TABLE = schemas(
    'event r(a: string, x: float? MISSING -999, "k.A.", n: int? MISSING -999, b: bool?, d: duration?, t: time?)'
    f" TIME ts {GERMAN}."
)["r"]
DIALECT = Dialect(";", '"', ",", "#")
COLUMNS = ["a", "x", "n", "b", "d", "t", "ts"]
fields = st.sampled_from(
    ["1,5", "-999", "-999,0", "-9,99e2", "1.5", "1.000,5", "k.A.", " 7 ", "7,0", "", "NA", "yes", "No", "1", "0", "x",
     '"a;b"', '"a""b"', '"-999"', "1e400", "9223372036854775808", "0,1", "-999,00000000000000000000", "2024-01-01",
     '"k.A."', "1,5,5", "ä"]
)  # fmt: skip
rows = st.lists(
    st.one_of(st.lists(fields, min_size=7, max_size=7).map(";".join), st.sampled_from(["# no", "", "a;b"])), max_size=6
)


@examples(250)
@given(rows)
def test_a_table_of_a_dialect_is_read_as_one_by_one(texts: list[str]) -> None:
    texts = [text.replace("@", str(i)) for i, text in enumerate(texts)]
    data = "".join(f"{text}\n" for text in texts).encode()
    used, breaks, tables, dead, block = Fields("f", [TABLE], COLUMNS, DIALECT).read(data, 0, 1, 0, True)
    assert (used, breaks) == (len(data), len(texts))
    found = []
    for start, end, order, *values in tables["r"].rows() if tables else []:
        found.append(f"{block.at(order)[1]} {Record('r', start, end, tuple(values))!r}")
    import csv

    expected, letters = [], []
    for number, text in enumerate(texts, 1):
        if not text or text.startswith("#"):
            continue
        (cells,) = csv.reader([text], delimiter=";")
        if len(cells) != len(COLUMNS):
            letters.append((number, "row"))
            continue
        try:
            expected.append(f"{number} {read_fields(dict(zip(COLUMNS, cells)), TABLE, ',')!r}")
        except Unreadable as reason:
            letters.append((number, reason.code))
    assert found == expected
    assert [(one.line, one.code) for one in dead] == letters


def test_a_table_as_europe_writes_it(tmp_path: Path) -> None:
    text = "# Messstation 4\n# m/s\nOrt;Wind;Tag;Zeit\nZürich;1,5;1.7.2024;08:00\n# Pause\nBern;-999;1.7.2024;09:00\n"
    known = schemas(
        'event r(ort: string FROM Ort, wind: float? FROM Wind MISSING -999) TIME Tag, Zeit FORMAT "%d.%m.%Y %H:%M"'
        ' ZONE "Europe/Zurich" FORMAT csv(separator: ";", decimal: ",", comment: "#", encoding: "latin1").'
    )
    raw = text.encode("latin1")
    (tmp_path / "r.csv").write_bytes(raw)
    (tmp_path / "r.csv.gz").write_bytes(gzip.compress(raw))
    (tmp_path / "zipped.csv").write_bytes(gzip.compress(raw))
    (tmp_path / "r.dat").write_bytes(raw)
    for name in ("r.csv.zst", "zipped"):
        with pa.CompressedOutputStream(str(tmp_path / name), "zstd") as file:
            file.write(raw)
    for name in ("r.csv", "r.csv.gz", "zipped.csv", "r.csv.zst", "r.dat", "zipped"):
        (batch,) = read([f"r={tmp_path / name}"], known)
        assert batch.tables["r"].select("ort", "wind", "start").rows() == [
            ("Zürich", 1.5, 1_719_813_600_000_000),
            ("Bern", None, 1_719_817_200_000_000),
        ], name
        assert batch.origin("r", 1)[1:] == (6, "Bern;-999;1.7.2024;09:00")


def test_compressed_files_that_are_damaged_or_none(tmp_path: Path) -> None:
    known = schemas("event r(x: int) TIME ts.")
    with pa.CompressedOutputStream(str(tmp_path / "r.jsonl.zst"), "zstd") as file:
        file.write(b'{"x": 1, "ts": 1}\n' * 100_000)
    whole = (tmp_path / "r.jsonl.zst").read_bytes()
    (tmp_path / "half.jsonl.zst").write_bytes(whole[: len(whole) // 2])
    assert sum(batch.rows for batch in read([f"r={tmp_path / 'r.jsonl.zst'}"], known)) == 100_000
    batches = list(read([f"r={tmp_path / 'half.jsonl.zst'}"], known))
    assert batches[-1].dead[-1].reason.startswith("the rest of the file cannot be decompressed")
    (tmp_path / "plain.jsonl.zst").write_text('{"x": 1, "ts": 1}\n')
    with pytest.raises(CepError, match="this is not a zstd file"):
        list(read([f"r={tmp_path / 'plain.jsonl.zst'}"], known))


def test_booleans_in_words_and_digits() -> None:
    known = schemas("event r(b: bool) TIME ts.")
    texts = ["true", "false", "1", "0", '"yes"', '"No"', '"TRUE"', '"0"', "2", '"on"', "1.0"]
    data = "".join(f'{{"b": {text}, "ts": 1}}\n' for text in texts).encode()
    tables, dead, _ = LineReader(known, "r", True).read("f", data, 0, 1, 0)
    assert tables["r"]["b"].to_list() == [True, False, True, False, True, False, True, False]
    assert [one.line for one in dead] == [9, 10, 11]
    _, _, found, dead, _ = Fields("f", [known["r"]], ["b", "ts"], Dialect(",")).read(
        b"yes,1\nNO,1\n1,1\n0,1\nTrue,1\non,1\n", 0, 2, 0, True
    )
    assert found["r"]["b"].to_list() == [True, False, True, False, True]
    assert [one.line for one in dead] == [7]
    assert pl.Series([True]).dtype == found["r"]["b"].dtype


def test_the_shapes_of_the_benchmark_hold_the_same(tmp_path: Path) -> None:
    write(tmp_path, 50)
    expected: list[tuple[Any, ...]] = []
    for shape in SHAPES:
        found: list[tuple[Any, ...]] = []
        for batch in read([f"reading={tmp_path / shape.file}"], schemas(shape.program)):
            assert not batch.dead, shape.name
            found += batch.tables["reading"].select(WEATHER[1:]).rows()  # of a list all have one station
        expected = expected or found
        assert found == expected and len(found) == 50, shape.name


def packed(text: bytes, kind: str) -> bytes:
    if kind == "gzip":
        return gzip.compress(text)
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, kind) as stream:
        stream.write(text)
    return bytes(sink.getvalue())


@pytest.mark.parametrize("kind", ["gzip", "zstd"])
@pytest.mark.parametrize("first", [1, 3, 1000])
def test_a_pipe_is_decompressed(kind: str, first: int) -> None:
    data = packed(b'{"x": 1, "ts": 1}\n' * 3000, kind)
    end, begin = os.pipe()

    def write() -> None:
        os.write(begin, data[:first])
        pause(0.05)
        os.write(begin, data[first:])
        os.close(begin)

    writer = Thread(target=write)
    writer.start()
    with os.fdopen(end, "rb") as pipe:
        batches = list(read(["r=-"], schemas("event r(x: int) TIME ts."), stdin=pipe))
    writer.join()
    assert sum(batch.rows for batch in batches) == 3000 and not any(batch.dead for batch in batches)


def test_a_compressed_pipe_that_ends_early_is_told() -> None:
    data = packed(b'{"x": 1, "ts": 1}\n' * 3000, "gzip")
    end, begin = os.pipe()
    os.write(begin, data[:-20])
    os.close(begin)
    with os.fdopen(end, "rb") as pipe:
        batches = list(read(["r=-"], schemas("event r(x: int) TIME ts."), stdin=pipe))
    assert batches[-1].dead[-1].reason.startswith("the rest of the file cannot be decompressed")
