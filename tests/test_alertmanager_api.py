"""Alertmanager's API: with the real amtool, with Grafana's requests, and by the schema of its OpenAPI file."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from fastapi import FastAPI
from starlette.testclient import TestClient

from connectors.alerts.text import rfc3339
from connectors.feeds.routes import Routes
from connectors.serving import alertmanager_api
from tests.desk import ANN, BEN, ORIGIN, SECOND, WALL, Desk, at

AMTOOL = shutil.which("amtool") or shutil.which("amtool", path=Path(__file__).parent.parent / "build")
MISSING = "no amtool (Debian, Ubuntu: apt install prometheus-alertmanager)"


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path)
    with closing(made.outbox):
        made.take((0, "a", 9), (1, "b", 9), (2, "c", 9), (3, "c", 0), (4, "x", 4))
        yield made


def _object(required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required.split()}


def _list(items: Any, **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **more}


TEXT, FLAG, TIME = {"type": "string"}, {"type": "boolean"}, {"type": "string", "format": "date-time"}
LABELS = {"type": "object", "additionalProperties": TEXT}
RECEIVER = _object("name", name=TEXT)
MATCHER = _object("name value isRegex", name=TEXT, value=TEXT, isRegex=FLAG, isEqual=FLAG)
STATUS = _object(
    "state silencedBy inhibitedBy",
    state={"enum": ["unprocessed", "active", "suppressed"]}, silencedBy=_list(TEXT), inhibitedBy=_list(TEXT),
)  # fmt: skip
ALERT = _object(
    "labels receivers fingerprint startsAt updatedAt endsAt annotations status",
    labels=LABELS, annotations=LABELS, receivers=_list(RECEIVER), fingerprint=TEXT, startsAt=TIME, updatedAt=TIME,
    endsAt=TIME, status=STATUS, generatorURL={"type": "string", "format": "uri"},
)  # fmt: skip
SILENCE = _object(
    "id status updatedAt matchers startsAt endsAt createdBy comment",
    id=TEXT, status=_object("state", state={"enum": ["expired", "active", "pending"]}), updatedAt=TIME,
    matchers=_list(MATCHER, minItems=1), startsAt=TIME, endsAt=TIME, createdBy=TEXT, comment=TEXT,
)  # fmt: skip
GROUP = _object("labels receiver alerts", labels=LABELS, receiver=RECEIVER, alerts=_list(ALERT))
BUILD = _object(
    "version revision branch buildUser buildDate goVersion",
    **dict.fromkeys(("version", "revision", "branch", "buildUser", "buildDate", "goVersion"), TEXT),
)
SERVER = _object(
    "cluster versionInfo config uptime",
    cluster=_object("status", status={"enum": ["ready", "settling", "disabled"]}, name=TEXT, peers=_list({})),
    versionInfo=BUILD, config=_object("original", original=TEXT), uptime=TIME,
)  # fmt: skip


def test_answers_are_as_its_schema_says(desk: Desk) -> None:
    silence = desk.ask("POST", "/api/v2/silences", grafana_silence("site", "a"))
    for path, schema in (
        ("alerts", _list(ALERT)), ("alerts/groups", _list(GROUP)), ("silences", _list(SILENCE)), ("status", SERVER),
        ("receivers", _list(RECEIVER)), (f"silence/{silence['silenceID']}", SILENCE),
    ):  # fmt: skip
        found = desk.ask("GET", f"/api/v2/{path}", token=WALL)
        jsonschema.validate(found, schema, format_checker=jsonschema.FormatChecker())
        assert found
    config = yaml.safe_load(desk.ask("GET", "/api/v2/status")["config"]["original"])
    assert config["route"]["receiver"] in [each["name"] for each in config["receivers"]]


def grafana_silence(name: str, value: str, **more: object) -> dict[str, object]:
    """A silence as Grafana's editor sends it."""
    matchers = [{"name": name, "value": value, "isRegex": False, "isEqual": True}]
    return {
        "matchers": matchers, "startsAt": at(0).replace("Z", ".000Z"), "endsAt": at(7_200).replace("Z", ".000Z"),
        "comment": "created 2026-11-29 10:00", "createdBy": "grafana user", **more,
    }  # fmt: skip


def test_grafanas_requests(desk: Desk) -> None:
    """Those of its data source for Alertmanager, and of its pages of silences and groups."""
    assert desk.ask("GET", "/api/v2/status")["cluster"]["status"] == "disabled"
    made = desk.ask("POST", "/api/v2/silences", grafana_silence("site", "a"), token=ANN)["silenceID"]
    (silence,) = desk.ask("GET", "/api/v2/silences?ruleMetadata=true&accesscontrol=true")
    assert (silence["id"], silence["createdBy"]) == (made, "grafana user (ann)")
    assert desk.outbox.actions()[-1].person == "ann", "the log has the name of the token"
    query = "filter=alertname%3D%22flood%22&filter=site%3D~%22a%7Cb%22"

    def sites(more: str) -> list[str]:
        return sorted(each["labels"]["site"] for each in desk.ask("GET", f"/api/v2/alerts?{query}{more}"))

    assert sites("&silenced=true&active=true&inhibited=true") == ["a", "b"]
    assert sites("&silenced=false") == ["b"] and sites("&active=false") == ["a"] and sites("&receiver=none") == []
    (group,) = desk.ask("GET", "/api/v2/alerts/groups")
    states = {each["labels"]["site"]: each["status"] for each in group["alerts"]}
    assert group["labels"] == {"alertname": "flood"} and group["receiver"] == {"name": "nobody"}
    assert states["a"] == {"state": "suppressed", "silencedBy": [made], "inhibitedBy": []}
    assert states["b"]["state"] == "active" and "c" not in states
    edited = grafana_silence("site", "a", id=made, comment="longer", endsAt=at(9_000))
    assert desk.ask("POST", "/api/v2/silences", edited, token=ANN) == {"silenceID": made}
    again = desk.ask("POST", "/api/v2/silences", grafana_silence("site", "b", id=made))["silenceID"]
    assert desk.ask("GET", f"/api/v2/silence/{made}")["status"] == {"state": "expired"} and again != made
    assert desk.ask("DELETE", f"/api/v2/silence/{again}") == {}
    assert "has ended already" in desk.ask("DELETE", f"/api/v2/silence/{again}", status=500)


def test_alerts_come_from_rules_alone_and_viewers_silence_nothing(desk: Desk) -> None:
    assert "/api/v2/alerts takes GET" in desk.ask("POST", "/api/v2/alerts", [{"labels": {"a": "b"}}], status=405)
    desk.ask("POST", "/api/v2/silences", grafana_silence("site", "a"), token=WALL, status=403)
    assert "hide every alert" in desk.ask("POST", "/api/v2/silences", grafana_silence("site", ""), status=400)
    desk.ask("POST", "/api/v2/silences", grafana_silence("site", "a", id="none"), status=404)
    desk.ask("GET", "/api/v2/alerts?filter=site", status=400)
    desk.ask("GET", "/api/v2/alerts?receiver=(", status=400)
    desk.ask("GET", "/api/v2/silence/none", status=404)
    desk.ask("DELETE", "/api/v2/silence/none", status=404)
    assert desk.outbox.actions() == []


def test_an_inhibited_alert_names_what_inhibits_it(tmp_path: Path) -> None:
    from tests import desk as desks

    desk = Desk(tmp_path)
    desk.outbox.close()
    program = desks.PROGRAM
    try:
        desks.PROGRAM = program + (
            "fluent out(site: string).\ninitiate out(S) <- level(S, L) WHERE L > 8.\n"
            "terminate out(S) <- level(S, L) WHERE L < 3.\n"
            'ALERT drought ON out(S) SEVERITY "Minor" TITLE "{S}" KEYED BY S INHIBITED BY flood(s: S).'
        )
        desk = Desk(tmp_path)
    finally:
        desks.PROGRAM = program
    with closing(desk.outbox):
        desk.take((0, "a", 9), (1, "x", 4))
        found = {each["labels"]["alertname"]: each for each in desk.ask("GET", "/api/v2/alerts")}
        assert found["drought"]["status"] == {
            "state": "suppressed", "silencedBy": [], "inhibitedBy": [found["flood"]["fingerprint"]],
        }  # fmt: skip


@pytest.mark.skipif(AMTOOL is None, reason=MISSING)
def test_amtool_lists_silences_and_expires(desk: Desk) -> None:
    config = desk.folder / "amtool.yml"
    desk.now = time.time_ns() // 1000  # amtool goes by the clock of the machine

    def later(seconds: int) -> str:
        return rfc3339(desk.now + seconds * SECOND)

    def amtool(*words: str, token: str = BEN, fails: str | None = None) -> str:
        config.write_text(f"authorization:\n  credentials: {token}\n")
        command = [str(AMTOOL), f"--alertmanager.url={url}", f"--http.config.file={config}", "--no-version-check"]
        done = subprocess.run([*command, *words], capture_output=True, text=True, timeout=60)
        assert (done.returncode != 0) == (fails is not None), done
        assert fails is None or fails in done.stderr, done.stderr
        return done.stdout

    def rows(*words: str) -> list[Any]:
        found: list[Any] = json.loads(amtool("-o", "json", *words))
        return found

    with desk.served() as url:
        assert sorted(each["labels"]["site"] for each in rows("alert", "query")) == ["a", "b"]
        assert [each["labels"]["site"] for each in rows("alert", "query", "site=~a.*", "severity=Minor")] == ["a"]
        times = ["--start", later(0), "--end", later(7_200)]
        id = amtool("silence", "add", "flood", "site=a", "-a", "ben", "-c", "new pump", *times).strip()
        (silence,) = rows("silence", "query")
        matchers = {each["name"]: each["value"] for each in silence["matchers"]}
        assert (silence["id"], silence["createdBy"], matchers) == (id, "ben", {"alertname": "flood", "site": "a"})
        assert [each["labels"]["site"] for each in rows("alert", "query")] == ["b"]
        assert {each["labels"]["site"] for each in rows("alert", "query", "--silenced")} == {"a"}
        assert [each["id"] for each in rows("silence", "query", "site=a")] == [id] and rows(
            "silence", "query", "site=b"
        ) == []
        amtool("silence", "update", "--end", later(9_000), id)
        assert [each["endsAt"][:19] for each in rows("silence", "query")] == [later(9_000)[:19]]
        amtool("silence", "expire", id)
        assert rows("silence", "query") == [] and [each["id"] for each in rows("silence", "query", "--expired")] == [id]
        amtool("silence", "expire", id, fails="the silence has ended already")
        amtool("silence", "add", "site=~.*", "-c", "x", *times, fails="hide every alert")
        amtool("silence", "add", "site=a", "-c", "x", *times, token=WALL, fails="403")
        amtool("alert", "add", "x=y", fails="405")
        assert "nobody" in amtool("config", "show") and "nobody" in amtool("config", "routes", "show")
        assert "disabled" in amtool("cluster", "show")


def test_groups_are_those_of_routes(desk: Desk, tmp_path: Path) -> None:
    file = tmp_path / "routes.toml"
    file.write_text(
        '[receivers]\nsea = "mqtt://h/a"\nall = "mqtt://h/b"\n'
        '[[routes]]\nreceiver = "sea"\nmatchers = ["site=a"]\ncontinue = true\ngroup_by = ["site"]\n'
        '[[routes]]\nreceiver = "all"\n'
    )
    app = FastAPI()
    app.include_router(alertmanager_api.router(desk.handling, ORIGIN, Routes.read(file)))
    client = TestClient(app)
    groups = client.get("/api/v2/alerts/groups").json()
    found = [(each["receiver"]["name"], each["labels"], len(each["alerts"])) for each in groups]
    assert found == [("all", {}, 2), ("sea", {"site": "a"}, 1)]
    assert [each["labels"]["site"] for each in client.get("/api/v2/alerts?receiver=sea").json()] == ["a"]
    assert client.get("/api/v2/receivers").json() == [{"name": "sea"}, {"name": "all"}]
