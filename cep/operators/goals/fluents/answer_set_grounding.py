"""Rules of answer sets, grounded, and the searches of them by clingo: the only module that knows it.

Facts that come and go are externals of one grounding (Gebser, Kaminski, Kaufmann, Schaub, *Multi-shot ASP solving with
clingo*, 2019). What is found depends on the facts and on those that were grounded, never on earlier searches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Any

from cep.core.errors import CepError
from cep.core.extras import install_command
from cep.events import Iri, Value
from cep.rules.answer_set_rules import AnswerSetRules

if TYPE_CHECKING:
    from clingo import Control, SolveResult, Symbol

Row = tuple[Value, ...]
Fact = tuple[int, Row]
"""The number of an input, and its values."""
Derived = tuple[int, Row, int | None]
"""The number of a derived predicate, its values, and its tick; None: it is true now."""
Calculate = Callable[[int, Row], Value]
"""What a calculation comes to, by its number; None: to nothing."""

CONFLICTS = 20_000
"""How long a better answer set is looked for, in conflicts of the search."""
MOST = 10_000
"""How many answer sets are told at most."""
ENDLESS = 100_000
"""After how many calculations the rules are taken to go on without end."""
RANKED = 30_000
"""So many atoms have a place in the order that decides between answer sets equally near (clingo: 16 bits)."""


@dataclass(frozen=True, slots=True)
class SolverLimits:
    """`seconds`: of all searches of a tick, None: any; the others as they are described above."""

    seconds: float | None = None
    conflicts: int = CONFLICTS
    most: int = MOST
    endless: int = ENDLESS


@dataclass(frozen=True, slots=True)
class Found:
    """`answers`: those that were found, sorted; `late`: the search was given up before there was any."""

    answers: tuple[frozenset[Derived], ...]
    late: bool = False


@dataclass
class Grounding:
    """Rules, grounded with facts of which some are true at a time."""

    rules: AnswerSetRules
    calculate: Calculate
    written: Callable[[Derived], str]
    limits: SolverLimits
    given: list[Fact]
    first: int
    now: int
    control: Control = field(init=False)

    def __post_init__(self) -> None:
        clingo = required()
        rules = self.rules
        options = ["--heuristic=Domain", "--forget-on-step=15", "--warn=none"]
        self.control = clingo.Control(options, logger=lambda *_: None, message_limit=0)
        self.control.add("base", [], rules.text + self._ticks())
        self.facts: dict[Fact, int] = {}
        with self.control.backend() as backend:
            for number, row in self.given:
                atom = backend.add_atom(clingo.Function(f"i{number}", [_symbol(each) for each in row]))
                if rules.clocked:
                    backend.add_rule([atom])
                else:
                    backend.add_external(atom)
                    self.facts[number, row] = atom
            self.told = {} if rules.clocked else {name: backend.add_atom(clingo.Function(name)) for name in rules.tells}
            for atom in self.told.values():
                backend.add_external(atom)
        self._ground()
        self._measure(clingo)
        self.assigned: set[Fact] = set()
        self.last: set[Derived] = set()
        self.settings: dict[str, Any] = {}
        self.until: float | None = None

    def _ticks(self) -> str:
        """The facts that are about the tick, where there are others at the next."""
        rules = self.rules
        found = ["i0."]
        if rules.clocked:
            found.append(f"now({self.now}). first({self.first}).")
            spans = (window.span(self.first, self.now) for window in rules.windows)
            found += [f"w{number}({first}, {last})." for number, (first, last) in enumerate(spans)]
            found += [f"{name}." for name in sorted(rules.told(self.first, self.now))]
        return " ".join(found)

    def _ground(self) -> None:
        calculations = _Calculations(self)
        try:
            self.control.ground([("base", [])], context=calculations)
        except Exception:
            if calculations.failed is not None:
                raise calculations.failed from None
            raise

    def _measure(self, clingo: Any) -> None:
        """Tell the solver what distance from the last answer set is, and which of equally near ones comes first."""
        atoms: dict[Derived, int] = {}
        for number, each in enumerate(self.rules.derived):
            found = self.control.symbolic_atoms.by_signature(f"d{number}", each.arity + each.timed)
            for atom in found:
                values = [_value(argument) for argument in atom.symbol.arguments]
                tick = values.pop() if each.timed else self.now
                assert isinstance(tick, int), "ticks are whole numbers"
                atoms[number, tuple(values), None if tick == self.now else tick] = atom.literal
        self.atoms = {each: atoms[each] for each in sorted(atoms, key=self.written)}
        self.was: dict[Derived, int] = {}
        with self.control.backend() as backend:
            changed = []
            for rank, (known, literal) in enumerate(self.atoms.items()):
                self.was[known] = before = backend.add_atom()
                backend.add_external(before)
                changed.append((backend.add_atom(), 1))
                backend.add_rule([changed[-1][0]], [literal, -before])
                backend.add_rule([changed[-1][0]], [before, -literal])
                if rank < RANKED:
                    place = RANKED - rank
                    backend.add_heuristic(literal, clingo.backend.HeuristicType.True_, place, place, [])
            backend.add_minimize(0, changed)

    def assign(self, facts: frozenset[Fact], last: frozenset[Derived], told: frozenset[str]) -> None:
        """What is true from now on: the facts, what was derived before, and what is told of the tick."""
        if self.facts:
            for each in self.assigned ^ facts:
                self.control.assign_external(self.facts[each], each in facts)
            self.assigned = set(facts)
        for name, atom in self.told.items():
            self.control.assign_external(atom, name in told)
        known = {each for each in last if each in self.was}
        for atom in self.last ^ known:
            self.control.assign_external(self.was[atom], atom in known)
        self.last = known

    def nearest(self, last: frozenset[Derived], seconds: float | None = None) -> Found:
        """The answer set that is the nearest to `last`, which is assigned; the search may take so many seconds, None:
        any."""
        limits = self.limits
        self.until = None if seconds is None else monotonic() + seconds
        if len(self.last) == len(last) and self._is_answer():
            return Found((last,))
        found, proved = self._best("opt", limits.conflicts)
        if found is None and not proved:
            found, proved = self._best("ignore", None)
        if found is None:
            return Found((), not proved)
        distance = len(found ^ self.last)
        if distance and proved:
            least, _ = self._best(f"enum,{distance}", limits.conflicts)
            found = found if least is None else least
        return Found((found,))

    def _is_answer(self) -> bool:
        """Whether the last answer set still is one, which is seen without a search."""
        self._set("ignore", 1, "umax")
        wanted = [literal if atom in self.last else -literal for atom, literal in self.atoms.items()]
        return bool(self.control.solve(assumptions=wanted).satisfiable)

    def _best(self, mode: str, conflicts: int | None) -> tuple[frozenset[Derived] | None, bool]:
        """The last answer set that a search finds, and whether it came to its end."""
        self._set(mode, 0 if mode == "opt" else 1, "umax" if conflicts is None else str(conflicts))
        found: list[frozenset[Derived]] = []
        result = self._searched(lambda model: found.append(self._read(model)))
        ended = not result.interrupted and (mode != "opt" or bool(result.exhausted))
        return (found[-1] if found else None), ended

    def _set(self, mode: str, models: int, limit: str) -> None:
        """How to search. Each setting takes as long as a small search, so what is set stays."""
        wanted = {"opt_mode": mode, "models": models, "solve_limit": limit}
        if wanted != self.settings:
            settings: Any = self.control.configuration.solve
            for name, value in wanted.items():
                if self.settings.get(name) != value:
                    setattr(settings, name, value)
            self.settings = wanted

    def _searched(self, tell: Callable[[Any], None]) -> SolveResult:
        """Search for answer sets, until the time is over."""
        if self.until is None:
            return self.control.solve(on_model=tell)
        with self.control.solve(on_model=tell, async_=True) as search:
            if not search.wait(max(0.0, self.until - monotonic())):
                search.cancel()
            result: SolveResult = search.get()
            return result

    def _read(self, model: Any) -> frozenset[Derived]:
        return frozenset(each for each, literal in self.atoms.items() if model.is_true(literal))

    def all(self) -> Found:
        limits = self.limits
        self._set("ignore", limits.most + 1, "umax")
        found: list[frozenset[Derived]] = []
        self.control.solve(on_model=lambda model: found.append(self._read(model)))
        if len(found) > limits.most:
            raise CepError(
                f"there are more than {limits.most} answer streams at tick {self.now}",
                hint="`--models 1` gives one of them; constraints, `:- a, b.`, leave fewer",
                code="answers",
            )
        return Found(tuple(sorted(found, key=lambda answer: sorted(map(self.written, answer)))))


class _Calculations:
    """What the grounder calls: `@c(number, ..)`."""

    def __init__(self, grounding: Grounding) -> None:
        self.grounding = grounding
        self.count = 0
        self.failed: CepError | None = None

    def c(self, number: Symbol, *arguments: Symbol) -> Symbol | list[Symbol]:
        self.count += 1
        calculation = self.grounding.rules.calculations[number.number]
        if self.count > self.grounding.limits.endless:
            self.failed = CepError(
                "this rule goes on without end: it derives what it calculates from again",
                span=calculation.span,
                hint="bound it, as in `T < 100`",
                code="endless",
            )
            raise self.failed
        try:
            value = self.grounding.calculate(number.number, tuple(_value(each) for each in arguments))
        except CepError as error:
            self.failed = error
            raise
        return [] if value is None else _symbol(value)


def required() -> Any:
    """The solver. CepError: it is not installed."""
    try:
        import clingo
        import clingo.backend
    except ImportError:
        raise CepError(
            "negation goes in circles here, which takes a solver that is not installed",
            hint=install_command("lars"),
            code="solver",
        ) from None
    return clingo


def _symbol(value: Value) -> Symbol:
    """As `symbol_text` writes it."""
    from clingo import Function, Number, String

    match value:
        case bool():
            return Function("b", [Number(int(value))])
        case int():
            return Number(value) if abs(value) < 2**31 else Function("l", [String(str(value))])
        case float():
            return _symbol(int(value)) if value.is_integer() else Function("f", [String(repr(value))])
        case Iri():
            return Function("r", [String(str(value))])
        case _:
            return String(str(value))


def _value(symbol: Symbol) -> Value:
    kind = symbol.type.name
    if kind == "Number":
        return symbol.number
    if kind == "String":
        return symbol.string
    inside = symbol.arguments[0]
    match symbol.name:
        case "b":
            return bool(inside.number)
        case "l":
            return int(inside.string)
        case "f":
            return float(inside.string)
        case _:
            return Iri(inside.string)
