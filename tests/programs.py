"""Random programs and streams, as Hypothesis strategies.

Everything is drawn from one Hypothesis `Random`. It shrinks and, unlike many small strategies, does not repeat
variations of earlier draws.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from hypothesis import strategies as st

from cep.events import Event
from tests.condition_maker import KNOWN, PREFIX, STATICS, Kind, Rule
from tests.program_maker import LAST_SECOND, SECOND, VALUES, Maker


@dataclass(frozen=True)
class Program:
    text: str
    events: tuple[Event, ...]
    restricted: bool  # a policy but unrestricted governs some goal
    aggregates: bool
    negative: bool  # NOT, CNOT or UNLESS
    knowledge: str = ""  # Turtle

    @property
    def any_order(self) -> bool:
        """Its result is a set fixed by the input alone, whatever the arrival order."""
        return not self.restricted and not self.aggregates

    def __repr__(self) -> str:
        lines = [f"    {event!r}," for event in self.events]
        return "\n".join(["Program:", self.knowledge, self.text, "events = [", *lines, "]"])


def event_kinds(random: Random) -> tuple[list[Kind], bool]:
    """Event types, and whether all events are points."""
    points = random.choice((False, True))
    kinds = []
    for name in "abcd"[: random.randint(2, 4)]:
        declared = random.randint(0, 2) == 2
        types = ["int"]
        for _ in range(random.randint(0, 1)):
            types.append(random.choice(("int", "int", "int", "float", "string")))
        optional = [declared and random.randint(0, 4) == 4 for _ in types]
        kinds.append(
            Kind(name, tuple(types), tuple(optional), declared, declared and points and random.choice((False, True)))
        )
    return kinds, points


def stream(random: Random, kinds: list[Kind], points: bool, most: int, lines: list[str]) -> tuple[Event, ...]:
    """Events of the kinds that the rules read, in a time short enough for ties."""
    names = set(re.findall(r"\w+", " ".join(lines)))
    kinds = [kind for kind in kinds if kind.name in names] or kinds
    last = random.choice((8, LAST_SECOND, 5, 3))
    events = []
    for _ in range(random.randint(0 if random.randrange(5) == 0 else most // 2, most)):
        kind = random.choice(kinds)
        args = tuple(
            None if optional and random.randrange(3) == 2 else random.choice(VALUES[type])
            for type, optional in zip(kind.types, kind.optional)
        )
        end = random.choice(range(last + 1))
        start = end if points or kind.point else max(0, end - random.choice((0, 1, 0, 2, 3, 5)))
        events.append(Event(kind.name, args, start * SECOND, end * SECOND))
    return tuple(events)


def with_equal(random: Random, events: tuple[Event, ...]) -> tuple[Event, ...]:
    """The events, and here and there a few that equal one of them."""
    found = list(events)
    for _ in range(random.choice((0, 1, 2, len(events) // 3)) if events else 0):
        found.insert(random.randint(0, len(found)), random.choice(found))
    return tuple(found)


def finished(maker: Maker, inputs: list[Kind], events: tuple[Event, ...]) -> Program:
    # A policy goes by what is known to be a number.
    by = any("(by " in line for line in maker.lines)
    declarations = [kind.declaration() for kind in inputs if kind.declared or by]
    statics = [(STATICS | KNOWN)[name][1] for name in sorted(maker.statics)]
    text = "\n".join([PREFIX] * maker.knowledge + declarations + maker.lines + statics)
    knowledge = triples(maker.random) if maker.knowledge else ""
    return Program(text, events, maker.restricted, maker.aggregates, maker.negative, knowledge)


NODES = range(1, 4)


def triples(random: Random) -> str:
    """A little knowledge of a few nodes. One has every property, with values that no event has, so that no pattern is
    without a type."""
    lines = ['k:s0 k:n 7 ; k:m 7, 7.5 ; k:t "w" ; k:p k:s0 ; a k:C .']
    lines += [triple(random) for _ in range(random.randint(0, 16))]
    return f"{PREFIX}\n" + "\n".join(dict.fromkeys(lines)) + "\n"


def triple(random: Random) -> str:
    letter, kind, other = random.choice("uv"), random.choice("CD"), random.choice(NODES)
    number = random.choice((0, 1, "1.0", "0.5", 2))
    things = (f"k:n {random.randint(0, 2)}", f"k:m {number}", f'k:t "{letter}"', f"k:p k:s{other}", f"a k:{kind}")
    return f"k:s{random.choice(NODES)} {random.choice((things[0], *things, things[3]))} ."


def gone(random: Random) -> str:
    """All that a node may be, or one property of it."""
    things = ("k:n 0, 1, 2", "k:m 0, 1, 1.0, 0.5, 2", 'k:t "u", "v"', "k:p k:s1, k:s2, k:s3", "a k:C, k:D")
    return f"k:s{random.choice(NODES)} {random.choice((' ; '.join(things), *things))} ."


def program(
    random: Random, policies: bool = True, aggregates: bool = True, most: int = 14, knowledge: bool = False
) -> Program:
    """Programs without recursion: 1 to 4 rules, the later ones on the earlier."""
    inputs, points = event_kinds(random)
    aggregates = aggregates and (policies or random.randrange(2) == 0)
    maker = Maker(random, list(inputs), policies=policies, several=not policies and not aggregates)
    maker.knowledge = knowledge
    heads: list[Kind] = []
    allow = frozenset({"unless", "point", "aggregate"} if aggregates else {"unless", "point"})
    for _ in range(random.choice((1, 1, 2, 2, 3, 4))):
        maker.rule = Rule(allow=allow)
        if policies and maker.chance(45):
            maker.lines.append(f"policy {maker.choice({})}.")
        if heads and maker.chance(20):  # another rule for an event
            again = maker.pick(heads)
            maker.kinds = [kind for kind in maker.kinds if kind not in heads]
            maker.statement(again.name, maker.pick((1, 2)), again.types)
            maker.kinds += heads
        else:
            head = maker.statement("efgh"[len(heads)], maker.pick((2, 1, 3)), None)
            heads.append(head)
            maker.kinds.append(head)
    return finished(maker, inputs, stream(random, inputs, points, most, maker.lines))


def iteration(random: Random, policies: bool = True) -> Program:
    """The common recursion, `x <- start. x <- x SEQ a`, with conditions, WITHIN, policies, and a rule that uses it."""
    inputs, points = event_kinds(random)
    maker = Maker(random, list(inputs), policies=policies)
    if policies and maker.chance(60):
        maker.lines.append(f"policy {maker.choice({})}.")
    types = ("int",) * random.randint(0, 2)
    for _ in range(random.choice((1, 1, 2))):
        maker.rule = Rule(leaves=2)
        maker.statement("x", random.randint(0, 1), types)
    for _ in range(random.choice((1, 1, 1, 2))):
        maker.rule = Rule()
        names = [maker.pick(("X", "Y", "_")) for _ in types]
        bound = {name: "int" for name in names if name != "_"}
        other, others = maker.atom()
        operator = maker.pick(("SEQ", "SEQ", "SEQ", "AND", "MEETS", "PAR", "DURING"))
        mine = f"x({', '.join(names)})" if names else "x"
        sides = (mine, other) if maker.chance(75) else (other, mine)
        body, bound = f"({sides[0]} {operator} {sides[1]})", others | bound
        if maker.chance(30):
            body, bound = maker.where(body, bound)
        if maker.chance(40):
            body, bound = maker.within(body, bound)
        head, _ = maker.head(bound, types, bounded=True)
        maker.lines.append(f"x{head} <- {body}.")
    maker.kinds.append(Kind("x", types, tuple(False for _ in types), False, False))
    if maker.chance(50):
        maker.rule = Rule(leaves=3, allow=frozenset({"unless", "aggregate"}))
        maker.statement("e", 1, None)
    return finished(maker, inputs, stream(random, inputs, points, 10, maker.lines))


def loop(random: Random) -> Program:
    """The recursion that a kernel runs, over intervals with many ties: what it derives is often what is given already,
    or derived in another way, and many occurrences go into one step."""
    inputs = [Kind(name, ("int", "int"), (False, False), True, False) for name in "ab"]
    maker = Maker(random, list(inputs))
    choice = maker.choice({"C": "int"})
    key = maker.pick(("_", "_", "K"))
    head, derived = (f"x({key}, {{}})", "K") if key == "K" else ("x({})", "")
    lines = [f"policy {choice}.", f"{head.format('C')} <- a({key}, C)."]
    if maker.chance(50):
        lines.append(f"{head.format('C')} <- b({key}, C).")
    new = maker.pick(("C + X", "C + X", "X", "C", "max(C, X)", "X - C"))
    pattern = f"{head.format('C')} SEQ {maker.pick('aab')}({key}, X)"
    if maker.chance(40):
        pattern = f"({pattern}) WITHIN {maker.pick((3, 2, 5))}"
    if maker.chance(30):
        pattern = f"{pattern} WHERE {maker.pick(('X > 0', 'C < X + 6', 'C != X', 'duration() <= 4 s'))}"
    lines.append(f"{head.format(new)} <- {pattern}.")
    if maker.chance(60):  # what depends on the order in which they come
        lines += [f"policy {maker.choice({'C': 'int'})}.", f"e(C, Y) <- {head.format('C')} SEQ b({derived or '_'}, Y)."]
    maker.lines += lines
    choices = [random.choice((0, 1, 2, 3, 5)) for _ in range(3)]
    events = []
    for _ in range(random.choice((6, 8, 10, 14))):
        end = random.randint(0, random.choice((6, 8)))
        start = max(0, end - random.choice((0, 0, 1, 2)))
        args = (random.choice((0, 0, 1)), random.choice(choices))
        events.append(Event(random.choice("aab"), args, start * SECOND, end * SECOND))
    return finished(maker, inputs, tuple(events))


def recursion(random: Random, policies: bool = True) -> Program:
    """General recursion: two events that any rule may use, and what is built on them."""
    inputs, points = event_kinds(random)
    maker = Maker(random, list(inputs), policies=policies)
    if policies and maker.chance(50):
        maker.lines.append(f"policy {maker.choice({})}.")
    names = ("x", "y")[: random.randint(1, 2)]
    kinds = [Kind(name, ("int",) * random.randint(0, 1), (False,), False, False) for name in names]
    for kind in kinds:
        maker.rule = Rule(leaves=2)
        maker.statement(kind.name, random.randint(0, 1), kind.types, bounded=True)
    maker.kinds = [*inputs, *kinds, *kinds]
    for _ in range(random.randint(1, 3)):
        maker.rule = Rule(leaves=3)
        kind = maker.pick(kinds)
        maker.statement(kind.name, maker.pick((1, 2)), kind.types, bounded=True)
    if maker.chance(40):
        maker.rule = Rule(leaves=2, allow=frozenset({"unless", "aggregate"}))
        maker.statement("e", 1, None)
    return finished(maker, inputs, stream(random, inputs, points, 7, maker.lines))


def contest(random: Random) -> Program:
    """One or two goals under a policy, and a stream full of ties; the head shows which partner was chosen."""
    points = random.randint(0, 3) == 3
    optional = random.randint(0, 4) == 4
    types = ("int", random.choice(("int", "float")))
    inputs = [Kind(name, types, (False, optional), True, False) for name in "abc"]
    maker = Maker(random, list(inputs))
    maker.rule = Rule(leaves=9)
    keys = {letter: maker.pick(("_", "_", "_", "K", "K", "1")) for letter in "abcx"}
    atom = {letter: f"{'b' if letter == 'x' else letter}({keys[letter]}, {letter.upper()})" for letter in "abcx"}
    bound = {"A": types[1], "B": types[1]}
    operators = 3 * ("SEQ", "AND") + ("PAR", "EQUALS", "MEETS", "OVERLAPS", "DURING", "STARTS", "FINISHES", "SEQ[1, 3]")
    shape = maker.pick(("pair", "pair", "same", "chain", "right", "not", "unless", "times"))
    first = f"{atom['a']} {maker.pick(operators)} {atom['b']}"
    if shape == "same":
        body = f"a({keys['a']}, A) {maker.pick(operators)} a({keys['b']}, B)"
    elif shape == "chain":
        body, bound = f"({first}) {maker.pick(operators)} {atom['c']}", bound | {"C": types[1]}
    elif shape == "right":
        body, bound = f"{atom['c']} {maker.pick(operators)} ({first})", bound | {"C": types[1]}
    elif shape == "not":
        absent = f"c({maker.pick(('K', '_', 'L'))}, {maker.pick(('_', 'A', 'B', 'M'))})"
        if "K" not in (keys["a"], keys["b"]):
            absent = absent.replace("K", "L")
        body = f"NOT({absent}).[{atom['a']}, {atom['b']}]"
        maker.negative = True
    elif shape == "unless":
        body = f"({atom['a']} UNLESS c(_, 1) WITHIN 1) {maker.pick(operators)} {atom['b']}"
        maker.negative = True
    elif shape == "times":
        body, bound = f"a(_, A) {maker.pick(operators)} (b(_, _) TIMES 2)", {"A": types[1]}
    else:
        body = first
    if maker.chance(45):
        one, other = maker.pick(list(bound)), maker.pick(list(bound))
        condition = maker.pick(
            (
                f"{one} < {other} + 1",
                f"{one} != {other}",
                f"p({one}, W), p({other}, W)",
                "duration() <= 2",
                f"{one} > 0",
            )
        )
        if "p(" in condition:
            maker.statics.add("p")
        body = f"({body}) WHERE {condition}"
    if maker.chance(25):
        body += f" WITHIN {maker.pick((3, 2, 5))}"
    name = maker.pick(("recent", "chronological"))
    ties = ["", "(longest)", "(shortest)", *(f"(by {v})" for v in bound)]
    maker.restricted = True
    arguments = ", ".join(bound)
    maker.lines.append(f"policy {name}{maker.pick(ties)}.\ne({arguments}) <- {body}.")
    return finished(maker, inputs, stream(random, inputs, points, 16, maker.lines))


FORMS = (
    "EACH 2 s", "EACH 5 s", "EACH 3500 ms", "EACH 1 week", "SESSION 1 s", "SESSION 2 s", "LAST 4 s EVERY 2 s",
    "LAST 3 s EVERY 1 s", "LAST 2500 ms EVERY 1500 ms", "LAST 2 s EVERY 2 s",
)  # fmt: skip


def window(random: Random) -> Program:
    """One aggregate over a dense stream, and perhaps a goal under a policy that takes its results."""
    points = random.randint(0, 2) == 2
    optional = random.randint(0, 3) == 3
    kinds = [Kind(name, ("int", random.choice(("int", "float"))), (False, optional), True, False) for name in "ab"]
    maker = Maker(random, list(kinds))
    maker.rule = Rule(leaves=3)
    value = kinds[0].types[1]
    atom = maker.pick(("a(G, X)", "a(G, X)", "a(_, X)", "a(G, X) SEQ b(_, _)", "(a(G, X) WHERE X >= 1)"))
    bound = {"X": value, "G": "int"} if "G" in atom else {"X": value}
    lasts = ("3 s", "1 s", "2 s", "5 s", "2500 ms", "3 EVENTS", "1 EVENTS", "2 EVENTS")
    body, results = maker.aggregate(atom, bound, tuple(f"LAST {last}" for last in lasts) + FORMS)
    names = list(results)
    head = f"({', '.join(names)})" if names else ""
    maker.lines.append(f"e{head} <- {body}.")
    if maker.chance(40):
        choice = maker.choice({})
        arguments = ", ".join(chr(ord("P") + i) for i in range(len(names)))
        taken = f"e({arguments})" if names else "e"
        sides = maker.pick(((taken, "b(_, N)"), ("b(_, N)", taken)))
        arguments = f"({arguments}, N)" if names else "(N)"
        maker.lines.append(
            f"policy {choice}.\nf{arguments} <- {sides[0]} {maker.pick(('AND', 'SEQ', 'PAR'))} {sides[1]}."
        )
    return finished(maker, kinds, stream(random, kinds, points, 14, maker.lines))


@st.composite
def drawn(draw: st.DrawFn, make: Callable[..., Program], options: dict[str, Any]) -> Program:
    random = draw(st.randoms(use_true_random=False))
    made = make(random, **options)
    return replace(made, events=with_equal(random, made.events))


def programs(**options: Any) -> st.SearchStrategy[Program]:
    """Programs without recursion. Options: `policies`, `aggregates`, `knowledge` (may they be there), `most`
    (events)."""
    return drawn(program, options)


def contests() -> st.SearchStrategy[Program]:
    """One or two goals that choose among many."""
    return drawn(contest, {})


def windows() -> st.SearchStrategy[Program]:
    """Aggregates."""
    return drawn(window, {})


def iterations() -> st.SearchStrategy[Program]:
    """The common recursion."""
    return drawn(iteration, {})


def loops() -> st.SearchStrategy[Program]:
    """The recursion that a kernel runs, with many ties."""
    return drawn(loop, {})


def recursions() -> st.SearchStrategy[Program]:
    """Recursion in general."""
    return drawn(recursion, {})


CONDITIONS = (
    "X = Y", "Y = X", "Y = X + 1", "X * 2 = Y - 1", "X / 2 = Y", "0 - X = Y", "coalesce(X, 1) = Y", "S = T",
    "upper(S) = upper(T)", "X = length(T)", "X = Y + 0.5", "X + I = Y", "X = Y + J", "I = J",
)  # fmt: skip
"""Each side of the equation is of one event."""
ORDERS = ("X < Y", "X <= Y", "Y < X", "Y >= X + 1", "X + 0.5 <= Y", "Y - X > 0", "I >= J")
"""The same of an inequality, but for one."""
OTHER_CONDITIONS = (*ORDERS, "X + Y = 2", "X = 1", "duration() = 3 s", "(X = Y or S = T)", "not (X = Y)")
RELATIONS = ("SEQ", "SEQ", "AND", "AND", "SEQ[0, 2]", "PAR", "OVERLAPS", "EQUALS", "STARTS", "MEETS")
CHOICES = ("", "", "chronological", "chronological(shortest)", "chronological(by X)", "recent", "recent(by X)")


def matching(random: Random) -> Program:
    """One rule over two events whose conditions compare what one has with what the other has."""
    declared = random.random() < 0.6
    kinds = []
    for name in "abc":
        optional = declared and random.choice((False, True))
        types = ("int", random.choice(("int", "float")), "string")
        kinds.append(Kind(name, types, (False, optional, optional), declared, False))
    key = random.choice(("", "", "K"))
    both = [each for each in (*CONDITIONS, *OTHER_CONDITIONS) if not (key and {"I", "J"} & set(each.split()))]
    first = random.choice((CONDITIONS, ORDERS))
    conditions = [random.choice([each for each in both if each in first]), *random.sample(both, random.randint(0, 3))]
    left, right = f"a({key or 'I'}, X, S)", f"b({key or 'J'}, Y, T)"
    pattern = f"{left} {random.choice(RELATIONS)} {right}"
    if negative := random.random() < 0.3:
        absent = random.choice((key or "J", "_")), random.choice("XY_"), random.choice("ST_")
        pattern = f"NOT(c({', '.join(absent)})).[{left}, {right}]"
    policy, within = random.choice(CHOICES), random.choice(("", " WITHIN 4"))
    lines = [f"o(X, Y, S, T) <- ({pattern} WHERE {', '.join(conditions)}{within}){policy and f' POLICY {policy}'}."]
    events = with_equal(random, stream(random, kinds, random.choice((True, False)), random.choice((8, 14, 40)), lines))
    declarations = [kind.declaration() for kind in kinds if declared or "(by" in policy]
    return Program("\n".join([*declarations, *lines]), events, bool(policy), False, negative)


def matchings() -> st.SearchStrategy[Program]:
    return st.randoms(use_true_random=False).map(matching)
