"""The part of the Kubernetes API that Spark uses, and a node that starts the created pods as processes.

A pod runs what the image of `docs/deploy/Dockerfile` runs: its entry point, with the pod's arguments and environment.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlparse

import pyspark

ENTRYPOINT = Path(__file__).parent.parent / "docs" / "deploy" / "entrypoint.sh"


class FakeKubernetes:
    """`asked`: the pods that were asked for; `pods`: those that are there, by name, and `running` their processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[dict[str, Any]] = []
        self.pods: dict[str, dict[str, Any]] = {}
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.version = 1
        self.guard = threading.Condition()

    def made(self, pod: dict[str, Any]) -> dict[str, Any]:
        """A pod that was asked for, running."""
        with self.guard:
            self.version += 1
            name = pod["metadata"].get("name") or f"{pod['metadata']['generateName']}{self.version}"
            pod["metadata"] |= {"name": name, "uid": f"uid-{name}", "resourceVersion": str(self.version)}
            pod["metadata"] |= {"namespace": "semcep", "creationTimestamp": "2026-01-01T00:00:00Z"}
            state = {"name": pod["spec"]["containers"][0]["name"], "ready": True, "restartCount": 0}
            pod["status"] = {
                "phase": "Running",
                "podIP": "127.0.0.1",
                "containerStatuses": [state | {"state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}],
            }
            self.asked.append(pod)
            self.pods[name] = pod
            self.running[name] = self._started(pod, name)
            self.guard.notify_all()
        return pod

    def _started(self, pod: dict[str, Any], name: str) -> subprocess.Popen[bytes]:
        container = pod["spec"]["containers"][0]
        told = {one["name"]: one.get("value") for one in container["env"]}
        found = {key: value for key, value in told.items() if value is not None}
        found |= {"SPARK_EXECUTOR_POD_IP": "127.0.0.1", "SPARK_EXECUTOR_POD_NAME": name}
        found["SPARK_CONF_DIR"] = str(self.folder)  # what the image would have at that place
        own = {key: os.environ[key] for key in ("PATH", "HOME", "PYTHONPATH", "JAVA_HOME") if key in os.environ}
        with (self.folder / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                [str(ENTRYPOINT), *container["args"]],
                env=own | found | {"SPARK_HOME": pyspark.__path__[0]},
                cwd=self.folder,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def removed(self, name: str) -> None:
        """A pod is to end."""
        with self.guard:
            self.pods.pop(name, None)
            if (process := self.running.pop(name, None)) is not None:
                process.kill()
                process.wait()

    def listed(self) -> list[dict[str, Any]]:
        with self.guard:
            return list(self.pods.values())


@contextmanager
def kubernetes(folder: Path) -> Iterator[tuple[FakeKubernetes, str]]:
    """The API server while the block runs, and its address; no pod outlives it."""
    cluster = FakeKubernetes(folder)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            asked = urlparse(self.path)
            if "watch" in parse_qs(asked.query):
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Connection", "close")
                self.end_headers()
                with cluster.guard:
                    cluster.guard.wait(600)  # Spark asks for the list as well, now and then
                self.close_connection = True
                return
            name = asked.path.rpartition("/")[2]
            if name in cluster.pods:
                self.answer(cluster.pods[name])
                return
            kind = {"pods": "PodList", "configmaps": "ConfigMapList"}.get(name, "List")
            items = cluster.listed() if name == "pods" else []
            meta = {"resourceVersion": str(cluster.version)}
            self.answer({"kind": kind, "apiVersion": "v1", "metadata": meta, "items": items})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self.answer(cluster.made(body) if body.get("kind") == "Pod" else body, 201)

        def do_PUT(self) -> None:
            self.answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        do_PATCH = do_PUT  # noqa: N815

        def do_DELETE(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            name = urlparse(self.path).path.rpartition("/")[2]
            for each in [name] if name in cluster.pods else list(cluster.pods) if name == "pods" else []:
                cluster.removed(each)
            self.answer({"kind": "Status", "apiVersion": "v1", "status": "Success"})

        def answer(self, what: Any, status: int = 200) -> None:
            body = json.dumps(what).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield cluster, f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        for name in list(cluster.running):
            cluster.removed(name)
