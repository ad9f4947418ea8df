"""Cycles that never end at one instant: refused when the program is read, and only these."""

from __future__ import annotations

from random import Random

import pytest

from cep.core.errors import CepError
from cep.core.interval_relations import RELATIONS
from cep.engine import Engine
from cep.events import Event
from tests import reference
from tests.long import seeds

START = "it(S, 1) <- s(S).\n"
TYPES = {"s": ("int",), "a": ("int",)}
EVENTS = [Event("s", (1,), 0, 9), Event("s", (1,), 3, 9), Event("a", (1,), 1, 9), Event("a", (2,), 3, 9)]
EVENTS += [
    Event("a", (3,), 0, 5),
    Event("a", (3,), 4, 5),
    Event("a", (3,), 0, 9),
    Event("a", (1,), 9, 20),
    Event("a", (2,), 20, 30),
    Event("a", (2,), 31, 31),
]


def derived(text: str, events: list[Event] = EVENTS, limit: int = 500) -> int | None:
    """How many events a program derives, as its reference says; None: it goes on for ever. Raises CepError."""
    engine = Engine.from_text(text, types=TYPES, max_derivations=limit)
    engine.receive([event for event in events if event.type in engine.inputs])
    try:
        made = sum(table.height for table in engine.close().values())
    except CepError as error:
        assert error.code == "recursion"
        return None
    assert made == len(reference.detect(text, events))
    return made


ENDLESS = {
    "and": ("recent", "it(S + X, N + 1) <- it(S, N) AND a(X) WITHIN 10 s.", "S"),
    "par": ("recent", "it(S + X, N + 1) <- it(S, N) PAR a(X) WITHIN 10 s.", "S"),
    "right": ("recent", "it(S, N + 1) <- a(X) AND it(S, N).", "N"),
    "shortest": ("recent(shortest)", "it(S, N + 1) <- it(S, N) AND a(X).", "N"),
    "unrestricted": ("unrestricted", "it(S, N + 1) <- it(S, N) AND a(X).", "N"),
    "equals": ("recent", "it(S, N + 1) <- it(S, N) EQUALS a(X).", "N"),
    "starts": ("recent", "it(S, N + 1) <- a(X) STARTS it(S, N).", "N"),
    "finishes": ("recent", "it(S, N + 1) <- a(X) FINISHES it(S, N).", "N"),
    "during": ("recent", "it(S, N + 1) <- a(X) DURING it(S, N).", "N"),
    "by where": ("recent", "it(S, M) <- it(S, N) AND a(X) WHERE M = N + X.", "N"),
    "through two": ("recent", "j(N + 1, S) <- it(S, N) AND a(_).\nit(S, N) <- j(N, S).", "N"),
    "crossed": ("recent", "it(N, S + 1) <- it(S, N) AND a(_).", "S"),
    "joined": ("recent", "it(S, N + 1) <- it(S, N) AND a(S).", "N"),
    "another condition": ("recent", "it(S, N + 1) <- it(S, N) AND a(X) WHERE X > 0, S < 9.", "N"),
    "or": ("recent", "it(S, N + 1) <- (it(S, N) OR it(S, N)) AND a(X).", "N"),
}


@pytest.mark.parametrize("name", ENDLESS)
def test_what_takes_the_same_again_for_ever_is_refused_when_it_is_read(name: str) -> None:
    policy, rule, bound = ENDLESS[name]
    with pytest.raises(CepError, match=r"never ends: at one instant it takes the same occurrence again") as raised:
        Engine.from_text(f"policy {policy}.\n{START}{rule}", types=TYPES)
    assert f"a WHERE that bounds `{bound}`" in str(raised.value) and "SEQ" in str(raised.value)
    with pytest.raises(RuntimeError, match="goes on for ever"):
        reference.detect(f"policy {policy}.\n{START}{rule}", EVENTS)


def test_two_sides_of_one_event_are_refused() -> None:
    with pytest.raises(CepError, match="this AND never ends"):
        Engine.from_text(f"{START}it(X + Y, N) <- it(X, N) AND it(Y, _).", types=TYPES)


ENDING = {
    "sequence": ("recent", "it(S + X, N + 1) <- it(S, N) SEQ a(X)."),
    "from the right": ("recent", "it(S + X, N + 1) <- a(X) SEQ it(S, N)."),
    "finishes": ("recent", "it(S + X, N + 1) <- it(S, N) FINISHES a(X)."),
    "meets": ("recent", "it(S + X, N + 1) <- it(S, N) MEETS a(X)."),
    "used up": ("chronological", "it(S + X, N + 1) <- it(S, N) AND a(X)."),
    "bounded": ("recent", "it(S + X, N + 1) <- it(S, N) AND a(X) WHERE N < 5."),
    "bounded below": ("recent", "it(S + X, N + 1) <- (it(S, N) WHERE N < 5) AND a(X)."),
    "bounded elsewhere": ("recent", "j(S, N + 1) <- it(S, N) AND a(_).\nit(S, N) <- j(S, N) WHERE N < 5."),
    "bounded in what it makes": ("recent", "it(S, M) <- it(S, N) AND a(X) WHERE M = N + 1, M < 5."),
    "no new values": ("recent", "it(X, 1) <- it(S, N) AND a(X)."),
    "the greatest": ("recent", "it(max(S, X), N) <- it(S, N) AND a(X)."),
    "around": ("recent", "it(S, (N + 1) mod 5) <- it(S, N) AND a(X)."),
    "of the other": ("recent", "it(X + 1, 1) <- it(S, N) AND a(X)."),
    "joined": ("recent", "it(S + 1, N) <- it(S, N) AND a(S)."),
    "one of its values": ("recent", "it(S + 1, 2) <- it(S, 1) AND a(X)."),
}


@pytest.mark.parametrize("name", ENDING)
def test_what_ends_is_taken(name: str) -> None:
    policy, rule = ENDING[name]
    assert derived(f"policy {policy}.\n{START}{rule}") is not None


def test_what_derives_itself_alone_is_a_warning_and_stops_at_the_limit() -> None:
    engine = Engine.from_text("it(S, 1) <- s(S).\nit(S, N + 1) <- it(S, N).", types=TYPES, max_derivations=100)
    (warning,) = [each for each in engine.warnings if "never ends" in each.message]
    assert warning.span is not None and warning.span.line == 2
    with pytest.raises(CepError, match="a recursion does not end"):
        engine.receive(EVENTS[:1])
        engine.close()
    quiet = Engine.from_text("it(S, 1) <- s(S).\nit(S, N + 1) <- it(S, N) WHERE N < 9.", types=TYPES)
    assert not [each for each in quiet.warnings if "never ends" in each.message]


@pytest.mark.parametrize(
    "value", ['replace(N, "a", "aa")', 'format("{}a", N)', 'concat(N, "a")', "sin(N)", "atan(N)", "if(S > 0, N + 1, N)"]
)
def test_every_function_that_goes_on_to_new_values_is_known(value: str) -> None:
    types = {"s": ("int",), "a": ("float" if value.startswith(("sin", "atan")) else "int",)}
    first = "1.0" if value.startswith(("sin", "atan")) else "1" if value.startswith("if") else '"a"'
    with pytest.raises(CepError, match="never ends"):
        Engine.from_text(f"it(S, {first}) <- s(S).\nit(S, {value}) <- it(S, N) AND a(X).", types=types)


UNSURE = [
    ("N + 1", "N > 0"),
    ("N + 1", "N != 7"),
    ("N + 1", "N mod 2 >= 0"),
    ("N + 1", "not known(N)"),
    ("N + 1", "N + 1 > 5"),
    ("N - 1", "N < 5"),
    ("N + 1", "(N > 0 or N < 9)"),
    ("N + 1", "5 < N"),
    ("N + 1", "N <= N"),
    ("M", "M = N + 1, M > 0"),
    ("N + 1", "min(N, 3) < 5"),
    ("N + X", "N > 0"),
    ("X + N", "0 < N"),
    ("N - X", "N < 5"),
    ("N * 2", "N > 0"),
    ("N + 1", "-N < 5"),
    ("N - 1", "9 - N > 5"),
    ("N - 1", "int(N * 2) / 3 - 1 < 5"),
]
SURE = [
    ("N + 1", "N < 5"),
    ("N + 1", "5 > N"),
    ("N + 1", "N != 7, N < 9"),
    ("N + 1", "known(N)"),
    ("N + X", "N < 9"),
    ("N - 1", "N > -5"),
    ("N + 1", "N = 3"),
    ("N + 1", "(N < 3 or known(N))"),
    ("M", "M = N + 1, M < 5"),
    ("N * 2", "N + 3 < 50"),
    ("N + 1", "abs(N) < 5"),
    ("N - X", "N > -5"),
    ("N + -1", "N > -5"),
    ("N - -1", "N < 5"),
    ("N * 0", "N > 0"),
    ("N + 1", "-N > -5"),
    ("N - 1", "9 - N < 12"),
    ("N - 1", "N - 3 > -9"),
    ("N - 1", "int(N * 2) / 3 - 1 > -5"),
]


@pytest.mark.parametrize(
    ("value", "condition", "joined"),
    [(*each, joined) for each in UNSURE for joined in (" AND a(X)", "") if joined or "X" not in each[0]],
)
def test_a_condition_that_may_not_end_a_cycle_is_a_warning(value: str, condition: str, joined: str) -> None:
    text = f"known(2).\n{START}it(S, {value}) <- it(S, N){joined} WHERE {condition}."
    (warning,) = [each for each in Engine.from_text(text, types=TYPES).warnings if "may never end" in each.message]
    named = condition.removeprefix("M = N + 1, ")
    named = named[1:-1] if named.startswith("(") else named
    assert warning.message == (
        f"`it` derives itself at the same instant with new values each time, which `{named}` may never end"
    )
    assert warning.span is not None and warning.span.line == 3


@pytest.mark.parametrize(("value", "condition"), SURE)
def test_a_condition_that_ends_a_cycle_is_none(value: str, condition: str) -> None:
    text = f"known(2).\n{START}it(S, {value}) <- it(S, N) AND a(X) WHERE {condition}."
    assert not [each for each in Engine.from_text(text, types=TYPES).warnings if "at the same instant" in each.message]
    assert derived(text) is not None


@pytest.mark.parametrize("seed", seeds(240))
def test_of_random_cycles_those_are_refused_that_may_go_on_for_ever(seed: int) -> None:
    """Through one event or two, with values that grow or do not, whatever the relation, the side and the policy."""
    random = Random(seed)
    relation = random.choice([name for name in RELATIONS if name != "MEETS"])  # what meets an instant may go on
    sides = [random.choice(("it(S, N)", "it(S, N)", "(it(S, N) OR it(S, N))")), "a(X)"]
    random.shuffle(sides)
    value = random.choice(("N + 1", "N + X", "N * 2 + 1", "max(N, X)", "N", "X", "7", "(N + 1) mod 3", "X + 1"))
    head = random.choice(("it", "it", "j"))
    text = f"policy {random.choice(('recent', 'unrestricted', 'chronological'))}.\n{START}"
    text += f"{head}(S, {value}) <- {f' {relation} '.join(sides)}.\n"
    if head == "j":
        text += random.choice(("it(S, N) <- j(S, N).", "it(S, N) <- j(S, N) WHERE N < 4.", "it(S, N) <- j(N, S)."))
    for _ in range(3):
        events = [Event("s", (0,), 0, random.randrange(9))]
        for _ in range(random.randrange(1, 4)):
            start = random.randrange(9)
            events.append(Event("a", (random.randrange(1, 4),), start, start + random.randrange(6)))
        try:
            assert derived(text, events, 300) is not None, text
        except CepError as error:
            assert "never ends" in str(error), error
