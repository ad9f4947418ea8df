"""What `cep run` says of input that makes no event, or that no rule asks for."""

from __future__ import annotations

import gc
import gzip
import json
import re
from difflib import SequenceMatcher
from pathlib import Path
from types import FrameType

import pytest

from cep.connectors.dead_letters import letter_line
from cep.connectors.formats.jsonl import LineReader
from cep.connectors.records.batch import DeadLetter
from cep.core import suggest
from cep.engine import Engine
from tests import cli_runs
from tests.cli_runs import BAD, EVENTS, FIRE, PROGRAM, cep, events, jsonl

here = pytest.fixture(autouse=True)(cli_runs.here)


def test_a_misspelt_event_is_not_silent() -> None:
    Path("slip.cep").write_text("event smoke(room: string).\na(R) <- smok(R).\nb(R) <- smoke(R) SEQ smoke(R).\n")
    Path("smoke.jsonl").write_text(jsonl([{"type": "smoke", "time": 1, "room": "attic"}]))
    result = cep("run", "slip.cep", "--input", "smoke.jsonl")
    messages = result.stderr.splitlines()
    assert messages[:2] == [
        "slip.cep:2:9: warning: `smok` is neither declared nor derived",
        "2 warnings in all, `cep check slip.cep` explains",
    ]
    assert messages[2].startswith("1 record, no `smok` in the input, no derived events, ")


def test_many_warnings_are_a_few_lines() -> None:
    rules = "".join(f"e{n}(R) <- smoke(R) SEQ hea{n}t(R, _) WITHIN 1 s.\n" for n in "bcdfg")
    Path("slips.cep").write_text(f"event heat(room: string, temp: float).\nevent smoke(room: string).\n{rules}")
    Path("smoke.jsonl").write_text(jsonl([{"type": "smoke", "time": 1, "room": "attic"}]))
    messages = cep("run", "slips.cep", "--input", "smoke.jsonl").stderr.splitlines()
    assert len(messages) == 5 and messages[3] == "5 warnings in all, `cep check slips.cep` explains"
    assert messages[4].startswith("1 record, no `heat`, `heabt`, `heact` or 3 others in the input, no derived events, ")


def test_what_never_forgets_is_no_matter_of_a_run() -> None:
    Path("open.cep").write_text("event smoke(room: string).\nb(R) <- smoke(R) SEQ smoke(R).\n")
    Path("smoke.jsonl").write_text(jsonl([{"type": "smoke", "time": 1, "room": "attic"}]))
    assert cep("run", "open.cep", "--input", "smoke.jsonl").stderr.startswith("1 record, no derived events, ")


def test_events_that_the_input_lacks_are_told() -> None:
    Path("other.jsonl").write_text(jsonl([EVENTS[0], {"type": "haet", "time": 2, "room": "attic", "temp": 80}]))
    messages = cep("run", "fire.cep", "--input", "other.jsonl").stderr
    assert messages.startswith(
        "2 records, 1 dead letter (1 of an unknown event), no readable `heat` in the input, no derived"
    )
    Path("none.jsonl").write_text("")
    messages = cep("run", "fire.cep", "--input", "none.jsonl").stderr
    assert messages.startswith("no records, nothing in `none.jsonl`, no derived events")


def test_facts_that_no_rule_asks_for_are_warned_of() -> None:
    Path("links.csv").write_text("one,other\nattic,cellar\n")
    Path("linked.cep").write_text(PROGRAM + "near(R) <- heat(R, _) WHERE linked(R, _).\n")
    messages = "warning: --facts liked: no rule of linked.cep asks for `liked`\n"
    result = cep("run", "linked.cep", "--input", "events.jsonl", "--facts", "linked=links.csv")
    assert result.exit_code == 0 and "--facts" not in result.stderr
    given = ["--facts", "linked=links.csv", "--facts", "liked=links.csv"]
    result = cep("run", "linked.cep", "--input", "events.jsonl", *given)
    assert result.exit_code == 0 and result.stderr.startswith(messages), result.stderr
    result = cep("check", "linked.cep", *given)
    assert result.exit_code == 0 and result.stderr == messages + "hint: did you mean `linked`?\n"
    assert result.stdout.endswith("1 warning\n")
    hint = "hint: use the facts in a condition: `WHERE linked(...)`\n"
    assert cep("check", "fire.cep", "--facts", "linked=links.csv").stderr.endswith(hint)


def test_an_undeclared_event_by_other_names_is_a_dead_letter() -> None:
    Path("a.cep").write_text("b(X) <- a(X).\n")
    Path("a.jsonl").write_text(jsonl([{"type": "a", "time": 1, "x": 3}, {"type": "a", "time": 2, "args": [4]}]))
    result = cep("run", "a.cep", "--input", "a.jsonl", "--dead-letter", "dead.jsonl")
    assert [one["x"] for one in events(result.stdout)] == [4]
    (dead,) = events(Path("dead.jsonl").read_text())
    assert dead["code"] == "args" and "`event a(x: int) TIME time.`" in dead["reason"]


def test_milliseconds_are_dead_letters() -> None:
    Path("ms.jsonl").write_text(jsonl([{**EVENTS[0], "time": 1714554000000}]))
    result = cep("run", "fire.cep", "--input", "ms.jsonl", "--dead-letter", "dead.jsonl")
    assert "1 dead letter (1 with a wrong time)" in result.stderr
    assert "this looks like milliseconds" in Path("dead.jsonl").read_text()


def test_a_file_that_cannot_be_read_to_its_end_is_a_dead_letter_and_no_record() -> None:
    packed = gzip.compress(jsonl(EVENTS * 500).encode())
    Path("cut.jsonl.gz").write_bytes(packed[:-4])
    Path("whole.jsonl").write_text(jsonl(EVENTS))
    Path("open.json").write_text("[" + jsonl(EVENTS[:1]).strip() + ",")
    result = cep("run", "fire.cep", "--input", "cut.jsonl.gz", "--input", "whole.jsonl", "--input", "open.json")
    read = len(EVENTS) * 500 + len(EVENTS) + 1
    assert "2 dead letters (1 from a damaged gzip file, 1 bad JSON)" in result.stderr
    found = re.search(r"([\d,]+) records, ", result.stderr)
    assert found is not None and int(found[1].replace(",", "")) == read


def test_dead_letters_are_kept_with_their_reasons() -> None:
    Path("bad.jsonl").write_text(jsonl(BAD) + "{broken\n")
    result = cep("run", "fire.cep", "--input", "bad.jsonl", "--dead-letter", "dead.jsonl")
    assert (result.exit_code, events(result.stdout)) == (0, [FIRE])
    assert "6 records, 3 dead letters (1 bad JSON, 1 missing, 1 out of range), 1 derived event" in result.stderr
    dead = sorted((one["line"], one["code"], one["file"]) for one in events(Path("dead.jsonl").read_text()))
    assert dead == [(4, "range", "bad.jsonl"), (5, "missing", "bad.jsonl"), (6, "json", "bad.jsonl")]


def test_the_first_dead_letter_is_told_where_none_are_kept() -> None:
    Path("bad.jsonl").write_text(jsonl(BAD))
    messages = cep("run", "fire.cep", "--input", "bad.jsonl").stderr.splitlines()
    assert len(messages) == 2 and messages[1].startswith("one dead letter is bad.jsonl:4: `temp`")
    assert messages[1].endswith("; `--dead-letter FILE` keeps them")
    assert len(cep("run", "fire.cep", "--input", "bad.jsonl", "--dead-letter", "d").stderr.splitlines()) == 1


@pytest.mark.parametrize("text", [json.dumps(EVENTS), json.dumps(EVENTS, indent=2)], ids=["a line", "lines"])
def test_a_list_of_records_is_read(text: str) -> None:
    Path("list.json").write_text(text)
    Path("lines.jsonl").write_text(jsonl(EVENTS))
    read = cep("run", "fire.cep", "--input", "list.json")
    assert read.stdout and read.stdout == cep("run", "fire.cep", "--input", "lines.jsonl").stdout


@pytest.mark.parametrize(
    ("name", "header", "hint"),
    [
        ("a.csv", "time;x", "separated by `;`"),
        ("a.csv", '"time";"x"', "separated by `;`"),
        ("a.csv", "time\tx", "`--format tsv`"),
        ("a.tsv", "time,x", "`--format csv`"),
    ],
)
def test_other_separators_are_told(name: str, header: str, hint: str) -> None:
    Path("a.cep").write_text("event a(x: int).\nb(X) <- a(X).\n")
    Path(name).write_text(f"{header}\n1;2\n")
    result = cep("run", "a.cep", "--input", name)
    assert result.exit_code == 2 and hint in result.stderr


def test_times_of_the_basic_form_are_told() -> None:
    Path("basic.jsonl").write_text(jsonl([{**EVENTS[0], "time": "20240501T080000Z"}]))
    messages = cep("run", "fire.cep", "--input", "basic.jsonl").stderr
    assert "a form of ISO 8601 that is not supported, the basic form" in messages


def test_a_dead_letter_is_the_very_record() -> None:
    heat = [(100, 999), (100, 1), (50, 2), (101, 3)]  # the first is out of range, the third late
    Path("heat.jsonl").write_text(jsonl([{"type": "heat", "time": t, "room": "hall", "temp": x} for t, x in heat]))
    cep("run", "fire.cep", "--input", "heat.jsonl", "--lateness", "1 s", "--dead-letter", "dead.jsonl")
    dead = [(one["line"], one["code"], one["record"]["temp"]) for one in events(Path("dead.jsonl").read_text())]
    assert dead == [(1, "range", 999), (3, "late", 2)]


def test_strict_ends_with_1_if_there_were_dead_letters() -> None:
    Path("bad.jsonl").write_text(jsonl(BAD))
    result = cep("run", "fire.cep", "--input", "bad.jsonl", "--strict")
    assert (result.exit_code, events(result.stdout)) == (1, [FIRE])
    assert cep("run", "fire.cep", "--input", "events.jsonl", "--strict").exit_code == 0


def test_what_holds_nothing_is_told() -> None:
    Path("heat.cep").write_text(
        "event heat(room: string, temp: float) TIME time.\nhot(R) <- heat(R, T) WHERE T > 50.\n"
    )
    for name, text in (("empty.csv", ""), ("blank.csv", "\n \n"), ("header.csv", "time,room,temp\n")):
        Path(name).write_text(text)
        messages = cep("run", "heat.cep", "--input", name).stderr
        assert messages.startswith(f"no records, nothing in `{name}`, no derived events")
    Path("some.csv").write_text("time,room,temp\n1,attic,80\n")
    messages = cep("run", "heat.cep", "--input", "some.csv", "--input", "empty.csv", "--input", "heat=blank.csv").stderr
    assert messages.startswith("1 record, nothing in `empty.csv` or `blank.csv`, 1 derived event: hot 1")
    messages = cep("run", "heat.cep", "--input", "-", input="").stderr
    assert messages.startswith("no records, nothing in standard input, no derived events")
    Path("plain.csv.gz").write_text("time,room,temp\n1,attic,80\n")
    result = cep("run", "heat.cep", "--input", "plain.csv.gz")
    assert result.exit_code == 2
    assert result.stderr == (
        "plain.csv.gz: this is not a gzip file; to read it uncompressed, remove `.gz` from its name\n"
    )


def test_a_hint_is_computed_once_and_a_refusal_keeps_no_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    """30,000 unreadable records took ten times as long as good ones."""
    compared: list[str] = []
    matcher = suggest.SequenceMatcher

    def comparing(junk: None, one: str, other: str) -> SequenceMatcher[str]:
        compared.append(other)
        return matcher(junk, one, other)

    monkeypatch.setattr(suggest, "SequenceMatcher", comparing)
    Path("r.cep").write_text("event r(humidity: float, room: string) TIME at.\na(R) <- r(H, R) WHERE H > 1.\n")
    records = [{"at": n, "humdity": 1.5, "room": f"r{n}"} for n in range(50)]
    Path("r.jsonl").write_text(jsonl(records))
    letters = dead_letters("r.jsonl")
    assert len(letters) == 50 and len(compared) == 1
    assert {each["reason"].partition("; ")[2] for each in letters} == {"there is `humdity`: write FROM humdity"}

    reader = LineReader(Engine.from_text(Path("r.cep").read_text()).inputs, "r", True)
    before = sum(isinstance(each, FrameType) for each in gc.get_objects())
    _, dead, _ = reader.read("r.jsonl", b'{"at": "never"}\n' * 500, 0, 1, 0)
    assert len(dead) == 500 and sum(isinstance(each, FrameType) for each in gc.get_objects()) < before + 100


def test_a_message_of_several_lines_is_a_line_among_dead_letters() -> None:
    written = letter_line(DeadLetter("topic", 3, "why", "range", '{"room": "a\\nb",\r\n "temp": 400}\n'))
    (line,) = written.splitlines()
    assert json.loads(line)["record"] == {"room": "a\nb", "temp": 400}


def dead_letters(source: str) -> list[dict[str, str]]:
    cep("run", "r.cep", "--input", f"r={source}", "--dead-letter", "dead.jsonl")
    return [json.loads(line) for line in Path("dead.jsonl").read_text().splitlines()]
