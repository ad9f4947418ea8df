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

from cep.connectors.alerts.text import rfc3339
from cep.connectors.receivers.routes import Routes
from cep.connectors.serving import alertmanager_api
from tests.desk import ANN, BEN, ORIGIN, SECOND, WALL, Desk, at
from tests.test_handling import calendar_of

AMTOOL = shutil.which("amtool") or shutil.which("amtool", path=Path(__file__).parent.parent / "build")
MISSING = "no amtool (Debian, Ubuntu: apt install prometheus-alertmanager)"


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path)
    with closing(made.outbox):
        made.take((0, "a", 9), (1, "b", 9), (2, "c", 9), (3, "c", 0), (4, "x", 4))
        yield made


API = yaml.safe_load((Path(__file__).parent / "alertmanager_openapi.yaml").read_text())


def schema(definition: str) -> dict[str, Any]:
    """A definition of Alertmanager's own file."""
    return {"$ref": f"#/definitions/{definition}", "definitions": API["definitions"]}


def test_answers_are_as_its_schema_says(desk: Desk) -> None:
    made = desk.ask("POST", "/api/v2/silences", grafana_silence("site", "a"))
    for path, definition in (
        ("alerts", "gettableAlerts"), ("alerts/groups", "alertGroups"), ("silences", "gettableSilences"),
        ("status", "alertmanagerStatus"), (f"silence/{made['silenceID']}", "gettableSilence"),
    ):  # fmt: skip
        found = desk.ask("GET", f"/api/v2/{path}", token=WALL)
        jsonschema.Draft4Validator(schema(definition), format_checker=jsonschema.FormatChecker()).validate(found)
        assert found
    receivers = {"type": "array", "items": {"$ref": "#/definitions/receiver"}, "definitions": API["definitions"]}
    jsonschema.Draft4Validator(receivers).validate(desk.ask("GET", "/api/v2/receivers"))
    config = yaml.safe_load(desk.ask("GET", "/api/v2/status")["config"]["original"])
    assert config["route"]["receiver"] in [each["name"] for each in config["receivers"]]


def test_requests_have_its_paths_and_parameters(desk: Desk) -> None:
    app = FastAPI()
    app.include_router(alertmanager_api.router(desk.handling, ORIGIN))
    ours = app.openapi()["paths"]
    for path, methods in API["paths"].items():
        for method, said in methods.items():
            if not isinstance(said, dict) or (path, method) == ("/alerts", "post"):
                continue
            mine = ours["/api/v2" + path.replace("{silenceID}", "{id}")][method]
            asked = [API["parameters"][each["$ref"].rsplit("/")[-1]] if "$ref" in each else each
                     for each in said.get("parameters", [])]  # fmt: skip
            names = {each["name"] for each in asked if each["in"] == "query"}
            assert names <= {each["name"] for each in mine.get("parameters", [])}, (path, method)


@pytest.mark.parametrize("path", ["alerts", "alerts/groups", "silences", "receivers"])
@pytest.mark.parametrize("query", ["filter=site", "receiver=(", "receiver_matchers=owner", "receiver_matchers=o=~("])
def test_a_wrong_filter_is_refused_as_its_schema_says(desk: Desk, path: str, query: str) -> None:
    """With a string in JSON, also by what the server itself declares."""
    known = {API["parameters"][each["$ref"].rsplit("/")[-1]]["name"] if "$ref" in each else each["name"]
             for each in API["paths"][f"/{path}"]["get"]["parameters"]}  # fmt: skip
    answer = desk.client.get(f"/api/v2/{path}?{query}", headers={"Authorization": f"Bearer {WALL}"})
    if query.partition("=")[0] not in known:
        assert answer.status_code == 200
        return
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/json")
    declared = API["paths"][f"/{path}"]["get"]["responses"]["400"]["$ref"].rsplit("/")[-1]
    jsonschema.Draft4Validator(API["responses"][declared]["schema"]).validate(answer.json())
    app = FastAPI()
    app.include_router(alertmanager_api.router(desk.handling, ORIGIN))
    ours = app.openapi()["paths"][f"/api/v2/{path}"]["get"]["responses"]["400"]["content"]
    assert ours == {"application/json": {"schema": {"type": "string"}}}
    assert "is not a regular expression" in answer.json() or "is not followed by an operator" in answer.json()


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
    assert states["a"] == {"state": "suppressed", "silencedBy": [made], "inhibitedBy": [], "mutedBy": []}
    assert states["b"]["state"] == "active" and "c" not in states
    assert len(desk.ask("GET", "/api/v2/alerts/groups?muted=false")) == 1, "one of the group is not"
    assert desk.ask("GET", "/api/v2/alerts/groups?muted=false&filter=site=a") == []
    assert desk.ask("GET", "/api/v2/alerts?receiver_matchers=owner=x") == []
    assert len(desk.ask("GET", "/api/v2/receivers?receiver_matchers=owner!=x")) == 1
    edited = grafana_silence("site", "a", id=made, comment="longer", endsAt=at(9_000))
    assert desk.ask("POST", "/api/v2/silences", edited, token=ANN) == {"silenceID": made}
    again = desk.ask("POST", "/api/v2/silences", grafana_silence("site", "b", id=made))["silenceID"]
    assert desk.ask("GET", f"/api/v2/silence/{made}")["status"] == {"state": "expired"} and again != made
    listed = {state: desk.ask("GET", f"/api/v2/silences?{state}=false") for state in ("active", "pending", "expired")}
    ids = {state: {each["id"] for each in found} for state, found in listed.items()}
    assert ids == {"active": {made}, "pending": {made, again}, "expired": {again}}
    assert desk.ask("DELETE", f"/api/v2/silence/{again}") == {}
    assert "has ended already" in desk.ask("DELETE", f"/api/v2/silence/{again}", status=500)


def test_alerts_come_from_rules_alone_and_viewers_silence_nothing(desk: Desk) -> None:
    assert "/api/v2/alerts takes GET" in desk.ask("POST", "/api/v2/alerts", [{"labels": {"a": "b"}}], status=405)
    desk.ask("POST", "/api/v2/silences", grafana_silence("site", "a"), token=WALL, status=403)
    assert "hide every alert" in desk.ask("POST", "/api/v2/silences", grafana_silence("site", ""), status=400)
    desk.ask("POST", "/api/v2/silences", grafana_silence("site", "a", id="none"), status=404)
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
            "mutedBy": [],
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
        amtool("alert", "query", "--receiver=(", fails="`(` is not a regular expression")
        amtool("alert", "add", "x=y", fails="405")
        assert "nobody" in amtool("config", "show") and "nobody" in amtool("config", "routes", "show")
        assert "disabled" in amtool("cluster", "show")


@pytest.mark.skipif(AMTOOL is None, reason=MISSING)
def test_amtool_says_why_it_cannot_end_a_maintenance_window(tmp_path: Path) -> None:
    calendar = calendar_of(tmp_path / "works.ics", 'SUMMARY:Pumps {site="a"}')
    desk = Desk(tmp_path, calendar)
    with closing(desk.outbox):
        desk.now = 1_795_910_400 * SECOND + 3_600 * SECOND  # it has begun
        desk.handling.tick()
        (window,) = desk.ask("GET", "/api/v2/silences?active=true&pending=false&expired=false")
        config = tmp_path / "amtool.yml"
        config.write_text(f"authorization:\n  credentials: {BEN}\n")
        with desk.served() as url:
            command = [AMTOOL, f"--alertmanager.url={url}", f"--http.config.file={config}", "--no-version-check"]
            done = subprocess.run(
                [*command, "silence", "expire", window["id"]], capture_output=True, text=True, timeout=60
            )
        assert (
            done.returncode
            and "this is a maintenance window: only its calendar file can change or end it" in done.stderr
        )


def test_without_routes_each_receiver_gets_everything(desk: Desk, tmp_path: Path) -> None:
    for name in ("mqtt://h/a", "mqtt://h/b"):
        desk.outbox.receiver(name)
    config = desk.ask("GET", "/api/v2/status")["config"]["original"]
    below = [{"receiver": name, "continue": True} for name in ("mqtt://h/a", "mqtt://h/b")]
    assert yaml.safe_load(config)["route"] == {"receiver": "nobody", "group_by": ["alertname"], "routes": below}
    if AMTOOL is not None:
        written = tmp_path / "config.yml"
        written.write_text(config)
        command = [AMTOOL, "config", "routes", "test", f"--config.file={written}", "alertname=flood"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.stdout.strip() == "mqtt://h/a,mqtt://h/b", done


def test_groups_are_those_of_routes(desk: Desk, tmp_path: Path) -> None:
    file = tmp_path / "routes.toml"
    file.write_text(
        '[receivers]\nsea = "mqtt://h/a"\nall = "mqtt://h/b"\n'
        '[[routes]]\nreceiver = "sea"\nmatchers = ["site=a", "severity=~\\"Min.*\\""]\ncontinue = true\n'
        'group_by = ["site"]\n'
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
    config = client.get("/api/v2/status").json()["config"]["original"]
    assert yaml.safe_load(config)["route"]["routes"][0] == {
        "receiver": "sea", "continue": True, "matchers": ['site="a"', 'severity=~"(?i:Min.*)"'], "group_by": ["site"],
        "group_wait": "30000ms", "group_interval": "300000ms",
    }  # fmt: skip
    if AMTOOL is not None:
        written = tmp_path / "config.yml"
        written.write_text(config)
        command = [AMTOOL, "config", "routes", "test", f"--config.file={written}"]
        for labels, receivers in ((["site=a", "severity=minor"], "sea,all"), (["site=b"], "all")):
            done = subprocess.run([*command, *labels], capture_output=True, text=True, timeout=60)
            assert done.stdout.strip() == receivers, done


def test_feeds_beside_routes_get_everything(desk: Desk, tmp_path: Path) -> None:
    file = tmp_path / "routes.toml"
    file.write_text(
        '[receivers]\nsea = "mqtt://h/a"\n[[routes]]\nreceiver = "sea"\nmatchers = ["site=a"]\ngroup_by = ["site"]\n'
    )
    app = FastAPI()
    app.include_router(alertmanager_api.router(desk.handling, ORIGIN, Routes.read(file), feeds=["mqtt://h/all"]))
    client = TestClient(app)
    assert client.get("/api/v2/receivers").json() == [{"name": "sea"}, {"name": "mqtt://h/all"}]
    groups = client.get("/api/v2/alerts/groups").json()
    found = [(each["receiver"]["name"], each["labels"], len(each["alerts"])) for each in groups]
    assert found == [("mqtt://h/all", {"alertname": "flood"}, 2), ("sea", {"site": "a"}, 1)]
    assert len(client.get("/api/v2/alerts?receiver=mqtt.*").json()) == 2
    if AMTOOL is not None:
        written = tmp_path / "config.yml"
        written.write_text(client.get("/api/v2/status").json()["config"]["original"])
        command = [AMTOOL, "config", "routes", "test", f"--config.file={written}", "alertname=flood", "site=a"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.stdout.strip() == "mqtt://h/all,sea", done
