"""Event descriptions of RTEC, as clauses that are sorted by purpose.

A clause initiates, terminates, defines, declares or grounds a fluent, derives an event, or is atemporal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from cep.core.errors import CepError, Mistakes, Source, Span
from cep.language.dialects.rtec.terms import Compound, Many, Term, Var, alternatives, clauses, conjuncts
from cep.rules.parameters import Parameters

VERBS = {"initiatedAt": "initiate", "terminatedAt": "terminate"}
DECLARATIONS = {
    "event": 1, "simpleFluent": 1, "sDFluent": 1, "inputEntity": 1, "outputEntity": 1, "internalEntity": 1,
    "index": 2, "cachingOrder": 1, "cachingOrder2": 2, "dynamicDomain": 1, "needsGrounding": 3, "cyclic": 1,
    "collectGrounds": 2, "collectIntervals2": 2, "buildFromPoints2": 2, "dgrounded": 2, "temporalDistance": 1,
}  # fmt: skip
"""The declarations that only control how RTEC runs, with the number of arguments of each."""
RULE = "e.g. `initiatedAt(rich(X)=true, T) :- happensAt(win_lottery(X), T).`"
LOADING = "consult", "include", "ensure_loaded", "load_files", "use_module"
HEADS = (
    "initiatedAt",
    "terminatedAt",
    "initially",
    "holdsFor",
    "happensAt",
    "holdsAt",
    "fi",
    "maxDuration",
    "maxDurationUE",
)
"""Predicates that can be the head of a clause about time. Each has a fixed number of arguments."""
COMPILED = "holdsForSDFluent", "happensAtEv", "happensAtIE", "holdsForProcessedSimpleFluent"


@dataclass(frozen=True, slots=True)
class FluentValuePair:
    """A fluent with a value, `location(P)=home`."""

    term: Compound
    value: Term
    span: Span


@dataclass(frozen=True, slots=True)
class Clause:
    """A clause about a fluent or an event.

    - `verb`: initiate, terminate, initially, happens, holds or ground.
    - `time`: the time argument of the head, T or I.
    - `number`: the clause's number in its description.
    """

    verb: str
    fluent: FluentValuePair | None
    event: Compound | None
    time: Term | None
    body: tuple[Term, ...]
    span: Span
    head_span: Span
    number: int


@dataclass(frozen=True, slots=True)
class FutureInitiation:
    """A deadline of a fluent, `fi(F=V, F=W, R)`."""

    before: FluentValuePair
    after: FluentValuePair
    length: Term
    body: tuple[Term, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class AtemporalRule:
    """A rule that has no time, `vessel(V) :- fishing(V).`, or a fact."""

    head: Compound
    body: tuple[Term, ...]
    span: Span
    number: int


@dataclass(slots=True)
class EventDescription:
    """All clauses of a description, and the mistakes in it.

    `renewed`: the fluents for which a clause `p(F=V)` says that each initiation restarts the deadline. `inputs`: the
    fluents that are declared as input.
    """

    source: Source
    errors: Mistakes = field(default_factory=Mistakes)
    clauses: list[Clause] = field(default_factory=list)
    deadlines: list[FutureInitiation] = field(default_factory=list)
    renewed: list[FluentValuePair] = field(default_factory=list)
    inputs: list[FluentValuePair] = field(default_factory=list)
    atemporal: list[AtemporalRule] = field(default_factory=list)

    def error(self, message: str, span: Span, hint: str | None = None, code: str = "syntax") -> None:
        self.errors.append(CepError(message, self.source, span, hint, code))


def sorted_clauses(source: Source, tick: int, parameters: Parameters | None = None) -> EventDescription:
    """Read the clauses of a description and sort them by purpose. Mistakes are added to the result's `errors`."""
    description = EventDescription(source)
    number = 0
    for clause in clauses(source, tick, parameters):
        if isinstance(clause, CepError):
            description.errors.add(clause)
            continue
        if isinstance(clause, Compound) and clause.name == ":-" and len(clause.arguments) == 1:
            for conjunct in conjuncts(clause.arguments[0]):  # a directive: `:- dynamic f/1.`
                if _loads(conjunct):
                    hint = "put all clauses in one file: `cat rules.prolog facts.prolog > all.prolog`"
                    description.error("a description cannot load another file", conjunct.span, hint, "dialect")
            continue
        head = clause
        bodies: list[list[Term]] = [[]]
        if isinstance(clause, Compound) and clause.name == ":-":
            head = clause.arguments[0]
            bodies = alternatives(conjuncts(clause.arguments[1]))
        if not isinstance(head, Compound) or head.quoted:
            description.error("the head of a clause must be a predicate", head.span, RULE)
            continue
        for body in bodies:
            number += 1
            try:
                _sort(description, head, tuple(term for term in body if term != Compound("true")), clause.span, number)
            except CepError as error:
                description.errors.append(error)
                break
    return description


def _loads(directive: Term) -> bool:
    if isinstance(directive, Many):
        return bool(directive.items)
    if not isinstance(directive, Compound) or not directive.arguments:
        return False
    library = isinstance(directive.arguments[0], Compound) and directive.arguments[0].name == "library"
    return directive.name in LOADING and not library


def _sort(description: EventDescription, head: Compound, body: tuple[Term, ...], span: Span, number: int) -> None:
    name, arguments = head.name, head.arguments
    own = head.span
    match name, len(arguments):
        case (("initiatedAt" | "terminatedAt"), 2):
            fluent_value = fluent(description.source, arguments[0])
            description.clauses.append(Clause(VERBS[name], fluent_value, None, arguments[1], body, span, own, number))
        case "initially", 1:
            fluent_value = fluent(description.source, arguments[0])
            description.clauses.append(Clause("initially", fluent_value, None, None, body, span, own, number))
        case "holdsFor", 2:
            fluent_value = fluent(description.source, arguments[0])
            description.clauses.append(Clause("holds", fluent_value, None, arguments[1], body, span, own, number))
        case "happensAt", 2:
            event = arguments[0]
            if not isinstance(event, Compound):
                raise refused(description.source, "an event must have a name", event.span, RULE)
            description.clauses.append(Clause("happens", None, event, arguments[1], body, span, own, number))
        case "grounding", 1:
            (what,) = arguments
            if isinstance(what, Compound) and what.name == "=":
                grounded = fluent(description.source, what)
                description.clauses.append(Clause("ground", grounded, None, None, body, span, own, number))
        case "fi", 3:
            before, after = fluent(description.source, arguments[0]), fluent(description.source, arguments[1])
            description.deadlines.append(FutureInitiation(before, after, arguments[2], body, span))
        case (("maxDuration" | "maxDurationUE"), 3):  # the older spelling of `fi` and `p`
            before, after = fluent(description.source, arguments[0]), fluent(description.source, arguments[1])
            description.deadlines.append(FutureInitiation(before, after, arguments[2], body, span))
            if name == "maxDurationUE":
                description.renewed.append(before)
        case "p", 1:
            description.renewed.append(fluent(description.source, arguments[0]))
        case (("collectIntervals" | "buildFromPoints" | "points"), 1):
            description.inputs.append(fluent(description.source, arguments[0]))
        case _ if name in HEADS:
            hint = (
                RULE if name != "holdsAt" else "define it with `holdsFor(F=V, I) :- ..`, or begin it with `initiatedAt`"
            )
            if len(arguments) == 4:
                hint = "this is output of RTEC's compiler; use the description itself, with `initiatedAt(F=V, T)`"
            raise refused(
                description.source,
                f"`{name}` with {len(arguments)} arguments cannot be the head of a clause",
                own,
                hint,
            )
        case _ if name in DECLARATIONS and len(arguments) == DECLARATIONS[name]:
            return
        case _ if name in COMPILED:
            hint = "this is output of RTEC's compiler; use the description itself, with `initiatedAt(F=V, T)`"
            raise refused(description.source, f"`{name}` cannot be the head of a clause", own, hint)
        case _ if name in ("=", "\\+", "->", "-->"):
            raise refused(description.source, f"`{name}` cannot be the head of a clause", own, RULE)
        case _:
            description.atemporal.append(AtemporalRule(head, body, span, number))


def fluent(source: Source, term: Term) -> FluentValuePair:
    """Split the term `F=V` into a fluent and its value. Raises CepError if the term has another form."""
    if not (isinstance(term, Compound) and term.name == "=" and len(term.arguments) == 2):
        hint = "a fluent is written with its value: `moving(V)=true`, `location(P)=home`"
        raise refused(source, "expected a fluent and its value", term.span, hint)
    left, value = term.arguments
    if not isinstance(left, Compound) or left.quoted:
        raise refused(source, "a fluent must have a name", left.span, "`moving(V)=true`")
    return FluentValuePair(left, value, term.span)


def refused(source: Source, message: str, span: Span, hint: str | None = None, code: str = "dialect") -> CepError:
    """Create the error for a mistake or for an unsupported feature."""
    return CepError(message, source, span, hint, code)


def flat(source: Source, term: Compound) -> tuple[str, tuple[Term, ...]]:
    """Flatten the nested terms of a fluent or event. Return its new name and its arguments.

    The names of nested terms become part of the name: `obl(pay(X))` becomes `obl_pay(X)`.
    """
    name = term.name
    terms: list[Term] = []
    for argument in term.arguments:
        if isinstance(argument, Compound) and argument.arguments:
            inner, arguments = flat(source, argument)
            name += f"_{inner}"
            terms += arguments
        else:
            terms.append(argument)
    return name, tuple(terms)


def timed(source: Source, term: Compound, time: Term | None) -> None:
    """Check that a condition refers to the same time as the head of its clause. Raises CepError if it does not.

    `time`: the time of the head.
    """
    asked_time = term.arguments[1]
    if not isinstance(asked_time, Var) or not isinstance(time, Var) or asked_time.name != time.name:
        raise refused(source, f"`{term.name}` is about another time than the head", asked_time.span,
                      "all conditions must have the time of the head: `happensAt(.., T)`")  # fmt: skip


def names_of(arguments: Sequence[Term]) -> list[str | None]:
    """Return an attribute name for each argument: a variable's name in lower case. For all other arguments, and for
    variables that begin with `_`, the name is None."""
    return [
        argument.name.lower() if isinstance(argument, Var) and argument.name[0] != "_" else None
        for argument in arguments
    ]
