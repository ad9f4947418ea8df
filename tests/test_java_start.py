"""How Java begins: from a home of Spark without its zip, and with classes that an earlier run has kept."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pyspark
import pytest
from pyspark import SparkContext

from cep.core.logs import Level
from cep.spark.driver import java_start as starts
from cep.spark.driver.java_start import JavaStart, java_start
from cep.spark.working_folder import own_folder
from tests import spark_runs
from tests.test_spark_migration import READING, RISE

INSTALLED = Path(pyspark.__file__).parent


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    variables = ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYSPARK_GATEWAY_PORT")
    for name in (*variables, *starts._VARIABLES):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("SEMCEP_CACHE_DIR", str(tmp_path / "cache"))
    for attribute in ("_gateway", "_jvm", "_active_spark_context"):  # of other tests in this process
        monkeypatch.setattr(SparkContext, attribute, None)
    return tmp_path / "cache"


@pytest.fixture
def java(tmp_path: Path) -> Path:
    """A Java that keeps classes."""
    server = tmp_path / "java" / "lib" / "server"
    server.mkdir(parents=True)
    (server / "classes.jsa").touch()
    (tmp_path / "java" / "bin").mkdir()
    program = tmp_path / "java" / "bin" / "java"
    program.touch()
    return program


def test_a_home_of_links_without_the_zip(java: Path) -> None:
    home = Path(java_start(java, "local[2]", {}).environment["SPARK_HOME"])
    assert (home / "jars").samefile(INSTALLED / "jars") and (home / "bin").samefile(INSTALLED / "bin")
    assert not (home / "python").exists(), "a Python process loads PySpark as it is installed"
    assert Path(java_start(java, "local", {}).environment["SPARK_HOME"]) == home, "the same for every run"


def test_nothing_is_changed_where_others_are_asked(java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for master in ("yarn", "spark://host:7077", "k8s://https://host", "local-cluster[2,1,1024]", ""):
        assert java_start(java, master, {}) == JavaStart()
    assert java_start(java, "local[2]", {"spark.pyspark.python": "/opt/python"}) == JavaStart()
    with monkeypatch.context() as begun:
        begun.setattr(SparkContext, "_gateway", SimpleNamespace(proc=None))
        assert java_start(java, "local[2]", {}) == JavaStart(), "Java is there already"
    for name, value in [
        ("SPARK_HOME", "/opt/spark"),
        ("PYSPARK_PYTHON", "/opt/python"),
        ("PYSPARK_GATEWAY_PORT", "1"),
    ]:
        with monkeypatch.context() as other:
            other.setenv(name, value)
            assert java_start(java, "local[2]", {}) == JavaStart(), name
    monkeypatch.setenv("SPARK_HOME", str(INSTALLED))
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    assert java_start(java, "local[2]", {}).environment, "these say nothing else"


def test_variables_are_for_java_alone(java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", str(INSTALLED))
    begins = java_start(java, "local[2]", {})
    with begins.in_environment():
        assert os.environ["SPARK_HOME"] == begins.environment["SPARK_HOME"]
        assert not Path(os.environ["PYSPARK_DRIVER_PYTHON"]).exists()
    assert os.environ["SPARK_HOME"] == str(INSTALLED) and "PYSPARK_DRIVER_PYTHON" not in os.environ


def test_one_run_keeps_classes_for_the_next(java: Path) -> None:
    assert java_start(java, "local[2]", {}).written is None, "a run without an end keeps none"
    first = java_start(java, "local[2]", {}, keep=True)
    assert first.written is not None and f"-XX:ArchiveClassesAtExit={first.written}" in first.options
    assert java_start(java, "local[2]", {}, keep=True).written is None, "one at a time"
    left = first.written.with_name("killed.new")
    left.touch()
    assert first._lock is not None
    first._lock.close()
    second = java_start(java, "local[2]", {}, keep=True)
    assert second.written == first.written and not left.exists()
    archive = first.written.with_name(f"{first.written.stem}-4.jsa")
    archive.write_text("abc")
    assert "SharedArchiveFile" not in java_start(java, "local[2]", {}).options, "it ends early"
    archive.write_text("abcd")
    later = java_start(java, "local[2]", {}, keep=True)
    assert f"-XX:SharedArchiveFile={archive}" in later.options and later.written is None
    (java.parents[1] / "release").write_text('JAVA_VERSION="21"')
    assert "SharedArchiveFile" not in java_start(java, "local[2]", {}).options, "another Java has its own"


def test_where_no_classes_are_kept(java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def kept() -> bool:
        begins = java_start(java, "local[2]", {}, keep=True)
        if begins._lock is not None:
            begins._lock.close()
        return begins.written is not None

    conf = tmp_path / "conf"
    conf.mkdir()
    monkeypatch.setenv("SPARK_CONF_DIR", str(conf))
    assert kept()
    (conf / "spark-defaults.conf").touch()
    assert not kept(), "Java takes no folder with files"
    monkeypatch.delenv("SPARK_CONF_DIR")
    assert java_start(None, "local[2]", {}, keep=True).written is None
    (java.parents[1] / "lib" / "server" / "classes.jsa").unlink()
    assert not kept()
    monkeypatch.setenv("SEMCEP_CACHE_DIR", os.devnull)
    home = java_start(java, "local[2]", {}, keep=True).environment["SPARK_HOME"]
    assert Path(home).is_relative_to(own_folder())


def test_a_java_with_options_of_others_writes_no_classes(java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would not begin with an agent, or with a folder in its path; with an archive that is there it does."""
    others = [{name: "-javaagent:agent.jar"} for name in starts._OTHERS]
    assert [java_start(java, "local[2]", some, keep=True).written for some in others] == [None, None, None]
    for name in starts._VARIABLES:
        with monkeypatch.context() as other:
            other.setenv(name, "-Xshare:off")
            assert java_start(java, "local[2]", {}, keep=True).written is None, name
    first = java_start(java, "local[2]", {}, keep=True)
    assert first.written is not None
    first.written.with_name(f"{first.written.stem}-0.jsa").touch()
    assert all("SharedArchiveFile" in java_start(java, "local[2]", some).options for some in others)


def test_a_pyspark_whose_home_is_elsewhere(java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a distribution of Spark, or where pip has put one beside it."""
    bare = tmp_path / "spark" / "python" / "pyspark"
    bare.mkdir(parents=True)
    monkeypatch.setattr(pyspark, "__file__", str(bare / "__init__.py"))
    assert java_start(java, "local[2]", {}, keep=True) == JavaStart()


def test_a_cache_whose_name_java_would_take_apart(java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("o'brien", "my cache", "a:b", "a\\b"):
        monkeypatch.setenv("SEMCEP_CACHE_DIR", str(tmp_path / name))
        begins = java_start(java, "local[2]", {}, keep=True)
        assert begins.written is None and Path(begins.environment["SPARK_HOME"]).is_relative_to(own_folder())
        assert not (tmp_path / name).exists(), "nothing is left there"


WRITES = """
import select, sys
from pathlib import Path
sys.stdin.read()
select.select([], [], [], {seconds})
Path({written!r}).write_text("classes")
"""


@pytest.mark.parametrize(("well", "seconds", "kept"), [(True, 0, True), (False, 0, False), (False, 60, False)])
def test_java_is_ended(java: Path, monkeypatch: pytest.MonkeyPatch, well: bool, seconds: int, kept: bool) -> None:
    """Where a run has not ended well, what it would write is waited for no longer than it takes to tidy up."""
    begins, told = java_start(java, "local[2]", {}, keep=True), list[str]()
    assert begins.written is not None
    writes = WRITES.format(seconds=seconds, written=str(begins.written))
    process = subprocess.Popen([sys.executable, "-c", writes], stdin=subprocess.PIPE)
    monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=process))
    monkeypatch.setattr(starts, "_LEAVING", 0.1)
    begins.well = well

    def log(event: str, text: str | None, level: Level = "info", /, **fields: object) -> None:
        told.append(event)

    begins.end(log)
    assert process.returncode is not None and not begins.written.exists()
    assert [one.read_text() for one in begins.written.parent.glob("*.jsa")] == ["classes"] * kept
    assert told == ["classes"] * well and SparkContext._gateway is None


def test_what_is_kept_of_others_goes(java: Path, cache: Path) -> None:
    """Of an installation that is not here its archives alone: another machine may have both, and this home."""
    for name, origin in (("gone", "no-such-folder"), ("there", str(INSTALLED))):
        (cache / "spark" / name / "home").mkdir(parents=True)
        (cache / "spark" / name / "origin").write_text(origin)
        (cache / "spark" / name / "0-0.jsa").touch()
    written = java_start(java, "local[2]", {}, keep=True).written
    assert written is not None
    first = written.with_suffix(".jsa")
    assert sorted(one.name for one in (cache / "spark" / "gone").iterdir()) == ["home", "origin"]
    assert (cache / "spark" / "there" / "0-0.jsa").exists()
    for number in range(4):
        old = first.with_name(f"{number}.jsa")
        old.touch()
        os.utime(old, (number, number))
    first.touch()
    starts._forget(first)
    assert sorted(one.name for one in first.parent.glob("*.jsa")) == sorted([first.name, "3.jsa"])


@pytest.mark.long
@pytest.mark.xdist_group("clusters")
@pytest.mark.skipif(not spark_runs.THERE, reason=spark_runs.MISSING)
def test_runs_with_kept_and_with_damaged_classes(tmp_path: Path, cache: Path) -> None:
    (tmp_path / "rise.cep").write_text(READING + RISE)
    lines = [f'{{"type": "a", "time": {n}, "args": ["k{n % 3}", {n * 7 % 5}]}}\n' for n in range(60)]
    (tmp_path / "a.jsonl").write_text("".join(lines))
    said = []
    for number in range(4):
        folder = tmp_path / str(number)
        command = [sys.executable, "-m", "cep", "run", "rise.cep", "--on", "spark", "--master", "local[2]"]
        command += ["--input", "a.jsonl", "--output", str(folder / "out"), "--checkpoint", str(folder / "state")]
        if 0 < number < 3:
            command += ["--conf", f"spark.driver.extraJavaOptions=-Xlog:class+load:file={folder}.classes"]
        environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        said.append(done.stderr)
        (archive,) = cache.glob("spark/*/*.jsa")
        if number == 1:  # a bit of what was kept is another
            content = bytearray(archive.read_bytes())
            content[len(content) // 2] ^= 1
        elif number == 2:  # only half of it is there
            content = bytearray(archive.read_bytes()[: archive.stat().st_size // 2])
        else:
            continue
        archive.unlink()
        archive.write_bytes(content)
    assert ["storing Java's classes" in one for one in said] == [True, False, False, True]
    mapped = ["shared objects file (top)" in Path(f"{tmp_path / str(number)}.classes").read_text() for number in (1, 2)]
    assert mapped == [True, False], "Java takes what was kept, and nothing of what has another bit"
    assert len({one.splitlines()[0] for one in said}) == 1 and "derived event" in said[0]
    assert archive.stat().st_size > len(content), "what was cut is written again"
