"""DataFrames of a session in, DataFrames out: what rules derive there is what one process derives."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyoxigraph as ox
import pytest
from pyspark.errors import StreamingQueryException

from cep.connectors.writing.layout import ParquetLayout
from cep.core.errors import CepError
from cep.core.schema import Schema
from cep.engine import Engine
from cep.events import Event
from cep.spark import Events, Rules
from cep.spark.parameters import renamed
from tests import notebooks, spark_runs
from tests.cases_format import difference
from tests.program_maker import SECOND
from tests.spark_runs import alone, deliver
from tests.test_spark import stories
from tests.together import Together, generated
from tests.waiting import until

pytestmark = [
    pytest.mark.skipif(not spark_runs.THERE, reason=spark_runs.MISSING),
    pytest.mark.xdist_group("spark"),
]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
INSTANT = pa.timestamp("us", "UTC")
KINDS = {"int": pa.int64(), "float": pa.float64(), "bool": pa.bool_(), "time": INSTANT, "duration": pa.float64()}
ZONES = ("America/St_Johns", "Asia/Kathmandu")

GUSTS = """event reading(station: string, wind: float).
gust(S, V, W) <- (reading(S, V) SEQ reading(S, W)) WITHIN 3 s WHERE W > V + 2.
mean(S, A) <- reading(S, W) AGGREGATE A = avg(W) OVER LAST 10 s BY S.
some <- reading(_, _).
"""


@contextmanager
def settings(**values: str) -> Iterator[Any]:
    """The session of all tests with other settings; afterwards it has those of before, and so it had meanwhile."""
    spark = spark_runs.spark()
    names = {"zone": "spark.sql.session.timeZone", "aqe": "spark.sql.adaptive.enabled"}
    names |= {"partitions": "spark.sql.shuffle.partitions", "store": PROVIDER}
    before = {names[name]: spark.conf.get(names[name]) for name in values}
    try:
        for name, value in values.items():
            spark.conf.set(names[name], value)
        set_here = dict(spark.conf.getAll)
        yield spark
        assert dict(spark.conf.getAll) == set_here
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


def instant(ticks: int) -> datetime:
    return EPOCH + timedelta(microseconds=ticks)


def frames(spark: Any, schemas: Mapping[str, Schema], arriving: Sequence[Event]) -> dict[str, Any]:
    """A DataFrame for each event, with the number of each row among all, out of order and in several partitions."""
    found = {}
    for name, rows in tables(schemas, arriving, 0).items():
        order = list(range(rows.num_rows))
        Random(name).shuffle(order)
        found[name] = spark.createDataFrame(rows.take(pa.array(order, pa.int64()))).repartition(3)
    return found


def tables(schemas: Mapping[str, Schema], arriving: Sequence[Event], first: int) -> dict[str, pa.Table]:
    """The same as tables; the first row has a number."""
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in schemas}
    for number, event in enumerate(arriving, first):
        schema = schemas[event.type]
        times = dict(zip(time_keys(schema), (event.start, event.end)[-len(time_keys(schema)) :]))
        values = {
            each.source or each.name: _value(value, each.type) for value, each in zip(event.args, schema.attributes)
        }
        rows[event.type].append({**{name: instant(time) for name, time in times.items()}, "number": number, **values})
    found = {}
    for name, schema in schemas.items():
        columns = [(each, INSTANT) for each in time_keys(schema)] + [("number", pa.int64())]
        columns += [(each.source or each.name, KINDS.get(each.type, pa.string())) for each in schema.attributes]
        found[name] = pa.Table.from_pylist(rows[name], pa.schema(columns))
    return found


def time_keys(schema: Schema) -> list[str]:
    """The names of the columns of time."""
    return [schema.time] if schema.time else [schema.start or "start", schema.end or "end"]


def streams(
    spark: Any, schemas: Mapping[str, Schema], arriving: Sequence[Event], files: int, folder: Path
) -> dict[str, Any]:
    """A streaming DataFrame for each event, of which a micro-batch takes a file."""
    found, each = {}, -(-len(arriving) // files)
    for number in range(files):
        for name, rows in tables(schemas, arriving[number * each : (number + 1) * each], number * each).items():
            (folder / name).mkdir(parents=True, exist_ok=True)
            file = folder / name / f"{number}.parquet"
            pq.write_table(rows, file)
            os.utime(file, (1_000 + number, 1_000 + number))
            kinds = spark.createDataFrame(rows.slice(0, 0)).schema
            read = spark.readStream.schema(kinds).option("maxFilesPerTrigger", 1)
            found[name] = read.parquet(str(folder / name))
    return found


def _value(value: Any, type: str) -> Any:
    if value is None:
        return None
    return instant(value) if type == "time" else value / 1e6 if type == "duration" else value


def collected(found: Mapping[str, Any], schemas: Mapping[str, Schema]) -> list[Event]:
    """The rows of DataFrames of derived events."""
    return [one for name, frame in found.items() for one in _events(name, frame.toArrow(), schemas[name])]


def _events(name: str, table: pa.Table, schema: Schema) -> list[Event]:
    made = []
    for start, end, *values in zip(*(column.to_pylist() for column in table.columns)):
        read = map(_read, values, [each.type for each in schema.attributes])
        made.append(Event(name, tuple(read), _ticks(start), _ticks(end)))
    return made


def _read(value: Any, type: str) -> Any:
    if value is None:
        return None
    return _ticks(value) if type == "time" else round(value * 1e6) if type == "duration" else value


def _ticks(time: datetime) -> int:
    time = time.replace(tzinfo=time.tzinfo or UTC)  # Spark writes instants without a zone
    return (time - EPOCH) // timedelta(microseconds=1)


ROWS = [
    Event("reading", (letter, float(n * n % 11)), n * 1_000_000, n * 1_000_000) for n in range(60) for letter in "ab"
]


def test_a_frame_in_and_frames_out(tmp_path: Path) -> None:
    """In a session of another time zone, with other shuffle partitions, and nothing of it is changed."""
    rules = Rules.from_text(GUSTS)
    with settings(zone=ZONES[0], partitions="3", aqe="true") as spark:
        given = frames(spark, rules.inputs, ROWS)
        found = rules.detect(given, order={"reading": "number"}, buckets=3).cache()
        assert difference(one_process(GUSTS, ROWS, tmp_path), collected(found, rules.outputs)) == ""
        assert found["gust"].columns == ["start", "end", "s", "v", "w"]
        assert found.dead.columns == ["event", "code", "reason", "record"] and found.dead.isEmpty()
        found.unpersist()


def test_columns_are_checked_when_the_plan_is_made() -> None:
    rules = Rules.from_text(GUSTS)
    with settings(zone=ZONES[0]) as spark:
        frame = spark.createDataFrame([], "station string, wind double, time timestamp, at string")
        for wrong, said in {
            frame.drop("wind"): 'data["reading"]: reading needs a column `wind`',
            frame.withColumn("wind", frame.station): 'data["reading"]: the column `wind` holds String; float needs',
            frame.withColumn("time", frame.wind > 3): 'data["reading"]: the column `time` holds Boolean; time needs',
        }.items():
            with pytest.raises(CepError) as raised:
                rules.detect({"reading": wrong}, order={"reading": "time"})
            assert raised.value.message.startswith(said)
        for order, said in {
            "when": 'order: data["reading"] has no column `when`',
            "at": 'order: the column `at` of data["reading"] has the type string',
        }.items():
            with pytest.raises(CepError) as raised:
                rules.detect({"reading": frame}, order={"reading": order})
            assert raised.value.message.startswith(said)
        with pytest.raises(CepError, match=r"no pattern of the program uses an input event `readin`.*`reading`"):
            rules.detect({"readin": frame})
        with pytest.warns(UserWarning, match="order of rows of `reading` with the same time"):
            found = rules.detect({"reading": frame})
        with pytest.raises(CepError, match="derives no event `gusts`"):
            found["gusts"]


def test_rows_that_become_no_event_are_a_frame() -> None:
    rules = Rules.from_text("event reading(station: string, wind: float). hot(S) <- reading(S, W) WHERE W > 3.0.")
    with settings(zone=ZONES[1]) as spark:
        rows = [("a", 7.0, instant(0)), ("b", None, instant(1_000_000)), ("c", 5.0, None)]
        given = spark.createDataFrame(rows, "station string, wind double, time timestamp").coalesce(1)
        found = rules.detect({"reading": given}, buckets=1)
        assert [tuple(each) for each in found["hot"].select("s").collect()] == [("a",)]
        dead = sorted(found.dead.collect(), key=lambda each: each.code)
    assert [(each.event, each.code, each.reason) for each in dead] == [
        ("reading", "missing", "`wind` is missing"),
        ("reading", "time", "no time: `time` is missing"),
    ]
    assert json.loads(dead[1].record) == {"station": "c", "wind": 5.0}


LATENESS, LAST = 4 * SECOND, 1_000_000 * SECOND


def test_a_stream_is_given_to_a_function(tmp_path: Path) -> None:
    """Which raises, and is called with the same again."""
    rules = Rules.from_text(GUSTS)
    arriving = [
        *late(ROWS, Random(1)),
        Event("reading", ("a", None), 59 * SECOND, 59 * SECOND),
        Event("reading", ("a", 0.0), LAST, LAST),
    ]
    expected = before_the_last(one_process(GUSTS, [one for one in arriving if one.args[1] is not None], tmp_path))
    calls: list[tuple[int, list[Event], list[str]]] = []

    def take(events: Events, batch: int) -> None:
        calls.append((batch, collected(events, rules.outputs), [row.reason for row in events.dead.collect()]))
        if len(calls) == 2:
            raise ValueError("no more room")

    with settings(zone=ZONES[0], partitions="3", aqe="true") as spark:
        given = streams(spark, rules.inputs, arriving, 2, tmp_path / "rows")
        stream = rules.over(given, order={"reading": "number"}, lateness="4 s", buckets=2)
        with pytest.raises(CepError, match="`end` has a watermark of its own"):
            rules.over({"reading": given["reading"].withWatermark("end", "1 second")})
        with pytest.raises(CepError, match=r"the DataFrame is a stream.*\n.*rules.over"):
            rules.detect(given)
        with pytest.raises(StreamingQueryException, match="no more room"):
            stream.each(take, checkpoint=tmp_path / "each", available_now=True).awaitTermination()
        query = stream.each(take, checkpoint=tmp_path / "each", available_now=True)
        query.awaitTermination()
        metrics = [each.observedMetrics["semcep_reading"].rows for each in query.recentProgress]
        with pytest.raises(CepError, match=r"^checkpoint: .* belongs to another program"):
            Rules.from_text(GUSTS.replace("10 s", "9 s")).over(given, order={"reading": "number"}).each(
                take, checkpoint=tmp_path / "each"
            )
    assert [batch for batch, *_ in calls] == [0, 1, *range(1, len(calls) - 1)]
    assert difference(calls[1][1], calls[2][1]) == "" and calls[1][1] and calls[1][2] == calls[2][2]
    assert calls[1][2] == ["`wind` is missing"] and metrics[0] == len(arriving) // 2
    counted = {batch: rows for batch, rows, _ in calls}
    assert difference(expected, before_the_last([one for rows in counted.values() for one in rows])) == ""


def test_errors_name_parameters_not_options(tmp_path: Path) -> None:
    """Also those of workers, and of what they call in a query that runs."""
    rules, checkpoint = Rules.from_text(GUSTS), tmp_path / "each"

    def fails(events: Events, batch: int) -> None:
        raise ValueError("no more room")

    with settings(zone=ZONES[0]) as spark:
        given = streams(spark, rules.inputs, ROWS, 2, tmp_path / "rows")
        stream = rules.over(given, order={"reading": "number"}, buckets=2)
        with pytest.raises(StreamingQueryException, match="no more room"):
            stream.each(fails, checkpoint=checkpoint, available_now=True).awaitTermination()
        states = sorted((checkpoint / "buckets").glob("1-*"))
        for state in states:
            state.write_bytes(state.read_bytes()[:-1])
        with pytest.raises(StreamingQueryException, match=r"CepError: checkpoint: \S+/1-\S+ is damaged") as failed:
            stream.each(lambda *_: None, checkpoint=checkpoint, available_now=True).awaitTermination()
        assert states and "folders of `output` and `checkpoint`" in str(failed.value)
        assert "--checkpoint" not in str(failed.value)
        with pytest.raises(CepError, match=r"^output: .* already exists") as refused:
            (tmp_path / "out").touch()
            stream.start(output=tmp_path / "out", checkpoint=tmp_path / "state")
        assert "--" not in str(refused.value)
    assert renamed("`--param Hot=3`, `--revise 6h`, `--once` or --final") == (
        '`params={"Hot": ...}`, `revise="6h"`, `available_now=True` or `final`'
    )


PAGE, NOTEBOOK = (Path(__file__).parent.parent / path for path in ("docs/pyspark.md", "demos/spark.ipynb"))


@pytest.mark.long
def test_the_page_runs() -> None:
    blocks = re.findall(r"```(python|text)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, Any] = {"spark": spark_runs.spark()}
    ran = 0
    for (kind, code), (_, said) in zip(blocks, blocks[1:]):
        if kind == "python":
            printed = io.StringIO()
            with redirect_stdout(printed):
                exec(compile(code, str(PAGE), "exec"), names)
            assert printed.getvalue() == said
            ran += 1
    assert ran == 3


@pytest.mark.long
def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config) -> None:
    """`--write` writes its outputs anew."""
    monkeypatch.chdir(tmp_path)
    kept = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    spark_runs.spark()
    made = notebooks.run(NOTEBOOK)
    if pytestconfig.getoption("write"):
        NOTEBOOK.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        kept = made
    for cell, now in zip(kept["cells"], made["cells"], strict=True):
        assert cell.get("outputs", []) == now.get("outputs", []), "".join(cell["source"])


PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def test_what_a_streaming_frame_cannot_do(tmp_path: Path) -> None:
    rules = Rules.from_text(GUSTS)
    with settings(store=ROCKS.replace("RocksDB", "HDFSBacked")) as spark:
        given = streams(spark, rules.inputs, ROWS, 1, tmp_path / "rows")
        order = {"reading": "number"}
        with pytest.raises(CepError, match=rf"keeps state in HDFS(.|\n)*{PROVIDER}"):
            rules.over(given, order=order).frame("gust")
    with settings(store=ROCKS):
        with pytest.raises(CepError, match=r"does not support `revise` or input that withdraws records"):
            rules.over(given, order=order, revise="1 min").frame("gust")
        with pytest.raises(CepError, match="a streaming DataFrame does not support `idle`"):
            rules.over(given, order=order, idle="1 min").frame("gust")
        with pytest.raises(CepError, match="derives no event `gusts`"):
            rules.over(given, order=order).frame("gusts")


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_a_stream_as_a_frame(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    programs = stories(random) if seed == 0 else generated(random, 4)
    while any(node.once() for node in Engine.from_text(programs.text, types=programs.types).plan.nodes):
        programs = generated(random, 4)
    rules = Rules.from_text(programs.text, types=programs.types)
    schemas = rules.inputs
    arriving = programs.arriving(random, LATENESS)
    name = random.choice(sorted(schemas))
    arriving.append(one_of(schemas[name], name))
    expected = programs_with(programs, arriving, {name: place for place, name in enumerate(schemas)})
    with settings(zone=random.choice(ZONES), aqe="true", partitions=random.choice(("1", "3")), store=ROCKS) as spark:
        given = streams(spark, schemas, arriving, 2, tmp_path / "rows")
        stream = rules.over(
            given, order=dict.fromkeys(schemas, "number"), lateness="4 s", buckets=random.choice((1, 3))
        )
        derived = {event.type for event in expected}
        for event in random.sample(sorted(derived), min(3, len(derived))):
            out, state = str(tmp_path / event), str(tmp_path / f"{event}-state")
            writer = stream.frame(event).writeStream.trigger(availableNow=True)
            writer.option("checkpointLocation", state).format("parquet").start(out).awaitTermination()
            mine = [each for each in expected if each.type == event]
            found = collected({event: spark.read.parquet(out)}, rules.outputs)
            assert difference(mine, before_the_last(found)) == ""


@pytest.mark.long
def test_spark_connect(tmp_path: Path) -> None:
    """In a session of Connect, over static and streaming DataFrames."""
    arriving = [*late(ROWS, Random(3)), Event("reading", ("a", 0.0), LAST, LAST)]
    expected = one_process(GUSTS, arriving, tmp_path)
    (tmp_path / "rules.cep").write_text(GUSTS)
    rows = tables(Engine.from_text(GUSTS).inputs, arriving, 0)["reading"]
    (tmp_path / "rows").mkdir()
    pq.write_table(rows, tmp_path / "rows" / "0.parquet")
    command = [sys.executable, "-m", "tests.connected_frames", str(tmp_path)]
    env = {**os.environ, "PYTHONPATH": str(PAGE.parent.parent), "PYSPARK_PYTHON": sys.executable}  # of workers
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert ended.returncode == 0, ended.stderr[-4000:]
    outputs = Engine.from_text(GUSTS).outputs
    found = [one for name in outputs for one in _events(name, pq.read_table(tmp_path / "static" / name), outputs[name])]
    assert difference(expected, found) == ""
    found = _events("gust", pq.read_table(tmp_path / "streaming" / "gust"), outputs["gust"])
    assert difference([one for one in before_the_last(expected) if one.type == "gust"], before_the_last(found)) == ""
    assert "Spark Connect cannot run `start` and `each`" in ended.stdout


@pytest.mark.long
def test_results_are_put_right(tmp_path: Path) -> None:
    """The rows that were added less those that were withdrawn are what one process derives of all records."""
    rules = Rules.from_text(GUSTS)
    random = Random(4)
    arriving = sorted(ROWS, key=lambda event: event.end + random.randrange(40 * SECOND))  # by more than a micro-batch
    arriving.append(Event("reading", ("a", 0.0), LAST, LAST))
    expected = before_the_last(one_process(GUSTS, arriving, tmp_path))
    net: Counter[tuple[Any, ...]] = Counter()
    withdrawn = 0

    def take(events: Events, batch: int) -> None:
        nonlocal withdrawn
        for name, frame in events.items():
            for row in frame.drop("@id", "@version").collect():
                *values, change = row
                assert change in ("add", "withdraw")
                withdrawn += change == "withdraw"
                net[name, *values] += 1 if change == "add" else -1

    with settings(zone="UTC") as spark:
        given = streams(spark, rules.inputs, arriving, 4, tmp_path / "rows")
        stream = rules.over(given, order={"reading": "number"}, revise="1 min", buckets=2)
        stream.each(take, checkpoint=tmp_path / "each", available_now=True).awaitTermination()
    assert set(net.values()) <= {0, 1}
    found = []
    for (name, start, end, *values), count in net.items():
        found += [Event(name, tuple(values), _local_ticks(start), _local_ticks(end))] * count
    assert withdrawn and difference(expected, before_the_last(found)) == ""


LIMITS = """PREFIX : <urn:> event reading(station: string, wind: float).
high(S, W) <- reading(S, W) WHERE { ?station :name ?S ; :limit ?L }, W > L.
again(S, W) <- high(S, V) SEQ reading(S, W) WITHIN 3 s.
many(N) <- high(_, _) AGGREGATE N = count() OVER LAST 10 s WHERE { :crowd :limit ?L }, N > L.
"""


def limit(thing: str, number: int) -> ox.Triple:
    return ox.Triple(ox.NamedNode(f"urn:{thing}"), ox.NamedNode("urn:limit"), ox.Literal(number))


@pytest.mark.long
def test_changes_of_the_knowledge_are_a_frame(tmp_path: Path) -> None:
    """At once, and in the micro-batches of a stream; those that are late, or no RDF, are dead letters."""
    random, now = Random(7), {"a": 3, "b": 5, "crowd": 2}
    known = [limit(*one) for one in now.items()]
    known += [ox.Triple(ox.NamedNode(f"urn:{each}"), ox.NamedNode("urn:name"), ox.Literal(each)) for each in "ab"]
    updates = []
    for seconds in sorted(random.sample(range(3, 59), 12)):
        thing = random.choice(sorted(now))
        before, now[thing] = now[thing], random.choice([n for n in range(1, 9) if n != now[thing]])
        updates.append((seconds * SECOND, [limit(thing, now[thing])], [limit(thing, before)]))
    arriving = [*late(ROWS, random), Event("reading", ("a", 0.0), LAST, LAST)]
    schemas = Engine.from_text(LIMITS, knowledge=known).inputs
    inputs = deliver(tmp_path / "in", arriving, 2, random, schemas)
    expected = alone(LIMITS, inputs, 1 << 40, updates, knowledge=known)
    assert {event.type for event in expected} == {"high", "again", "many"}
    assert difference(expected, alone(LIMITS, inputs, 1 << 40, knowledge=known))
    rows = [
        {
            "time": instant(time),
            "add": "".join(f"{one} ." for one in add),
            "remove": "".join(f"{one} ." for one in gone),
        }
        for time, add, gone in updates
    ]
    kinds = pa.schema([("time", INSTANT), ("add", pa.string()), ("remove", pa.string())])
    rules = Rules.from_text(LIMITS, knowledge=known)
    order, dead = {"reading": "number"}, list[str]()
    with settings(zone=ZONES[0], aqe="true", partitions="3", store=ROCKS) as spark:
        changes = spark.createDataFrame(pa.Table.from_pylist(rows[::-1], kinds)).repartition(3)
        found = rules.detect(frames(spark, rules.inputs, arriving), order=order, changes=changes, buckets=3)
        assert difference(expected, collected(found, rules.outputs)) == ""
        with pytest.raises(CepError, match="the rules have no knowledge that could change"):
            Rules.from_text(GUSTS).detect(frames(spark, rules.inputs, ROWS), order=order, changes=changes)
        with pytest.raises(CepError, match="changes: the column `remove` is missing"):
            rules.detect(frames(spark, rules.inputs, ROWS), order=order, changes=changes.drop("remove"))
        given = streams(spark, rules.inputs, arriving, 3, tmp_path / "rows")
        (tmp_path / "changes").mkdir()
        late_ones = [{"time": instant(1), "add": "<urn:a> <urn:limit> 1 ."}, {"time": instant(LAST), "add": "none"}]
        for number, some in enumerate((rows, late_ones)):
            file = tmp_path / "changes" / f"{number}.parquet"
            pq.write_table(pa.Table.from_pylist(some, kinds), file)
            os.utime(file, (1_000 + number, 1_000 + number))
        moving = (
            spark.readStream.schema(changes.schema).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "changes"))
        )
        stream = rules.over(given, order=order, changes=moving, lateness="4 s", buckets=2)
        with pytest.raises(CepError, match="does not support a DataFrame of `changes` of the knowledge"):
            stream.frame("high")
        derived: list[Event] = []

        def take(events: Events, batch: int) -> None:
            derived.extend(collected(events, rules.outputs))
            dead.extend(row.code for row in events.dead.collect())

        stream.each(take, checkpoint=tmp_path / "each", available_now=True).awaitTermination()
    assert difference(before_the_last(expected), before_the_last(derived)) == ""
    assert sorted(dead) == ["knowledge", "late"]


def _local_ticks(time: datetime) -> int:
    """An instant that `collect` gives in the zone of this machine."""
    return _ticks(time.astimezone(UTC))


@pytest.mark.long
def test_time_goes_on_without_rows(tmp_path: Path) -> None:
    rules = Rules.from_text("event reading(station: string). silent(S) <- reading(S) UNLESS reading(S) WITHIN 2 s.")
    row = Event("reading", ("a",), SECOND, SECOND)
    found: list[Event] = []

    def take(events: Events, batch: int) -> None:
        found.extend(collected(events, rules.outputs))

    with settings(zone=ZONES[1]) as spark:
        given = streams(spark, rules.inputs, [row, row], 1, tmp_path / "rows")
        stream = rules.over(given, order={"reading": "number"}, idle="1 s", buckets=1)
        query = stream.each(take, checkpoint=tmp_path / "each", every="200 ms")
        until(lambda: bool(found) or not query.isActive, "an event without a later row", 240)
        query.stop()
    assert {event.type for event in found} == {"silent"}


@pytest.mark.long
@pytest.mark.parametrize("seed", range(int(os.environ.get("SEMCEP_PROGRAMS", "30")) // 10))
def test_random_programs(seed: int, tmp_path: Path) -> None:
    """Over static and streaming DataFrames, in sessions of other settings, in other numbers of buckets."""
    random = Random(seed)
    programs = stories(random) if seed == 0 else generated(random, 6)
    text = programs.text
    schemas = Engine.from_text(text, types=programs.types).inputs
    arriving = programs.arriving(random, LATENESS)
    places = {name: place for place, name in enumerate(schemas)}
    expected = programs.derived(sorted(arriving, key=lambda event: places[event.type]))
    assert expected
    rules = Rules.from_text(text, types=programs.types)
    order = dict.fromkeys(schemas, "number")
    zone, aqe, partitions = random.choice(ZONES), random.choice(("true", "false")), random.choice(("1", "5"))
    with settings(zone=zone, aqe=aqe, partitions=partitions) as spark:
        found = rules.detect(frames(spark, schemas, arriving), order=order, buckets=random.choice((1, 2, 7))).cache()
        assert difference(expected, collected(found, rules.outputs)) == ""
        found.unpersist()
        name = random.choice(sorted(schemas))
        last = one_of(schemas[name], name)
        with_last = [*arriving, last]
        expected = programs_with(programs, with_last, places)
        given = streams(spark, schemas, with_last, random.choice((2, 3)), tmp_path / "rows")
        stream = rules.over(given, order=order, lateness="4 s", buckets=random.choice((1, 2, 7)))
        query = stream.start(output=tmp_path / "out", checkpoint=tmp_path / "state", available_now=True)
        query.awaitTermination()
        written = spark.read.parquet(str(tmp_path / "out"))
        if len(rules.outputs) > 1:
            written = written.persist()
        parts = {
            each: (written.where(f"type = '{each}'") if len(rules.outputs) > 1 else written).select(
                found_columns(rules, each)
            )
            for each in rules.outputs
        }
        assert difference(expected, before_the_last(collected(parts, rules.outputs))) == ""
        written.unpersist()


@pytest.mark.long
@pytest.mark.parametrize("seed", range(int(os.environ.get("SEMCEP_PROGRAMS", "30")) // 15))
def test_random_programs_are_put_right(seed: int, tmp_path: Path) -> None:
    """Rows come later than any lateness allows: what was added and not withdrawn is what one process derives."""
    random = Random(f"revise {seed}")
    programs = generated(random, 5)
    schemas = Engine.from_text(programs.text, types=programs.types).inputs
    arriving = programs.arriving(random, LATENESS)
    arriving.sort(key=lambda event: event.end + random.randrange(10 * LATENESS))
    name = random.choice(sorted(schemas))
    arriving.append(one_of(schemas[name], name))
    expected = programs_with(programs, arriving, {name: place for place, name in enumerate(schemas)})
    assert expected
    rules = Rules.from_text(programs.text, types=programs.types)
    out, net, withdrawn = tmp_path / "out", Counter[Event](), 0
    with settings(zone=random.choice(ZONES), aqe=random.choice(("true", "false"))) as spark:
        given = streams(spark, schemas, arriving, 4, tmp_path / "rows")
        stream = rules.over(
            given, order=dict.fromkeys(schemas, "number"), revise="1 h", buckets=random.choice((1, 2, 7))
        )
        query = stream.start(output=out, checkpoint=tmp_path / "state", available_now=True)
        query.awaitTermination()
    for event, schema in rules.outputs.items():
        for file in out.glob(f"type={event}/part-*" if len(rules.outputs) > 1 else "part-*"):
            rows = pq.ParquetFile(file).read()
            for word, sign in (("add", 1), ("withdraw", -1)):
                mine = rows.filter(pc.equal(rows["@change"], word)).select(found_columns(rules, event))
                net.update({one: sign * count for one, count in Counter(_events(event, mine, schema)).items()})
                withdrawn += mine.num_rows if sign < 0 else 0
    assert (withdrawn or seed) and min(net.values()) >= 0
    assert difference(expected, before_the_last([*net.elements()])) == ""


@pytest.mark.long
def test_kills(tmp_path: Path) -> None:
    """A driver that is killed in every phase: each micro-batch is given with the same rows, and all are those of one
    process."""
    arriving = [*late(ROWS, Random(2)), Event("reading", ("a", 0.0), LAST, LAST)]
    expected = before_the_last(one_process(GUSTS, arriving, tmp_path))
    (tmp_path / "given").mkdir()
    (tmp_path / "rows").mkdir()
    (tmp_path / "rules.cep").write_text(GUSTS)
    schemas, each = Engine.from_text(GUSTS).inputs, -(-len(arriving) // 4)
    for number in range(4):
        rows = tables(schemas, arriving[number * each : (number + 1) * each], number * each)["reading"]
        pq.write_table(rows, tmp_path / "rows" / f"{number}.parquet")
        os.utime(tmp_path / "rows" / f"{number}.parquet", (1000 + number, 1000 + number))
    for phase, after in (("note", 1), ("commit", 1), ("given", 1), ("tasks", 3), ("given", 2), ("end", 1)):
        command = [sys.executable, "-m", "tests.killed_frames", str(tmp_path), phase, str(after)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ended.returncode == (0 if phase == "end" else -signal.SIGKILL), ended.stderr[-4000:]
    outputs, found = Rules.from_text(GUSTS).outputs, []
    for file in sorted((tmp_path / "given").iterdir()):
        name = file.stem.partition("-")[2]
        for line in json.loads(file.read_text()):
            start, end, *values = json.loads(line).values()
            times = (_ticks(datetime.fromisoformat(time).replace(tzinfo=UTC)) for time in (start, end))
            found.append(Event(name, tuple(values), *times))
    assert outputs.keys() == {event.type for event in expected}
    assert difference(expected, before_the_last(found)) == ""


def one_of(schema: Schema, name: str) -> Event:
    """An event of the last time."""
    values = {"int": 0, "float": 0.0, "bool": False, "time": LAST, "duration": 0}
    return Event(name, tuple(values.get(each.type, "z") for each in schema.attributes), LAST, LAST)


def programs_with(programs: Together, arriving: Sequence[Event], places: Mapping[str, int]) -> list[Event]:
    """What the programs derive before the last event."""
    return before_the_last(programs.derived(sorted(arriving, key=lambda event: places[event.type])))


def late(events: Sequence[Event], random: Random) -> list[Event]:
    """The events as they arrive, each perhaps after others that end a little later."""
    return sorted(events, key=lambda event: event.end + random.randrange(LATENESS))


def before_the_last(found: Sequence[Event]) -> list[Event]:
    """What does not depend on the last row, which moves the time of a stream that has no end."""
    return [event for event in found if event.end < LAST - 1000 * SECOND]


def found_columns(rules: Rules, event: str) -> list[str]:
    names = ParquetLayout(rules.outputs).names[event]
    return ["start", "end", *(names[each.name] for each in rules.outputs[event].attributes)]


def one_process(text: str, arriving: Sequence[Event], folder: Path) -> list[Event]:
    """What one process derives of these records, in this order."""
    schemas = Engine.from_text(text).inputs
    found = alone(text, deliver(folder / "in", arriving, 2, Random(1), schemas), 1 << 40)
    assert found
    return found
