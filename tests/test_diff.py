"""`cep diff`: what changed in rules and in what they derive, its gate, its formats, and bad input."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml  # type: ignore[import-untyped]

from tests.cli_runs import cep

DEPLOY = Path(__file__).parent.parent / "docs" / "deploy"
OLD = """\
event reading(fridge: string, temp: float) TIME time.
event warming(fridge: string, temp: float).
PARAM Hot = 7.0 IN 5..9 STEP 1.
warming(F, B) <- reading(F, A) SEQ reading(F, B) WHERE A > Hot, B > A WITHIN 30 min.
alarm(F) <- warming(F, T) WHERE T > 9.
"""
NEW = OLD.replace("B > A WITHIN", "B > A + 1 WITHIN")
HISTORY = [
    ("2024-05-01T20:00:00Z", "milk", 7.4),
    ("2024-05-01T20:20:00Z", "milk", 8.8),
    ("2024-05-01T20:40:00Z", "milk", 9.5),
    ("2024-05-02T09:00:00Z", "milk", 6.2),
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("old.cep").write_text(OLD)
    Path("new.cep").write_text(NEW)
    rows = "".join(f"{time},{fridge},{temp}\n" for time, fridge, temp in HISTORY)
    Path("history.csv").write_text(f"time,fridge,temp\n{rows}")
    return tmp_path


def told(*arguments: str, status: int = 0) -> dict[str, Any]:
    result = cep("diff", *arguments, "--json")
    assert result.exit_code == status, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def refused(*arguments: str) -> str:
    result = cep("diff", *arguments)
    assert result.exit_code == 2, result.output
    return result.stderr


def test_rules_that_changed_and_what_they_reach() -> None:
    found = told("old.cep", "new.cep")
    (rule,) = found["rules"]
    assert (rule["change"], rule["of"], rule["old"]["line"], rule["new"]["line"]) == ("changed", "warming", 4, 4)
    assert [(each["of"], each["line"]) for each in found["reached"]] == [("alarm", 5)] and not found["same"]
    Path("less.cep").write_text(OLD.replace("alarm", "# alarm") + "hot(F) <- reading(F, T) WHERE T > 9.\n")
    found = told("old.cep", "less.cep")
    assert [(each["change"], each["of"]) for each in found["rules"]] == [("added", "hot"), ("removed", "alarm")]
    renamed = OLD.replace(" A ", " First ").replace("F, A)", "F, First)").replace("> A W", "> First W")
    Path("same.cep").write_text(f"# a comment\n{renamed}")
    assert told("old.cep", "same.cep")["same"] and told("old.cep", "same.cep")["rules"] == []
    assert cep("diff", "old.cep", "same.cep").stdout == "the programs mean the same\n"


def test_parameters_declarations_alerts_predicates_and_graph_patterns() -> None:
    base = """PREFIX k: <http://example.org/k#>
event a(s: string, t: float) TIME time.
limit("x", 3).
limit(S, T) :- { ?q k:name ?S ; k:limit ?T }.
b(S) <- a(S, T) WHERE limit(S, L), T > L.
ALERT hot ON b(s: S) TITLE "{S}" FOR 1 h.
"""
    Path("k.ttl").write_text('@prefix k: <http://example.org/k#> . k:a k:name "y" ; k:limit 4 .\n')
    Path("a.cep").write_text(base)
    same = base.replace("?q k:name ?S ; k:limit ?T", "?other\n   k:name ?S ;  # so\n k:limit ?T").replace(
        "event a", "PREFIX z: <http://example.org/z#>\nevent a"
    )
    Path("b.cep").write_text(same)
    assert told("a.cep", "b.cep", "--knowledge", "k.ttl")["same"]
    for one, other, rules, declarations, reached in (
        ("k:limit", "k:name", [("changed", "limit")], [], ["b", "alert hot"]),
        ('"x", 3', '"x", 4', [("changed", "limit")], [], ["b", "alert hot"]),
        ("FOR 1 h", "FOR 2 h", [], ["alert hot"], []),
        ("t: float", "t: int", [], ["a"], ["b", "alert hot"]),
        ("T > L", "T >= L", [("changed", "b")], [], ["alert hot"]),
    ):
        Path("b.cep").write_text(base.replace(one, other, 1))
        found = told("a.cep", "b.cep", "--knowledge", "k.ttl")
        assert [(each["change"], each["of"]) for each in found["rules"]] == rules, one
        assert [each["of"] for each in found["declarations"]] == declarations, one
        assert [each["of"] for each in found["reached"]] == reached, one
    found = told("old.cep", "--new-param", "Hot=8", "--old-param", "Hot=6")
    assert found["parameters"] == {"Hot": {"old": "6.0", "new": "8.0"}}
    assert [each["of"] for each in found["rules"]] == ["warming"]


def test_events_that_are_gone_with_reasons_and_the_gate() -> None:
    history = ("old.cep", "new.cep", "--input", "reading=history.csv")
    found = told(*history)
    assert found["counts"] == {
        "warming": {"appeared": 0, "gone": 1, "moved": 0},
        "alarm": {"appeared": 0, "gone": 1, "moved": 0},
    }
    first = found["differences"][0]
    assert (first["kind"], first["new"], first["old"]["temp"]) == ("gone", None, 9.5)
    assert [each["record"]["line"] for each in first["reasons"]["old"]["parts"]] == [3, 4]
    (rule,) = first["reasons"]["new"]["rules"]
    assert rule["failure"]["kind"] == "condition" and rule["failure"]["conditions"][0]["text"] == "B > A + 1"
    because = found["differences"][1]["reasons"]["new"]["rules"][0]["because"][0]
    assert because["failure"]["conditions"][0]["text"] == "B > A + 1", "the alarm lacks a warming, which lacks that"
    assert cep("diff", *history, "--allow", "gone 2, appeared 0").exit_code == 0
    result = cep("diff", *history, "--allow", "warming gone 0, moved 1", "--show", "0")
    assert result.exit_code == 1
    assert result.stdout.endswith("\n\nnot allowed: warming gone 1 (at most 0)\n")
    markdown = cep("diff", *history, "--allow", "gone 0", "--markdown")
    assert markdown.exit_code == 1
    assert "**Not allowed:** gone 2 (at most 0)" in markdown.stdout
    assert "| `warming` | 0 | 1 | 0 |" in markdown.stdout
    assert max(map(len, cep("diff", *history).stdout.splitlines())) <= 80


def test_a_report_leaves_out_ids() -> None:
    """Those of an event that both programs derive, and of one whose origins it shows."""
    Path("all.cep").write_text("event a(k: int) TIME time.\nx(K) <- a(K).\n")
    Path("once.cep").write_text("event a(k: int) TIME time DISTINCT.\nx(K) <- a(K).\n")
    Path("a.csv").write_text("time,k\n2024-05-01T20:00:00Z,1\n2024-05-01T20:00:00Z,1\n")
    shown = cep("diff", "all.cep", "once.cep", "-i", "a=a.csv").stdout
    assert "  old: why\n    x(K) <- a(K)." in shown.replace("line 2:  ", "") and "@" not in shown
    assert "  new: derived, but fewer times\n    x(1) at 2024-05-01T20:00:00Z\n" in shown


def test_all_differences_go_to_a_file_and_few_are_shown() -> None:
    rows = [(f"2024-05-01T{hour:02}:{minute}:00Z", "milk") for hour in range(20) for minute in ("00", "20")]
    Path("many.csv").write_text(
        "time,fridge,temp\n" + "".join(f"{time},{key},{8 + n % 2 / 2}\n" for n, (time, key) in enumerate(rows))
    )
    found = told("old.cep", "new.cep", "-i", "reading=many.csv", "--output", "all.jsonl", "--show", "2")
    written = [json.loads(line) for line in Path("all.jsonl").read_text().splitlines()]
    assert len(written) == found["counts"]["warming"]["gone"] == 20
    assert len(found["differences"]) == 2 and found["differences"] == written[:2]
    assert all(each["reasons"]["new"]["rules"][0]["failure"]["kind"] == "condition" for each in written)


def test_every_format_gives_the_same() -> None:
    wanted = told("old.cep", "new.cep", "-i", "reading=history.csv")["counts"]
    table = pl.read_csv("history.csv", try_parse_dates=True)
    table.write_parquet("history.parquet")
    records = [{"type": "reading", "time": time, "fridge": key, "temp": temp} for time, key, temp in HISTORY]
    Path("history.jsonl").write_text("".join(json.dumps(each) + "\n" for each in records))
    for name in ("reading=history.parquet", "history.jsonl"):
        assert told("old.cep", "new.cep", "-i", name)["counts"] == wanted


def test_fluents_are_compared_by_their_intervals() -> None:
    rules = """event door(room: string, open: bool) TIME time.
fluent ajar(room: string).
initiate ajar(R) <- door(R, true).
terminate ajar(R) <- door(R, false).
fluent hot(room: string).
initiate hot(R) <- door(R, true) WHERE R = "b".
"""
    Path("a.cep").write_text(rules)
    Path("b.cep").write_text(rules.replace("door(R, false)", "door(R, _) WHERE not open(R)").replace("R = ", "R != "))
    Path("b.cep").write_text(rules.replace("door(R, false).", 'door(R, false) WHERE R = "a".').replace("R = ", "R != "))
    lines = ((0, "a", True), (10, "a", False), (20, "b", True), (30, "b", False))
    Path("doors.jsonl").write_text(
        "".join(json.dumps({"type": "door", "time": t, "room": r, "open": o}) + "\n" for t, r, o in lines)
    )
    found = told("a.cep", "b.cep", "-i", "doors.jsonl")
    assert found["counts"]["hot"] == {"appeared": 1, "gone": 1, "moved": 0}
    assert sum(found["counts"]["ajar"].values()) == 1
    moved = next(each for each in found["differences"] if each["event"] == "ajar")
    assert moved["kind"] == "moved" and {moved["old"]["end"], moved["new"]["end"]} == {10, None}
    text = cep("diff", "a.cep", "b.cep", "-i", "doors.jsonl").stdout
    assert 'moved: was ajar("a") over (0, 10]' in text and 'is  ajar("a") from 0 on' in text


def test_corrections_lateness_and_changing_knowledge() -> None:
    lines = [{"type": "reading", "time": t * 600, "fridge": "milk", "temp": v} for t, v in ((1, 8.0), (2, 8.5))]
    lines += [{"type": "reading", "time": 600 * 4, "fridge": "milk", "temp": 9.5}]
    lines += [{**lines[1], "@change": "withdraw"}]
    Path("live.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
    found = told("old.cep", "new.cep", "-i", "live.jsonl", "--revise", "1 h")
    assert found["counts"]["warming"] == {"appeared": 0, "gone": 0, "moved": 0}, "8.0 and 9.5 are in both"
    assert cep("run", "old.cep", "-i", "live.jsonl").stdout.count("warming") == 3
    late = [lines[0], lines[2], lines[1]]
    Path("late.jsonl").write_text("".join(json.dumps(each) + "\n" for each in late))
    assert told("old.cep", "new.cep", "-i", "late.jsonl")["counts"]["warming"]["gone"] == 2
    found = told("old.cep", "new.cep", "-i", "late.jsonl", "--lateness", "1 min")
    assert found["counts"]["warming"]["gone"] == 0 and found["dead"] == {"old": 1, "new": 1}
    text = cep("diff", "old.cep", "new.cep", "-i", "late.jsonl", "--lateness", "1 min").stdout
    assert text.count("          one dead letter is late.jsonl:3: ") == 1, text
    Path("k.ttl").write_text('@prefix k: <http://example.org/k#> . k:a k:limit "milk" .\n')
    Path("k.nq").write_text(
        '<http://example.org/k#a> <http://example.org/k#limit> "beer" <urn:at:1970-01-01T00:15:00Z> .\n'
    )
    rule = "PREFIX k: <http://example.org/k#>\n" + OLD.splitlines()[0] + "\n"
    rule += "known(F, T) <- reading(F, T) WHERE { ?q k:limit ?F }, T > 8.2.\n"
    Path("a.cep").write_text(rule)
    Path("b.cep").write_text(rule.replace("8.2", "9"))
    found = told("a.cep", "b.cep", "-i", "late.jsonl", "--knowledge", "k.ttl")
    assert found["counts"]["known"] == {"appeared": 0, "gone": 1, "moved": 0}
    assert found["differences"][0]["reasons"]["old"]["conditions"][0]["triples"]


def test_dialects_and_programs_of_several_files() -> None:
    Path("a.dmtl").write_text("Warm(X) :- Boxminus[0,3]Hot(X).\n")
    Path("b.dmtl").write_text("Warm(Y) :- Boxminus[0,5]Hot(Y).\n")
    Path("facts.txt").write_text("Hot(a)@[0,10]\n")
    found = told("a.dmtl", "b.dmtl", "-i", "facts.txt", "--format", "facts")
    moved = next(each for each in found["differences"] if each["kind"] == "moved")
    assert (moved["old"]["start"], moved["new"]["start"]) == (3, 5), "as many seconds after Hot began"
    Path("more.cep").write_text("calm(F) <- reading(F, T) WHERE T < 5.\n")
    found = told("old.cep,more.cep", "new.cep,more.cep")
    assert [each["of"] for each in found["rules"]] == ["warming"]


def git(*arguments: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main")
    return subprocess.run(["git", *who, *arguments], check=True, capture_output=True, text=True).stdout.strip()


def test_versions_in_git() -> None:
    git("init")
    Path("rules").mkdir()
    Path("rules/r.cep").write_text(OLD)
    git("add", "rules")
    git("commit", "-m", "first")
    Path("rules/r.cep").write_text(NEW)
    found = told("git:HEAD:rules/r.cep", "rules/r.cep")
    assert found["rules"][0]["old"]["file"] == "git:HEAD:rules/r.cep"
    assert told("git:main:./rules/r.cep", "old.cep")["same"]
    assert "from the current folder it is `./rules.cep`" in refused("git:main:r.cep", "old.cep")
    assert "no branch, tag or commit `gone` here" in refused("git:gone:rules/r.cep", "old.cep")
    assert "`git:main` is not a version of a file" in refused("git:main", "old.cep")
    assert "`git:--output=x:y` is not" in refused("git:--output=x:y", "old.cep")


def test_each_key_has_a_clock_of_its_own() -> None:
    """With `--lateness-by`; the reasons are of the same records."""
    rows = [("2024-05-02T20:00:00Z", "fish", 1.0), *HISTORY]
    Path("late.csv").write_text("time,fridge,temp\n" + "".join(f"{t},{f},{v}\n" for t, f, v in rows))
    late = told("old.cep", "new.cep", "-i", "reading=late.csv", "--lateness", "0")
    assert (late["records"]["old"], late["dead"]) == (5, {"old": 4, "new": 4})
    found = told("old.cep", "new.cep", "-i", "reading=late.csv", "--lateness-by", "fridge")
    assert found["dead"] == {"old": 0, "new": 0}
    assert found["counts"]["warming"]["gone"] == 1
    gone = next(each for each in found["differences"] if each["event"] == "warming")
    assert gone["reasons"]["old"]["event"] == "warming" and not gone["reasons"]["new"]["exists"]


def test_records_of_no_event_are_dead_letters_if_asked_for() -> None:
    """With `--strict-types`, as in `cep run`."""
    for name in ("old.cep", "new.cep"):
        Path(name).write_text(Path(name).read_text().replace("TIME time.", 'TIME time WHEN fridge = "milk".'))
    with Path("history.csv").open("a") as file:
        file.write("2024-05-02T10:00:00Z,fish,1.0\n")
    dead = [
        told("old.cep", "new.cep", "-i", "reading=history.csv", *more)["dead"]["old"]
        for more in ((), ("--strict-types",))
    ]
    assert dead == [0, 1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("old.cep",), "there is only one program"),
        (("old.cep", "new.cep", "old.cep"), "3 programs cannot be compared"),
        (("old.cep", "none.cep"), "none.cep: no such file"),
        (("old.cep", "new.cep", "--allow", "gone 0"), "--allow needs --input"),
        (("old.cep", "new.cep", "--lateness-by", "fridge"), "--lateness-by needs --input"),
        (("old.cep", "new.cep", "--strict-types"), "--strict-types needs --input"),
        (("old.cep", "new.cep", "-i", "reading=history.csv", "--lateness-by", "fridg"), "fridg"),
        (("old.cep", "new.cep", "--json", "--markdown"), "--json and --markdown cannot be combined"),
        (("old.cep", "new.cep", "-i", "reading=history.csv", "--allow", "lost 0"), "`lost` is not a kind"),
        (("old.cep", "new.cep", "-i", "reading=history.csv", "--allow", "gone"), "`gone` is not a kind and a number"),
        (("old.cep", "new.cep", "-i", "reading=history.csv", "--allow", "warning gone 0"), "did you mean `warming`"),
        (("old.cep", "new.cep", "-i", "reading=history.csv", "--key", "fridg"), "did you mean `fridge`"),
        (("old.cep", "new.cep", "-i", "-"), "--input -: a history must be files"),
        (("old.cep", "new.cep", "-i", "reading=history.csv", "--output", "a.csv"), "are written as JSON Lines"),
        (("old.cep", "--new-param", "Hott=8"), "no parameter `Hott`"),
        (("old.cep", "--new-param", "Hot=80"), "Hot"),
    ],
)
def test_bad_input_is_refused(arguments: tuple[str, ...], message: str) -> None:
    assert message in refused(*arguments)


def executable(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


@pytest.mark.parametrize("allowed", [True, False])
def test_the_files_for_pull_requests_parse_and_their_commands_run(tmp_path: Path, allowed: bool) -> None:
    git("init")
    Path("rules.cep").write_text(OLD)
    git("add", ".")
    git("commit", "-m", "base")
    base = git("rev-parse", "HEAD")
    Path("rules.cep").write_text(NEW)
    executable(tmp_path / "bin" / "cep", f'exec "{sys.executable}" -m cep "$@"')
    executable(tmp_path / "bin" / "pip", 'echo "$@" > installed')
    executable(tmp_path / "bin" / "gh", 'echo "$@" > commented')
    path = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": str(DEPLOY.parent.parent)}

    workflow = yaml.safe_load((DEPLOY / "diff.github.yaml").read_text())
    environment = workflow["env"] | ({"ALLOW": "gone 2"} if allowed else {})
    values = {"${{ github.event.pull_request.base.sha }}": base, "${{ github.event.pull_request.number }}": "7"}
    statuses = []
    for step in workflow["jobs"]["diff"]["steps"]:
        if "run" in step:
            own = {name: values.get(value, value) for name, value in step.get("env", {}).items()}
            known = {**os.environ, **environment, **own, **path, "GITHUB_STEP_SUMMARY": "summary.md"}
            statuses.append(subprocess.run(["bash", "-e", "-c", step["run"]], env=known, timeout=300).returncode)
    assert statuses == [0, 0 if allowed else 1, 0]
    table = Path("diff.md").read_text()
    assert "| `warming` | 0 | 1 | 0 |" in table and Path("summary.md").read_text() == table
    assert ("Not allowed" in table) is not allowed
    wheel = workflow["env"]["SEMCEP"]  # never the bare name, which anybody could register on an index
    assert wheel.endswith(".whl") and Path("installed").read_text() == f"install {wheel}\n"
    assert Path("commented").read_text() == "pr comment 7 --edit-last --create-if-none --body-file diff.md\n"

    job = yaml.safe_load((DEPLOY / "diff.gitlab.yaml").read_text())["rules-diff"]
    environment = job["variables"] | ({"ALLOW": "gone 2"} if allowed else {})
    known = {**os.environ, **environment, **path, "CI_MERGE_REQUEST_DIFF_BASE_SHA": base}
    script = subprocess.run(
        ["bash", "-e", "-c", "\n".join(job["script"])], env=known, capture_output=True, text=True, timeout=300
    )
    assert (script.returncode, script.stdout) == (0 if allowed else 1, table)
