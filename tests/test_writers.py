"""Writers: derived events come back as they went out, in every format; dead letters say where and why."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cep.connectors.dead_letters import DeadLetters
from cep.connectors.files import read
from cep.connectors.records.batch import DeadLetter
from cep.connectors.records.times import FIRST, LAST, iso, seconds_text
from cep.connectors.writing.writers import Writer
from cep.core.errors import CepError
from cep.core.schema import ARRIVAL, Attribute, Schema, TimeFormat
from cep.runtime.encode import RefusedRow
from tests.long import examples
from tests.waiting import until

STORM = Schema(
    "storm",
    tuple(
        Attribute(name, type, optional=True)
        for name, type in (
            ("id", "string"),
            ("wind", "float"),
            ("n", "int"),
            ("sure", "bool"),
            ("place", "iri"),
            ("seen", "time"),
            ("lasting", "duration"),
        )
    ),
    declared=True,
    point=False,
)
LOOSE = Schema("loose", (Attribute("arg1", "any"),), declared=False, point=False)
BOTH = {"storm": STORM, "loose": LOOSE}


def storms(*rows: tuple[object, ...]) -> pl.DataFrame:
    kinds = [pl.Int64, pl.Int64, pl.String, pl.Float64, pl.Int64, pl.Boolean, pl.String, pl.Int64, pl.Int64]
    names = ["start", "end"] + [attribute.name for attribute in STORM.attributes]
    return pl.DataFrame(list(rows), schema=dict(zip(names, kinds)), orient="row")


def loose(start: int, end: int, value: object) -> pl.DataFrame:
    return pl.DataFrame({"start": [start], "end": [end], "arg1": pl.Series([value], dtype=pl.Object)})


def test_lines_by_end_in_the_form_of_the_input(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    table = storms(
        (1_500000, 4_000000, 'a"\\\n\x01é', 0.1, -3, True, "http://e.org/x", 7, 2_500000),
        (0, 1_000000, None, None, None, None, None, None, None),
    )
    with Writer(str(path), BOTH, times="seconds") as writer:
        assert writer.write({"storm": table, "loose": loose(0, 4_000000, "x"), "unknown": table}) == 3
        writer.times = "iso"
        writer.write({"storm": table[:1], "loose": loose(-1, 2**60, 7)})
        writer.write({})
        assert writer.counts == {"storm": 3, "loose": 2}
    missing = '"id": null, "wind": null, "n": null, "sure": null, "place": null, "seen": null, "lasting": null'
    text = '"id": "a\\"\\\\\\n\\u0001é", "wind": 0.1, "n": -3, "sure": true, "place": "http://e.org/x"'
    assert path.read_text().splitlines() == [
        f'{{"type": "storm", "start": 0, "end": 1, {missing}}}',
        '{"type": "loose", "start": 0, "end": 4, "arg1": "x"}',
        f'{{"type": "storm", "start": 1.5, "end": 4, {text}, "seen": 0.000007, "lasting": 2.5}}',
        f'{{"type": "storm", "start": "1970-01-01T00:00:01.5Z", "end": "1970-01-01T00:00:04Z", {text}, '
        '"seen": "1970-01-01T00:00:00.000007Z", "lasting": 2.5}',
        '{"type": "loose", "start": "1969-12-31T23:59:59.999999Z", "end": 1152921504606.846976, "arg1": 7}',
    ]


def test_lineage_is_written_as_json(tmp_path: Path) -> None:
    raw = [
        {"type": "storm", "start": 1_500000, "end": 4_000000, "id": 'é"', "wind": 0.1, "seen": 7, "lasting": 2_500000},
        {"type": "loose", "start": 2**60, "end": 2**60, "arg1": None},
    ]
    table = loose(0, 1, True).with_columns(because=pl.Series([json.dumps(raw)]))
    for name in ("out.jsonl", "out.csv", "out.parquet"):
        with Writer(str(tmp_path / name), {"loose": LOOSE}, inputs=BOTH) as writer:
            writer.write({"loose": table[:0]})
            writer.write({"loose": table})
    calendar = (
        '[{"type": "storm", "start": "1970-01-01T00:00:01.5Z", "end": "1970-01-01T00:00:04Z", "id": "é\\"", '
        '"wind": 0.1, "seen": "1970-01-01T00:00:00.000007Z", "lasting": 2.5}, '
        '{"type": "loose", "start": 1152921504606.846976, "end": 1152921504606.846976, "arg1": null}]'
    )
    assert f'"because": {calendar}}}' in (tmp_path / "out.jsonl").read_text()
    with Writer(str(tmp_path / "seconds.jsonl"), {"loose": LOOSE}, times="seconds", inputs=BOTH) as writer:
        writer.write({"loose": table})
    (first, _) = json.loads((tmp_path / "seconds.jsonl").read_text())["because"]
    assert (first["start"], first["end"], first["seen"], first["lasting"]) == (1.5, 4, 0.000007, 2.5)
    assert (tmp_path / "out.csv").read_text().splitlines()[0] == "start,end,arg1,because"
    assert pl.read_csv(tmp_path / "out.csv")["because"].to_list() == [calendar]
    assert pl.read_parquet(tmp_path / "out.parquet")["because"].to_list() == [calendar]


def test_one_file_a_type_where_the_format_wants_it(tmp_path: Path) -> None:
    table = loose(0, 1_000000, 1)
    for path, format, names in (
        ("out.csv", None, ["out.loose.csv", "out.storm.csv"]),
        ("out.csv.gz", None, ["out.loose.csv.gz", "out.storm.csv.gz"]),
        ("out.parquet", None, ["out.loose.parquet", "out.storm.parquet"]),
        ("folder/", "csv", ["loose.csv", "storm.csv"]),
        ("folder/", None, ["loose.jsonl", "storm.jsonl"]),
        ("out.tsv", None, ["out.loose.tsv", "out.storm.tsv"]),
    ):
        with Writer(f"{tmp_path}/{path}", BOTH, format=format) as writer:
            writer.write({"loose": table})
        assert sorted(os.path.basename(place) for place in writer.paths.values()) == names
        assert all(os.path.exists(place) for place in writer.paths.values())
    assert (tmp_path / "out.storm.csv").read_text() == "start,end,id,wind,n,sure,place,seen,lasting\n"
    assert gzip.decompress((tmp_path / "out.loose.csv.gz").read_bytes()).decode() == (
        "start,end,arg1\n1970-01-01T00:00:00Z,1970-01-01T00:00:01Z,1\n"
    )
    with Writer(f"{tmp_path}/one.csv", {"loose": LOOSE}) as writer:
        assert writer.paths == {"loose": f"{tmp_path}/one.csv"}
    for path, format, message in (
        ("-", "csv", "csv cannot be written to standard output"),
        (f"{tmp_path}/none/x.jsonl", None, "cannot write .*: No such file or directory"),
        (f"{tmp_path}/none/x.parquet", None, "cannot write .*: No such file"),
        (f"{tmp_path}/x", "xml", "`xml` is not a format"),
    ):
        with pytest.raises(CepError, match=message):
            Writer(path, BOTH, format=format)


texts = st.one_of(
    st.none(), st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(lambda text: text != "NA")
)
iris = st.one_of(st.none(), st.sampled_from(["http://e.org/x", "urn:é"]))
ticks = st.integers(FIRST, LAST)
finite = st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False))
whole = st.one_of(st.none(), st.integers(-(2**63) + 1, 2**63 - 1))
maybe = st.one_of(st.none(), ticks)
rows = st.tuples(ticks, ticks, texts, finite, whole, st.one_of(st.none(), st.booleans()), iris, maybe, whole)


@examples(150)
@given(
    st.lists(rows, max_size=5),
    st.sampled_from(["jsonl", "csv", "tsv", "jsonl.gz"]),
    st.sampled_from(["iso", "seconds"]),
)
def test_what_is_written_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, written: list[tuple[object, ...]], suffix: str, times: str
) -> None:
    path = tmp_path_factory.mktemp("again") / f"out.{suffix}"
    table = storms(*written)
    with Writer(str(path), {"storm": STORM}, times=times) as writer:
        writer.write({"storm": table})
    schema = STORM if times == "iso" else in_seconds(STORM)  # of years beyond 2200, too
    batches = list(read([str(path)], {"storm": schema}))
    assert not [record for batch in batches for record in batch.dead]
    found = [row for batch in batches for row in batch.tables["storm"].drop(ARRIVAL).rows()]
    order = sorted(range(len(written)), key=lambda i: (table["end"][i], table["start"][i]))
    expected = table[order] if suffix.startswith("jsonl") else table
    assert found == expected.rows()


def in_seconds(schema: Schema) -> Schema:
    """Its times declared `FORMAT epoch s`."""
    epoch = TimeFormat(unit="s")
    attributes = tuple(replace(each, format=epoch if each.type == "time" else None) for each in schema.attributes)
    return replace(schema, attributes=attributes, format=epoch)


@examples(60)
@given(st.lists(rows, max_size=5))
def test_what_is_written_as_parquet_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, written: list[tuple[object, ...]]
) -> None:
    path = tmp_path_factory.mktemp("again") / "out.parquet"
    table = storms(*[(*row[:-1], row[-1] if row[-1] is None else int(row[-1]) % (2**33 * 10**6)) for row in written])  # type: ignore[call-overload]
    with Writer(str(path), {"storm": STORM}) as writer:
        for i in range(table.height):
            writer.write({"storm": table[i]})
    found = [row for batch in read([str(path)], {"storm": STORM}) for row in batch.tables["storm"].drop(ARRIVAL).rows()]
    assert found == table.rows()


def test_times_and_whole_numbers_lie_in_parquet_as_differences(tmp_path: Path) -> None:
    with Writer(str(tmp_path / "out.parquet"), {"storm": STORM}) as writer:
        writer.write({"storm": storms((0, 1, "x", 0.5, 1, True, None, 2, 3), (1, 2, *[None] * 5, 3, 4))})
    group = pq.read_metadata(tmp_path / "out.parquet").row_group(0)
    columns = [group.column(i) for i in range(group.num_columns)]
    found = {each.path_in_schema for each in columns if "DELTA_BINARY_PACKED" in each.encodings}
    assert found == {"start", "end", "n", "seen"}


@given(st.lists(st.tuples(ticks, st.integers(-(2**63) + 1, 2**63 - 1)), min_size=1))
def test_compiled_times_are_those_of_the_library(pairs: list[tuple[int, int]]) -> None:
    from cep.connectors.writing.json_lines import ticks_text

    near, far = pl.Series([near for near, _ in pairs]), pl.Series([far for _, far in pairs])
    assert ticks_text(near, "iso").to_list() == [iso(value) for value, _ in pairs]
    assert ticks_text(far, "seconds").to_list() == [seconds_text(value) for _, value in pairs]
    assert ticks_text(far, "iso").to_list() == [iso(value) for _, value in pairs]


def test_infinite_floats_are_missing(tmp_path: Path) -> None:
    table = storms(
        *[(0, 0, "x", value, 1, None, None, None, None) for value in (float("inf"), float("nan"), -0.0, 1e300)]
    )
    for name in ("out.jsonl", "out.csv"):
        with Writer(str(tmp_path / name), {"storm": STORM}) as writer:
            writer.write({"storm": table})
        found = next(read([str(tmp_path / name)], {"storm": STORM})).tables["storm"]
        assert found["wind"].to_list() == [None, None, 0.0, 1e300]


def test_an_interrupt_leaves_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    program = (
        "import polars as pl\n"
        "from cep.core.schema import Attribute, Schema\n"
        "from cep.connectors.writing.writers import Writer\n"
        "table = pl.DataFrame({'start': [0] * 20000, 'end': [0] * 20000, 'v': ['x' * 50] * 20000})\n"
        f"with Writer({str(path)!r}, {{'e': Schema('e', (Attribute('v', 'string'),), True, False)}}) as writer:\n"
        "    while True:\n"
        "        writer.write({'e': table})\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.DEVNULL)
    try:
        until(lambda: process.poll() is not None or (path.exists() and path.stat().st_size > 10_000_000), "10 MB")
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(120) != 0
    finally:
        process.kill()
    assert path.read_bytes().endswith(b"}\n")
    assert path.stat().st_size % 20000 == 0


def test_dead_letters(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    source.write_text('{"type": "loose", "time": 1, "args": [1]}\nnope\n{"type": "loose", "time": nan}\n[1]\n')
    path = tmp_path / "dead.jsonl"
    letters = DeadLetters(str(path))
    silent = DeadLetters()
    for batch in read([str(source)], BOTH):
        for one in (letters, silent):
            one.add(batch.dead)
            one.reject(batch, [RefusedRow("loose", 0, "late", "too late")])
    letters.add([DeadLetter("x.parquet", 7, "no time", "time", None)])
    letters.close()
    silent.close()
    assert letters.counts == {"json": 2, "object": 1, "late": 1, "time": 1}
    assert silent.total == 4
    found = [json.loads(text) for text in path.read_text().splitlines()]
    assert [(one["code"], one["line"], one["record"]) for one in found] == [
        ("json", 2, "nope"),
        ("json", 3, '{"type": "loose", "time": nan}'),
        ("object", 4, "[1]"),
        ("late", 1, {"type": "loose", "time": 1, "args": [1]}),
        ("time", 7, None),
    ]
    assert list(found[0]) == ["reason", "code", "file", "line", "record"]
    assert found[3]["file"] == str(source)
