"""The fast reader of records against the slow one, and columns of text against single fields."""

from __future__ import annotations

import csv
import io
import json

from hypothesis import given
from hypothesis import strategies as st

from cep.connectors.formats.csv import Dialect, Fields
from cep.connectors.records.header import bind
from cep.connectors.records.records import Record, read_fields
from cep.connectors.records.values import Unreadable
from cep.core.schema import Schema
from tests.long import examples
from tests.record_lines import LOOSE, SCHEMAS, SENSOR, fast, read_line


def slow(
    data: bytes, default: str | None = None, bound: bool = False
) -> tuple[list[tuple[int, str, str]], list[tuple[int, Record]]]:
    dead, found = [], []
    order = 0
    for number, text in enumerate(data.split(b"\n"), 1):
        if text.strip(b" \t\r"):
            try:
                found.append((order, read_line(text, SCHEMAS, default, bound)))
            except Unreadable as reason:
                dead.append((number, reason.code, reason.reason))
            order += 1
    return dead, found


def exactly(found: list[tuple[int, Record]]) -> list[str]:
    """Records in letters, by which 1, 1.0 and True are not the same, but 1 and 1.0 in an undeclared attribute are."""
    return [repr((order, record)) if record.type != "a" else f"{order} {_loose(record)}" for order, record in found]


def _loose(record: Record) -> str:
    values = [
        float(v) if isinstance(v, int) and not isinstance(v, bool) and abs(v) <= 2**53 else v for v in record.values
    ]
    return repr((record.start, record.end, values))


strings = st.one_of(
    st.sampled_from(
        ["x", "", "NA", "KJFK", "http://e.org/x", 'é\n\t\\"/', "\U0001f600", "a b", "true", "7", "2013-02-08", "30 s"]
    ),
    st.text(max_size=5),
)
numbers = st.one_of(
    st.integers(-5, 5).map(str),
    st.integers().map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(
        ["3.0", "3.5", "-0", "-0.0", "0.30000000000000004", "1e3", "1E-2", "1360346400.123456", "1.2345675"]
    ),
    st.sampled_from(
        ["1e400", "9007199254740993", "9007199254740993.0", "5e-324", "01", "1.", ".5", "+1", "NaN", "-", "1e"]
    ),
    st.decimals(allow_nan=False, allow_infinity=False, places=8, min_value=-(10**9), max_value=10**9).map(str),
)
times = st.one_of(
    st.integers(0, 9).map(str),
    st.sampled_from(['"2013-02-08T18:00:00Z"', '"2013-02-08 18:00:00.123456789+01:00"', '"2013-02-08"', '"x"', "null"]),
    numbers,
)
texts = st.tuples(strings, st.booleans()).map(lambda pair: json.dumps(pair[0], ensure_ascii=pair[1]))
scalars = st.one_of(
    numbers, texts, st.sampled_from(["true", "false", "null", "nul", '"\\u12"', '"\\ud83d"', '"\\x"', '"\t"'])
)
nested = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda parts: f"[{' , '.join(parts)}]"),
        st.lists(inner, max_size=3).map(
            lambda parts: "{" + ",".join(f'"k{i}" : {part}' for i, part in enumerate(parts)) + "}"
        ),
    ),
    max_leaves=5,
)
types = st.sampled_from(['"sensor"', '"a"', '"p"', '"s"', '"a"', '"q"', '"\\u0061"', "null", "1"])
fields = st.one_of(
    st.tuples(st.just("type"), types),
    st.tuples(st.sampled_from(["time", "start", "end", "at", "from", "to", "seen", "lasting"]), times),
    st.tuples(st.sampled_from(["id", "place"]), texts),
    st.tuples(st.sampled_from(["wind", "value", "v", "count"]), numbers),
    st.tuples(st.sampled_from(["arg1", "arg2", "wet", "id", "wind", "other"]), scalars),
    st.tuples(st.sampled_from(["other", "more", "wind", "\\u0061t"]), nested),
    st.tuples(st.just("args"), st.lists(scalars, max_size=3).map(lambda parts: f"[{', '.join(parts)}]")),
)


@st.composite
def plausible(draw: st.DrawFn) -> str:
    """A record that may well be readable: a type, its times and attributes, perhaps something else."""
    type = draw(st.sampled_from(["sensor", "a", "p", "s"]))
    parts = [("type", f'"{type}"')]
    keys = {"sensor": ["time"], "a": ["time"], "p": ["at"], "s": ["from", "to"]}[type]
    parts += [(key, draw(times)) for key in keys]
    if type == "a" and draw(st.booleans()):
        parts.append(("args", "[" + draw(scalars) + "," + draw(scalars) + "]"))
    elif type == "sensor":
        parts += [("id", draw(texts)), ("wind", draw(numbers)), ("place", draw(texts)), ("wet", draw(scalars))]
    else:
        parts += [(key, draw(scalars)) for key in {"a": ["arg1", "arg2"], "p": ["value"], "s": ["v"]}[type]]
    parts += draw(st.lists(fields, max_size=1))
    return _object(draw(st.permutations(parts)), draw(st.sampled_from(["", " ", "\t"])))


def _object(parts: list[tuple[str, str]], blank: str) -> str:
    return (
        blank + "{" + ("," + blank).join(f'"{key}"{blank}:{blank}{value}' for key, value in parts) + blank + "}" + blank
    )


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A plausible record with a byte changed, lost or added."""
    raw = bytearray(draw(plausible()).encode())
    place = draw(st.integers(0, len(raw) - 1))
    byte = draw(st.sampled_from(b'{}[]",:\\ 01e.-xu\xff\x00'))
    raw[place : place + draw(st.integers(0, 1))] = bytes([byte]) if draw(st.booleans()) else b""
    return bytes(raw)


lines = st.one_of(
    plausible().map(str.encode),
    damaged(),
    st.lists(fields, max_size=5).map(lambda parts: _object(parts, "").encode()),
    st.sampled_from([b"", b"  ", b"\r", b"{}", b"[]", b"null", b'{"type":"p","at":1,"value":1}{}', b'{"a":', b"1}"]),
)


@examples(400)
@given(
    st.lists(lines, max_size=8),
    st.sampled_from([b"\n", b"\r\n"]),
    st.sampled_from([(None, False), ("p", True), ("a", False)]),
)
def test_the_fast_reader_is_the_slow_one(parts: list[bytes], ending: bytes, binding: tuple[str | None, bool]) -> None:
    data = ending.join(parts)
    _, dead, found = fast(data, *binding)
    expected_dead, expected = slow(data, *binding)
    assert [(record.line, record.code, record.reason) for record in dead] == expected_dead
    assert exactly(found) == exactly(expected)


cells = st.one_of(
    strings,
    numbers,
    times.map(lambda text: text.strip('"')),
    st.sampled_from(["", "NA", " 3 ", "TRUE", "false ", '"', 'a"b', "x,y", "two\nlines", "two\r\nlines", "inf", "1_0"]),
)


@examples(300)
@given(st.data(), st.sampled_from([SENSOR, LOOSE]))
def test_text_fields_column_by_column_are_those_one_by_one(data: st.DataObject, schema: Schema) -> None:
    """Against Python's own reader of CSV, for all that its writer writes."""
    columns = ["time", *(attribute.name for attribute in schema.attributes), "other"]
    plain = ["1", "x", "2.5", "3", "true", "http://e.org/x", "2013-02-08", "1", ""]
    rows = data.draw(
        st.lists(st.tuples(*[st.one_of(st.just(plain[i]), cells) for i in range(len(columns))]), max_size=6)
    )
    out = io.StringIO()
    csv.writer(out, lineterminator=data.draw(st.sampled_from(["\n", "\r\n"]))).writerows(rows)
    text = out.getvalue().encode("utf-8", "surrogatepass")
    bound = bind("f", schema, columns)
    reader = Fields("f", [schema], columns, Dialect(","))
    used, _, tables, dead, block = reader.read(text, 0, 2, 0, True)
    table = tables.get(schema.name)
    expected, reasons = [], []
    for order, row in enumerate(rows):
        try:
            expected.append((order, read_fields(dict(zip(columns, row)), bound)))
        except Unreadable as reason:
            reasons.append((order, reason.code, reason.reason))
    found = []
    if table is not None:
        for start, end, order, *values in zip(*[table[name].to_list() for name in table.columns]):
            found.append((order, Record(schema.name, start, end, tuple(values))))
    assert used == len(text)
    assert exactly(found) == exactly(expected)
    assert [(record.code, record.reason) for record in dead] == [(code, reason) for _, code, reason in reasons]
    numbered = {block.at(order)[1]: order for order in range(block.count)}
    assert [numbered[record.line] for record in dead] == [order for order, _, _ in reasons]
