"""Values of JSON as devices write them: numbers in quotes, NaN, elements by number, names with dots, intervals."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep import detect
from cep.connectors.brokers.messages import Inbox, Messages
from cep.connectors.files import read
from cep.connectors.formats.jsonl import LineReader
from cep.connectors.inputs import Input
from cep.connectors.records.paths import path, written
from cep.connectors.records.records import Record, read_events
from cep.connectors.records.values import Unreadable
from cep.core.errors import CepError
from cep.core.schema import Schema
from cep.engine import Engine
from cep.language.syntax.parser import parse
from cep.language.syntax.printer import print_statement
from tests.long import examples

SHAPES = """\
event q(v: float? FROM v QUOTED, n: int? FROM n QUOTED MISSING -9) TIME t.
event p(v: float? FROM a[1], w: float? FROM a[0].b, x: float? FROM a[2][1]) TIME t.
event l(v: float? FROM xs[].a[1], w: float? FROM xs[].a[0].b) TIME t.
event d(v: float? FROM labels."app.name/x", w: float? FROM labels.app) TIME t.
event i(v: float? FROM v) START when END when.
"""


def schema(declaration: str) -> dict[str, Schema]:
    name = declaration.split("(")[0].removeprefix("event ")
    return {name: Engine.from_text(f"{declaration}\nx(V) <- {name}(v: V).\n").plan.schemas[name]}


def values(declaration: str, lines: Sequence[object]) -> tuple[list[object], list[str]]:
    known = schema(declaration)
    data = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines).encode()
    tables, dead, _ = LineReader(known, next(iter(known)), True).read("f", data, 0, 1, 0)
    return [value for table in tables.values() for value in table["v"].to_list()], [one.reason for one in dead]


def test_numbers_in_quotes_are_numbers_where_it_is_declared() -> None:
    lines = [{"t": 1, "v": each} for each in ("2.5", 3, "", " 1e3 ", None, "x", True)]
    found, reasons = values("event q(v: float? QUOTED) TIME t.", lines)
    assert found == [2.5, 3.0, None, 1000.0, None]
    assert reasons == ["v: expected float, found `x`", "v: expected float, found a boolean"]
    _, reasons = values("event q(v: float) TIME t.", [{"t": 1, "v": "2.5"}])
    assert reasons[0].endswith("or declare it `v: float QUOTED`")
    with pytest.raises(CepError, match="QUOTED is for numbers, but this attribute is of type string"):
        parse("event q(v: string QUOTED).")


def test_numbers_in_quotes_of_parquet(tmp_path: Path) -> None:
    texts = ["2.5", "", None, "x", " 7 ", "12345678901234567890.5"]
    pl.DataFrame({"t": range(6), "v": texts}).write_parquet(tmp_path / "t.parquet")
    (batch,) = read([str(tmp_path / "t.parquet")], schema("event q(v: float? QUOTED) TIME t."))
    assert batch.tables["q"]["v"].to_list() == [2.5, None, None, 7.0, 12345678901234567890.5]
    assert [one.line for one in batch.dead] == [4]


def test_nan_and_infinity_are_missing() -> None:
    lines = ['{"t": 1, "v": NaN}', '{"t": 1, "v": -Infinity, "o": {"x": NaN}}', '{"t": 1, "v": Inf}']
    found, reasons = values("event q(v: float?) TIME t.", lines)
    assert found == [None, None] and len(reasons) == 1
    found, _ = values("event q(v: float? FROM a.v) TIME t.", ['{"t": 1, "a": {"v": Infinity, "w": -1}}'])
    assert found == [None]


def test_elements_of_lists_have_numbers_from_0_on() -> None:
    lines = [{"t": 1, "a": [1, 2]}, {"t": 1, "a": [1]}, {"t": 1, "a": {"x": 1}}, {"t": 1}]
    assert values("event p(v: float? FROM a[1]) TIME t.", lines) == (
        [2.0, None, None],
        ["`a` is an object, not a list"],
    )
    nested = [{"t": 1, "a": [[1, 2], {"b": [3]}]}]
    assert values("event p(v: float? FROM a[0][1]) TIME t.", nested)[0] == [2.0]
    assert values("event p(v: float? FROM a[1].b[0]) TIME t.", nested)[0] == [3.0]
    for source in ("topic[0.5]", "a[1.5]"):
        with pytest.raises(CepError, match="is not a valid path of a value"):
            parse(f"event p(v: float FROM {source}).")
    assert parse('event p(v: float FROM "Flow [m3/s]").').statements


def test_elements_of_lists_in_parquet(tmp_path: Path) -> None:
    rows = [{"t": 1, "a": [{"b": [1.0, 2.0]}], "xs": [[1.0, 2.0], [3.0]]}, {"t": 2, "a": [], "xs": [[4.0, 5.0]]}]
    pl.DataFrame(rows).write_parquet(tmp_path / "t.parquet")
    (batch,) = read([str(tmp_path / "t.parquet")], schema("event p(v: float? FROM a[0].b[1]) TIME t."))
    assert batch.tables["p"]["v"].to_list() == [2.0, None]
    (batch,) = read([str(tmp_path / "t.parquet")], schema("event p(v: float? FROM xs[][1]) TIME t."))
    assert batch.tables["p"]["v"].to_list() == [2.0, None, 5.0]


def test_names_in_objects_may_have_dots() -> None:
    declaration = 'event d(v: float? FROM k8s.labels."app.kubernetes.io/name") TIME t.'
    assert values(declaration, [{"t": 1, "k8s": {"labels": {"app.kubernetes.io/name": 5}}}])[0] == [5.0]
    (statement,) = parse(declaration).statements
    assert parse(print_statement(statement)).statements[0] == statement
    steps = path('k8s.labels."app.kubernetes.io/name"[0].x')
    assert steps == ("k8s", "labels", "app.kubernetes.io/name", "[0]", "x") and path(written(steps)) == steps


@pytest.mark.parametrize("source", ["a..b", ".a", "a.", "T [°C]", "a[x]", 'a"b', "a.[0]"])
def test_other_marks_are_letters_of_a_column(source: str) -> None:
    assert path(source) == (source,)


texts = st.sampled_from(["2.5", "-9", "", "x", "1e2", " 3 "])
names = st.sampled_from(["a", "b", "app", "app.name/x"])
small = st.one_of(st.none(), st.booleans(), st.integers(-9, 9), texts, st.just(float("nan")))
things = st.recursive(
    small,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(names, inner, max_size=3)),
    max_leaves=8,
)
times = st.sampled_from(
    ["2024-05-01T08:00:00Z/PT1H", "2024-05-01/2024-05-02", "PT5M/2024-05-01T08:00:00Z", "PT1H/PT1H", "x", "/", "P1M/",
     "2024-05-01T08:00:00Z/P1M", "2024-05-01/PT0S"]
)  # fmt: skip
records = st.fixed_dictionaries(
    {"t": st.just(1)},
    optional={"v": small, "n": small, "a": things, "xs": st.lists(things, max_size=2), "labels": things, "when": times},
)


@examples(300)
@given(st.sampled_from(SHAPES.splitlines()), st.lists(records, max_size=5))
def test_many_lines_are_read_as_each_by_itself(declaration: str, lines: list[dict[str, object]]) -> None:
    known = schema(declaration)
    name = next(iter(known))
    texts = [json.dumps(line) for line in lines]
    tables, dead, block = LineReader(known, name, True).read("f", "".join(f"{x}\n" for x in texts).encode(), 0, 1, 0)
    found = [
        (block.place(order)[1], Record(name, start, end, tuple(rest)))
        for table in tables.values()
        for start, end, order, *rest in table.rows()
    ]
    expected, refused = [], []
    for number, text in enumerate(texts, 1):
        try:
            events = read_events(text.encode(), known, name, True)
        except Unreadable as reason:
            events = [reason]
        for event in events:
            if isinstance(event, Unreadable):
                refused.append((number, event.code, event.reason))
            else:
                expected.append((number, event))
    assert found == expected
    assert [(one.line, one.code, one.reason) for one in dead] == refused


def test_a_message_may_be_a_list_of_records() -> None:
    known = schema("event p(v: int, s: string FROM topic[0]) TIME t.")
    inbox = Inbox(Input("mqtt://host/#", "jsonl", "p", False), known)
    payloads = [
        b'[{"t": 1, "v": 1},\n {"t": 2, "v": 2}]',
        b'{"t": 3,\n "v": 3}',
        b" [] ",
        b'[{"t": 4, "v": "x"}, {"t": 5, "v": 5}]',
        b'[{"t": 6, "v": 6}',
        b"[7]",
        b"",
    ]
    topics = ["a", "b", "c", "d", "e", "f", "g"]
    batch = inbox.batch(Messages(["m"] * 7, [*range(1, 8)], payloads, topics=topics), 10)
    assert batch.tables["p"].select("v", "s").rows() == [(1, "a"), (2, "a"), (3, "b"), (5, "d")]
    assert [(one.line, one.code, one.text) for one in batch.dead] == [
        (4, "ill-typed", '{"t": 4, "v": "x"}'),
        (5, "json", '[{"t": 6, "v": 6}'),
        (6, "object", "7"),
    ]
    assert batch.origin("p", 1)[:2] == ("m", 1) and batch.blocks[0].beyond == 17


def test_an_interval_may_stand_in_one_text(tmp_path: Path) -> None:
    texts = ["2024-05-01T08:00:00Z/PT1H", "2024-05-01T08:00:00Z/2024-05-01T08:00:05Z", "PT5M/2024-05-01T08:05:00Z"]
    texts.append("2024-05-01")  # a time alone is both ends
    wrong = ["PT5M/PT6M", "2024-05-01/P1M", None]
    declaration = "event i(v: float?) START when END when."
    (tmp_path / "t.jsonl").write_text("".join(json.dumps({"when": each}) + "\n" for each in [*texts, *wrong]))
    (tmp_path / "t.csv").write_text("when,v\n" + "".join(f"{each or ''},1\n" for each in [*texts, *wrong]))
    pl.DataFrame({"when": [*texts, *wrong], "v": [1.0] * 7}).write_parquet(tmp_path / "t.parquet")
    for suffix in ("jsonl", "csv", "parquet"):
        (batch,) = read([str(tmp_path / f"t.{suffix}")], schema(declaration))
        table = batch.tables["i"]
        assert ((table["end"] - table["start"]) // 1_000_000).to_list() == [3600, 5, 300, 0], suffix
        assert [one.reason for one in batch.dead] == [
            "when: `PT5M/PT6M` consists of two durations, so it has no time",
            "when: `P1M` is not a valid duration; months and years differ in length",
            "no time: `when` is missing",
        ], suffix


ZEEK = """\
#separator \\x09
#set_separator\t,
#empty_field\t(empty)
#unset_field\t-
#path\tconn
#open\t2024-05-01-08-00-00
#fields\tts\tuid\tid.orig_h\tid.resp_p\tduration\tlocal_orig\tservice
#types\ttime\tstring\taddr\tport\tinterval\tbool\tstring
1714550400.250000\tC1\t10.0.0.1\t443\t1.5\tT\tssl
1714550401.000000\tC2\t10.0.0.2\t53\t-\tF\t-
#close\t2024-05-01-09-00-00
"""


def test_logs_of_zeek_name_their_columns_themselves(tmp_path: Path) -> None:
    declaration = (
        'event conn(v: duration? FROM duration, host: string FROM "id.orig_h", port: int FROM "id.resp_p", '
        "local: bool FROM local_orig, service: string?) TIME ts FORMAT zeek."
    )
    for name in ("conn.log", "conn.tsv"):
        (tmp_path / name).write_text(ZEEK)
        (batch,) = read([str(tmp_path / name)], schema(declaration))
        assert batch.tables["conn"].drop("@order").rows() == [
            (1_714_550_400_250_000, 1_714_550_400_250_000, 1_500_000, "10.0.0.1", 443, True, "ssl"),
            (1_714_550_401_000_000, 1_714_550_401_000_000, None, "10.0.0.2", 53, False, None),
        ]
        assert not batch.dead
    (tmp_path / "x.log").write_text("a\tb\n")
    with pytest.raises(CepError, match="this is not a Zeek log"):
        list(read([str(tmp_path / "x.log")], schema(declaration)))
    (tmp_path / "y.log").write_text("")
    assert list(read([str(tmp_path / "y.log")], schema(declaration))) == []


def test_a_decimal_comma_in_quotes_is_told_without_a_circle() -> None:
    _, (reason,) = values("event q(v: float? QUOTED) TIME t.", [{"t": 1, "v": "2,5"}])
    assert "`2,5`; QUOTED reads numbers with a decimal point" in reason and "are declared" not in reason


def test_texts_of_a_data_frame_that_are_numbers_have_a_hint() -> None:
    frame = pl.DataFrame({"t": [1, 2], "v": ["1.5", "2"]})
    with pytest.raises(CepError) as caught:
        detect("event q(v: float) TIME t.\nx(V) <- q(V).", frame)
    assert caught.value.hint is not None and "`v: float QUOTED` reads them" in caught.value.hint
    assert detect("event q(v: float QUOTED) TIME t.\nx(V) <- q(V).", frame).tables["x"]["v"].to_list() == [1.5, 2.0]


@pytest.mark.parametrize(
    ("text", "micros"), [("PT1,5H", 5_400_000_000), ("PT0,5S", 500_000), ("P1,5D", 129_600_000_000)]
)
def test_lengths_may_have_decimal_commas(text: str, micros: int) -> None:
    assert values("event q(v: duration) TIME t.", [{"t": 1, "v": text}]) == ([micros], [])
    known = schema("event q(v: int) START when END when.")
    data = f'{{"when": "2024-05-01/{text}", "v": 1}}\n{{"when": "2024-05-01/P1,M", "v": 1}}\n'.encode()
    tables, dead, _ = LineReader(known, "q", True).read("f", data, 0, 1, 0)
    assert (tables["q"]["end"] - tables["q"]["start"]).to_list() == [micros]
    assert dead[0].reason == "when: `P1,M` is not a valid duration"
