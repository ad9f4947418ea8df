"""What is measured is right: the Python loops, the reference and the engine derive the same events."""

from __future__ import annotations

import json

import polars as pl
import pytest

from benchmarks import asked, browser_tasks, curves, fluents, processes, report, soak
from benchmarks.__main__ import smaller
from benchmarks.processes import programs
from benchmarks.streams import Batch, Row, Stream, mixed
from benchmarks.table import COLUMNS, Line, Target, json_lines, markdown
from benchmarks.workloads import Workload, workloads
from cep.engine import Engine, detect
from cep.events import Event
from tests import reference

SMALL = [
    pytest.param(
        workload,
        300 if workload.plan else 400,
        keys,
        id=f"{workload.name}-{keys}",
        marks=[pytest.mark.long] if workload.plan else [],  # the reference takes a thousand rules one by one
    )
    for workload in workloads.values()
    if workload.loop and workload not in fluents.listed  # those are in test_benchmarks_fluents
    for keys in ((2,) if workload.plan else (4, 20))
]
small = pytest.mark.parametrize("workload, events, keys", SMALL)


def looped(workload: Workload, events: Stream, keys: int) -> list[Row]:
    assert workload.loop
    return sorted(workload.loop(keys)(events.rows()))


def engine_rows(batches: list[Batch]) -> list[Row]:
    return sorted((name, *row) for batch in batches for name, table in batch.items() for row in table.iter_rows())


@small
def test_the_loop_derives_what_the_language_says(workload: Workload, events: int, keys: int) -> None:
    stream = workload.stream(events, keys)
    given = [Event(name, tuple(values), time, time) for rows in stream.rows().values() for name, time, *values in rows]
    derived = reference.detect(workload.program(keys), given)
    expected = sorted((event.type, event.start, event.end, *event.args) for event in derived)
    assert looped(workload, stream, keys) == expected
    assert len(expected) > 10, "too little is derived to tell"


@pytest.mark.parametrize("workload", [each for each in workloads.values() if each.loop and each not in fluents.listed])
def test_loops_count_equal_records_like_the_engine(workload: Workload) -> None:
    once = workload.stream(200, 3)
    stream = Stream({name: pl.concat([table, table[::3]]).sort("start") for name, table in once.tables.items()})
    engine = Engine.from_text(workload.program(3))
    derived = engine_rows([engine.push(stream.tables), engine.close()])
    assert derived == looped(workload, stream, 3) and derived


@small
@pytest.mark.parametrize("push", [None, 37])
def test_the_engine_derives_what_the_loop_does(workload: Workload, events: int, keys: int, push: int | None) -> None:
    stream = workload.stream(events, keys)
    engine = Engine.from_text(workload.program(keys))
    out = [engine.push(batch) for batch in (stream.batches(push) if push else [stream.tables])]
    out.append(engine.close())
    assert engine_rows(out) == looped(workload, stream, keys)


def test_tasks_of_a_page_have_their_time_and_their_cpu_time() -> None:
    main, other = {"pid": 7, "tid": 1}, {"pid": 7, "tid": 2}
    named = {"ph": "M", "name": "thread_name", "args": {"name": "CrRendererMain"}}
    call = {
        "name": "FunctionCall",
        "args": {"data": {"functionName": "draw", "url": "http://e.org/map.js", "lineNumber": 8}},
    }
    found = browser_tasks.tasks([
        named | main,
        {"ph": "X", "name": "RunTask", "ts": 0, "dur": 60_000, "tdur": 20_000} | main,
        {"ph": "X", "ts": 10, "dur": 50_000, "tdur": 12_000} | call | main,
        {"ph": "X", "name": "Commit", "ts": 55_000, "dur": 900, "tdur": 800} | main,
        {"ph": "X", "name": "RunTask", "ts": 20, "dur": 99_000, "tdur": 99_000} | other,  # not of the page
        {"ph": "X", "name": "RunTask", "ts": 70_000, "dur": 1_000, "tdur": 1_000} | main,
    ])  # fmt: skip
    assert found == [
        browser_tasks.BrowserTask(60.0, 20.0, (("draw map.js:9", 12.0), ("Commit", 0.8))),
        browser_tasks.BrowserTask(1.0, 1.0, ()),
    ]


def test_what_is_filled_in_before_the_clock_starts_and_what_follows_are_the_stream() -> None:
    stream = mixed({"a": "x", "b": "y"}, 500, 3, seed=1)
    before, after = stream.split(200)
    assert engine_rows([before.tables, after.tables]) == engine_rows([stream.tables])
    assert 200 <= sum(table.height for table in before.tables.values()) < 205
    ends = [int(table["end"].to_numpy().max()) for table in before.tables.values()]
    assert max(ends) < min(int(table["start"].to_numpy().min()) for table in after.tables.values())


def test_batches_do_not_cut_an_instant() -> None:
    stream = mixed({"a": "x", "b": "y"}, 500, 3, seed=1)
    batches = list(stream.batches(20))
    assert len(batches) == 25
    assert engine_rows(batches) == engine_rows([stream.tables])
    instants = [{time for table in batch.values() for time in table["start"]} for batch in batches]
    assert sum(map(len, instants)) == len(set().union(*instants))


def test_the_programs_for_detect_are_all_different_and_all_run() -> None:
    texts = programs()
    assert len(texts) == len(set(texts)) > 300
    events = [Event("ab"[n % 2], (n % 3, n % 5), n * 10**6, n * 10**6) for n in range(12)]
    for text in texts[:18]:
        assert detect(text, events) == reference.detect(text, events)


@pytest.mark.long
def test_a_file_of_each_format_is_run(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "RUNS", 1)
    lines = list(processes.lines(300, "cep run"))
    assert [line.workload for line in lines] == ["cep run parquet", "cep run csv", "cep run jsonl"]
    assert all(line.value > 0 and line.peak for line in lines)


def test_the_queries_that_are_measured_are_those_of_the_page_and_the_documents() -> None:
    assert len(asked.examples()) == 7 and all("?" in text for text in asked.examples().values())


def test_a_quick_look_takes_fewer_events() -> None:
    assert smaller(((20_000, 100), (2_000_000, 100), (2_000_000, 100_000))) == ((20_000, 100), (200_000, 100))


def test_a_curve_is_a_row_of_the_page() -> None:
    curve = curves.Curve("keys", 1, 4, lambda size: 2.0 * size**1.5)
    assert curve.row(100) == "| keys |  | 63 | 2,000 |  |  |  |  |  | 31.6 |"
    page = report.PAGE.read_text(encoding="utf-8")
    head, *rows = page.partition("<!-- curves -->\n")[2].partition("\n<!-- /curves -->")[0].splitlines()
    assert head.startswith("`python -m benchmarks.curves`")
    measured = [row.removeprefix("| ").partition(" |")[0] for row in rows if row.startswith("| ") and "---" not in row]
    assert measured[1:] == [curve.name for curve in curves.CURVES]


def test_a_line_says_what_it_missed() -> None:
    targets = (Target("5M", True), Target("5x", False), Target("flat", False))
    line = Line("seq", 6e6, events=2_000_000, keys=100, loop=3e6, state_bytes=640, live=10, targets=targets)
    assert dict(zip(COLUMNS, line.cells())) == {
        "workload": "seq", "events": "2M", "keys": "100", "engine": "6M", "loop": "3M", "ratio": "2.0", "flat": "",
        "MB": "", "B/goal": "64", "to reach": "5M, 5x, flat", "reached": "no: 5x, flat",
    }  # fmt: skip
    assert Line("plan", 0.5, "s", targets=(Target("3 s", True),)).cells()[3::7] == ("0.5 s", "yes")
    assert json.loads(json_lines([line]))["ratio"] == 2.0
    assert markdown([line]).splitlines()[2] == ("| seq | 2M | 100 | 6M | 3M | 2.0 | 64 | 5M, 5x, flat | no: 5x, flat |")


def test_a_soak_tells_what_grows_from_what_goes_up_and_down() -> None:
    seconds = [15.0 * n for n in range(40)]
    assert soak.growth([7.0] * 40, seconds) == 0.0 and soak.growth([1.0, 2.0], seconds[:2]) == 0.0
    assert abs(soak.growth([100.0 + n for n in range(40)], seconds) - 39 / 119.5) < 1e-9
    saw = [100.0 + n % 7 * 20 for n in range(40)]
    assert abs(soak.growth(saw, seconds)) < soak.GROWTH
    assert soak.growth([one + 3 * n for n, one in enumerate(saw)], seconds) > soak.GROWTH
    looks = [
        soak.Look(60.0 * n, 1, 1, 1, 1, cpu, 1, 1, 0.5, 0.25, 1, 0, 1, 1, 1, batches, took)
        for n, (cpu, batches, took) in enumerate([(9.0, 3, 6.0), (9.5, 3, 6.0), (12.0, 8, 16.0)])
    ]
    assert [(line.latency, line.cpu) for line in soak.Line.all(looks)] == [(2.0, 3.0), (2.0, 3.0), (2.0, 0.5)]
    assert [line.works for line in soak.Line.all(looks)] == [4.0] * 3
    assert [line.pieces for line in soak.Line.all(looks)] == [12.0, 12.0, 2.0]


def test_a_soak_reads_what_full_collections_left() -> None:
    log = (
        "[0.003s] Using G1\n"
        "[0.683s] GC(0) Metaspace: 9108K(9344K)->9107K(9344K) NonClass: 8015K(8128K)->8015K(8128K)\n"
        "[0.684s] GC(0) Pause Young (Concurrent Start) (G1 Humongous Allocation) 38M->37M(160M) 1.081ms\n"
        "[300.802s] GC(1) Metaspace: 9208K(9344K)->9200K(9344K) NonClass: 8015K(8128K)->8015K(8128K)\n"
        "[300.803s] GC(1) Pause Full (System.gc()) 69M->35M(160M) 6.438ms\n"
    )
    assert soak.Collection.all(log) == [soak.Collection(300.803, 35 << 20, 9200 << 10)]
