"""A solver for the answer sets of rules, which searches each key separately.

solve(facts, last):  the answer set nearest to `last`, that of the tick before, or all answer sets

Facts that begin and end are external atoms of one grounding, which is used until an unknown fact arrives (Gebser,
Kaminski, Kaufmann, Schaub, *Multi-shot ASP solving with clingo*, 2019). Rules that use the number of the tick are
grounded anew at each tick. If such rules only test whether the tick lies in a window, this test is an external atom
too, so that they need no new grounding. Results depend on the current facts and on the facts in the grounding. They
never depend on earlier searches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
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
"""An input fact: the number of its predicate, and its values."""
Derived = tuple[int, Row, int | None]
"""A derived atom: the number of its predicate, its values, and its tick (None: the current one)."""
Calculate = Callable[[int, Row], Value]
"""A function that returns the result of a calculation, given its number and its arguments. It returns None if the
calculation has no result."""

CONFLICTS = 20_000
"""The maximum number of conflicts in the search for the answer set nearest to the last one. The search then ends with
the nearest answer set found so far."""
MOST = 10_000
"""The maximum number of answer sets that are output. If there are more, the run fails."""
ENDLESS = 100_000
"""The number of calculations after which the grounding of the rules is considered endless."""
RANKED = 30_000
"""The maximum number of atoms that rank answer sets at equal distance from the last one. Ranks have 16 bits in
clingo."""


@dataclass(frozen=True, slots=True)
class SolverLimits:
    """Limits of the search.

    - `seconds`: the time limit for all searches of a tick together, or None.
    - `conflicts`, `most`, `endless`: see CONFLICTS, MOST and ENDLESS.
    """

    seconds: float | None = None
    conflicts: int = CONFLICTS
    most: int = MOST
    endless: int = ENDLESS


@dataclass(frozen=True, slots=True)
class Found:
    """The result of a search. `answers`: the answer sets in order. `late`: True if the time limit ended the search
    before it found an answer set."""

    answers: tuple[frozenset[Derived], ...]
    late: bool = False


@dataclass
class Grounding:
    """Rules that are grounded together with facts. The solver can switch each fact on and off."""

    rules: AnswerSetRules
    calculate: Calculate
    written: Callable[[Derived], str]
    limits: SolverLimits
    grounded: list[Fact]
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
            for number, row in self.grounded:
                atom = backend.add_atom(clingo.Function(f"i{number}", [_symbol(value) for value in row]))
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
        rules = self.rules
        facts = ["i0."]
        if rules.clocked:
            facts.append(f"now({self.now}). first({self.first}).")
            spans = (window.span(self.first, self.now) for window in rules.windows)
            facts += [f"w{number}({first}, {last})." for number, (first, last) in enumerate(spans)]
            facts += [f"{name}." for name in sorted(rules.told(self.first, self.now))]
        return " ".join(facts)

    def _ground(self) -> None:
        calculations = _Calculations(self)
        try:
            self.control.ground([("base", [])], context=calculations)
        except Exception:
            if calculations.failed is not None:
                raise calculations.failed from None
            raise

    def _measure(self, clingo: Any) -> None:
        """Make the solver prefer the answer set that differs least from the last one.

        Equally near answer sets are ranked by their atoms.
        """
        atoms: dict[Derived, int] = {}
        for number, predicate in enumerate(self.rules.derived):
            symbols = self.control.symbolic_atoms.by_signature(f"d{number}", predicate.arity + predicate.timed)
            for atom in symbols:
                values = [_value(argument) for argument in atom.symbol.arguments]
                tick = values.pop() if predicate.timed else self.now
                assert isinstance(tick, int), "ticks are whole numbers"
                atoms[number, tuple(values), None if tick == self.now else tick] = atom.literal
        self.atoms = {atom: atoms[atom] for atom in sorted(atoms, key=self.written)}
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
        """Tell the solver which external atoms are true: facts, atoms of the last answer set, atoms about the tick."""
        if self.facts:
            for fact in self.assigned ^ facts:
                self.control.assign_external(self.facts[fact], fact in facts)
            self.assigned = set(facts)
        for name, atom in self.told.items():
            self.control.assign_external(atom, name in told)
        known = {derived for derived in last if derived in self.was}
        for atom in self.last ^ known:
            self.control.assign_external(self.was[atom], atom in known)
        self.last = known

    def nearest(self, last: frozenset[Derived], seconds: float | None = None) -> Found:
        """Return the answer set nearest to `last`. Call `assign` with the same `last` before.

        `seconds`: the time limit, or None.
        """
        limits = self.limits
        self.until = None if seconds is None else monotonic() + seconds
        if len(self.last) == len(last) and self._is_answer():
            return Found((last,))
        answer, proved = self._best("opt", limits.conflicts)
        if answer is None and not proved:
            answer, proved = self._best("ignore", None)
        if answer is None:
            return Found((), not proved)
        distance = len(answer ^ self.last)
        if distance and proved:
            least, _ = self._best(f"enum,{distance}", limits.conflicts)
            answer = answer if least is None else least
        return Found((answer,))

    def _is_answer(self) -> bool:
        """Return True if the last answer set is also an answer set of the current facts. This check needs no search."""
        self._set("ignore", 1, "umax")
        wanted = [literal if atom in self.last else -literal for atom, literal in self.atoms.items()]
        return bool(self.control.solve(assumptions=wanted).satisfiable)

    def _best(self, mode: str, conflicts: int | None) -> tuple[frozenset[Derived] | None, bool]:
        """Search for answer sets. Return the last answer set that the search finds, or None. Also return True if the
        search was completed, otherwise False.

        `mode`: clingo's optimisation mode. `conflicts`: the maximum number of conflicts, or None.
        """
        self._set(mode, 0 if mode == "opt" else 1, "umax" if conflicts is None else str(conflicts))
        answers: list[frozenset[Derived]] = []
        result = self._searched(lambda model: answers.append(self._read(model)))
        ended = not result.interrupted and (mode != "opt" or bool(result.exhausted))
        return (answers[-1] if answers else None), ended

    def _set(self, mode: str, models: int, limit: str) -> None:
        """Configure the search.

        Only changed settings are passed on, because a change of a setting takes as long as a small search.
        """
        wanted = {"opt_mode": mode, "models": models, "solve_limit": limit}
        if wanted != self.settings:
            settings: Any = self.control.configuration.solve
            for name, value in wanted.items():
                if self.settings.get(name) != value:
                    setattr(settings, name, value)
            self.settings = wanted

    def _searched(self, tell: Callable[[Any], None]) -> SolveResult:
        if self.until is None:
            return self.control.solve(on_model=tell)
        with self.control.solve(on_model=tell, async_=True) as search:
            if not search.wait(max(0.0, self.until - monotonic())):
                search.cancel()
            result: SolveResult = search.get()
            return result

    def _read(self, model: Any) -> frozenset[Derived]:
        return frozenset(derived for derived, literal in self.atoms.items() if model.is_true(literal))

    def all(self) -> Found:
        limits = self.limits
        self._set("ignore", limits.most + 1, "umax")
        answers: list[frozenset[Derived]] = []
        self.control.solve(on_model=lambda model: answers.append(self._read(model)))
        if len(answers) > limits.most:
            raise CepError(
                f"there are more than {limits.most} answer streams at tick {self.now}",
                hint="use `--models 1` for one of them, or add constraints: `:- a, b.`",
                code="answers",
            )
        return Found(tuple(sorted(answers, key=lambda answer: sorted(map(self.written, answer)))))


class _Calculations:
    """The functions that rules call during grounding: `@c(number, ..)`."""

    def __init__(self, grounding: Grounding) -> None:
        self.grounding = grounding
        self.count = 0
        self.failed: CepError | None = None

    def c(self, number: Symbol, *arguments: Symbol) -> Symbol | list[Symbol]:
        self.count += 1
        calculation = self.grounding.rules.calculations[number.number]
        if self.count > self.grounding.limits.endless:
            self.failed = CepError(
                "this rule never ends: it calculates new values from its own results",
                span=calculation.span,
                hint="add a bound, as in `T < 100`",
                code="endless",
            )
            raise self.failed
        try:
            value = self.grounding.calculate(number.number, tuple(_value(argument) for argument in arguments))
        except CepError as error:
            self.failed = error
            raise
        return [] if value is None else _symbol(value)


def required() -> Any:
    """Return the module `clingo`. Raises CepError if it is not installed."""
    try:
        import clingo
        import clingo.backend
    except ImportError:
        raise CepError(
            "rules depend on each other through `not` here, which needs a solver that is not installed",
            hint=install_command("lars"),
            code="solver",
        ) from None
    return clingo


def _symbol(value: Value) -> Symbol:
    """Return a value as a clingo symbol, equal to the one that `symbol_text` writes."""
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


Key = tuple[Value, ...] | None
KEPT = 256
"""The maximum number of groundings that are kept. The groundings of the most recently searched keys are kept."""
SHARED: Key = ()
WHOLE: Key = None
"""Two special keys. SHARED: facts that belong to every key. WHOLE: all keys together."""
_HOLDS_ALL = 8
"""The maximum ratio of known facts to facts that hold. Above this ratio, groundings are rebuilt without the facts that
have ended."""


class AnswerSetSolver:
    """A solver for the answer sets of rules.

    `written`: a function that returns the text of a derived atom. These texts decide between answer sets that are
    equally near to the last one.

    If the rules have `keys`, each key is searched separately. A key is searched if its facts have changed. It is also
    searched if its atoms in the last answer set differ from those that its last search returned.
    """

    def __init__(
        self, rules: AnswerSetRules, calculate: Calculate, written: Callable[[Derived], str], limits: SolverLimits
    ) -> None:
        required()
        self.rules, self.calculate, self.written, self.limits = rules, calculate, written, limits
        self.known: dict[Fact, None] = {}
        """The facts in the groundings, in the order in which they arrived."""
        self.become(())

    def become(self, known: Iterable[Fact]) -> None:
        """Forget all facts and groundings, and start with the facts `known`, in this order."""
        self.known = dict.fromkeys(known)
        self._by_key: dict[Key, list[Fact]] = {}
        for fact in self.known:
            self._by_key.setdefault(self._key(fact), []).append(fact)
        self._grounded: dict[Key, Grounding] = {}
        self._found: dict[Key, tuple[frozenset[Fact], frozenset[Derived] | None]] = {}
        """For each key, the facts of its last search and the answer set that this search returned, or None if there was
        no answer set."""
        self._about_all: tuple[frozenset[Fact], frozenset[str]] | None = None
        """In the last search: the facts that belong to every key, and the atoms that describe the tick."""

    def solve(self, facts: frozenset[Fact], last: frozenset[Derived], first: int, now: int, every: bool) -> Found:
        """Return the answer set nearest to `last`, or all answer sets.

        - `first`: the first tick of the stream. `now`: the current tick.
        - `every`: True to return all answer sets.

        Raises CepError if there are more answer sets than the limit allows, or if the rules are endless.
        """
        if not self.rules.clocked:
            self._learn(facts)
        if every or self.rules.keys is None:
            grounded = self._grounding(WHOLE, facts, first, now)
            grounded.assign(facts, last, self.rules.told(first, now))
            return grounded.all() if every else grounded.nearest(last, self.limits.seconds)
        return self._by_keys(facts, last, first, now)

    def _by_keys(self, facts: frozenset[Fact], last: frozenset[Derived], first: int, now: int) -> Found:
        """Search each key separately, for the answer set that is nearest to the key's part of `last`.

        The union of these answer sets is the nearest one overall.
        """
        keys = self.rules.keys
        assert keys is not None, "it is asked of rules that have them"
        dealt: dict[Key, list[Fact]] = {SHARED: []}
        for fact in facts:
            dealt.setdefault(self._key(fact), []).append(fact)
        before: dict[Key, list[Derived]] = {}
        for atom in last:
            before.setdefault(tuple(atom[1][column] for column in keys.derived[atom[0]]), []).append(atom)
        shared, told = about_all = frozenset(dealt[SHARED]), self.rules.told(first, now)
        if about_all != self._about_all or self.rules.clocked:
            self._about_all, self._found = about_all, {}
        self._found = {key: known for key, known in self._found.items() if key in dealt}
        derived: list[Derived] = []
        changed: list[tuple[Key, frozenset[Fact], frozenset[Derived]]] = []
        for key, own in dealt.items():
            mine, was = frozenset(own), frozenset(before.get(key, ()))
            known = self._found.get(key)
            if known is None or known[0] != mine or (known[1] is not None and known[1] != was):
                changed.append((key, mine, was))
            elif known[1] is None:
                return Found(())
            else:
                derived += known[1]
        late = False
        until = None if self.limits.seconds is None else monotonic() + self.limits.seconds
        for place, (key, mine, was) in enumerate(changed):
            grounded = self._grounding(key, mine | shared, first, now)
            grounded.assign(mine | shared, was, told)
            outcome = grounded.nearest(was, None if until is None else (until - monotonic()) / (len(changed) - place))
            late = late or outcome.late
            if not outcome.late:
                answer = outcome.answers[0] if outcome.answers else None
                self._found[key] = mine, answer
                if answer is None:
                    return Found(())
                derived += answer
        return Found((), True) if late else Found((frozenset(derived),))

    def _key(self, fact: Fact) -> Key:
        columns = None if self.rules.keys is None else self.rules.keys.inputs[fact[0]]
        return SHARED if columns is None else tuple(fact[1][column] for column in columns)

    def _learn(self, facts: frozenset[Fact]) -> None:
        """Add facts to the known facts, and drop the groundings that lack them."""
        new = [fact for fact in facts if fact not in self.known]
        if new and len(self.known) > _HOLDS_ALL * len(facts) + 256:
            self.become(())
            new = list(facts)
        for fact in sorted(new, key=_order):
            key = self._key(fact)
            self.known[fact] = None
            self._by_key.setdefault(key, []).append(fact)
            if key == SHARED:
                self._grounded = {}
            for old_key in (key, WHOLE):
                self._grounded.pop(old_key, None)

    def _grounding(self, key: Key, facts: frozenset[Fact], first: int, now: int) -> Grounding:
        if self.rules.clocked:
            return self._new(sorted(facts, key=_order), first, now)
        grounded = self._grounded.pop(key, None)
        if grounded is None:
            keys = () if key == WHOLE else dict.fromkeys((SHARED, key))
            own_facts = [fact for key in keys for fact in self._by_key.get(key, ())]
            grounded = self._new(list(self.known) if key == WHOLE else own_facts, first, now)
            if len(self._grounded) >= KEPT:
                del self._grounded[next(iter(self._grounded))]
        self._grounded[key], grounded.now = grounded, now
        return grounded

    def _new(self, facts: list[Fact], first: int, now: int) -> Grounding:
        return Grounding(self.rules, self.calculate, self.written, self.limits, facts, first, now)


def _order(fact: Fact) -> tuple[int, list[tuple[str, str]]]:
    return fact[0], [(type(value).__name__, str(value)) for value in fact[1]]
