"""Why an event is not there: what failed, and the attempt that came nearest."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cep.command import app
from cep.connectors.why.lines import refusals
from cep.connectors.why.text import Explainer
from cep.core.errors import CepError
from cep.engine import Engine
from cep.events import Event
from cep.explain.question import UNIT, EventQuestion, interval, read_question
from tests.why_checks import EVER, cep, written


def test_why_not_names_what_failed(tmp_path: Path) -> None:
    def answer(asked: str, at: str, *more: str) -> str:
        return cep(tmp_path, "--not", asked, "--at", f"2024-05-01T{at}", *more)

    assert "but `T > L` does not hold\n      T > L:  6 > 7" in answer("warm(milk)", "08:20")
    assert 'but there is no reading("beer", _) since 2024-04-30T08:20:00Z' in answer("warm(beer)", "08:20")
    assert "but WITHIN 15 min is exceeded by 15 min" in answer("rising(milk)", "08:50", "--back", "35min")
    assert 'but reading("milk", 8) came, at 2024-05-01T08:10:00Z' in answer("silent(milk)", "08:15")
    assert "silent" in cep(tmp_path, "--not", "silent(milk)", "--at", "2024-05-01T08:25", status=1), "it is there"
    told_ = json.loads(answer("rising(milk)", "08:50", "--back", "35min", "--format", "json"))
    assert [(rule["failure"]["kind"], rule["failure"]["by"]) for rule in told_["rules"]] == [("deadline", 900.0)]


@pytest.fixture
def nearest(tmp_path: Path) -> Callable[..., str]:
    def answer(rules: str, asked: str, at: str, **inputs: str) -> str:
        written(tmp_path / "n.cep", rules)
        for name, times in inputs.items():
            rows = "".join(f"2024-05-01T{time},x\n" for time in times.split())
            written(tmp_path / f"{name}.csv", "time,s\n" + rows)
        options = [part for name in inputs for part in ("-i", f"{name}={name}.csv")]
        with chdir(tmp_path):
            result = CliRunner().invoke(app, ["explain", "n.cep", "--not", asked, "--at", f"2024-05-01T{at}", *options])
        assert result.exit_code == 0, result.output
        return " ".join(result.output.split())

    return answer


def test_the_nearest_attempt_gives_what_was_asked_for(nearest: Callable[..., str]) -> None:
    rules = "event w(s: string) TIME time. hears(a, x). hears(b, x). "
    rules += "heard(A, S, T) <- w(S) WHERE hears(A, S), T = end()."
    over = nearest(rules, "heard(b)", "08:00", w="00:00 05:00")
    assert 'there is w("x") at 2024-05-01T05:00:00Z' in over and 'A = "b"' in over
    assert over.endswith("but this match had ended 3 h before the time asked for; all other conditions hold")
    assert 'but `hears(A, S)` does not hold hears(A, S): A = "c"' in nearest(rules, "heard(c)", "08:00", w="05:00")
    other = nearest(rules, "heard(b, x, 2024-05-01T06:00:00Z)", "08:00", w="05:00")
    assert "but `T = end()` does not hold" in other
    chain = "event a(s: string) TIME time. k(S, 1) <- a(S). k(S, N + 1) <- k(S, N) SEQ a(S)."
    assert 'there is k("x", 3) from' in nearest(chain, "k(x, 4)", "08:00", a="00:00 05:00 07:00")
    assert nearest(chain, "k(x, 9)", "08:00", a="00:00 05:00 07:00").endswith('but it derives k("x", 3)')


@pytest.mark.parametrize(("window", "at"), [("LAST 3 EVENTS", "200000"), ("SESSION 3 d", "459200")])
def test_a_window_without_a_length_is_looked_at_from_its_beginning(tmp_path: Path, window: str, at: str) -> None:
    rules = f"event a(k: string) TIME t. e(K, N) <- a(K) AGGREGATE N = count() OVER {window} BY K WHERE N > 3."
    written(tmp_path / "n.cep", rules)
    written(tmp_path / "a.csv", "t,k\n1,k\n2,k\n200000,k\n")
    with chdir(tmp_path):
        result = CliRunner().invoke(app, ["explain", "n.cep", "-i", "a=a.csv", "--not", "e(k, 4)", "--at", at])
    assert "N > 3:  3 > 3" in result.output


@pytest.mark.parametrize(
    ("rule", "at", "a", "b", "answer"),
    [
        ("SEQ b(S) WITHIN 1 h", "04:30", "00:00 02:00", "01:00:00.000001 03:30", "is exceeded by 30 min"),
        ("SEQ b(S) WITHIN 1 h", "05:00", "00:00 03:00", "01:00:00.000001 04:33:20.000001", "by 33 min 20.000001 s"),
        ("SEQ b(S) WITHIN 1 h", "05:00", "00:00 00:10 00:59", "03:00", "exceeded by 1 h 1 min"),
        ("SEQ b(S) WITHIN 1 h", "08:00", "05:00 07:00", "07:30", "had ended 30 min before"),
        ("SEQ b(S) WHERE duration() < 1 h", "08:00", "05:00 07:00", "07:30", "had ended 30 min before"),
        ("SEQ b(S) WHERE duration() < 1 h", "07:30", "05:00 06:00", "07:30", "1 h 30 min < 1 h"),
        ("EQUALS b(S)", "09:00", "05:00 07:00", "05:01 08:30", "at 2024-05-01T07:00:00Z there is b"),
        ("UNLESS b(S) WITHIN 1 h", "04:30", "00:00", "04:00", "had ended 3 h 30 min before"),
        ("UNLESS b(S) WITHIN 1 h", "05:30", "05:00", "05:20", 'b("x") came, at 2024-05-01T05:20:00Z'),
    ],
)
def test_the_nearest_attempt_missed_by_least(
    nearest: Callable[..., str], rule: str, at: str, a: str, b: str, answer: str
) -> None:
    events = "event a(s: string) TIME time. event b(s: string) TIME time. "
    assert answer in nearest(f"{events}e(S) <- a(S) {rule}.", "e(x)", at, a=a, b=b)


def test_a_variable_that_stands_twice_is_told_and_no_choice_of_a_policy(nearest: Callable[..., str]) -> None:
    events = "event a(s: string) TIME time. event b(s: string) TIME time. "
    told = nearest(events + 'pair(S, "y") <- b(S). e(S) <- a(S) SEQ pair(Z, Z).', "e(x)", "07:00", a="00:00", b="03:00")
    assert "but there is no pair(Z, Z)" in told and told.endswith('but it derives pair("x", "y")'), told


def test_variables_of_a_repetition_have_the_names_of_their_author(nearest: Callable[..., str]) -> None:
    events = "event a(s: string) TIME time. event b(s: string) TIME time. "
    rule = "e(S) <- (a(S) WHERE D = duration(), D < 1 s) TIMES 2 WITHIN 1 h."
    told = nearest(events + rule, "e(x)", "07:00", a="00:00 07:00", b="")
    assert told.count("D = duration(): 0 s") == 2 and "'" not in told, told


def test_a_variable_of_two_types_in_an_or_is_judged_with_either() -> None:
    program = "event c(k: int, x: float) TIME t. e(Z) <- (c(Z, _) OR c(_, Z)) WHERE Z > 2, Z <= 5."
    engine = Engine.from_text(program, lateness=None, remember=EVER)
    engine.receive([Event("c", (1, 0.5), 1_000_000, 1_000_000)])
    engine.close()
    found = Explainer(engine, times="seconds").why_not(EventQuestion("e", {}, 1_000_000, 1_000_000))
    assert "`Z > 2` does not hold" in "\n".join(refusals(found))


def test_absence_between_two_and_a_time_point_are_told_likewise(nearest: Callable[..., str]) -> None:
    events = "event a(s: string) TIME time. event b(s: string) TIME time. "
    between = nearest(events + "e(S) <- NOT(b(S)).[a(S), a(S)].", "e(x)", "07:00", a="00:00 07:00", b="03:00")
    assert between.endswith('but b("x") came, at 2024-05-01T03:00:00Z')
    twice = "e(S) <- NOT(b(S)).[a(S), a(S)] WITHIN 1 h."
    both = nearest(events + twice, "e(x)", "07:00", a="00:00 05:00 07:00", b="03:00")
    assert "at 2024-05-01T05:00:00Z" in both and both.endswith("is exceeded by 1 h")
    point = "e <- 2024-05-01T07:00:00Z UNLESS a(_) WITHIN 1 h."
    assert nearest(events + point, "e", "04:30", a="00:00", b="").endswith("its time comes 2 h 30 min later")
    assert nearest(events + point, "e", "09:30", a="00:00", b="").endswith(
        "had ended 1 h 30 min before the time asked for; all other conditions hold"
    )
    count = "e(S, N) <- a(S) AGGREGATE N = count() OVER LAST 1 h BY S WHERE N > 2."
    for asked in ("e(x)", "e(x, 3)"):
        few = nearest(events + count, asked, "02:30", a="00:00 02:20 02:30", b="")
        assert few.endswith("but `N > 2` does not hold N > 2: 2 > 2")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("warm(milk", "is not an event"),
        ("worm(milk)", "there is no event `worm`"),
        ("warm(milk, 8, 9)", "`warm` has 2 arguments, but 3 here"),
        ("warm(milk, hot)", "`t` is of type float, `hot` is not"),
        ("warm(name: milk)", "`warm` has no attribute `name`"),
        ("a(1) SEQ b(2)", "is not an event"),
    ],
)
def test_what_is_no_event_is_refused(asked: str, message: str) -> None:
    engine = Engine.from_text(
        "event a(t: int). warm(F, T) <- r(F, T) WHERE T > 1.0.", remember=EVER, types={"r": ("string", "float")}
    )
    with pytest.raises(CepError) as error:
        read_question(asked, engine)
    assert message in error.value.message


@pytest.mark.parametrize(
    ("asked", "typed"),
    [
        ("burn(user-profile)", 'burn("user-profile")'),
        ("burn(7b)", 'burn("7b")'),
        ("burn(Jörg Müller)", 'burn("Jörg Müller")'),
        ("burn(k: a/b)", 'burn(k: "a/b")'),
        ("burn(12:30)", 'burn("12:30")'),
        ("burn(2024-05-01)", 'burn("2024-05-01")'),
        ("burn(3 h)", 'burn("3 h")'),
        ("burn(1+2)", 'burn("1+2")'),
        ("burn(O'Neil)", 'burn("O\'Neil")'),
        ("two('x', 'b c')", 'two("x", "b c")'),
        ('burn(say "a")', 'burn("say \\"a\\"")'),
        ("two(x, b-c)", 'two(x, "b-c")'),
        ("at_place(Jörg Müller) = Café X", 'at_place("Jörg Müller") = "Café X"'),
        ("burn(a-b) at 3", 'burn("a-b") at 3'),
        ('burn("a)', 'burn("a")'),
        ('burn(a")', 'burn("a")'),
        ('burn("a', 'burn("a")'),
        ('burn("a, b)', 'burn("a, b")'),
        ('two("a", "b)', 'two("a", "b")'),
        ('two(x, k: "b c)', None),
        ('burn("a"b")', 'burn("a\\"b")'),
        ('burn(k: "a b)', 'burn(k: "a b")'),
        ('burn("a) at 3', 'burn("a") at 3'),
        ("burn(", None),
        ("burn(1", None),
        ("burn(x, )", None),
        ("burn(a) SEQ burn(b)", None),
    ],
)
def test_what_has_to_stand_in_quotes_is_shown_in_quotes(asked: str, typed: str | None) -> None:
    engine = Engine.from_text(
        "event x(k: string) TIME t. burn(K) <- x(K). two(K, K) <- x(K). fluent at_place(k: string) = p: string. "
        "initiate at_place(K) = K <- x(K).",
        remember=EVER,
    )
    with pytest.raises(CepError) as error:
        read_question(asked, engine)
    told = error.value.hint or ""
    assert ("double quotes" in told) == (typed is not None), told
    if typed is not None:
        assert f"`{typed}`, in a shell `{shlex.quote(typed)}`" in told
        if " at " not in typed:
            read_question(typed, engine)


def test_times_are_read() -> None:
    assert interval("10", UNIT) == (10_000_000, 10_000_000)
    assert interval("1970-01-01T00:00:01Z/2.5", UNIT) == (1_000_000, 2_500_000)
    assert interval("1970-W01-4/1970-01-01 24:00", UNIT) == (0, 86_400_000_000), "in the forms of records"
    assert interval("1970-01-01T00:00:01,5Z", UNIT) == (1_500_000, 1_500_000)
    assert read_question("a(_, X1)", Engine.from_text("b <- a(X, Y)."), "1/2") == EventQuestion(
        "a", {1: "X1"}, 1_000_000, 2_000_000
    )
    for wrong in ("tomorrow", "2/1", "1970-W54-1", "1970-01-01T24:30"):
        with pytest.raises(CepError):
            interval(wrong, UNIT)
