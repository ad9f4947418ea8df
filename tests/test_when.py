"""WHEN: one record is several events, one, or none, in each format."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cep
from cep.connectors.brokers.messages import Inbox, Messages
from cep.connectors.files import read, replay
from cep.connectors.formats.jsonl import LineReader
from cep.connectors.inputs import Input
from cep.connectors.records.records import Record, read_events
from cep.connectors.records.values import Unreadable
from cep.core.errors import CepError
from cep.core.schema import RecordTest, Schema
from cep.engine import Engine
from cep.language.syntax.parser import parse
from cep.language.syntax.printer import print_statement
from tests.cli_runs import cep as run
from tests.long import examples

LOG = """\
event deploy(service: string, version: string FROM deploy.version) TIME ts WHEN deploy EXISTS.
event problem(service: string, level: string) TIME ts WHEN level in ["error", "fatal"].
event slow(service: string, ms: float FROM took) TIME ts WHEN took > 100, service != "cron" or level = fatal.
event part(v: float FROM parts[].v) TIME ts WHEN parts[].kind = "t".
event plain(x: int) TIME ts.
"""
RULES = """\
failed(S, V, L) <- (deploy(S, V) SEQ problem(S, L)) WITHIN 10 min.
late(S, M) <- slow(S, M).
seen(V) <- part(V).
own(X) <- plain(X).
"""


def events_of(text: str, **options: Any) -> dict[str, Schema]:
    names = [each.name for each in parse(text).statements]  # type: ignore[union-attr]
    engine = Engine.from_text(text + RULES, **options)
    return {name: engine.plan.schemas[name] for name in names}


def test_one_record_is_several_events_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("log.cep").write_text(LOG + RULES)
    records = [
        {"ts": 1, "service": "shop", "deploy": {"version": "1.2"}},
        {"ts": 2, "service": "shop", "level": "error", "took": 150},
        {"ts": 3, "service": "cron", "level": "info", "took": 150},
        {"ts": 4, "parts": [{"kind": "t", "v": 1}, {"kind": "u", "v": "n"}, {"kind": "t", "v": 2}]},
        {"ts": 5, "type": "plain", "x": 7},
        {"ts": 6, "type": "deploy"},
        {"nothing": None},
    ]
    Path("log.jsonl").write_text("".join(json.dumps(each) + "\n" for each in records))
    for more in ([], ["--lateness", "1s"], ["--workers", "2"]):
        result = run("run", "log.cep", "--input", "log.jsonl", *more)
        found = [tuple(json.loads(line).values())[3:] for line in result.stdout.splitlines()]
        assert sorted(map(str, found)) == sorted(
            map(str, [("shop", 150.0), ("shop", "1.2", "error"), (1.0,), (2.0,), (7,)])
        )
        assert "9 records, 3 matching no event, 5 derived events" in result.stderr
    strict = run("run", "log.cep", "--input", "log.jsonl", "--strict-types", "--dead-letter", "dead.jsonl")
    assert "9 records, 3 dead letters (3 of an unknown event), 5 derived" in strict.stderr
    letters = [json.loads(line) for line in Path("dead.jsonl").read_text().splitlines()]
    assert [(one["line"], one["reason"]) for one in letters] == [
        (line, "the record is not an event of the program: no WHEN is true for it") for line in (3, 6, 7)
    ]


values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 200),
    st.sampled_from(["error", "fatal", "cron", "shop", "1.2", "", "é\n"]),
    st.floats(-5, 300).map(lambda x: round(x, 2)),
    st.sampled_from(
        [{"version": "1"}, {"version": 2}, {}, [], [{"kind": "t", "v": 1}, {"kind": 4}], [1], {"kind": {}}]
    ),
)
lines = st.one_of(
    st.dictionaries(
        st.sampled_from(["ts", "service", "deploy", "level", "took", "parts", "type", "args", "x"]), values
    ).map(lambda record: json.dumps(record | {"ts": 1} if record.get("ts") is None else record)),
    st.sampled_from(
        [
            '{"ts": 1, "level": "error", "level": "x", "service": "a"}',
            '{"ts": 1, "l\\u0065vel": "error", "service": "a", "took": 1e2}',
            '{"ts": 1, "type": "plain"}',
            "no",
            "",
        ]
    ),
)


@examples(300)
@given(st.lists(lines, max_size=8), st.booleans())
def test_many_lines_are_read_as_each_by_itself(texts: Sequence[str], strict: bool) -> None:
    schemas = events_of(LOG, strict_types=strict)
    data = "".join(f"{text}\n" for text in texts).encode()
    tables, dead, block = LineReader(schemas, None, False).read("f", data, 0, 1, 0)
    found = [
        (int(order), Record(name, start, end, tuple(rest)))
        for name, table in tables.items()
        for start, end, order, *rest in table.rows()
    ]
    letters = [(one.line, one.code, one.reason) for one in dead]
    expected, refused, unmatched = [], [], 0
    for number, text in enumerate(texts, 1):
        if not text:
            continue
        try:
            events = read_events(text.encode(), schemas)
        except Unreadable as reason:
            events = [reason]
        unmatched += not events
        for event in events:
            if isinstance(event, Unreadable):
                refused.append((number, event.code, event.reason))
            else:
                expected.append((number, event))
    assert sorted(((block.place(order)[1], event) for order, event in found), key=str) == sorted(expected, key=str)
    assert len({order for order, _ in found}) == len(found)
    assert sorted(letters) == sorted(refused)
    assert block.unmatched == unmatched


TABLE = """\
event up(host: string, v: int) TIME ts WHEN kind = up.
event change(host: string, kind: string) TIME ts WHEN kind in ["up", "down"].
a(H, V) <- up(H, V).
b(H, K) <- change(H, K).
"""
ROWS = "ts,kind,host,v\n1,up,a,1\n2,down,a,x\n3,other,b,z\n4,,b,z\n5,up,b,y\n6,up\n"


def test_a_table_holds_several_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.cep").write_text(TABLE)
    Path("t.csv").write_text(ROWS)
    result = run("run", "t.cep", "--input", "t.csv", "--dead-letter", "dead.jsonl")
    assert [tuple(json.loads(line).values()) for line in result.stdout.splitlines()] == [
        ("a", 1, 1, "a", 1),
        ("b", 1, 1, "a", "up"),
        ("b", 2, 2, "a", "down"),
        ("b", 5, 5, "b", "up"),
    ]
    assert "8 records, 2 matching no event, 2 dead letters (1 ill-typed, 1 with wrong fields)" in result.stderr
    assert [json.loads(line)["line"] for line in Path("dead.jsonl").read_text().splitlines()] == [6, 7]
    strict = run("run", "t.cep", "--input", "t.csv", "--strict-types")
    assert "8 records, 4 dead letters (2 of an unknown event" in strict.stderr
    two = 'event c(v: int) TIME ts WHEN kind = "c" FORMAT csv(separator: ";").\nd(V) <- c(V).\n'
    Path("two.cep").write_text(TABLE + two)
    assert "declare different formats for it" in run("run", "two.cep", "--input", "t.csv").stderr


def test_parquet_and_frames_are_tested_by_column(tmp_path: Path) -> None:
    table = pl.DataFrame(
        {
            "ts": [1, 2, 3, 4],
            "kind": ["up", "down", None, "up"],
            "n": [1.5, 2.0, float("nan"), None],
            "ok": [True, False, None, True],
        }
    )
    program = "event e(kind: string?) TIME ts WHEN {}.\nf(K) <- e(K).\n"
    for when, expected in [
        ("kind = up", ["up", "up"]),
        ("kind != up", ["down"]),
        ("kind NOT EXISTS", [None]),
        ("n EXISTS", ["up", "down"]),
        ("n >= 2", ["down"]),
        ("ok = false or kind NOT EXISTS", ["down", None]),
        ("ts not in [1, 2]", [None, "up"]),
    ]:
        text = program.format(when)
        table.write_parquet(tmp_path / "t.parquet")
        schemas = {"e": Engine.from_text(text).plan.schemas["e"]}
        (batch,) = read([str(tmp_path / "t.parquet")], schemas)
        assert batch.tables["e"]["kind"].to_list() == expected, when
        assert batch.unmatched == 4 - len(expected)
        engine = cep.Engine.from_text(text)
        found = [engine.push(table), engine.finish()]
        assert [value for some in found for value in some["f"]["k"]] == expected


def test_a_parquet_file_and_a_frame_hold_several_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the order of rows, so that nothing is late for a row behind it."""
    monkeypatch.chdir(tmp_path)
    rows = [(1, "up", "a", 1), (2, "down", "a", 2), (3, "other", "b", 3), (4, None, "b", 4), (5, "up", "b", None)]
    table = pl.DataFrame(rows * 3, ["ts", "kind", "host", "v"], orient="row").with_columns(
        ts=pl.int_range(15, eager=True)
    )
    table.write_parquet("t.parquet", row_group_size=4)
    table.write_csv("t.csv")
    Path("t.cep").write_text(TABLE)
    want = run("run", "t.cep", "--input", "t.csv")
    for options in ([], ["--lateness", "0s", "--batch", "2"], ["--workers", "2"]):
        found = run("run", "t.cep", "--input", "t.parquet", *options)
        assert found.stdout == want.stdout and "6 matching no event" in found.stderr, found.stderr
    strict = run("run", "t.cep", "--input", "t.parquet", "--strict-types", "--dead-letter", "dead.jsonl")
    assert "9 dead letters (6 of an unknown event, 3 missing)" in strict.stderr
    dead = [json.loads(line) for line in Path("dead.jsonl").read_text().splitlines()]
    assert [one["line"] for one in dead if one["code"] == "type"] == [3, 4, 8, 9, 13, 14]
    lines = [json.loads(line)["type"] for line in want.stdout.splitlines()]
    made = cep.detect(TABLE, table)
    assert {name: len(made[name]) for name in "ab"} == {name: lines.count(name) for name in "ab"}
    engine = cep.Engine.from_text(TABLE)
    pieces = [engine.push(table[:7]), engine.push(table[7:]), engine.finish()]
    assert sum(len(piece["b"]) for piece in pieces) == lines.count("b")
    origin = next(iter(read(["t.parquet"], Engine.from_text(TABLE).inputs)))
    assert [origin.place_of("change", row)[1] for row in range(3)] == [1, 2, 5]


def test_when_may_stand_before_the_time() -> None:
    one = parse('event a(v: int) WHEN kind = "a", v > 1 TIME t FORMAT epoch ms.')
    other = parse('event a(v: int) TIME t WHEN kind = "a", v > 1 FORMAT epoch ms.')
    assert Engine.from_text('event a(v: int) WHEN kind = "a" START s END e.\nx(V) <- a(V).').inputs["a"].start == "s"
    assert [print_statement(each) for each in (*one.statements, *other.statements)][0:1] * 2 == [
        print_statement(each) for each in (*one.statements, *other.statements)
    ]
    with pytest.raises(CepError, match="the declaration has a second WHEN"):
        parse('event a(v: int) WHEN kind = "a" TIME t WHEN v > 1.')


def test_messages_are_tested_by_topic_and_key() -> None:
    schemas = {
        "alarm": Engine.from_text(
            'event alarm(v: float) TIME t WHEN topic[1] = "alarms", v > 1.\nx(V) <- alarm(V).\n'
        ).plan.schemas["alarm"]
    }
    inbox = Inbox(Input("mqtt://host/#", "jsonl", "alarm", False), schemas)
    payloads = [b'{"t": 1, "v": 2}', b'{"t": 1, "v": 0}', b'{"t": 2, "v": 3}', b'{"t": 3, "v": "x"}']
    topics = ["a/alarms", "a/alarms", "a/values", "b/alarms"]
    batch = inbox.batch(Messages(["m"] * 4, [1, 2, 3, 4], payloads, topics=topics), 0)
    assert batch.tables["alarm"]["v"].to_list() == [2.0] and batch.unmatched == 3 and not batch.dead
    assert batch.origin("alarm", 0) == ("m", 1, '{"t": 1, "v": 2}')


def test_records_of_packs_are_tested(tmp_path: Path) -> None:
    text = 'event warm(v: float) FORMAT senml WHEN n = "t", u = "Cel".\nx(V) <- warm(V).\n'
    pack = (
        '[{"bn": "", "bt": 1.7e9, "n": "t", "u": "Cel", "v": 20}, {"n": "t", "u": "K", "v": 290}, {"n": "h", "v": 1}]'
    )
    (tmp_path / "p.senml").write_text(pack + "\n" + json.dumps(json.loads(pack) * 20) + "\n")
    schemas = {"warm": Engine.from_text(text).plan.schemas["warm"]}
    batches = list(replay([str(tmp_path / "p.senml")], schemas))
    assert sum(batch.rows for batch in batches) == 21 and sum(batch.unmatched for batch in batches) == 42


def test_what_a_declaration_calls_missing_does_not_exist() -> None:
    text = 'event e(user: string?) TIME ts MISSING "-" WHEN user EXISTS.\nx(U) <- e(U).\n'
    schemas = {"e": Engine.from_text(text).plan.schemas["e"]}
    assert read_events(b'{"ts": 1, "user": "-"}', schemas, "e") == []
    assert len(read_events(b'{"ts": 1, "user": "ann"}', schemas, "e")) == 1


@pytest.mark.parametrize(
    ("clause", "message"),
    [
        ("WHEN kind = null", "a missing value never equals anything"),
        ('WHEN x = "a"', "`x` is int, but is compared with a text"),
        ('WHEN kind > "a"', "`>` compares only numbers"),
        ("WHEN kind", "expected `EXISTS`, `in` or a comparison, found `.`"),
        ("WHEN a[].b = 1, c[].d = 2", "`e` has values from two lists, `a` and `c`"),
        ("WHEN a = 1 WHEN b = 2", "the declaration has a second WHEN"),
        ("TIME t WHEN a = 1 TIME ts", "expected `.`, found `TIME`"),
        ("WHEN a = 9007199254740993", "a number of more than 53 bits"),
        ("WHEN <http://example.org/a> = 1", "expected a column or a path"),
    ],
)
def test_wrong_tests_are_refused(clause: str, message: str) -> None:
    with pytest.raises(CepError) as caught:
        parse(f"event e(x: int) {clause}.")
    assert message in caught.value.message


def test_tests_are_printed_as_they_are_read() -> None:
    text = 'event e(x: int) TIME ts WHEN kind = "a", n >= -2.5 or b NOT EXISTS, "a b" not in ["x", 3, true] KEY x.'
    (statement,) = parse(text).statements
    assert print_statement(statement) == text
    assert statement.when is not None and statement.when[1][0] == RecordTest("b", "not exists")  # type: ignore[union-attr]


def test_another_test_makes_another_event() -> None:
    one, other = (f"event e(x: int) TIME t WHEN a = {n}.\nf(X) <- e(X).\n" for n in (1, 2))
    assert Engine.from_text(one).meanings() != Engine.from_text(other).meanings()


def test_formats_that_say_the_event_themselves_refuse_it(tmp_path: Path) -> None:
    program = tmp_path / "p.cep"
    program.write_text("event e(x: float) WHEN y = 1.\nf(X) <- e(X).\n")
    for name, text, message in [
        ("a.lp", "e x=1 1\n", "the measurement of a line decides"),
        ("a.nt", "", "WHEN tests fields of records, but observations in RDF have no fields"),
    ]:
        (tmp_path / name).write_text(text)
        assert message in run("run", str(program), "--input", f"e={tmp_path / name}").stderr
    with pytest.raises(CepError, match="a fluent cannot have WHEN"):
        parse("fluent f(x: int) START s END e WHEN a = 1.")


def test_a_path_that_no_record_has_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.cep").write_text("event e(x: int) TIME t WHEN deplyo EXISTS.\nf(X) <- e(X).\n")
    Path("r.jsonl").write_text('{"t": 1, "deploy": {"x": 1}}\n')
    text = run("run", "p.cep", "--input", "r.jsonl").stderr
    assert "no record is `e`: the first that is not an event has no value at `deplyo`; there is `deploy`" in text


@pytest.mark.parametrize(
    ("declared", "why"),
    [
        ('event e(h: string) FORMAT influx WHEN h = "a".', "decides which event it is"),
        ('event e(h: string) WHEN h = "a" FORMAT influx.', "decides which event it is"),
        (
            "event e(u: string FROM <http://x/u>) AS <http://x/y> WHEN u EXISTS.",
            "WHEN tests fields of records, but observations in RDF have no fields",
        ),
    ],
)
def test_what_has_no_when_is_refused_by_the_check(declared: str, why: str) -> None:
    with pytest.raises(CepError, match=why):
        Engine.from_text(f"{declared}\nx(H) <- e(H).\n")
