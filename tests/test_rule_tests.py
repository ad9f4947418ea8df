"""`cep test`: test files, what they check, what they say where something is wrong, and the pytest plugin."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from cep.engine import Engine
from cep.testing.rule_files import schema
from cep.workers import partitioned_engine
from tests.cli_runs import cep

ROOT = Path(__file__).parent.parent
FRIDGE = """\
event reading(fridge: string, temp: float) TIME time.
event warming(fridge: string, old: float, new: float).
PARAM Hot = 7.0 IN 5..12 STEP 0.5.

warming(F, A, B) <- reading(F, A) SEQ reading(F, B) WHERE A > Hot, B > A WITHIN 15 min.
silent(F) <- reading(F, _) UNLESS reading(F, _) WITHIN 30 min.
fluent warm(fridge: string).
initiate warm(F) <- reading(F, T) WHERE T > Hot.
terminate warm(F) <- reading(F, T) WHERE T <= Hot.
ALERT hot ON warming(fridge: F, new: B) TITLE "{F} is at {B}" FOR 30 min KEYED BY F.
"""
GIVEN = """\
    given:
      reading: |
        time,fridge,temp
        2024-05-01 08:10,milk,8.2
        2024-05-01 08:20,milk,9.5
"""
HEAD = f"program: fridge.cep\ntests:\n  - name: a test\n{GIVEN}"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fridge.cep").write_text(FRIDGE)
    return tmp_path


def write(text: str) -> None:
    Path("fridge.test.yaml").write_text(text)


def run(checks: str, *arguments: str) -> tuple[int, str]:
    write(HEAD + checks)
    result = cep("test", *arguments)
    return result.exit_code, result.output


def test_all_that_a_test_can_check_passes() -> None:
    status, output = run(
        """\
    until: 2024-05-01 08:59
    expect:
      - warming: {fridge: milk, old: 8.2, new: 9.5, start: 2024-05-01 08:10, end: 2024-05-01 08:20}
      - silent: {f: milk, start: 2024-05-01T08:20:00Z}
    holds: {warm: [{fridge: milk, from: 2024-05-01 08:10, until: null}]}
    alerts:
      - {at: 2024-05-01 08:19, firing: [], resolved: []}
      - {at: 2024-05-01 08:20, firing: [{hot: {fridge: milk, new: 9.5, title: milk is at 9.5}}]}
      - {at: 2024-05-01 08:50, firing: [], resolved: [hot]}
    dead: 0
""",
    )
    assert (status, output) == (0, "1 passed, 9 repeated runs (laws) gave the same results\n")


@pytest.mark.parametrize(
    ("checks", "told"),
    [
        ("    none: [silent]\n", ""),  # time stops at the last record
        ("    until: 2024-05-01 08:50\n    none: [silent]\n", "line 10: `silent` is derived, and it must not occur"),
        ("    until: end\n    none: silent\n", "line 10: `silent` is derived, and it must not occur"),
        ("    expect: [warming]\n", ""),
        ("    expect: [warming, warming]\n", "line 9: there is no such `warming`"),
        ("    expect: [{warming: {new: 9.5000000001}}]\n", ""),
        ("    expect: [{warming: {new: 9.500001}}]\n", "new is 9.5, expected 9.500001"),
        ("    tolerance: 1e-6\n    expect: [{warming: {new: 9.500001}}]\n", ""),
        ("    until: end\n    expect: [{silent: {end: 2024-05-01 08:50:00.000001}}]\n", "end is 2024-05-01T08:50:00Z"),
        ("    params: {Hot: 8.5}\n    none: warming\n", ""),
        ("    holds: {warm: [{until: 2024-05-01 08:30}]}\n", "until is null, expected 2024-05-01T08:30:00Z"),
        ("    holds: {warm: []}\n", "line 9: `warm` is derived, and no expectation matches it"),
        ("    dead: 1\n", "line 3: 0 records are dead letters, expected 1"),
        ("    alerts: [{at: 2024-05-01 08:20, firing: []}]\n", "the alert `hot` is firing at 2024-05-01T08:20:00Z"),
        ("    alerts: [{at: 2024-05-01 08:15, firing: [hot]}]\n", "no such alert `hot` is firing"),
    ],
)
def test_a_test_passes_or_says_what_is_wrong(checks: str, told: str) -> None:
    status, output = run(checks, "--no-laws")
    assert (status == 0) is (not told), output
    assert told in output
    assert max(map(len, output.splitlines())) <= 80


def test_an_alert_that_another_one_inhibits_is_inhibited() -> None:
    text = """\
event reading(fridge: string, temp: float) TIME time.
hot(F, T) <- reading(F, T) WHERE T > 7.
ALERT worse ON hot(F, T) WHERE T > 9 TITLE "{F}" FOR 20 min KEYED BY F.
ALERT hot ON hot(F, T) TITLE "{F}" FOR 1 h KEYED BY F INHIBITED BY worse(f: F).
"""
    Path("fridge.cep").write_text(text)
    write(
        HEAD
        + """\
    until: 2024-05-01 08:59
    alerts:
      - {at: 2024-05-01 08:15, firing: [{hot: {f: milk}}], inhibited: []}
      - {at: 2024-05-01 08:25, firing: [worse], inhibited: [{hot: {f: milk}}]}
      - {at: 2024-05-01 08:45, firing: [hot], inhibited: [], resolved: [worse]}
"""
    )
    result = cep("test")
    assert (result.exit_code, result.output) == (0, "1 passed, 9 repeated runs (laws) gave the same results\n")


def test_at_least_allows_other_events() -> None:
    text = HEAD.replace("milk,9.5", "milk,9.5\n        2024-05-01 08:25,milk,9.9")
    for more, status in (("", 1), ("    at_least: true\n", 0)):
        write(text + "    expect: [{warming: {old: 8.2, new: 9.5}}]\n" + more)
        assert cep("test").exit_code == status


def test_expectations_are_matched_as_well_as_they_can_be() -> None:
    """The first expectation fits both events, the second one alone."""
    write(
        HEAD.replace("milk,9.5", "milk,9.5\n        2024-05-01 08:20,milk,9.9")
        + "    expect: [{warming: {old: 8.2}}, {warming: {new: 9.5}}]\n"
    )
    assert cep("test").exit_code == 0


def test_a_failure_says_why() -> None:
    _, output = run("    none: warming\n", "--no-laws")
    assert 'reading("milk", 9.5) at 2024-05-01T08:20:00Z  fridge.test.yaml:8' in output
    _, output = run("    expect: [{warming: {fridge: juice}}, {silent: {f: milk}}]\n", "--no-laws")
    assert output == (
        """\
FAIL fridge.test.yaml:3: a test
  line 9: there is no such `warming`
    expected warming {fridge: juice}
    nearest  warming {fridge: milk, old: 8.2, new: 9.5, start:
        2024-05-01T08:10:00Z, end: 2024-05-01T08:20:00Z}
    fridge is milk, expected juice
    why not
      warming("juice", _, _) is not there
        line 5:  warming(F, A, B) <- reading(F, A) SEQ reading(F, B) WHERE A >
            Hot, B > A WITHIN 15 min.
          but there is no reading("juice", _)
  line 9: there is no such `silent`
    expected silent {f: milk}
    why not
      silent("milk") is not there
"""
        + cut(output, '      silent("milk") is not there\n', "0 passed")
        + "0 passed, 1 failed\n"
    )
    assert "time stops at 2024-05-01T08:20:00Z, before it is known: `until: end` lets" in output


def cut(text: str, begin: str, end: str) -> str:
    return text[text.index(begin) + len(begin) : text.index(end)]


@pytest.mark.parametrize(
    ("text", "place", "told", "hint"),
    [
        ("", "", "the file is empty", "begin it with `program: rules.cep`"),
        ("program: [a\ntests: x: y\n", ":2:", "this is not YAML", None),
        ("program: fridge.cep\n", ":1:1:", "the test file has no tests", "add `tests:` and a list"),
        ("tests: []\n", ":1:1:", "the test file names no program", "add `program: rules.cep`"),
        ("program: fridge.cep\ntests: []\n", ":2:8:", "the test file has no tests", "each begins with `- name:`"),
        ("program: fridge.cep\nprograms: x\n", ":2:1:", "a test file has no key `programs`", "did you mean `program`?"),
        ("program: a.cep\nprogram: b.cep\n", ":2:1:", "the key `program` is written twice", "the first is in line 1"),
        (HEAD + "    expects: []\n", ":9:5:", "a test has no key `expects`", "did you mean `expect`?"),
        (HEAD, ":3:11:", "the test `a test` checks nothing", "say what you expect with one of"),
        (HEAD + "    expect: []\n", ":3:11:", "the test `a test` checks nothing", None),
        (HEAD + "    expect: [{warmin: {}}]\n", ":9:15:", "derives no event `warmin`", "did you mean `warming`?"),
        (HEAD + "    expect: [reading]\n", ":9:14:", "derives no event `reading`", "it reads `reading`"),
        (HEAD + "    expect: [warm]\n", ":9:14:", "`warm` is a fluent, not an event", "`holds: {warm: [...]}`"),
        (HEAD + "    holds: {silent: []}\n", ":9:13:", "`silent` is an event, not a fluent", None),
        (HEAD + "    expect: [{warming: {neww: 1}}]\n", ":9:25:", "`warming` has no attribute `neww`", "`new`?"),
        (HEAD + "    expect: [{warming: {new: hot}}]\n", ":9:30:", "`new` is of type float, but this is `hot`", None),
        (HEAD + "    expect: [{warming: {end: 8 o'clock}}]\n", ":9:30:", "`8 o'clock` is not a time", None),
        (HEAD + "    expect: [{warming: {}, silent: {}}]\n", ":9:14:", "found 2 keys", "begin each with `- `"),
        (HEAD + "    none: warming\n    expect: [warming]\n", ":10:14:", "line 9 says that none occurs", None),
        (HEAD + "    dead: some\n", ":9:11:", "expected a number of dead letters, found `some`", None),
        (HEAD + "    dead: 0\n    until: 2024-05-01 08:00\n", ":10:12:", "`until` is before the last record", None),
        (HEAD + "    dead: 0\n    params: {Hott: 8}\n", ":10:14:", "the program has no parameter `Hott`", "`Hot`?"),
        (HEAD + "    dead: 0\n    params: {Hot: 99}\n", ":10:14:", "out of range", "`Hot` may be 5.0..12.0"),
        (HEAD + "    alerts: [{firing: []}]\n", ":9:14:", "the check of alerts has no time", None),
        (HEAD + "    alerts: [{at: 2024-05-01 08:20}]\n", ":9:14:", "the check of alerts checks nothing", None),
        (HEAD + "    alerts: [{at: 2024-05-01 09:20, firing: []}]\n", ":9:19:", "the test ends before that", None),
        (
            HEAD + "    alerts: [{at: 2024-05-01 08:20, firing: [cold]}]\n",
            ":9:46:",
            "the program has no alert `cold`",
            "its alerts are `hot`",
        ),
        (
            HEAD + f"    dead: 0\n  - name: a test\n{GIVEN}    dead: 0\n",
            ":10:5:",
            "two tests are called `a test`",
            None,
        ),
        (HEAD.replace("reading:", "readings:") + "    dead: 0\n", ":5:7:", "reads no event `readings`", "`reading`?"),
        (HEAD + "    dead: 0\n    input: [none.csv]\n", ":10:13:", "none.csv", None),
        ("lateness: soon\n" + HEAD + "    dead: 0\n", ":1:11:", "`soon` is not a valid duration", None),
        ("policy: newest\n" + HEAD + "    dead: 0\n", ":1:9:", "policy", None),
        (HEAD.replace("temp\n", "tmp\n") + "    dead: 0\n", ":6:21:", "needs a column `temp`", None),
    ],
)
def test_a_mistake_in_a_test_file_has_its_place(text: str, place: str, told: str, hint: str | None) -> None:
    write(text)
    result = cep("test", "--no-laws")
    assert result.exit_code == 2, result.output
    assert told in result.stderr and (hint is None or hint in result.stderr), result.stderr
    assert f"fridge.test.yaml{place}" in result.stderr, result.stderr


def test_other_files_are_run_where_one_is_wrong() -> None:
    write(HEAD + "    none: silent\n")
    Path("other.test.yaml").write_text("program: none.cep\n")
    result = cep("test")
    assert result.exit_code == 2 and "1 passed" in result.stdout and "other.test.yaml:1:1" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["none.test.yaml"], "none.test.yaml: no such file"),
        (["empty"], "empty: there is no test file\nhint: test files are called `rules.test.yaml`"),
        (["-k", "x"], "-k: no test has `x` in its name"),
        (["--law", "cut"], "--law: there is no law `cut`\nhint: did you mean `cuts`?"),
        (["--no-laws", "--law", "cuts"], "--no-laws cannot be combined with --law or --workers"),
        (["--junit", "fridge.test.yaml"], "--junit"),
    ],
)
def test_options_that_make_no_sense_are_refused(arguments: list[str], told: str) -> None:
    write(HEAD + "    none: silent\n")
    Path("empty").mkdir()
    paths = [] if arguments[0][0] != "-" else ["fridge.test.yaml"]
    result = cep("test", *paths, *arguments)
    assert result.exit_code == 2 and told in result.stderr, result.output


def test_results_go_to_ci() -> None:
    status, output = run("    none: [silent, warming]\n", "--json", "--junit", "results.xml")
    assert status == 1
    (test,) = json.loads(output)["tests"]
    assert (test["name"], test["line"], test["passed"]) == ("a test", 3, False)
    assert test["failures"][0]["message"] == "`warming` is derived, and it must not occur"
    (suite,) = ElementTree.parse("results.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("1", "1")
    assert suite[0].get("name") == "a test" and "must not occur" in str(suite[0][0].get("message"))


def test_records_come_from_lists_and_files_too() -> None:
    Path("more.jsonl").write_text('{"type": "reading", "time": "2024-05-01T08:25:00Z", "fridge": "NO", "temp": 1}\n')
    Path("own.csv").write_text("time,fridge,temp\n2024-05-01T08:20:00Z,NO,2\n")
    write("""\
program: fridge.cep
tests:
  - name: Norway is a text
    given:
      reading:
        - {time: 2024-05-01 08:10, fridge: NO, temp: 8}
        - {time: 2024-05-01 08:15, fridge: NO, temp: 9}
    input: [more.jsonl]
    expect: [{warming: {fridge: NO}}]
  - name: a file of one event
    given: {reading: {path: own.csv}}
    holds: {warm: []}
    none: warming
  - name: a file of one event, as an input
    input: reading=own.csv
    none: warming
""")
    result = cep("test")
    assert (result.exit_code, result.stdout) == (0, "3 passed, 9 repeated runs (laws) gave the same results\n"), (
        result.output
    )


def test_a_dead_letter_fails_a_test_with_its_line() -> None:
    write(HEAD.replace("milk,9.5", "milk,warm") + "    none: warming\n")
    assert "    fridge.test.yaml:8: temp:" in cep("test").stdout


def test_records_are_corrected_under_revise() -> None:
    text = f"revise: 1 h\n{HEAD}".replace("time,fridge,temp", "time,fridge,temp,@change")
    text = text.replace("8.2\n", "8.2,\n").replace("9.5\n", "9.5,\n        2024-05-01 08:20,milk,9.5,withdraw\n")
    write(text + "    none: warming\n    holds: {warm: [{fridge: milk}]}\n")
    result = cep("test", "--seeds", "5")
    assert result.exit_code == 0 and "15 repeated runs (laws)" in result.stdout, result.output
    write(text + "    expect: [warming]\n")
    assert "was withdrawn" in cep("test").stdout or "is not there" in cep("test").stdout


def test_update_rewrites_what_differs_and_keeps_comments() -> None:
    write(HEAD + "    expect:  # all of them\n      - warming: {old: 1}  # wrong\n    none: silent  # not yet\n")
    assert cep("test", "--update").stdout == "fridge.test.yaml: updated\n"
    text = Path("fridge.test.yaml").read_text()
    assert "# all of them" in text and "# not yet" in text
    assert "      - warming: {old: 8.2}" in text and "fridge: milk" not in text
    assert cep("test").exit_code == 0
    assert cep("test", "--update").stdout == "fridge.test.yaml: nothing to update\n"


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        ("[warming: {fridge: x}]", "- warming: {fridge: milk}"),
        ("[warming: {end: 2024-05-01 08:21, new: 9.5}]", "{end: 2024-05-01T08:20:00Z, new: 9.5}"),
        ("[warming, warming]", "[warming]"),
        ("[warming: {fridge: milk}, warming: {fridge: x}]", "[warming: {fridge: milk}]"),
        ("[silent]", "[]"),
    ],
)
def test_update_keeps_to_the_attributes_that_are_named(written: str, wanted: str) -> None:
    write(HEAD + f"    expect: {written}\n    dead: 0\n")
    assert cep("test", "--update").stdout == "fridge.test.yaml: updated\n"
    text = Path("fridge.test.yaml").read_text()
    assert wanted.removeprefix("- ") in text, text
    assert text.count("milk") == HEAD.count("milk") + wanted.count("milk"), text
    assert cep("test").exit_code == 0


def test_update_adds_what_is_derived_besides_and_keeps_intervals_short() -> None:
    text = HEAD.replace("milk,9.5\n", "milk,9.5\n        2024-05-01 08:30,milk,9.9\n")
    write(text + "    expect:\n      - warming: {new: 9.5}\n    holds: {warm: [{fridge: cheese}]}\n")
    assert cep("test", "--update").stdout == "fridge.test.yaml: updated\n"
    updated = Path("fridge.test.yaml").read_text()
    assert (
        "      - warming: {new: 9.5}\n      - warming: {new: 9.9}\n" in updated and "{warm: [fridge: milk]}" in updated
    )
    assert cep("test").exit_code == 0


def test_a_program_in_place_of_its_tests_is_refused() -> None:
    write(HEAD + "    none: silent\n")
    result = cep("test", "fridge.cep")
    assert result.exit_code == 2
    assert result.stderr == "fridge.cep: this is not a test file\nhint: `cep test fridge.test.yaml`\n"


def test_a_wrong_program_is_told_once() -> None:
    write(HEAD + f"    none: silent\n  - name: another one\n{GIVEN}    none: silent\n")
    Path("fridge.cep").write_text("event reading(fridge: string) TIME time.\nsilent(F) <- reading(G).\n")
    result = cep("test")
    assert result.exit_code == 2 and result.stderr.count("fridge.cep:2") == 1, result.stderr


def test_a_broken_law_prints_the_smallest_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that loses what it was given before a restart is found out."""
    monkeypatch.setattr(Engine, "restore", lambda self, blob: self)
    status, output = run("    expect: [warming]\n")
    assert status == 1
    assert "the law `restart` does not hold" in output
    assert "with a stop and a restart after record 1" in output
    assert "`--law restart --seed 0` runs it again" in output
    assert "the law `cuts`" not in output


def test_the_schema_fits_what_is_read() -> None:
    printed = json.loads(cep("test", "--schema").stdout)
    assert printed == schema()
    test = printed["properties"]["tests"]["items"]
    assert {"expect", "none", "holds", "alerts", "dead"} < test["properties"].keys()
    assert test["required"] == ["name"] and printed["required"] == ["program", "tests"]


@pytest.mark.parametrize("asked", [["--cep"], ["-o", "cep=true"], []])
def test_pytest_runs_the_same_files(asked: list[str]) -> None:
    write(HEAD + f"    expect: [warming]\n  - name: it fails\n{GIVEN}    none: warming\n")
    plugin = ["-p", "cep.testing.pytest_plugin", "-p", "no:cep", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", "-q", *plugin, *asked, "fridge.test.yaml"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=".", check=False)
    if not asked:
        assert done.returncode != 1, done.stdout
        return
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 failed, 1 passed" in done.stdout and "`warming` is derived, and it must not occur" in done.stdout


def test_the_demos_pass_their_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    result = cep("test", "demos")
    assert result.exit_code == 0 and result.stdout.startswith("18 passed, "), result.output
    tested = {path.parent.name for path in (ROOT / "demos").glob("*/*.test.yaml")}
    assert tested == {path.parent.name for path in (ROOT / "demos").glob("*/demo.py")}


@pytest.mark.long
def test_the_law_of_workers_runs_in_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is tried once for each test where it is asked for; a test that it does not pass fails."""
    write(HEAD + "    expect: [warming]\n")
    passed = cep("test", "--law", "workers", "--workers")
    assert passed.exit_code == 0 and passed.stdout == "1 passed, 1 repeated run (laws) gave the same results\n", (
        passed.stdout
    )
    beside = cep("test", "--workers", "--seeds", "1").stdout
    alone = cep("test", "--seeds", "1").stdout
    assert int(beside.split(", ")[1].split()[0]) == int(alone.split(", ")[1].split()[0]) + 1
    dealt = partitioned_engine.dealt_engine

    def broken(*given: Any) -> Engine:
        engine = dealt(*given)
        engine.receive = lambda *_: None  # type: ignore[method-assign]
        return engine

    monkeypatch.setattr("cep.testing.runs.dealt_engine", broken)
    failed = cep("test", "--law", "workers")
    assert failed.exit_code == 1 and "the law `workers` does not hold" in failed.stdout
    assert "`--law workers --seed 0` runs it again" in failed.stdout


TYPOS = """\
program: fridge.cep
latenes: 5 min
tolerance: much
tests:
  - name: of its keys
    givven:
      reading: []
    expct: []
  - name: of its values
    given:
      reading: []
    expect: warming
    holds: {warm: open}
    alerts:
      - {at: 2024-05-01 08:45, fireing: []}
      - {firing: []}
    dead: many
    dead: 1
  - given:
      reading: []
"""


def test_all_that_is_wrong_in_a_file_is_told_together() -> None:
    write(TYPOS)
    told = cep("test").stderr
    assert [line.split(":")[1] for line in told.splitlines() if "fridge.test.yaml:" in line] == [
        "2", "3", "6", "8", "12", "13", "15", "16", "17", "18", "19"
    ], told  # fmt: skip
    for name in ("lateness", "given", "expect", "firing"):
        assert f"did you mean `{name}`?" in told, (name, told)


def test_all_that_a_test_says_of_what_the_program_does_not_have_is_told_together() -> None:
    status, told = run(
        "      reeding: [{time: 2024-05-01 08:30}]\n"
        "    until: 2024-05-01 09:00\n"
        "    expect:\n"
        "      - warming: {fridges: milk, old: cold}\n"
        "      - warmings: {fridge: milk}\n"
        "    none: [silence]\n"
        "    holds: {worm: []}\n"
        "    alerts: [{at: 2024-05-01 08:45, firing: [hit]}]\n"
    )
    assert status == 2, told
    places = [":".join(line.split(":")[1:3]) for line in told.splitlines() if "fridge.test.yaml:" in line]
    assert places == ["9:7", "12:19", "12:39", "13:9", "14:12", "15:13", "16:46"], told
