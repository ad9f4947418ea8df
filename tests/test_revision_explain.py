"""The law of revision with lineage: what is there says what it comes from, and what is withdrawn what it came from."""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from cep.command import app
from cep.compile import CompiledProgram, CompileOptions, compiled
from cep.connectors.why.lines import tree
from cep.connectors.why.text import Explainer
from cep.core.errors import CepError
from cep.engine import Engine
from cep.events import Event
from cep.explain.occurrences import Memory
from cep.explain.question import read_question
from cep.runtime.options import EngineOptions
from tests.keyed_programs import keyed
from tests.long import seeds
from tests.programs import contest, iteration, loop, program, recursion, window
from tests.test_equivalence import types
from tests.test_formulas import FEATURES, random_case
from tests.test_revision import check, tables
from tests.tied_programs import tied


@pytest.mark.parametrize("seed", seeds(120))
def test_the_law_with_what_events_come_from(seed: int) -> None:
    rng = random.Random(f"why {seed}")
    made = rng.choice([program, iteration, recursion, contest, window, loop, *[keyed] * 6, *[tied] * 3])(rng)
    lines, keys = [], []
    for line in made.text.split("\n"):
        declared = re.match(r"event (\w+)\((\w+): .*\)(.*)\.$", line)
        if declared is not None and rng.random() < 0.4:
            keys.append(declared[1])
            line = f"{line[:-1]} KEY {declared[2]}."
        lines.append(line)
    text, length = "\n".join(lines), rng.choice((0, 1, 3, 20)) * 1_000_000
    try:
        check(text, made.events, rng, length, keys, types=types(made.events), max_derivations=2000, explain=True)
    except CepError as error:
        assert error.code == "recursion" or not _compiles(text, made.events), error


def _compiles(text: str, events: list) -> bool:
    try:
        Engine.from_text(text, types=types(events))
    except CepError:
        return False
    return True


EVER = 2**40


@pytest.mark.parametrize("seed", seeds(120))
def test_explanations_of_equal_events_do_not_depend_on_the_run(seed: int) -> None:
    """They are the same whatever the batches are, for records in order and late ones, and from a snapshot on."""
    rng = random.Random(f"tied {seed}")
    made = tied(rng)
    program = compiled(made.text, "<program>", CompileOptions())
    in_order = list(enumerate(made.events))
    late = sorted(in_order, key=lambda one: one[1].end + rng.choice((0, 0, 1, 3)) * 1_000_000)
    plain = EngineOptions(explain=True, remember=EVER, lateness=0)
    waiting, revising = replace(plain, lateness=EVER), replace(plain, revise=EVER)
    expected = trees(program, plain, [in_order])
    for options, records in ((plain, in_order), (waiting, late), (revising, in_order), (revising, late)):
        assert trees(program, options, cut(records, rng)) == expected
        if "fluent" not in made.text:  # a snapshot has only one of several causes of a beginning
            restored = trees(program, options, cut(records, rng), rng)
            assert restored == {row: expected[row] for row in restored}


def cut(records: list[tuple[int, Event]], rng: random.Random) -> list[list[tuple[int, Event]]]:
    cuts = sorted(rng.randrange(len(records) + 1) for _ in range(rng.randrange(5)))
    return [records[first:last] for first, last in zip([0, *cuts], [*cuts, len(records)])]


def trees(
    program: CompiledProgram,
    options: EngineOptions,
    batches: list[list[tuple[int, Event]]],
    rng: random.Random | None = None,
) -> dict[tuple[object, ...], str]:
    """Why each derived event is there, in the end. With `rng` other engines go on from snapshots."""
    engine = Engine(program, options)
    for batch in batches:
        changes = tables(engine, [(position, (event, 1)) for position, event in batch])
        engine.push({name: table if options.revise else table.drop("@change") for name, table in changes.items()})
        if rng is not None and rng.random() < 0.5:
            engine = Engine(program, options).restore(engine.snapshot())
    engine.close()
    memory, explainer = Memory(engine), Explainer(engine, times="us")
    found = [one for event in sorted(engine.plan.derived) for one in memory.find(event, {}, -EVER, 2**62)]
    return {(one.event, one.args, one.start, one.end, one.number): str(explainer.why(one)) for one in found}


@pytest.mark.parametrize("seed", seeds(24))
def test_the_law_with_what_fluents_come_from(seed: int) -> None:
    rng = random.Random(f"why {seed}")
    case = random_case(rng, FEATURES, rng.randint(0, 3), rng.randint(1, 3))
    check(case.program, case.events, rng, rng.choice((0, 3, 10, 100)), changes=seed % 3 == 0, explain=True)


READINGS = """event reading(sensor: string, seq: int, temp: float) TIME time KEY sensor, seq.
hot(S) <- reading(S, _, T) WHERE T > 30.
two(S) <- hot(S) SEQ hot(S).
"""


def reading(time: int, seq: int, temp: float) -> dict[str, object]:
    return {"start": time, "end": time, "sensor": "a", "seq": seq, "temp": temp}


def test_a_row_whose_reason_changes_is_withdrawn_and_added() -> None:
    engine = Engine.from_text(READINGS, revise=100, explain=True)
    engine.push({"reading": pl.DataFrame([reading(10, 1, 31.0), reading(20, 2, 33.0)])})
    made = engine.push({"reading": pl.DataFrame([reading(10, 1, 32.0)])})
    for name, last in (("hot", {32.0}), ("two", {32.0, 33.0})):
        rows = made[name].select("@change", "because").rows()
        assert [sign for sign, _ in rows] == [-1, 1] and made[name]["@id"].n_unique() == 1
        assert {each["temp"] for each in json.loads(rows[0][1])} == last - {32.0} | {31.0}, "what it came from"
        assert {each["temp"] for each in json.loads(rows[1][1])} == last, "what it comes from now"
    assert not engine.push({"reading": pl.DataFrame([reading(10, 1, 32.0)])}), "a duplicate changes nothing"


@pytest.mark.parametrize("revise", [None, 1_000_000_000])
def test_equal_records_of_one_push_are_shown_once(revise: int | None) -> None:
    text = "event a(k: string) TIME t DISTINCT. event b(k: string) TIME t. fluent f(k: string).\n"
    text += "f(K) WHILE ONCE[0, 5 s] a(K). o(K) <- b(K) WHERE f(K)."
    engine = Engine.from_text(text, revise=revise, explain=True, remember=2**62)
    engine.push([Event("a", ("x",), 1, 1), Event("a", ("x",), 1, 1), Event("b", ("x",), 3_000_000, 3_000_000)])
    engine.close()
    memory = Memory(engine)
    assert len(read_question("a(x)", engine).found(memory)) == 1
    (found,) = read_question("o(x)", engine).found(memory)
    told = [line.strip() for line in tree(Explainer(engine, times="us").why(found))]
    assert told.count('a("x") at 1') == 1, told


def test_what_the_window_goes_back_to_is_not_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cep.runtime.history.MOST", 0)
    text = READINGS.replace("hot(S) SEQ hot(S)", "hot(S) SEQ hot(S) WITHIN 50 ms")
    engine = Engine.from_text(text, revise=100_000, explain=True)
    assert engine.history is not None
    for number in range(60):
        engine.history._look_at = 0  # every push forgets
        engine.push({"reading": pl.DataFrame([reading(10_000 * number, number, 31.0)])})
    kept = sum(table.shape[1] for _, tables in engine.history.tables() for table in tables)
    assert 10 < kept < 40
    made = engine.push({"reading": pl.DataFrame([reading(570_000, 57, 40.0)])})["two"].filter(pl.col("@change") == 1)
    ends = {each["end"] for text in made["because"] for each in json.loads(text)}
    assert ends == set(range(520_000, 600_000, 10_000)), "pairs with the readings around it"


PROGRAM = """event reading(sensor: string, seq: int, temp: float) TIME time KEY sensor, seq.
hot(S, T) <- reading(S, _, T) WHERE T > 30.
fluent warm(s: string).
initiate warm(S) <- reading(S, _, T) WHERE T > 20.
terminate warm(S) <- reading(S, _, T) WHERE T <= 20.
"""
LINES = """\
{"type": "reading", "time": "2024-05-01T10:00:00Z", "sensor": "a", "seq": 1, "temp": 31.0}
{"type": "reading", "time": "2024-05-01T13:00:00Z", "sensor": "a", "seq": 2, "temp": 10.0}
{"type": "reading", "time": "2024-05-01T10:00:00Z", "sensor": "a", "seq": 1, "temp": 25.0}
{"type": "reading", "time": "2024-05-01T10:30:00Z", "sensor": "a", "seq": 3, "temp": 41.0}
{"type": "reading", "time": "2024-05-01T11:00:00Z", "sensor": "a", "seq": 4, "temp": 11.0}
{"type": "reading", "time": "2024-05-01T11:00:00Z", "sensor": "a", "seq": 4, "@change": "withdraw"}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rules.cep").write_text(PROGRAM)
    Path("in.jsonl").write_text(LINES)


def explained(*arguments: str, status: int = 0, revise: bool = True) -> str:
    options = ["explain", "rules.cep", *arguments, "-i", "in.jsonl", *(["--revise", "6h"] if revise else [])]
    result = CliRunner().invoke(app, options, prog_name="cep")
    assert result.exit_code == status, result.output
    return " ".join(result.stdout.split())


@pytest.mark.usefixtures("folder")
def test_cep_explain_says_what_withdrew_an_event() -> None:
    told = explained("hot(a, 31)", status=1)
    assert told.startswith('hot("a", 31) at 2024-05-01T10:00:00Z was withdrawn')
    assert 'withdrawn at 2024-05-01T13:00:00Z: reading("a", 1, 31) at 2024-05-01T10:00:00Z was corrected' in told
    assert 'to reading("a", 1, 25) in.jsonl:3' in told and 'it came from reading("a", 1, 31)' in told
    (answer,) = json.loads(explained("hot(a, 31)", "--format", "json", status=1))
    assert [each["change"] for each in answer["changes"]] == ["add", "withdraw"]
    assert explained(f"@{answer['id']}", status=1) == told
    absent = explained("--not", "hot(a, 31)", "--at", "2024-05-01T10:00")
    assert absent.startswith(told) and "31 is not there" not in absent and "25" in absent
    explained("hot(a, 31)", "--format", "prov", status=2)


@pytest.mark.usefixtures("folder")
def test_cep_explain_says_how_late_a_record_came() -> None:
    told = explained("hot(a, 41)")
    assert 'added at 2024-05-01T13:00:00Z: reading("a", 3, 41) at 2024-05-01T10:30:00Z came 2 h 30 min late' in told
    assert "in.jsonl:4 came 2 h 30 min late, at 2024-05-01T13:00:00Z" in told
    (answer,) = json.loads(explained("hot(a, 41)", "--format", "json"))
    assert answer["parts"][0]["late"]["by"] == 9000


@pytest.mark.usefixtures("folder")
def test_cep_explain_says_how_the_end_of_a_fluent_was_put_right() -> None:
    told = explained("warm(a)")
    assert told.startswith('warm("a") over (2024-05-01T10:00:00Z, 2024-05-01T13:00:00Z]')
    assert "since 2024-05-01T13:00:00Z it ends at 2024-05-01T11:00:00Z: reading" in told
    assert 'since 2024-05-01T13:00:00Z it ends at 2024-05-01T13:00:00Z: reading("a", 4, 11)' in told
    assert 'it corrects reading("a", 1, 31)' in told


@pytest.mark.usefixtures("folder")
def test_without_revise_a_key_corrects_what_is_explained() -> None:
    lines = [json.loads(line) for line in LINES.splitlines() if "@change" not in line]
    Path("in.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
    assert "25 > 20" in explained("warm(a)", revise=False)
    assert "no event hot(a, 31) was derived" in explained("hot(a, 31)", status=1, revise=False)
