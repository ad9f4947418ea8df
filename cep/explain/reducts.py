"""Explain why an atom is in an answer stream, or is not. The explanation is a derivation of the atom by rules whose
bodies are true in the answer stream (the reduct).

In a derivation, negated atoms are false in the answer stream. Positive atoms are derived before the atoms that depend
on them, so no atom supports itself.

Source: Beck, Eiter and Folie, Ticker (2017), Definition 4; Faber, Leone and Pfeifer (2004).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from cep.core.fluents import INCONSISTENT
from cep.core.schema import Attribute
from cep.events import Iri, Value
from cep.explain.judging import BoundValues, Judge, TypedValue
from cep.explain.nodes import AnswerRefusal
from cep.explain.occurrences import Memory, Occurrence, same
from cep.explain.tick_reading import BodyReading, Key, TickAtom, TickReading
from cep.language.dialects.lars.answer_set_rules import beyond_cycles
from cep.language.dialects.lars.ast import NOW, LarsLiteral, LarsProgram, LarsRule
from cep.language.dialects.lars.printer import print_literal
from cep.language.dialects.lars.relations import at_ticks, predicate_of
from cep.language.reading import lars_program
from cep.rules.terms import Constant, Expression, Variable


@dataclass(frozen=True, slots=True)
class ReductStep:
    """A step of a derivation: a rule whose body is true at a tick."""

    tick: int
    rule: LarsRule
    body: BodyReading


class Reducts:
    """The answer streams of one program, which the answer set solver found, and the rules that derive their atoms."""

    def __init__(self, memory: Memory, judge: Judge, program: LarsProgram) -> None:
        self.memory, self.judge, self.program = memory, judge, program
        self.solved = beyond_cycles(program)
        self._steps: dict[tuple[int, Value], dict[Key, ReductStep]] = {}

    @classmethod
    def of(cls, memory: Memory, judge: Judge) -> Reducts | None:
        """Create a reader of the answer streams of an engine's program. Returns None if the program runs without the
        answer set solver.

        `memory`: the occurrences that the engine remembers.
        """
        written, source = memory.engine.written, memory.engine.plan.source
        if written.together is not None:
            program = written.together.lars
        else:
            program = lars_program(source.text, source.name, written.dialect, written.tick)
        if program is None:
            return None
        reducts = cls(memory, judge, program)
        return reducts if reducts.solved else None

    def gives(self, fluent: str) -> bool:
        """Return True if the solver derives the fluent."""
        return predicate_of(fluent) in self.solved

    def _key(self, occurrence: Occurrence, tick: int) -> tuple[Key, Value]:
        """Return the atom that an occurrence represents at a tick, and the number of the atom's answer stream."""
        predicate = predicate_of(occurrence.event)
        args, model = occurrence.args, None
        heads = (rule.head for rule in self.program.rules if rule.head is not None)
        arity = next(len(head.arguments) for head in heads if head.predicate == predicate)
        timed = occurrence.event != predicate
        if len(args) > arity + timed:
            *own, model = args
            args = tuple(own)
        instant = args[arity] if timed else tick
        assert isinstance(instant, int), "ticks are numbers"
        return (predicate, args[:arity], instant), model

    # --- why it is there ---

    def step(self, occurrence: Occurrence, tick: int | None) -> ReductStep | None:
        """Return the rule that derives an atom at a tick. `occurrence`: an occurrence of the atom.

        If the atom is not true at `tick`, return the rule for the tick at which `occurrence` begins.
        """
        size = 2 * self.program.tick
        first, last = occurrence.codes
        if tick is None or not first <= tick * size <= last:
            tick = first // size
        key, model = self._key(occurrence, tick)
        return self._derived(tick, model).get(key)

    def _derived(self, tick: int, model: Value) -> dict[Key, ReductStep]:
        """Return, for each atom of an answer stream, a rule that derives it.

        Derivations have no cycles: the atoms in a rule's body are derived before its head.
        """
        if (tick, model) in self._steps:
            return self._steps[tick, model]
        reading = TickReading(self.memory, self.judge, self.program, self.solved, tick, model)
        waiting: list[tuple[Key, frozenset[Key], ReductStep]] = []
        for rule in self.program.rules:
            if rule.head is None or rule.is_fact or rule.head.predicate not in self.solved:
                continue
            for body in reading.bodies(rule.body, {}):
                key = None if body.failed is not None else self._head(rule, body.bound, tick)
                if key is not None and key[2] >= reading.first:
                    needs = frozenset(atom.key for _, atoms in body.literals for atom in atoms)
                    own = frozenset(need for need in needs if need[0] in self.solved)
                    waiting.append((key, own, ReductStep(tick, rule, body)))
        steps: dict[Key, ReductStep] = {}
        while True:
            ready = [entry for entry in waiting if entry[1] <= steps.keys()]
            new = {key: step for key, _, step in reversed(ready) if key not in steps}
            if not new:
                break
            steps |= new
            waiting = [entry for entry in waiting if entry[0] not in steps]
        self._steps[tick, model] = steps
        return steps

    def _head(self, rule: LarsRule, bound: BoundValues, tick: int) -> Key | None:
        head = rule.head
        assert head is not None, "of a rule with a head"
        args = tuple(self._value(argument, bound) for argument in head.arguments)
        instant = tick if rule.tick is None else self._value(rule.tick, bound)
        return (head.predicate, args, instant) if isinstance(instant, int) else None

    def _value(self, expression: Expression, bound: BoundValues) -> Value:
        if isinstance(expression, Constant):
            return expression.value
        if isinstance(expression, Variable):
            return bound[expression.name][0]
        return self.judge.value(expression, bound)[0]

    # --- why it is not ---

    def has_answer(self, tick: int) -> bool:
        """Return True if the program has an answer stream at a tick."""
        if INCONSISTENT not in self.memory.schemas:
            return True
        code = 2 * tick * self.program.tick
        held = self.memory.fluents.intervals(INCONSISTENT, {0: 0})
        return not any(interval.codes[0] <= code <= interval.codes[1] for interval in held)

    def refusals(self, fluent: str, fixed: Mapping[int, Value], time: int) -> list[AnswerRefusal]:
        """Explain for each rule why it does not derive an atom at a time.

        `fluent`: the atom's predicate. `fixed`: the atom's arguments, by position.
        """
        predicate, tick = predicate_of(fluent), time // self.program.tick
        timed = fluent != predicate
        heads = [(rule, rule.head) for rule in self.program.rules if rule.head is not None and not rule.is_fact]
        refusals = []
        for rule, head in heads:
            if head.predicate != predicate or (timed and rule.tick is None):
                continue
            if not self.has_answer(tick):
                refusals.append(AnswerRefusal("none", rule.span, {}))
                continue
            arity = len(head.arguments)
            model = fixed.get(arity + timed, 1 if self._numbered(fluent, arity) else None)
            reading = TickReading(self.memory, self.judge, self.program, self.solved, tick, model)
            asked = {place: value for place, value in fixed.items() if place < arity}
            instant = fixed.get(arity) if timed else tick if rule.tick is not None else None
            refusals.append(self._refusal(rule, self._asked(rule, asked, instant), reading))
        return refusals

    def _refusal(self, rule: LarsRule, bound: Mapping[str, TypedValue] | None, reading: TickReading) -> AnswerRefusal:
        every = [] if bound is None else reading.bodies(rule.body, bound)
        short = [candidate for candidate in every if candidate.failed is not None]
        if not short:
            return AnswerRefusal("head", rule.span, bound or {})
        body = max(short, key=lambda candidate: len(candidate.literals) + len(candidate.judged))
        parts = tuple(atom.source for _, atoms in body.literals for atom in atoms if atom.source is not None)
        failed, text, kind = body.failed, "", "condition"
        if isinstance(failed, LarsLiteral) and not body.lacking:
            text = self.text_of(replace(failed, negated=False), body.bound)
            kind = "denied" if failed.negated else "missing"
        against = tuple(atom.source for atom in body.against if atom.source is not None)
        if isinstance(failed, LarsLiteral) and failed.modality == NOW:
            against = ()  # the literal itself names the atom
        forbidden = tuple(constraint.span for constraint in self._forbidden(rule, body, reading))
        return AnswerRefusal(kind, rule.span, body.bound, text, parts, body.judged, against, body.lacking, forbidden)

    def text_of(self, literal: LarsLiteral, bound: BoundValues) -> str:
        """Return a literal as text, in which variables are replaced by their values."""

        def known(term: Expression) -> Expression:
            if not isinstance(term, Variable) or term.name not in bound:
                return term
            value, type = bound[term.name]
            kind = {bool: "bool", int: "int", float: "float", Iri: "iri"}.get(value.__class__, "string")
            return term if value is None else Constant(value, kind if type in ("any", "unknown") else type)

        atom = replace(literal.atom, arguments=tuple(map(known, literal.atom.arguments)))
        instant = None if literal.tick is None else known(literal.tick)
        return print_literal(replace(literal, atom=atom, tick=instant), self.program.tick)

    def _numbered(self, fluent: str, arity: int) -> bool:
        """Return True if the table of a fluent has an additional argument, the number of the answer stream."""
        width = len(self.memory.schemas[fluent].attributes)
        return width > arity + (predicate_of(fluent) != fluent)

    def _asked(self, rule: LarsRule, fixed: Mapping[int, Value], instant: Value) -> dict[str, TypedValue] | None:
        """Return the values that a rule's variables have if its head has the arguments `fixed`, by position.

        Returns None if the head cannot have these arguments.
        """
        assert rule.head is not None, "of a rule with a head"
        types = {place: attribute.type for place, attribute in enumerate(self._attributes(rule.head.predicate))}
        pairs = [(rule.head.arguments[place], value, types.get(place, "any")) for place, value in fixed.items()]
        if instant is not None and rule.tick is not None:
            pairs.append((rule.tick, instant, "int"))
        bound: dict[str, TypedValue] = {}
        for term, value, type in pairs:
            if isinstance(term, Constant) and not same(term.value, value):
                return None
            if isinstance(term, Variable):
                if term.name in bound and not same(bound[term.name][0], value):
                    return None
                bound[term.name] = value, type
        return bound

    def _attributes(self, predicate: str) -> Iterable[Attribute]:
        schema = self.memory.schemas.get(predicate) or self.memory.schemas[at_ticks(predicate)]
        return schema.attributes

    def _forbidden(self, rule: LarsRule, body: BodyReading, reading: TickReading) -> tuple[LarsRule, ...]:
        """Return the constraints that would be violated if the rule's atom were true.

        The atoms in `body.against`, which make the rule's body false, are assumed to be false here.
        """
        failed = body.failed
        if not (isinstance(failed, LarsLiteral) and failed.negated and failed.atom.predicate in self.solved):
            return ()
        try:
            key = self._head(rule, body.bound, reading.now)
        except KeyError:
            return ()
        if key is None:
            return ()
        gone = {atom.key for atom in body.against}
        kept = [atom for atom in reading.answer() if atom.key not in gone]
        instead = TickReading(
            self.memory, self.judge, self.program, self.solved, reading.now, reading.model, [*kept, TickAtom(*key)]
        )
        constraints = [rule for rule in self.program.rules if rule.head is None]
        return tuple(
            constraint
            for constraint in constraints
            if any(body.failed is None for body in instead.bodies(constraint.body, {}))
        )
