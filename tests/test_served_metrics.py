"""The metrics of a server: promtool takes them, every counter moves; and the dashboard and the rules ask for them."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml  # type: ignore[import-untyped]
from prometheus_client.parser import text_string_to_metric_families as families

from tests.mail_server import mail_server
from tests.test_serve import Server
from tests.waiting import until

HERE = Path(__file__).parent.parent
DEPLOY = HERE / "docs" / "deploy"
PROMTOOL = shutil.which("promtool") or shutil.which("promtool", path=HERE / "build")
MISSING = "no promtool (Debian, Ubuntu: apt install prometheus)"
PROGRAM = """
event level(site: string, cm: float in 0..1000, lat: float?) TIME time WHEN kind = "level".
high(S, C, L) <- level(S, C, L) WHERE C > 100.
calm(S) <- high(S, _, _) UNLESS level(S, _, _) WITHIN 10 min.
twice(S) <- high(S, _, _) SEQ high(S, _, _) WITHIN 1 h.
ALERT flood ON high(S, C, L) SEVERITY "Moderate" TITLE "Flood at {S}" FOR 1 h KEYED BY S AT L, 3.0 RADIUS 10.
"""

needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason=MISSING)


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    while Server.running:
        Server.running.pop().kill()


def promtool(*words: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    assert PROMTOOL is not None
    return subprocess.run([PROMTOOL, *words], input=text, capture_output=True, text=True, timeout=120)


class Source:
    """A source of lines that goes away when it is told to."""

    def __init__(self) -> None:
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]
        self._current: socket.socket | None = None

    def take(self) -> None:
        self._current, _ = self.listening.accept()

    def say(self, **record: object) -> None:
        assert self._current is not None
        self._current.sendall((json.dumps(record) + "\n").encode())

    def lose(self) -> None:
        assert self._current is not None
        self._current.close()


def values(text: str) -> dict[str, dict[str, float]]:
    """Each counter (also those of a summary): its values by labels."""
    found: dict[str, dict[str, float]] = {}
    for family in families(text):
        if family.type not in ("counter", "summary"):
            continue
        found.setdefault(family.name, {})
        for sample in family.samples:
            found.setdefault(sample.name, {})[json.dumps(sample.labels, sort_keys=True)] = sample.value
        if family.name not in {sample.name for sample in family.samples} and family.samples:
            del found[family.name]  # it goes by other names
    return found


@contextmanager
def served(tmp_path: Path, *more: str) -> Iterator[tuple[Server, Source, Any]]:
    source = Source()
    (tmp_path / "rules.cep").write_text(PROGRAM)
    with mail_server() as (taken, port):
        feed = f"smtp://127.0.0.1:{port}/a@example.org#private=yes&tls=none"
        accepting = threading.Thread(target=source.take, daemon=True)
        accepting.start()
        server = Server(
            str(tmp_path / "rules.cep"), "--input", f"level=tcp://127.0.0.1:{source.port}", "--format", "jsonl",
            "--sender", "alerts@example.org", "--feed", feed, "--idle", "never", *more,
        )  # fmt: skip
        accepting.join(60)
        yield server, source, taken


def drive(server: Server, source: Source, taken: Any) -> str:
    """Let everything happen that a counter counts; the metrics after that."""
    minute = 60
    taken.answers["DATA"] = "451 later"
    for at, site, cm in ((0, "a", 150), (1, "a", 160), (2, "b", 170), (80, "f", 190), (95, "c", 1)):
        source.say(kind="level", time=1_700_000_000 + at * minute, site=site, cm=cm, lat=1234.5)

    def text() -> str:
        return httpx.get(server.url + "/metrics", timeout=60).text

    until(lambda: "semcep_latest_event_seconds 1.7000057e+09" in text(), "the first are read", every=0.2)
    source.say(kind="other", time=1_700_000_000)
    source.say(kind="level", time=1_700_000_000 + 91 * minute, site="a", cm=5000)
    source.say(kind="level", time=1_700_000_000 + 3 * minute, site="late", cm=180)
    source.say(kind="level", time=1_700_000_000 + 85 * minute, site="f", cm=120)
    source.say(kind="level", time=1_700_000_000 + 97 * minute, site="d", cm=2)
    until(lambda: re.search(r"semcep_feed_failures_total\{.*\} [1-9]", text()), "the receiver has failed", every=0.2)
    taken.answers.clear()
    until(lambda: re.search(r"semcep_feed_delivered_total\{.*\} [1-9]", text()), "it has taken some", every=0.2)
    source.lose()
    until(lambda: re.search(r"semcep_source_losses_total\{.*\} [1-9]", text()), "the source is lost", every=0.2)
    source.take()
    source.say(kind="level", time=1_700_000_000 + 200 * minute, site="e", cm=3)
    until(lambda: "semcep_latest_event_seconds 1.700012e+09" in text(), "all are read", every=0.2)
    return text()


@pytest.mark.long
@pytest.mark.parametrize("revise", [False, True])
def test_every_counter_moves(tmp_path: Path, revise: bool) -> None:
    with served(tmp_path, *(["--revise", "1h"] if revise else [])) as (server, source, taken):
        text = drive(server, source, taken)
        moved = values(text)
        still = [name for name, found in moved.items() if not any(found.values())]
        assert not still, "of these nothing moves"
        assert moved["semcep_batch_seconds_sum"]["{}"] > 0
        assert ("semcep_revisions_total" in moved) is revise
        if PROMTOOL is not None:
            checked = promtool("check", "metrics", text=text)
            assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")


# --- what is to be loaded elsewhere ---


def names_told() -> set[str]:
    """All names under which something is told."""
    code = "".join((HERE / place).read_text() for place in ("cep/app/metrics.py", "connectors/receivers/metrics.py"))
    found = set()
    for kind, name in re.findall(r'(Gauge|Counter|Summary)MetricFamily\(\s*"(semcep_\w+)"', code):
        found |= {"Gauge": {name}, "Counter": {f"{name}_total"}, "Summary": {f"{name}_sum", f"{name}_count"}}[kind]
    for name in re.findall(r'^            (?:\(|    )"(semcep_\w+)",', code, re.M):
        found.add(f"{name}_total")
    found |= {f"{name}_total" for name in re.findall(r'\(\s*"(semcep_(?:events|dead|revis)\w+)", ', code)}
    return found


def expressions() -> list[str]:
    """What the dashboard asks for, with values in place of Grafana's variables."""
    board = json.loads((DEPLOY / "grafana.json").read_text())
    found = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    for old, new in (("$__rate_interval", "5m"), ("$job", ".*"), ("$instance", ".*")):
        found = [text.replace(old, new) for text in found]
    return found


def test_the_dashboard_asks_for_what_is_told() -> None:
    asked = {name for text in expressions() for name in re.findall(r"semcep_\w+", text)}
    assert len(asked) > 15 and asked <= names_told(), asked - names_told()
    assert {name for name in asked if name not in (HERE / "docs" / "deploy.md").read_text()} == set()


def test_the_dashboard_can_be_imported() -> None:
    board = json.loads((DEPLOY / "grafana.json").read_text())
    (data_source,) = board["__inputs"]
    uid = f"${{{data_source['name']}}}"
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels) and board["uid"] == "semcep"
    assert {panel["datasource"]["uid"] for panel in panels} == {uid}
    assert {target["datasource"]["uid"] for panel in panels for target in panel["targets"]} == {uid}
    cells = set()
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        mine = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & mine, panel["title"]
        cells |= mine
    assert [one["name"] for one in board["templating"]["list"]] == ["job", "instance"]


@needs_promtool
def test_prometheus_takes_what_the_dashboard_asks(tmp_path: Path) -> None:
    rules = [{"record": f"panel:{number}", "expr": text} for number, text in enumerate(expressions())]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    checked = promtool("check", "rules", str(tmp_path / "rules.yaml"))
    assert checked.returncode == 0, checked.stderr


@needs_promtool
def test_the_rules_load_and_fire() -> None:
    checked = promtool("check", "rules", str(DEPLOY / "alerts.yaml"))
    assert checked.returncode == 0, checked.stderr
    fired = promtool("test", "rules", str(HERE / "tests" / "promtool" / "alerts.promtool.yaml"))
    assert fired.returncode == 0, fired.stdout + fired.stderr
    (group,) = yaml.safe_load((DEPLOY / "alerts.yaml").read_text())["groups"]
    asked = {name for rule in group["rules"] for name in re.findall(r"semcep_\w+", rule["expr"])}
    assert asked <= names_told(), asked - names_told()
