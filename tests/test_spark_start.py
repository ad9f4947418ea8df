"""What keeps a run on Spark from starting is said in a sentence, and leaves nothing that stands in the way."""

from __future__ import annotations

import json
import os
import pickle
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from typer.testing import CliRunner

from cep.command import app
from cep.core.compilation import Compilation
from cep.core.errors import CepError
from cep.engine import Engine
from cep.knowledge.graph import Knowledge
from cep.runtime.options import EngineOptions
from cep.spark import Rules, program
from cep.spark.disk import locked, writing_to
from cep.spark.driver.failure import said
from cep.spark.driver.session import checked, java, silent
from cep.spark.driver.sockets import ENABLED, FOLDER, unix_sockets
from cep.spark.handover import share
from cep.spark.job import Job, work_of
from cep.spark.micro_batch import MicroBatches
from cep.spark.program import ProgramOptions, ShippedProgram
from cep.spark.source.data_source import FileReader, SparkSourceOptions
from cep.spark.state.batch_notes import BatchNotes
from cep.spark.state.checkpoint import claim
from cep.spark.working_folder import own_folder
from tests import spark_runs
from tests.test_spark_migration import PAIR, READING, RISE, kept

needs_java = pytest.mark.skipif(not spark_runs.THERE, reason=spark_runs.MISSING)
pytestmark = pytest.mark.xdist_group("spark")


def test_masters() -> None:
    for fine in ("local", "local[2]", "local[ * ]", "local[*, 4]", "local-cluster[2,1,1024]", "spark://a:7077,b:7077",
                 "spark://[::1]:7077", "yarn", "k8s://https://kubernetes.default.svc"):  # fmt: skip
        assert checked(fine) == fine
    for wrong, near in [
        ("loal[2]", "did you mean `local`?"),
        ("local[two]", ""),
        ("spark:/host:7077", "did you mean `spark://`?"),
        ("spark://host", ""),
        ("yarm", "did you mean `yarn`?"),
        ("http://host:8080", ""),
    ]:
        with pytest.raises(CepError, match="--master: `") as error:
            checked(wrong)
        assert near in error.value.message and "spark://host:7077" in str(error.value)


def test_a_master_that_does_not_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as there, socket.create_server(("127.0.0.1", 0)) as gone:
        here, nowhere = (f"127.0.0.1:{one.getsockname()[1]}" for one in (there, gone))
        gone.close()
        assert silent(f"spark://{nowhere}") == "connection refused"
        assert silent(f"spark://{nowhere},{here}") is silent("yarn") is silent("local[2]") is None


def test_the_version_of_java_stands_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 'openjdk version \"17.0.2\" 2022-01-18' >&2\n")
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert java() == 17
    (tmp_path / "release").write_text('IMPLEMENTOR="x"\nJAVA_RUNTIME_VERSION="21+35"\nJAVA_VERSION="21.0.1"\n')
    assert java() == 21
    (tmp_path / "release").write_bytes(b"\xff")
    assert java() == 17
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "none"))
    assert java() is None


def test_java_and_python_talk_by_sockets_of_unix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/tmp")
    own_folder.cache_clear()
    folders = set()
    for master in ("local[2]", "local-cluster[2,1,1024]"):
        told = unix_sockets(master)
        assert told[ENABLED] == "true" and Path(told[FOLDER]).is_dir()
        folders.add(told[FOLDER])
    assert len(folders) == 1, "one of this process"
    assert unix_sockets("yarn") == {ENABLED: "true", FOLDER: "/tmp"}
    own_folder.cache_clear()
    deep = tmp_path / "so-deep-that-the-path-of-a-socket-there-is-too-long"
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    assert unix_sockets("local[2]") == {}
    own_folder.cache_clear()


@pytest.mark.long
@needs_java
def test_sockets_go_with_the_run(tmp_path: Path) -> None:
    lines = [
        "from tests import spark_runs",
        "spark = spark_runs.spark()",
        f"print(spark.sparkContext.getConf().get('{FOLDER}'))",
        "print(spark.sparkContext.parallelize(range(3), 2).map(lambda n: n + 1).sum())",
    ]
    command = [sys.executable, "-c", "\n".join(lines)]
    environment = os.environ | {"TMPDIR": "/tmp"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    folder, sum_of_them = done.stdout.split()
    assert sum_of_them == "6" and folder.startswith("/tmp/semcep-") and not Path(folder).exists()


@needs_java
@pytest.mark.long
def test_tasks_that_read_and_tasks_that_step_share_processes() -> None:
    spark = spark_runs.spark()

    def begun(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"id": [os.getppid()]})

    planned = {row[0] for row in spark.range(2, numPartitions=2).mapInArrow(begun, "id long").collect()}
    assert planned == set(spark.sparkContext.parallelize(range(2), 2).map(lambda _: os.getppid()).collect())


@needs_java
@pytest.mark.long
def test_workers_load_a_program_before_they_have_anything_to_do(tmp_path: Path) -> None:
    wanted = spark_runs.job(READING + RISE, [], tmp_path)
    states = tmp_path / "states"
    work = work_of(wanted, states, str(tmp_path))
    batches = MicroBatches(spark_runs.spark(), work, tmp_path, BatchNotes(states))
    batches.load_now()
    sent = batches.sent

    def loaded(_: Iterator[int]) -> list[bool]:
        known = sent.value.open().stages[0].program
        return [any(one is known for one, _ in program._last)]

    assert any(spark_runs.spark().sparkContext.parallelize(range(2), 2).mapPartitions(loaded).collect())


def test_who_plans_a_query_loads_no_engine() -> None:
    """Spark starts a process for each source of a query, that only asks what it is."""
    planners = "cep.spark.source.data_source, cep.spark.handover"
    code = f"import {planners}, sys; print({{*sys.argv}} & {{*sys.modules}})"
    heavy = ["cep.engine", "numba", "pyarrow", "pyoxigraph"]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    found = subprocess.run([sys.executable, "-c", code, *heavy], env=environment, capture_output=True, check=True)
    assert found.stdout.strip() == b"set()"


def test_what_went_wrong_is_found_in_the_log(tmp_path: Path) -> None:
    log = tmp_path / "spark.log"
    assert said(log, 0) is None
    old = 'Exception in thread "main" java.lang.Error: of another run\n'
    raised = "org.apache.spark.SparkException: Could not parse Master URL: 'loal'\n\tat org.apache.x(y:1)\n"
    log.write_text(f'{old}WARNING: an omen\nException in thread "main" {raised}26/11/22 02:00:00 INFO Hook: bye\n')
    assert said(log, len(old)) == "Could not parse Master URL: 'loal'"
    log.write_text("26/11/22 02:00:00 WARN Client: no one is there\n")
    assert said(log, 0) == "no one is there"
    log.write_text(f"{raised}26/11/22 02:00:01 ERROR Backend: Giving up.\n26/11/22 02:00:02 WARN Client: bye\n")
    assert said(log, 0) == "Giving up."


def test_a_checkpoint_in_which_nothing_was_begun_is_no_ones(tmp_path: Path) -> None:
    state = tmp_path / "state"
    out = Path(kept(READING + RISE, tmp_path).output)
    out.mkdir(parents=True, exist_ok=True)
    for name in (".room-0a", "..room-0a.0b"):  # of a run killed while it tried
        (out / name).touch()
    first, _ = claim(state, kept(READING + RISE, tmp_path))
    for name in ("spark.log", "files.jsonl", "lock"):
        (state / name).write_text("")
    (state / "spark").mkdir()
    second, moved = claim(state, kept(READING + PAIR, tmp_path))
    assert moved is None and second.generation.number == 1 and not (state / "files.jsonl").exists()
    assert second.name != first.name, "what tells them apart where they write to one folder"
    assert claim(state, kept(READING + PAIR, tmp_path)) == (second, None)
    (state / "input-0").mkdir()
    with pytest.raises(CepError, match="belongs to another program"):
        claim(state, kept(READING + RISE, tmp_path))


def test_folders_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    folder = tmp_path / "file" / "state"
    refusal = r"--checkpoint: .*/file/state cannot be created or written: not a directory"
    with pytest.raises(CepError, match=refusal), writing_to("--checkpoint", folder, begins=True):
        claim(folder, kept(READING + RISE, tmp_path))


@needs_java
@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        (["--master", "loal[2]"], "--master: `loal[2]` is not a valid master (did you mean `local`?)"),
        pytest.param(
            ["--conf", "spark.master=loal"],
            "--master: `loal` is not a valid master (did you mean `local`?)",
            marks=pytest.mark.long,
        ),
        (["--conf", "spark.driver.memory=much"], "Spark cannot be started: Invalid maximum heap size: -Xmxmuch\n"),
    ],
)
def test_the_command_says_why_in_a_sentence(tmp_path: Path, options: list[str], refusal: str) -> None:
    (tmp_path / "rise.cep").write_text(READING + RISE)
    (tmp_path / "a.jsonl").write_text("")
    command = "from cep.command import main; main()"
    places = ["--input", "a=a.jsonl", "--output", "out", "--checkpoint", "state", *options]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    found = subprocess.run(
        [sys.executable, "-c", command, "run", "rise.cep", "--on", "spark", *places],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 2 and "Traceback" not in found.stderr, found.stderr
    assert found.stderr.startswith(refusal) and "\nhint: " in found.stderr, found.stderr
    assert (tmp_path / "state").exists() is ("cannot be started" in refusal), (
        "nothing is claimed before it is looked at"
    )


@needs_java
def test_a_new_checkpoint_is_of_the_run_that_locks_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Compilation, "_tell", lambda *_: None)
    Path("rise.cep").write_text(READING + RISE)
    Path("a.jsonl").touch()
    for name in ("state", "other"):
        Path(name).mkdir()
    Path("other/letter.txt").touch()
    command = ["run", "rise.cep", "--on=spark", "--input=a=a.jsonl", "--output=out"]
    with locked(Path("state")):
        for name, refusal in (
            ("state", "is in use by another run"),
            ("other", "is not empty, and is not a checkpoint"),
        ):
            found = CliRunner().invoke(app, [*command, f"--checkpoint={name}"], prog_name="cep")
            assert found.exit_code == 2 and refusal in found.stderr, found.stderr
    assert sorted(path.name for path in Path("state").iterdir()) == ["lock", "turn"]
    assert [path.name for path in Path("other").iterdir()] == ["letter.txt"], "nothing is put into a folder of others"


def test_what_comes_after_the_end_was_told_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("days").mkdir()
    Path("days/1.jsonl").write_text("")
    text = READING + RISE
    made = ShippedProgram.of(Engine.from_text(text), text, "<program>", ProgramOptions(), 2)
    files = SparkSourceOptions.of(Job(made, ("days",), "out", str(tmp_path), ()), closing=True)
    first = FileReader(files)
    first.prepareForTriggerAvailableNow()
    planned = first.latestOffset(first.initialOffset(), ReadAllAvailable())
    assert (planned["files"], planned["end"]) == (1, 1)
    items = first.partitions(first.initialOffset(), planned)
    assert {one.few for one in items} == {share(len(items))}, "what may go through the driver is dealt among them"
    # Killed, where Spark had noted what was planned; another file comes.
    (tmp_path / "spark/offsets").mkdir(parents=True)
    (tmp_path / "spark/offsets/0").write_text(f"v1\n{{}}\n{json.dumps(planned)}")
    Path("days/2.jsonl").write_text("")
    again = FileReader(files)
    again.prepareForTriggerAvailableNow()
    ended = again.latestOffset(planned, ReadAllAvailable())
    assert (ended["files"], ended["end"]) == (1, 2)
    assert "2.jsonl" not in (tmp_path / "files.jsonl").read_text(), "it stays new, so that the next run refuses it"
    # A run that does not end its input takes it.
    (tmp_path / "spark/offsets/0").write_text(f"v1\n{{}}\n{json.dumps(planned | {'end': 0})}")
    later = FileReader(files)
    later.prepareForTriggerAvailableNow()
    assert later.latestOffset(planned | {"end": 0}, ReadAllAvailable())["files"] == 2


def test_knowledge_of_places_goes_to_workers_after_it_was_asked(tmp_path: Path) -> None:
    text = """event gust(lat: float, long: float).
    PREFIX wgs84: <http://www.w3.org/2003/01/geo/wgs84_pos#>
    at(S, Lat, Long) :- { ?S wgs84:lat ?Lat ; wgs84:long ?Long }.
    hears(A, B) :- at(A, Lat, Long), near(Lat, Long, 300000, B, _).
    heard(A, B) <- gust(Lat, Long) WHERE at(A, Lat, Long), hears(A, B).
    """
    wgs84 = "@prefix w: <http://www.w3.org/2003/01/geo/wgs84_pos#> ."
    (tmp_path / "places.ttl").write_text(
        f"{wgs84} <urn:a> w:lat 40.7 ; w:long -74.0 . <urn:b> w:lat 41.0 ; w:long -74.5 ."
    )
    known = Knowledge.load(tmp_path / "places.ttl")
    planned = Rules.from_text(text, knowledge=known).planned(EngineOptions(lateness=None), 0)
    sent = pickle.loads(pickle.dumps(planned.program))
    tables = {"gust": pl.DataFrame({"start": [1], "end": [1], "lat": [40.7], "long": [-74.0]})}
    found = []
    for engine in (planned.engine, Engine(program._compiled(sent), lateness=0)):
        engine.push(tables)
        found.append(engine.close()["heard"].rows())
    assert found[0] == found[1] and len(found[0]) == 2
