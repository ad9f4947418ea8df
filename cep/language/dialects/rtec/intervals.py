"""Translation of each `holdsFor` clause to one formula. List operations such as `union_all` become nested formulas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cep.core.errors import CepError, Mistakes, Span
from cep.language.dialects.rtec.conditions import ConditionConverter, lone
from cep.language.dialects.rtec.description import Clause, EventDescription, flat, fluent, refused
from cep.language.dialects.rtec.durations import durations, lasting
from cep.language.dialects.rtec.signatures import ALLEN, CONSTRUCTS, FOREIGN, Signatures
from cep.language.dialects.rtec.terms import Compound, Many, Term, Var, term_variables
from cep.language.dialects.rtec.types import Types
from cep.language.syntax import ast
from cep.operators.conjunction import And
from cep.operators.disjunction import Or
from cep.operators.supports import FormulaAtom
from cep.operators.where import RestrictedFormula
from cep.plan.formula import Formula, formula_variables
from cep.rules.terms import Condition, Predicate

RULE = "e.g. `holdsFor(f(X)=true, I) :- holdsFor(g(X)=true, I1), holdsFor(h(X)=true, I2), union_all([I1,I2], I).`"
EVER = "ever"


class HoldsForConverter:
    """Converter of `holdsFor` clauses to WHILE rules."""

    def __init__(
        self, known: Signatures, types: Types, conditions: ConditionConverter, description: EventDescription, tick: int
    ) -> None:
        self.known, self.types, self.conditions = known, types, conditions
        self.description, self.source, self.tick = description, description.source, tick
        self.needs: dict[str, dict[str, Span]] = {}
        self.asks_ever = False

    def rule(self, clause: Clause) -> ast.WhileRule:
        """Return the rule `head WHILE formula`. Raises CepError if the clause cannot be translated."""
        assert clause.fluent is not None, "its head is a fluent"
        name, arguments = flat(self.source, clause.fluent.term)
        head = (*arguments, clause.fluent.value)
        if not isinstance(clause.time, Var):
            time_span = clause.head_span if clause.time is None else clause.time.span
            raise refused(self.source, "`holdsFor` needs a variable for the intervals", time_span, RULE)
        used = [term_variable for part in clause.body for term_variable in term_variables(part)] + [
            n for t in head for n in term_variables(t)
        ]
        lists: dict[str, Formula] = {}
        conditions: list[Condition] = []
        for goal in clause.body:
            assert isinstance(goal, Compound), "what is none was refused"
            self.step(clause, name, goal, lists, conditions, used)
        if clause.time.name not in lists:
            raise refused(self.source, f"no condition of the body defines `{clause.time.name}`", clause.head_span, RULE)
        formula = lists[clause.time.name]
        *key_terms, value = self.types.arguments(name, head)
        asked = set(formula_variables(formula)) | {n for part in clause.body for n in self.atemporal_names(part)}
        loose = [term for term in head if isinstance(term, Var) and term.name not in asked]
        if loose:
            conditions.insert(0, self.ground(name, head, clause, loose[0]))
        if conditions:
            formula = RestrictedFormula(formula, tuple(conditions), clause.span)
        return ast.WhileRule(name, tuple(key_terms), value, (), formula, clause.span, clause.head_span)

    def atemporal_names(self, part: Term) -> list[str]:
        if not isinstance(part, Compound) or part.name in ("holdsFor", "findall", "\\+", *CONSTRUCTS):
            return []
        return term_variables(part)

    def ground(self, name: str, head: Sequence[Term], clause: Clause, loose: Term) -> Predicate:
        """Return a condition that gives values to those head variables that the body does not bind. The condition looks
        up the possible arguments and values of the fluent `name`.

        `loose`: the head argument that the body does not bind. Raises CepError if the fluent has no grounding clause.
        """
        if not self.known.grounded(name):
            shown = loose.name if isinstance(loose, Var) else "_"
            raise refused(self.source, f"`{shown}` has no value: the body does not bind it", loose.span,
                          f"add `grounding({name}(..)=..) :- ..`, which lists its values")  # fmt: skip
        return Predicate(self.known.ground(name), self.types.arguments(name, tuple(head)), False, clause.head_span)

    def step(
        self,
        clause: Clause,
        name: str,
        term: Compound,
        lists: dict[str, Formula],
        conditions: list[Condition],
        used: list[str],
    ) -> None:
        """Convert one condition of a clause's body. Raises CepError if the condition is not supported.

        `lists`: maps each variable for a list of intervals to its formula. This function adds the result to `lists`, or
        to `conditions` if the condition has no time.
        """
        arguments, span = term.arguments, term.span
        if term.name == "holdsFor":
            fluent_value = fluent(self.source, arguments[0])
            other, inner = flat(self.source, fluent_value.term)
            *key_terms, value = self.types.arguments(other, lone((*inner, fluent_value.value), used))
            self.needs.setdefault(name, {}).setdefault(other, span)
            self.put(lists, arguments[1], FormulaAtom(other, tuple(key_terms), None, value, None, span))
        elif CONSTRUCTS.get(term.name) == len(arguments) or durations(term) is not None:
            self.put(lists, arguments[-1], self.constructed(clause, name, term, lists))
        elif term.name in ("happensAt", "holdsAt") or (
            term.name == "\\+" and isinstance(arguments[0], Compound) and arguments[0].name in ("happensAt", "holdsAt")
        ):
            raise refused(self.source, "`holdsFor` is about intervals, not about one time", span, RULE)
        elif self.emptiness(term, lists):
            return
        else:
            for term_variable in term_variables(term):
                if term_variable in lists:
                    hint = f"supported are {', '.join(CONSTRUCTS)}"
                    hint = FOREIGN["allen"] if term.name in ALLEN and len(arguments) == 4 else hint
                    raise refused(self.source, f"`{term.name}` is not supported on intervals", span, hint)
            conditions += self.conditions.timeless(term, used)

    def emptiness(self, term: Compound, lists: Mapping[str, Formula]) -> bool:
        """Return True if a condition only requires that a list of intervals is not empty. The caller can drop this
        condition, because it does not restrict the time.

        Raises CepError if the condition requires that the list is empty.
        """
        negated = term.name == "\\+"
        inner = term.arguments[0] if negated else term
        if not isinstance(inner, Compound) or inner.name not in ("=", "\\=", "==", "\\=="):
            return False
        if not any(isinstance(argument, Many) and not argument.items for argument in inner.arguments):
            return False
        if (inner.name[0] == "\\") != negated:
            return True
        raise refused(self.source, "it is known only at the end of the input that something never holds", term.span,
                      "use `complement_all`, or `relative_complement_all`, for when it does not hold")  # fmt: skip

    def put(self, lists: dict[str, Formula], place: Term, formula: Formula) -> None:
        if not isinstance(place, Var):
            raise refused(self.source, "expected a variable for the intervals", place.span, RULE)
        if place.name in lists:
            raise refused(
                self.source, f"`{place.name}` is already the name of other intervals", place.span, "use another name"
            )
        lists[place.name] = formula

    def constructed(self, clause: Clause, name: str, term: Compound, lists: Mapping[str, Formula]) -> Formula:
        span = term.span
        if (of := durations(term)) is not None:
            length = round(self.known.number(of.length, clause.body) * self.tick)
            return lasting(self.get(of.intervals, lists), of.operator, length, span)
        listed = term.arguments[0] if term.name != "relative_complement_all" else term.arguments[1]
        if not isinstance(listed, Many) or not listed.items:
            raise refused(
                self.source, f"`{term.name}` needs a list of intervals", listed.span, "a list is written `[I1, I2]`"
            )
        parts = [self.get(item, lists) for item in listed.items]
        match term.name:
            case "union_all":
                return self.union(clause, name, parts, span)
            case "intersect_all":
                return _together(parts, [False] * len(parts), span)
            case "relative_complement_all":
                first = self.get(term.arguments[0], lists)
                return _together([first, *parts], [False, *[True] * len(parts)], span)
        self.asks_ever = True
        ever: Formula = FormulaAtom(EVER, (), span=span)
        assert clause.fluent is not None, "its head is a fluent"
        head = (*flat(self.source, clause.fluent.term)[1], clause.fluent.value)
        if any(isinstance(term, Var) for term in head):
            loose = next(term for term in head if isinstance(term, Var))
            ever = RestrictedFormula(ever, (self.ground(name, head, clause, loose),), span)
        return _together([ever, *parts], [False, *[True] * len(parts)], span)

    def get(self, term: Term, lists: Mapping[str, Formula]) -> Formula:
        if not isinstance(term, Var) or term.name not in lists:
            shown = f"`{term.name}`" if isinstance(term, Var) else "this"
            raise refused(self.source, f"no condition before this one defines the intervals {shown}", term.span,
                          "put `holdsFor(F=V, I1)` before it")  # fmt: skip
        return lists[term.name]

    def union(self, clause: Clause, name: str, parts: Sequence[Formula], span: Span) -> Formula:
        """Return the OR of formulas. If one of the formulas lacks a head variable that another one has, add the
        grounding condition, which binds this variable."""
        assert clause.fluent is not None, "its head is a fluent"
        if len(parts) == 1:
            return parts[0]
        head = (*flat(self.source, clause.fluent.term)[1], clause.fluent.value)
        wanted = [n for term in head for n in term_variables(term)]
        every = [dict.fromkeys(formula_variables(part)) for part in parts]
        shared = {name for names in every for name in names if name in wanted}
        formulas: list[Formula] = []
        for part, names in zip(parts, every, strict=True):
            missing = [
                term for term in head if isinstance(term, Var) and term.name in shared and term.name not in names
            ]
            if missing:
                part = RestrictedFormula(part, (self.ground(name, head, clause, missing[0]),), span)
            formulas.append(part)
        return Or(tuple(formulas), span)

    def helpers(self) -> list[ast.Statement]:
        """Return the statements that define an auxiliary fluent which holds from tick 0 on. The complement of a list of
        intervals consists of all other times of this fluent."""
        if not self.asks_ever:
            return []
        begins = ast.FluentRule("initiate", EVER, (), None, ast.TimePoint(-self.tick))
        return [ast.FluentDeclaration(EVER, ()), begins]

    def acyclic(self, errors: Mistakes) -> None:
        """Report each fluent that its `holdsFor` clauses define in terms of itself."""
        seen: set[str] = set()
        for name in self.needs:
            path: list[str] = []
            cycle = self._round(name, path, seen)
            if cycle is not None:
                way = " -> ".join(f"`{fluent_name}`" for fluent_name in cycle)
                span = self.needs[cycle[-2]][cycle[-1]]
                errors.append(CepError(f"holdsFor defines a fluent through itself: {way}", self.source, span,
                              "use `initiatedAt`, which may depend on itself", "recursion"))  # fmt: skip

    def _round(self, name: str, path: list[str], seen: set[str]) -> list[str] | None:
        if name in path:
            return [*path[path.index(name) :], name]
        if name in seen or name not in self.needs:
            return None
        seen.add(name)
        path.append(name)
        for other in self.needs[name]:
            if (cycle := self._round(other, path, seen)) is not None:
                return cycle
        path.pop()
        return None


def _together(parts: Sequence[Formula], negated: Sequence[bool], span: Span) -> Formula:
    if len(parts) == 1:
        return parts[0]
    return And(tuple(parts), tuple(negated), span)
