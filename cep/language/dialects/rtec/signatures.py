"""Signatures of an event description: the kind of each event, fluent and predicate, and its number of arguments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from cep.core.errors import CepError, Source, Span
from cep.language.dialects.rtec.description import EventDescription, FluentValuePair, flat, fluent, names_of, refused
from cep.language.dialects.rtec.durations import FINDALL, durations
from cep.language.dialects.rtec.terms import Compound, Many, Number, Term, Var
from cep.language.dialects.rtec.types import ARITHMETIC, FUNCTIONS, Types

EVENT, FLUENT, PREDICATE, GROUND = "event", "fluent", "predicate", "grounding"
COMPARISONS = {"=": "=", "\\=": "!=", "==": "=", "\\==": "!=", "is": "=", "=:=": "=", "=\\=": "!=", "<": "<",
               ">": ">", "=<": "<=", ">=": ">="}  # fmt: skip
RECKONED = ("is", "=:=", "=\\=", "<", ">", "=<", ">=")
CONSTRUCTS = {"union_all": 2, "intersect_all": 2, "relative_complement_all": 3, "complement_all": 2,
              "intDurGreater": 3, "intDurLess": 3}  # fmt: skip
FORMS = {
    "happensAt": "happensAt(gap_start(V), T)", "holdsAt": "holdsAt(moving(V)=true, T)",
    "holdsFor": "holdsFor(moving(V)=true, I1)", "grounding": "grounding(moving(V)=true)",
    "member": "member(X, [a, b])", "memberchk": "memberchk(X, [a, b])", "\\+": "\\+ holdsAt(moving(V)=true, T)",
    "union_all": "union_all([I1, I2], I)", "intersect_all": "intersect_all([I1, I2], I)",
    "relative_complement_all": "relative_complement_all(I1, [I2], I)", "complement_all": "complement_all([I1], I)",
    "intDurGreater": "intDurGreater(I1, 10, I)", "intDurLess": "intDurLess(I1, 10, I)",
}  # fmt: skip
"""An example of each condition of RTEC."""
EDGES = {"start": "BEGIN", "end": "END"}
_CONVERTED = "`cep convert` prints the description in our own language, and there"
_COUNTED = f"{_CONVERTED} `count(M, N) WHILE voted(V, M) = aye AGGREGATE N = count() BY M.` counts what holds"
_CHANGED = "use a fluent for what changes with time: `initiatedAt`, `terminatedAt`"
_SHOWN = "leave it out: `cep run` writes what holds"
_TERMS = "use facts with an argument for each part: `limit(kind, 5).`"
FOREIGN = {
    "findall": f"`{FINDALL}`; {_COUNTED}",
    **dict.fromkeys(("setof", "bagof", "length", "aggregate_all", "sum_list", "max_list", "min_list"), _COUNTED),
    "forall": "use two negations: `\\+ f(X)`, and a rule for f with the condition negated",
    **dict.fromkeys(("assert", "assertz", "asserta", "retract", "nb_getval", "nb_setval"), _CHANGED),
    **dict.fromkeys(("format", "write", "writeln", "nl"), _SHOWN),
    "!": "rules have no order here: write conditions of which only one can be true",
    "fail": "leave this rule out: what no rule derives is false",
    "->": "write two rules, one for each case",
    "not": "use `\\+ holdsAt(moving(V)=true, T)`",
    "allen": f"{_CONVERTED} `a(X) DURING b(X)`, `MEETS`, `OVERLAPS` relate complete intervals, in an event rule",
    "startI": "use `start(F=V)`",
    "initiatedAt": "use `happensAt(start(F=V), T)` for its beginning; or derive an event that both rules use",
    "terminatedAt": "use `happensAt(end(F=V), T)` for its end; or derive an event that both rules use",
    "call": "write the condition itself",
    **dict.fromkeys(("nth0", "nth1", "append", "maplist", "=..", "sort", "last"), _TERMS),
    "@<": "use `<` for numbers, `\\=` for all other values",
    "@>": "use `>` for numbers, `\\=` for all other values",
}
"""For each unsupported predicate of Prolog and RTEC, advice on what to write instead."""
ALLEN = "before", "meets", "starts", "finishes", "during", "overlaps", "equal"
"""The names of interval relations in conditions such as `during(I1, I2, union, I)`."""


@dataclass(slots=True)
class Signatures:
    """The signatures of a description. The keys of `kinds` and `names` are the names of events, fluents and predicates.

    - `kinds`: the kind of each: event, fluent or predicate.
    - `names`: the attribute names of each.
    - `derived`: the events in heads of rules.
    - `defined`: the fluents that `holdsFor` defines.
    - `simple`: the fluents that clauses initiate.
    - `groundings`: for each fluent, the bodies of its grounding clauses.
    - `facts`: for each predicate, the arguments of its facts.
    """

    source: Source
    kinds: dict[str, str] = field(default_factory=dict)
    arities: dict[str, int] = field(default_factory=dict)
    places: dict[str, Span] = field(default_factory=dict)
    names: dict[str, list[str | None]] = field(default_factory=dict)
    derived: set[str] = field(default_factory=set)
    defined: set[str] = field(default_factory=set)
    simple: set[str] = field(default_factory=set)
    groundings: dict[str, list[Sequence[Term]]] = field(default_factory=dict)
    facts: dict[str, list[tuple[Term, ...]]] = field(default_factory=dict)
    rules: set[str] = field(default_factory=set)
    terms: dict[tuple[str, int, int], str] = field(default_factory=dict)

    def meet(self, kind: str, term: Compound, value: Term | None = None) -> tuple[str, tuple[Term, ...]]:
        """Record one use of an event, fluent or predicate. Return the name and the arguments that `term` has in our
        syntax.

        Raises CepError if an earlier use has another kind, number of arguments, or nesting of terms.
        """
        for nth, arg in enumerate(term.arguments):
            inner = arg.name if isinstance(arg, Compound) and arg.arguments else ""
            shape = "a term" if inner else "a value"
            if self.terms.setdefault((term.name, len(term.arguments), nth), shape) != shape:
                raise refused(self.source, f"`{term.name}` has {shape} as argument here, but not elsewhere", arg.span,
                              f"use one form everywhere: `{term.name}(pay(X))`, or `{term.name}(pay, X)`")  # fmt: skip
        name, arguments = flat(self.source, term)
        arguments = arguments if value is None else (*arguments, value)
        if self.kinds.setdefault(name, kind) != kind:
            message = f"`{name}` is {_a(self.kinds[name])} elsewhere, but {_a(kind)} here"
            raise refused(self.source, message, term.span, "use a different name for each")
        if self.arities.setdefault(name, len(arguments)) != len(arguments):
            less = 1 if kind == FLUENT else 0
            message = f"`{name}` has {self.arities[name] - less} arguments elsewhere, but {len(arguments) - less} here"
            raise refused(
                self.source, message, term.span, "use the same number of arguments everywhere, or another name", "arity"
            )
        self.places.setdefault(name, term.span)
        attribute_names = names_of(arguments)
        known = self.names.setdefault(name, attribute_names)
        self.names[name] = [known_name or other for known_name, other in zip(known, attribute_names, strict=True)]
        return name, arguments

    # --- grounding ---

    @staticmethod
    def ground(name: str) -> str:
        """Return the name of the predicate that contains the possible arguments and values of a fluent."""
        return f"grounding_{name}"

    def grounded(self, name: str) -> bool:
        return name in self.groundings

    def closed(self, name: str) -> bool:
        """Return True if the fluent's grounding uses only comparisons and predicates that this description defines."""
        return all(
            isinstance(goal, Compound) and (goal.name in self.rules or goal.name in COMPARISONS)
            for body in self.groundings.get(name, ())
            for goal in body
        )

    # --- numbers ---

    def number(self, term: Term, body: Sequence[Term]) -> float:
        """Return the number that a term stands for. If the term is a variable, this is its value in the facts that
        match the conditions of `body`.

        Raises CepError if there is not exactly one such number.
        """
        if isinstance(term, Number):
            values = [term.value]
        else:
            values = [
                own.value
                for goal in body
                if isinstance(goal, Compound) and term in goal.arguments
                for fact in self.facts.get(goal.name, ())
                if len(fact) == len(goal.arguments)
                and all(isinstance(a, Var) or a == b for a, b in zip(goal.arguments, fact, strict=True))
                for own in [fact[goal.arguments.index(term)]]
                if isinstance(own, Number)
            ]
        if len(values) != 1:
            hint = "use a number, or a variable that a single fact of this text binds: `thresholds(gap, R)`"
            raise refused(self.source, "the length of this deadline is not known", term.span, hint)
        return values[0]


def _a(kind: str) -> str:
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def signatures(description: EventDescription, types: Types) -> Signatures:
    """Collect the signatures of everything that a description uses. Mistakes are added to the description's errors."""
    collected = Signatures(description.source)
    for rule in description.atemporal:
        collected.rules.add(rule.head.name)
        if not rule.body:
            collected.facts.setdefault(rule.head.name, []).append(rule.head.arguments)
    collecting = _Collecting(description.source, collected, types)
    for clause in description.clauses:
        with _Noting(description):
            collecting.number = clause.number
            if clause.event is not None:
                collected.derived.add(collecting.used(EVENT, clause.event))
            if clause.fluent is not None:
                collecting.head(clause.verb, clause.fluent, clause.body)
            for goal in clause.body:
                collecting.condition(goal)
    for rule in description.atemporal:
        with _Noting(description):
            collecting.number = rule.number
            collecting.used(PREDICATE, rule.head)
            for goal in rule.body:
                collecting.condition(goal)
    for deadline in description.deadlines:
        with _Noting(description):
            collecting.number += 1
            collecting.used(FLUENT, deadline.before.term, deadline.before.value)
            collecting.used(FLUENT, deadline.after.term, deadline.after.value)
    for fluent_input in description.inputs:
        with _Noting(description):
            collecting.number += 1
            collecting.used(FLUENT, fluent_input.term, fluent_input.value)
    for name in collected.defined & collected.simple:
        description.error(f"`{name}` is defined both by events and by holdsFor", collected.places[name],
                          "use one of the two; or a second fluent, and a union of both", "dialect")  # fmt: skip
    for name, kind in collected.kinds.items():
        if (kind == EVENT and name not in collected.derived) or (
            kind == FLUENT and name not in collected.defined | collected.simple
        ):
            for index in range(collected.arities[name]):
                types.note(("argument", name, index), "input", collected.places[name])
    return collected


class _Noting:
    """A context manager that catches a CepError and adds it to the errors of a description."""

    def __init__(self, description: EventDescription) -> None:
        self.description = description

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: object, trace: object) -> bool:
        if isinstance(error, CepError):
            self.description.errors.add(error)
            return True
        return False


class _Collecting:
    def __init__(self, source: Source, collected: Signatures, types: Types) -> None:
        self.source, self.made, self.types = source, collected, types
        self.number = 0

    def used(self, kind: str, term: Compound, value: Term | None = None) -> str:
        name, arguments = self.made.meet(kind, term, value)
        self.types.use(name, arguments, self.number)
        return name

    def head(self, verb: str, fluent: FluentValuePair, body: Sequence[Term]) -> None:
        name = self.used(FLUENT, fluent.term, fluent.value)
        if verb == "holds":
            self.made.defined.add(name)
        elif verb == "ground":
            self.made.groundings.setdefault(name, []).append(body)
            ground = self.made.ground(name)
            term = Compound(ground, (*flat(self.source, fluent.term)[1], fluent.value), fluent.span)
            self.used(GROUND, term)
            for index in range(len(term.arguments)):
                self.types.same(("argument", ground, index), ("argument", name, index))
        else:
            self.made.simple.add(name)

    def condition(self, term: Term) -> None:
        """Collect the signatures of the events, fluents and predicates in a condition. Raises CepError if it is not
        supported."""
        if not isinstance(term, Compound):
            raise refused(self.source, "this is not a condition", term.span)
        arguments = term.arguments
        match term.name, len(arguments):
            case "\\+", 1:
                self.condition(arguments[0])
            case "happensAt", 2:
                event = arguments[0]
                if not isinstance(event, Compound):
                    raise refused(self.source, "an event must have a name", event.span)
                if event.name in EDGES and len(event.arguments) == 1:
                    pair = fluent(self.source, event.arguments[0])
                    self.used(FLUENT, pair.term, pair.value)
                elif event.name == "startI":
                    raise refused(self.source, "`startI` is not supported", event.span, "use `start(F=V)`")
                else:
                    self.used(EVENT, event)
            case (("holdsAt" | "holdsFor"), 2):
                pair = fluent(self.source, arguments[0])
                self.used(FLUENT, pair.term, pair.value)
            case name, number if CONSTRUCTS.get(name) == number or durations(term) is not None:
                return
            case "grounding", 1:
                return
            case (("member" | "memberchk"), 2) if isinstance(arguments[1], Many):
                own = self.types.key(arguments[0], self.number)
                for item in arguments[1].items:
                    self.types.same(own, self.types.key(item, self.number))
            case name, 2 if name in COMPARISONS:
                if any(isinstance(argument, Many) for argument in arguments):
                    return
                self.compared(name, arguments)
            case name, _ if name in FORMS:
                raise refused(
                    self.source, f"this is not how `{name}` is written", term.span, f"its form is `{FORMS[name]}`"
                )
            case name, _ if name in FOREIGN or name == ";" or name == ",":
                hint = "negate each condition by itself: `\\+ holdsAt(..), \\+ holdsAt(..)`"
                raise refused(self.source, f"`{name}` is not supported", term.span, FOREIGN.get(name, hint))
            case _:
                self.used(PREDICATE, term)

    def compared(self, name: str, arguments: tuple[Term, ...]) -> None:
        keys = []
        for argument in arguments:
            arithmetic = (
                isinstance(argument, Compound) and argument.arguments and argument.name in (*ARITHMETIC, *FUNCTIONS)
            )
            reckoned = name in RECKONED or arithmetic
            keys.append((self.types.reckoned if reckoned else self.types.key)(argument, self.number))
        self.types.same(*keys)
