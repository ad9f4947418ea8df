"""LARS and rules of events in one run: what each asks of the other, and when; what cannot be is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cep import Engine as DataEngine
from cep import detect
from cep.compile import compile
from cep.core.errors import CepError
from cep.engine import Engine
from cep.events import Event
from tests.cli_runs import cep

SECOND = 1_000_000
TICK = 999_999
"""From the beginning of a tick to its end."""
EVENTS = "event reading(road: string, speed: float) TIME time.\nevent accident(road: string) TIME time.\n"
POLICIES = "jam(R) :- slow(R, S) in [2].\n"


def event(name: str, seconds: float, *args: object) -> Event:
    at = round(seconds * SECOND)
    return Event(name, args, at, at)


def run(texts: dict[str, str], events: list[Event], **options: Any) -> dict[str, list[tuple[object, ...]]]:
    engine = Engine(compile(texts, **options), lateness=None)
    first = engine.push(events)
    found: dict[str, list[tuple[object, ...]]] = {}
    for tables in (first, engine.close()):
        for name, table in tables.items():
            found.setdefault(name, []).extend(row[:-1] if "bounds" in table.columns else row for row in table.rows())
    return found


STREAM = [
    event("reading", 0.5, "a", 50.0),
    event("reading", 2.2, "a", 20.0),
    event("accident", 2.7, "a"),
    event("accident", 3.1, "a"),
    event("accident", 9, "a"),
]


def test_each_asks_what_the_other_derives() -> None:
    """An event is an atom of the tick in which it ends; what LARS derives is a fluent, known at the end of its tick."""
    rules = (
        EVENTS
        + """
    slow(R, S) <- reading(R, S) WHERE S < 30.0.
    near(R) <- BEGIN OF jam(R) SEQ accident(R) WITHIN 5 s.
    inside(R) <- accident(R) WHERE jam(R).
    outside(R) <- accident(R) WHERE not jam(R).
    whole(R) <- jam(R).
    """
    )
    found = run({"rules.cep": rules, "policies.lars": POLICIES}, STREAM)
    assert found["jam"] == [(2 * SECOND, 5 * SECOND, "a")]
    assert found["near"] == [(2 * SECOND, 3_100_000, "a")]  # the one at 2.7 is in the tick itself
    assert found["inside"] == [(3_100_000, 3_100_000, "a")]
    assert found["outside"] == [(2_700_000, 2_700_000, "a"), (9 * SECOND, 9 * SECOND, "a")]
    assert found["whole"] == [(2 * SECOND, 5 * SECOND + TICK, "a")]


def test_an_event_that_lasts_is_an_atom_of_the_tick_in_which_it_ends() -> None:
    rules = EVENTS + "both(R) <- reading(R, _) SEQ accident(R) WITHIN 2 s.\n"
    found = run({"rules.cep": rules, "p.lars": "seen(R, T) :- both(R) at T in [1]."}, STREAM)
    assert found["both"] == [(2_200_000, 2_700_000, "a"), (2_200_000, 3_100_000, "a")]
    assert sorted(found["seen"]) == [(2 * SECOND, 4 * SECOND, "a", 2), (3 * SECOND, 5 * SECOND, "a", 3)]


def test_what_comes_of_it_is_asked_by_further_rules_of_both() -> None:
    """Types go from one to the other, in whatever order the files come."""
    texts = {
        "second.lars": "twice(R, N) :- hit(R, N) in [5], N > 1.\n",
        "rules.cep": "hit(R, N) <- accident(R) WHERE jam(R), N = 2.\nend(N) <- BEGIN OF twice(_, N) SEQ accident(_).\n",
        "first.lars": "event reading(road: string, speed: float).\n" + POLICIES,
        "more.cep": "event accident(road: string) TIME time.\nslow(R, S) <- reading(R, S) WHERE S < 30.0.\n",
    }
    found = run(texts, STREAM)
    assert found["hit"] == [(3_100_000, 3_100_000, "a", 2)]
    assert found["end"] == [(3 * SECOND, 9 * SECOND, 2)]
    backwards = dict(reversed(list(texts.items())))
    assert {name: sorted(rows) for name, rows in run(backwards, STREAM).items()} == {
        name: sorted(rows) for name, rows in found.items()
    }


def test_formulas_ask_it_at_its_ticks() -> None:
    rules = (
        EVENTS
        + """
    fluent open(road: string).
    initiate open(R) <- reading(R, _).
    fluent blocked(road: string).
    blocked(R) WHILE open(R) AND jam(R).
    late(R) <- accident(R) WHERE blocked(R).
    """
    )
    lars = "jam(R) :- reading(R, S) in [2], S < 30.0.\n"
    found = run({"rules.cep": rules, "p.lars": lars}, STREAM)
    assert found["blocked"] == [(2 * SECOND, 5 * SECOND, "a")]
    assert found["late"] == [(3_100_000, 3_100_000, "a")]


def test_alerts_on_what_is_derived() -> None:
    text = EVENTS + 'slow(R, S) <- reading(R, S) WHERE S < 30.0.\nALERT jammed ON jam(R) TITLE "jam on {R}" FOR 1 h.\n'
    compiled = compile({"rules.cep": text, "p.lars": POLICIES}, alerts=True)
    assert [each.event for each in compiled.alerts] == ["jam"]


def test_facts_of_other_files() -> None:
    rules = EVENTS + "fact near(road: string, other: string).\nnear(a, b).\nlane(a, 2).\nlane(b, 3).\n"
    lars = "hit(S, N) :- accident(R), near(R, S), lane(S, N), N > 2."
    assert run({"rules.cep": rules, "p.lars": lars}, STREAM)["hit"][0] == (2 * SECOND, 4 * SECOND, "b", 3)


def test_choices_over_derived_events() -> None:
    rules = EVENTS + "slow(R) <- reading(R, S) WHERE S < 60.0.\ntold(R) <- BEGIN OF used(R).\n"
    lars = "used(R) :- slow(R) in [3], not shut(R).\nshut(R) :- slow(R) in [3], not used(R).\n"
    lars += ":- shut(R), slow(R) in [3].\n"
    found = run({"rules.cep": rules, "p.lars": lars}, STREAM)
    assert found["told"] == [(0, TICK, "a")]


def test_policies_and_prefixes_are_those_of_their_file() -> None:
    first = EVENTS + "policy recent.\none(R) <- reading(R, _) SEQ accident(R).\n"
    second = "two(R) <- reading(R, _) SEQ accident(R).\n"
    found = run({"a.cep": first, "b.cep": second}, STREAM)
    assert len(found["one"]) < len(found["two"]) == 6


def test_dialects_of_formulas_and_descriptions() -> None:
    """A fluent of a description, asked by a rule of events beside what LARS derives."""
    description = "initiatedAt(busy(R) = true, T) :- happensAt(enter(R), T).\n"
    description += "terminatedAt(busy(R) = true, T) :- happensAt(leave(R), T).\n"
    rules = "event enter(r: string) TIME time.\nevent leave(r: string) TIME time.\n"
    rules += "event accident(road: string) TIME time.\n"
    rules += 'hit(R) <- accident(R) WHERE busy(R) = "true", full.\n'
    texts = {"rules.cep": rules, "busy.rtec": description, "p.lars": "full :- enter(R) in [4]."}
    found = run(texts, [event("enter", 1, "a"), event("accident", 3, "a"), event("accident", 9, "a")])
    assert found["hit"] == [(3 * SECOND, 3 * SECOND, "a")]


def test_both_notations_of_lars_are_one_program() -> None:
    rules = EVENTS + "slow(R) <- reading(R, S) WHERE S < 30.0.\n"
    texts = {
        "rules.cep": rules,
        "a.lars": "jam(R) :- slow(R) in [2].\n",
        "b.laser": "told(R) :- jam(R) and accident(R)\n",
    }
    assert run(texts, STREAM)["told"] == [(2 * SECOND, 4 * SECOND, "a")]
    assert "b.laser:1:23: unknown predicate `acident`" in refused(
        texts | {"b.laser": "told(R) :- jam(R) and acident(R)"}
    )


def test_data_frames_go_to_several_files(tmp_path: Path) -> None:
    data = [
        {"type": "reading", "time": 2.2, "road": "a", "speed": 20.0},
        {"type": "accident", "time": 3.1, "road": "a"},
    ]
    rules = EVENTS + "slow(R, S) <- reading(R, S) WHERE S < 30.0.\ninside(R) <- accident(R) WHERE jam(R).\n"
    texts = {"rules.cep": rules, "policies.lars": POLICIES}
    assert detect(texts, data)["inside"]["r"].to_list() == ["a"]
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    files = [tmp_path / name for name in texts]
    assert detect(files, data)["inside"].height == 1
    engine = DataEngine.from_file(files)
    engine.push(data)
    assert engine.finish()["jam"].height == 1
    assert DataEngine.from_text(texts, models=0).inner.outputs.keys() == {"slow", "inside", "jam"}
    with pytest.raises(CepError):
        detect({}, data)


# --- mistakes ---


def refused(texts: dict[str, str]) -> str:
    with pytest.raises(CepError) as failed:
        compile(texts)
    return str(failed.value)


def test_mistakes_are_told_by_file_and_line() -> None:
    told = refused({"rules.cep": EVENTS + "a(R) <- jam(R, 3).\n", "p.lars": "jam(R) :- accident(R) in [3].\n"})
    assert told.startswith("rules.cep:3:9: fluent `jam` is")
    told = refused({"rules.cep": EVENTS, "p.lars": "\njam(R) :- acident(R) in [3].\n"})
    assert told.startswith("p.lars:2:11: unknown predicate `acident`\n    jam(R) :- acident(R) in [3].")
    assert "did you mean `accident`?" in told
    told = refused({"rules.cep": "a(X <- b.\n", "p.lars": "jam(R) :- R.\n"})
    assert "rules.cep:1:" in told
    assert "p.lars:1:" in told


def test_a_circle_through_both_is_refused() -> None:
    rules = EVENTS + "slow(R) <- accident(R) WHERE jam(R).\n"
    told = refused({"rules.cep": rules, "p.lars": "jam(R) :- reading(R, S), slow(R) in [3].\n"})
    assert told.splitlines()[0] == (
        "p.lars:1:26: `jam` is derived from `slow`, which other rules derive from `jam`: at one tick each would wait "
        "for the other"
    )


@pytest.mark.parametrize(
    "rules, lars, told",
    [
        ("jam(R) <- accident(R).", "jam(R) :- reading(R, S).", "`jam` is derived here, and derived by LARS, too"),
        ("fluent jam(r: string).", "jam(R) :- reading(R, S).", "declared as a fluent here, and derived by LARS, too"),
        (
            "event jam(r: string).",
            "jam(R) :- reading(R, S).",
            "is declared as an input event, and derived here",
        ),
        ("", "event accident(road: int). jam :- accident(R).", "`accident` is declared differently at p.lars:1:1"),
        (
            "fluent open(r: string). initiate open(R) <- accident(R).",
            "jam(R) :- open(R).",
            "`open` is a fluent of another file, but LARS can ask only for events\n"
            "    jam(R) :- open(R).\n"
            "              ^^^^^^^\n"
            "hint: in that file, derive an event from its beginning, `begins_open(X1) <- BEGIN OF open(X1).`, or "
            "from events while it holds, `.. <- e(..) WHERE open(X1).`",
        ),
        (
            "open(R) WHILE accident(R) SINCE[0, 1 h] accident(R).",
            "jam(R) :- open(R).",
            "`open` is a fluent of another file, but LARS can ask only for events",
        ),
        (
            "slow(R) <- accident(R).",
            "jam(R) :- slow(R) in [3 #].",
            "`slow` is derived, and a window of tuples can contain only input",
        ),
        (
            "p(X) :- q(X).",
            "jam(R) :- accident(R), p(R).",
            "LARS asks for `p`, but the types of its facts are not declared",
        ),
    ],
)
def test_what_contradicts_itself(rules: str, lars: str, told: str) -> None:
    assert told in refused({"rules.cep": EVENTS + rules + "\n", "p.lars": lars})


def test_what_several_files_of_lars_declare_is_declared_once() -> None:
    declared = "event slow(road: string, speed: float) TIME time.\n"
    texts = {"a.lars": declared + POLICIES, "b.lars": declared + "stuck(R) :- slow(R, S) in [5], S < 5.0.\n"}
    found = run(texts, [event("slow", 1, "a", 2.0)])
    assert found.keys() == {"jam", "stuck"}
    with pytest.raises(CepError, match=r"`slow` is declared differently at a.lars:1"):
        run(texts | {"b.lars": "event slow(road: string) TIME time.\nstuck(R) :- slow(R) in [5].\n"}, [])


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"models": 0}, "no answer streams"),
        ({"dialect": "larz"}, "`larz` is not a dialect"),
        ({"dialect": "/n"}, "not a program of LARS"),
    ],
)
def test_options_that_no_file_heeds_are_refused(options: dict[str, Any], told: str) -> None:
    with pytest.raises(CepError, match=told):
        compile({"a.cep": EVENTS, "b.cep": "slow(R, S) <- reading(R, S) WHERE S < 30.0.\n"}, **options)


def test_windows_of_tuples_pass_over_what_is_derived() -> None:
    rules = EVENTS + "slow(R, S) <- reading(R, S) WHERE S < 30.0.\n"
    lars = "last(R) :- accident(R) in [1 #].\nseen(R) :- slow(R, S).\n"
    found = run({"rules.cep": rules, "p.lars": lars}, [event("accident", 0, "a"), event("reading", 1, "a", 3.0)])
    assert found["last"] == [(0, None, "a")]  # `slow` is derived, and nothing that LARS asks of has come since


# --- the command ---


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    rules = (
        EVENTS + "slow(R, S) <- reading(R, S) WHERE S < 30.0.\nnear(R) <- BEGIN OF jam(R) SEQ accident(R) WITHIN 5 s.\n"
    )
    texts = {"rules.cep": rules, "policies.lars": POLICIES}
    texts["events.jsonl"] = (
        '{"type": "reading", "time": 2.2, "road": "a", "speed": 20}\n{"type": "accident", "time": 3.1, "road": "a"}\n'
    )
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    return [str(tmp_path / name) for name in texts]


def test_the_command_runs_them_together(files: list[str]) -> None:
    rules, policies, events = files
    done = cep("run", rules, policies, "--input", events)
    assert done.exit_code == 0, done.stderr
    assert '{"type": "near", "start": 2, "end": 3.1, "r": "a"}' in done.stdout
    assert '{"type": "jam", "@edge": "begins", "time": 2, "r": "a", "bounds": "["}' in done.stdout
    done = cep("run", policies, rules, "--input", events, "--output-mode", "all")
    assert [line for line in done.stdout.splitlines() if "jam" in line] == [
        f'{{"type": "jam", "start": {tick}, "end": {tick}, "r": "a"}}' for tick in (2, 3)
    ]
    assert '{"type": "near", "start": 2, "end": 3.1, "r": "a"}' in done.stdout


def test_check_plan_and_explain_take_several(files: list[str]) -> None:
    rules, policies, events = files
    done = cep("check", "--together", rules, policies)
    assert done.exit_code == 0, done.stdout + done.stderr
    assert f"{rules}, {policies}: 1 rule, 1 component, 2 rules beside LARS, no errors, no warnings" in done.stdout
    done = cep("check", rules, policies)
    assert done.exit_code == 2
    assert "`cep check --together`" in done.stderr
    done = cep("plan", rules, policies)
    assert f"# {rules}:4" in done.stdout.replace("\n", " ") or "rules.cep:4" in done.stdout
    done = cep("explain", rules, policies, "near(a)", "--input", events)
    assert f"{policies}:1:  jam(R) :- slow(R, S) in [2]." in " ".join(done.stdout.split("\n")).replace("  ", " ") or (
        "policies.lars:1:" in done.stdout
    )
    assert "no longer known" not in done.stdout
    done = cep("explain", rules, policies, "--not", "near(b)", "--at", "4", "--input", events)
    assert "near" in done.stdout, done.stderr
