"""What `docs/deploy.md` says of clusters, as far as it can be tried here: Kubernetes by a stand-in for its API, and an
environment that travels as an archive."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import urllib.request
import venv
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]
from prometheus_client import CollectorRegistry, generate_latest

from cep.app.meter import Meter, charts
from cep.app.metrics import serving
from cep.connectors.alerts.outbox import Outbox
from cep.connectors.brokers.sources import Sources
from cep.connectors.receivers.document import Publisher
from cep.connectors.receivers.metrics import AlertMetrics, MaintenanceMetrics, ProgramMetrics, SourceMetrics
from cep.connectors.receivers.sse import Stream
from cep.engine import Engine
from cep.runtime.buckets import KeyShares
from tests import spark_runs
from tests.fake_kubernetes import kubernetes

HERE = Path(__file__).parent.parent
DEPLOY = HERE / "docs" / "deploy"
PAGE = (HERE / "docs" / "deploy.md").read_text(encoding="utf-8")
RULES = "event a(k: string).\nevent b(k: string).\nab(K) <- (a(K) SEQ b(K)) WITHIN 1 min.\n"
cluster = [
    pytest.mark.long,
    pytest.mark.skipif(not spark_runs.THERE, reason=spark_runs.MISSING),
    pytest.mark.xdist_group("clusters"),
]


def command(section: str, master: str) -> list[str]:
    """The words of the `cep run` of a section with that master."""
    text = PAGE.split(f"\n## {section}\n")[1].split("\n## ")[0]
    blocks = [block.replace("\\\n", " ") for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL)]
    lines = [line for block in blocks for line in block.splitlines() if "cep run" in line and master in line]
    (line,) = lines
    return shlex.split(line.split("#")[0] if "#env" not in line else line)


def written(folder: Path) -> str:
    """An input, and the rules over it; the events that one process derives."""
    (folder / "rules.cep").write_text(RULES)
    (folder / "days").mkdir()
    records = [json.dumps({"type": "ab"[n % 2], "time": n, "k": f"k{n % 3}"}) + "\n" for n in range(300)]
    (folder / "days" / "1.jsonl").write_text("".join(records))
    asked = [sys.executable, "-m", "cep", "run", "rules.cep", "--input", "days"]
    return subprocess.run(asked, cwd=folder, capture_output=True, text=True, check=True).stdout


def derived(folder: Path) -> list[str]:
    files = [file for file in folder.rglob("part-*.jsonl") if "_spark_metadata" not in file.parts]
    return sorted(line for file in files for line in file.read_text().splitlines())


class TestKubernetes:
    pytestmark = cluster

    def test_executors_are_pods_of_the_image(self, tmp_path: Path) -> None:
        """The command of the page, but for the addresses: its executors are started by the image's entry point."""
        expected = written(tmp_path)
        (tmp_path / "node").mkdir()
        with kubernetes(tmp_path / "node") as (api, url):
            words = command("Kubernetes", "k8s://")[1:]
            there = {"k8s://https://kubernetes.default.svc": f"k8s://{url}", "0.0.0.0:9464": "0"}
            there |= {"spark.driver.host=semcep-driver.semcep.svc": "spark.driver.host=127.0.0.1"}
            there |= {"spark.pyspark.python=python3": f"spark.pyspark.python={sys.executable}"}
            there |= {"spark.executor.instances=4": "spark.executor.instances=2"}
            words = [there.get(word, word.replace("/shared/", f"{tmp_path}/")) for word in words]
            asked = [sys.executable, "-m", "cep", *words, "--output-format", "jsonl"]
            with (tmp_path / "said").open("wb") as said:
                run = subprocess.Popen(asked, cwd=tmp_path, stdout=said, stderr=said)
                run.wait()
            left = list(api.pods)  # at once: a container ends with its command, and Java with it
        assert run.returncode == 0, (tmp_path / "said").read_text()
        assert derived(tmp_path / "derived") == sorted(expected.splitlines())
        assert len(api.asked) == 2 and not left, "as many as were asked for, and they end with the run"
        (container,) = api.asked[0]["spec"]["containers"]
        assert (container["image"], container["args"]) == ("registry/semcep:0.1", ["executor"])
        assert ("shared", "/shared") in [(one["name"], one["mountPath"]) for one in container["volumeMounts"]]
        claims = [
            one["persistentVolumeClaim"]["claimName"]
            for one in api.asked[0]["spec"]["volumes"]
            if one["name"] == "shared"
        ]
        assert claims == ["semcep"]


def test_the_manifest_says_what_the_page_says() -> None:
    parts = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))
    assert [part["kind"] for part in parts] == ["ServiceAccount", "Role", "RoleBinding", "Service", "Deployment"]
    (container,) = parts[-1]["spec"]["template"]["spec"]["containers"]
    named = {word for word in container["args"] if word.startswith("--conf=spark")}
    asked = command("Kubernetes", "k8s://")
    settings = {f"--conf={value}" for option, value in zip(asked, asked[1:]) if option == "--conf"}
    assert settings <= named, "the command of the page"
    (pod,) = [word for word in container["args"] if "driver.pod.name" in word]
    assert pod.endswith("=$(POD)") and [one["name"] for one in container["env"]] == ["POD"], "whose its executors are"
    mounts = {one["mountPath"] for one in container["volumeMounts"]}
    assert container["securityContext"]["readOnlyRootFilesystem"] and mounts == {"/shared", "/tmp"}
    assert parts[-1]["spec"]["strategy"] == {"type": "Recreate"} and parts[-1]["spec"]["replicas"] == 1


def test_alerts_ask_for_what_a_run_tells() -> None:
    (group,) = yaml.safe_load((DEPLOY / "alerts.yaml").read_text())["groups"]
    asked = {name for rule in group["rules"] for name in re.findall(r"semcep_\w+", rule["expr"])}
    meter = Meter(charts(Engine.from_text(RULES).plan))
    meter.keys, meter.latest, meter.watermark = (KeyShares("a", "k", 10, {"x": 9}),), 2, 1
    with serving(meter, "0") as url:
        told = urllib.request.urlopen(url, timeout=60).read().decode()
    registry = CollectorRegistry()
    registry.register(ProgramMetrics(lambda: True))
    registry.register(MaintenanceMetrics(lambda: True))
    registry.register(AlertMetrics(outbox := Outbox(None), Stream(outbox, Publisher("p.cep")), {"a": 1}))
    registry.register(SourceMetrics(Sources()))
    told += generate_latest(registry).decode()
    kinds = {"counter": "_total", "summary": "_sum"}
    names = {
        name.removesuffix("_total") + kinds.get(kind, "") for name, kind in re.findall(r"# TYPE (\w+) (\w+)", told)
    }
    assert asked <= names and len(asked) >= 8
    assert all({"alert", "expr", "annotations"} <= rule.keys() for rule in group["rules"])
    assert {name for name in names if name in PAGE} >= asked, "the page says what each is"


def test_the_image_holds_what_its_file_copies() -> None:
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    given = {
        place for line in lines if line.startswith("COPY ") and "--from" not in line for place in line.split()[1:-1]
    }
    kept = {line[1:] for line in (HERE / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    for place in given - {"."}:
        assert (HERE / place).is_file() and any(place == one or place.startswith(f"{one}/") for one in kept), place
    assert all((HERE / one).exists() for one in kept)
    build = tomllib.loads((HERE / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert {*build["only-include"], "hatch_build.py", "pyproject.toml"} <= kept, "what a wheel is made of"
    assert {"build_kernels.py", "benchmarks", "docs", "tests"} <= kept, "what finds the kernels that it brings"
    assert (
        'ENTRYPOINT ["/opt/semcep/entrypoint.sh"]' in lines and "COPY docs/deploy/entrypoint.sh /opt/semcep/" in lines
    )
    (user,) = [line.split()[1] for line in lines if line.startswith("USER ")]
    assert re.fullmatch(r"[1-9]\d*:0", user), "by its number, by which Kubernetes sees that it is not root"


def test_the_image_installs_what_its_extras_need(tmp_path: Path) -> None:
    (extras,) = re.findall(r"^ARG EXTRAS=(.*)$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    for name in ("pyproject.toml", "docs/deploy/requirements.py"):
        shutil.copy(HERE / name, tmp_path)
    asked = [sys.executable, str(tmp_path / "requirements.py"), extras]
    said = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.splitlines()
    assert {re.match(r"[\w-]+", line)[0] for line in said} >= {"polars", "pyspark", "obstore", "uvicorn", "clingo"}  # type: ignore[index]
    assert extras in PAGE, "the page says which"


def entered(*command: str, path: Path | None = None, **env: str) -> str:
    """What a container of the image writes that runs a command, `path` before what is on PATH. As another user than
    root, where root runs the tests."""
    found = env | {"PATH": f"{path}:{os.environ['PATH']}" if path else os.environ["PATH"]}
    asked = ["bash", "-c", (DEPLOY / "entrypoint.sh").read_text(), "entrypoint.sh", *command]
    user = 65534 if os.geteuid() == 0 else None
    done = subprocess.run(asked, capture_output=True, text=True, check=True, env=found, user=user, cwd="/")
    return done.stdout


def test_the_entry_point_runs_what_it_is_given() -> None:
    assert entered("echo", "a  b", "$HOME") == "a  b $HOME\n"


def test_kernels_of_the_image_are_used_where_their_folder_cannot_be_written() -> None:
    with tempfile.TemporaryDirectory() as made:  # where another user may look
        os.chmod(made, 0o755)
        folder = Path(made, "kernels")
        (folder / "core").mkdir(parents=True)
        (folder / "core" / "one.nbi").write_text("compiled")
        folder.chmod(0o555)
        say = 'echo "$NUMBA_CACHE_DIR"; cat "$NUMBA_CACHE_DIR/core/one.nbi"; touch "$NUMBA_CACHE_DIR/new"'
        place, _, text = entered("sh", "-c", say, NUMBA_CACHE_DIR=str(folder)).partition("\n")
        assert place != str(folder) and text == "compiled"
        folder.chmod(0o777)
        assert entered("sh", "-c", 'echo "$NUMBA_CACHE_DIR"', NUMBA_CACHE_DIR=str(folder)) == f"{folder}\n"


def test_a_user_without_a_name_gets_one() -> None:
    """Java asks for it, and Spark does not start without."""
    with tempfile.TemporaryDirectory() as made:
        os.chmod(made, 0o755)
        unknown = Path(made, "getent")
        unknown.write_text("#!/bin/sh\nexit 2\n")
        unknown.chmod(0o755)
        say = 'id -u; tail -n 1 "$NSS_WRAPPER_PASSWD"; echo "$LD_PRELOAD"'
        number, entry, preloaded = entered("sh", "-c", say, path=Path(made)).splitlines()
        assert entry.startswith(f"semcep:x:{number}:") and preloaded == "libnss_wrapper.so"
    assert "libnss-wrapper" in (DEPLOY / "Dockerfile").read_text()


class TestArchive:
    pytestmark = cluster

    def test_an_environment_travels_to_the_workers(self, tmp_path: Path) -> None:
        """As on YARN, to executors of this machine: each unpacks it in a folder of its own."""
        expected = written(tmp_path)
        venv.create(tmp_path / "env", symlinks=True)
        (place,) = (tmp_path / "env" / "lib").glob("python3*/site-packages")
        shutil.copytree(HERE / "cep", place / "cep", ignore=shutil.ignore_patterns("__pycache__"))
        libraries = [path for path in sys.path if path.endswith("site-packages")]
        (place / "libraries.pth").write_text("\n".join(libraries) + "\n")  # too large to travel in a test
        with tarfile.open(tmp_path / "semcep.tar.gz", "w:gz", compresslevel=1) as archive:
            archive.add(tmp_path / "env", ".")
        words = command("YARN", "--master yarn")[1:]
        there = {"yarn": "local-cluster[2,1,1024]", "spark.executor.memoryOverhead=2g": "spark.executor.memory=512m"}
        there |= {"spark.executor.cores=2": "spark.executor.cores=1"}
        there |= {"spark.executor.instances=4": "spark.executor.instances=2"}
        words = [there.get(word, word.replace("/shared/", f"{tmp_path}/")) for word in words]
        asked = ["env/bin/python", "-m", "cep", *words, "--output-format", "jsonl"]
        run = subprocess.run(asked, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stderr
        assert derived(tmp_path / "derived") == sorted(expected.splitlines())
