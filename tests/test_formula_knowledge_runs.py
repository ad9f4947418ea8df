"""Formulas whose WHERE asks knowledge that changes, from the command line: run, explained, and on Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cep.command import app
from tests.spark_runs import MISSING, THERE, quads_of

PROGRAM = """PREFIX u: <urn:>
event open(door: string) TIME time.
event shut(door: string) TIME time.
fluent ajar(door: string).
fluent alarming(door: string, guard: string).
fluent alarmed(door: string).
initiate ajar(D) <- open(D).
terminate ajar(D) <- shut(D).
alarming(D, G) WHILE ajar(D) WHERE { ?d u:name ?D ; u:guardedBy ?G }.
alarmed(D) WHILE (EVENTUALLY[0, 2 s] ajar(D)) WHERE { ?d u:name ?D ; u:guardedBy ?G }.
"""
KNOWN = """<urn:1> <urn:name> "north" . <urn:2> <urn:name> "south" . <urn:2> <urn:guardedBy> "ben" .
"""
RECORDS = [
    {"type": "open", "time": 10, "door": "north"},
    {"type": "open", "time": 12, "door": "south"},
    {"type": "shut", "time": 40, "door": "north"},
    {"type": "shut", "time": 50, "door": "south"},
]


def guarded(door: int, guard: str) -> str:
    return f'<urn:{door}> <urn:guardedBy> "{guard}" .'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("p.cep").write_text(PROGRAM)
    Path("known.ttl").write_text(KNOWN)
    Path("in").mkdir()
    Path("in/day.jsonl").write_text("".join(json.dumps(each) + "\n" for each in RECORDS))
    import pyoxigraph as ox

    def triple(door: int, guard: str) -> ox.Triple:
        return ox.Triple(ox.NamedNode(f"urn:{door}"), ox.NamedNode("urn:guardedBy"), ox.Literal(guard))

    changes = [
        (20_000_000, [triple(1, "ann")], []),
        (30_000_000, [triple(1, "cid"), triple(2, "cid")], [triple(1, "ann"), triple(2, "ben")]),
        (35_000_000, [], [triple(1, "cid")]),
    ]
    Path("updates.nq").write_text("".join(quads_of(*each) for each in changes))
    return tmp_path


GIVEN = ("-i", "in", "-k", "known.ttl", "--knowledge-updates", "updates.nq")
WANTED = [
    ("alarming", "north", "ann", 20, 30, "[)"),
    ("alarming", "north", "cid", 30, 35, "[)"),
    ("alarming", "south", "ben", 12, 30, "()"),
    ("alarming", "south", "cid", 30, 50, "[]"),
    ("alarmed", "north", None, 20, 35, "[)"),
    ("alarmed", "south", None, 10, 50, "(]"),
]


def told(lines: str) -> list[tuple]:
    rows = [json.loads(line) for line in lines.splitlines()]
    return sorted(
        (row["type"], row["door"], row.get("guard"), row["start"], row["end"], row["bounds"])
        for row in rows
        if row["type"].startswith("alarm")
    )


def cep(*arguments: str) -> str:
    result = CliRunner().invoke(app, [*arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_what_holds_changes_when_the_knowledge_does(folder: Path) -> None:
    assert told(cep("run", "p.cep", *GIVEN)) == sorted(WANTED, key=str)


def test_changes_are_given_as_they_are_known(folder: Path) -> None:
    rows = [json.loads(line) for line in cep("run", "p.cep", *GIVEN, "--changes").splitlines()]
    found = [(row["@edge"], row["time"], row["guard"], row["bounds"]) for row in rows if row.get("guard")]
    assert sorted(found, key=lambda each: (each[1], *each)) == [
        ("begins", 12, "ben", "("), ("begins", 20, "ann", "["), ("begins", 30, "cid", "["), ("begins", 30, "cid", "["),
        ("ends", 30, "ann", ")"), ("ends", 30, "ben", ")"), ("ends", 35, "cid", ")"), ("ends", 50, "cid", "]"),
    ]  # fmt: skip


def test_why_it_holds_and_why_not_goes_by_what_was_known(folder: Path) -> None:
    why = cep("explain", "p.cep", "alarming(north)", "--at", "1970-01-01T00:00:25Z", *GIVEN)
    assert 'alarming("north", "ann") over [20, 30)' in why and 'u:1 u:guardedBy "ann"' in why, why
    result = CliRunner().invoke(app, ["explain", "p.cep", "--not", "alarming(north)", "--at", "37", *GIVEN])
    assert 'the latest before: alarming("north", "cid") over [30, 35)' in result.stdout, result.output


@pytest.mark.long
@pytest.mark.skipif(not THERE, reason=MISSING)
@pytest.mark.xdist_group("spark")
def test_on_spark(folder: Path) -> None:
    cep("run", "p.cep", *GIVEN, "--on", "spark", "--master", "local[2]", "--buckets", "3", "-o", "out",
        "--checkpoint", "state", "--output-format", "jsonl")  # fmt: skip
    found = [line for path in Path("out").rglob("*.jsonl") for line in path.read_text().splitlines()]
    assert told("\n".join(found)) == sorted(WANTED, key=str)
