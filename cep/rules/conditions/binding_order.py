"""The binding order of conditions. In this order, every variable gets a value before a condition needs it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Protocol

from cep.core.errors import CepError, CepErrors, Mistakes, Source
from cep.core.suggest import did_you_mean
from cep.rules.expressions.checking import called, unknown_function, variables
from cep.rules.expressions.functions import FUNCTIONS, TESTS
from cep.rules.terms import (
    Call,
    Comparison,
    Condition,
    Constant,
    Disjunction,
    Expression,
    Predicate,
    Variable,
    condition_variables,
    each_condition,
)

ASKED = {"near": ("near(Lat, Long, Radius, Feature, Metres)", 5)}
"""Predicates that the background knowledge defines, each with an example and the number of its arguments."""
EVERY = "bind it in each alternative, or outside of the parentheses: `{0} = ...`"


class Arrangeable(Protocol):
    """A static predicate, with the properties that determine the order of conditions."""

    @property
    def name(self) -> str: ...

    @property
    def arity(self) -> int: ...

    def ready(self, bound: frozenset[int]) -> bool:
        """Return True if the predicate can be evaluated when the arguments at the positions `bound` have values."""


def arrange(
    conditions: Sequence[Condition],
    bound: Collection[str],
    relations: Mapping[str, Arrangeable],
    source: Source | None = None,
) -> tuple[Condition, ...]:
    """Sort conditions so that every variable is bound before a condition needs it.

    `bound`: the variables that are bound at the start. The next condition is always one that is ready: the first of
    those that have the lowest rank (`_rank`).

    Raises CepError for unknown predicates and wrong numbers of arguments. If there is no order, it raises CepError with
    the code `unsafe`.
    """
    errors = Mistakes()
    for condition in conditions:
        for error in _misnamed(condition, relations, source):
            errors.append(error)
    if errors:  # types are not checked after a mistake, so unknown functions are reported here
        for call in (call for condition in conditions for call in _calls(condition)):
            if (wrong := unknown_function(call, source)) is not None:
                errors.append(wrong)
        raise errors[0] if len(errors) == 1 else CepErrors(errors)
    known = set(bound)
    waiting: dict[str, list[int]] = {}  # variable without a value -> the conditions that contain it
    ready: list[tuple[int, int]] = []  # a heap of (rank, index of the condition)
    ranks: list[int | None] = [_rank(condition, known, relations) for condition in conditions]
    for place, rank in enumerate(ranks):
        if rank is not None:
            ready.append((rank, place))
        for name in names_of(conditions[place]) - known:
            waiting.setdefault(name, []).append(place)
    heapify(ready)
    order: list[Condition] = []
    left = dict.fromkeys(range(len(conditions)))
    while ready:
        rank, place = heappop(ready)
        if place not in left or rank != ranks[place]:
            continue  # its rank has changed
        del left[place]
        order.append(conditions[place])
        fresh = binding(conditions[place], known)
        known.update(fresh)
        for other in dict.fromkeys(waiter for name in fresh for waiter in waiting.pop(name, ())):
            rank = ranks[other] = _rank(conditions[other], known, relations)
            if rank is not None and other in left:
                heappush(ready, (rank, other))
    if left:
        raise _stuck([conditions[place] for place in left], known, relations, source)
    return tuple(order)


def is_test(predicate: Predicate, relations: Mapping[str, Arrangeable]) -> bool:
    """Return True if a predicate is a built-in test. A static predicate that has the same name takes precedence."""
    return predicate.name in TESTS and predicate.name not in relations


def binding(condition: Condition, known: Collection[str]) -> list[str]:
    """Return the variables to which a condition gives a value. The condition must be ready. `known`: the variables that
    already have a value."""
    if isinstance(condition, Comparison):
        if condition.operator == "=":
            for side, other in ((condition.left, condition.right), (condition.right, condition.left)):
                if _unbound(side, known) and not any(_missing_inputs(other, known)):
                    assert isinstance(side, Variable), "only a variable can be bound"
                    return [side.name]
        return []
    if isinstance(condition, Disjunction):
        return list(dict.fromkeys(name for name in condition_variables(condition) if name not in known))
    if condition.negated:
        return []
    free = [argument for argument in condition.arguments if _unbound(argument, known)]
    return list(dict.fromkeys(argument.name for argument in free if isinstance(argument, Variable)))


def names_of(condition: Condition) -> set[str]:
    """Return the names of a condition's variables, and `start()`, `end()` and `duration()` if it depends on them."""
    if isinstance(condition, Disjunction):
        inside = set[str]().union(*(names_of(inner) for inner in each_condition([condition])))
        return inside.difference(condition.local)
    sides = (condition.left, condition.right) if isinstance(condition, Comparison) else condition.arguments
    names = {"end()"} if isinstance(condition, Predicate) and condition.name == "inside" else set[str]()
    for side in sides:
        _collect(side, names)
    return names


def _collect(expression: Expression, names: set[str]) -> None:
    if isinstance(expression, Variable):
        names.add(expression.name)
    elif isinstance(expression, Call):
        if not expression.arguments:
            names.add(f"{expression.function}()")
        elif expression.function == "inside":  # places may move
            names.add("end()")
        for argument in expression.arguments:
            _collect(argument, names)


def _unbound(expression: Expression, known: Collection[str]) -> bool:
    return isinstance(expression, Variable) and expression.name != "_" and expression.name not in known


def _missing_inputs(expression: Expression, known: Collection[str]) -> Iterator[Variable]:
    if isinstance(expression, Variable) and expression.name == "_":
        yield expression
    yield from (variable for variable in variables(expression) if variable.name not in known)


def _rank(condition: Condition, known: Collection[str], relations: Mapping[str, Arrangeable]) -> int | None:
    """Return the rank of a condition. Conditions of a lower rank run first. Return None if the condition is not ready.

    - 0: a comparison, or a condition that binds no variable
    - 1: a condition that has a bound argument or variable
    - 2: any other condition
    """
    if isinstance(condition, Comparison):
        wait = [*_missing_inputs(condition.left, known), *_missing_inputs(condition.right, known)]
        return 0 if not wait or binding(condition, known) else None
    if isinstance(condition, Disjunction):
        fresh = binding(condition, known)
        if any(names is None or not names.issuperset(fresh) for names in _bound_by(condition, known, relations)):
            return None
        return 0 if not fresh else 1 if any(name in known for name in condition_variables(condition)) else 2
    if any(_waits(condition, known, relations)):
        return None
    if not is_test(condition, relations) and not relations[condition.name].ready(_bound_places(condition, known)):
        return None
    if not binding(condition, known):
        return 0
    return 1 if _bound_places(condition, known) else 2


def _bound_by(
    condition: Disjunction, known: Collection[str], relations: Mapping[str, Arrangeable]
) -> Iterator[set[str] | None]:
    """Yield, for each alternative of a disjunction, the variables that are bound after it. Yield None for an
    alternative that has no binding order."""
    for alternative in condition.alternatives:
        try:
            order = arrange(alternative, known, relations)
        except CepError:
            yield None
            continue
        behind = set(known)
        for inner in order:
            behind.update(binding(inner, behind))
        yield behind


def _bound_places(predicate: Predicate, known: Collection[str]) -> frozenset[int]:
    return frozenset(
        i
        for i, argument in enumerate(predicate.arguments)
        if not (isinstance(argument, Variable) and argument.name not in known)
    )


def _waits(predicate: Predicate, known: Collection[str], relations: Mapping[str, Arrangeable]) -> Iterator[Variable]:
    """Yield the variables that must have a value before a predicate is evaluated, but have none yet."""
    all_needed = is_test(predicate, relations)
    for argument in predicate.arguments:
        if isinstance(argument, Variable) and not all_needed:
            if predicate.negated and _unbound(argument, known):
                yield argument
        elif not isinstance(argument, Constant):
            yield from _missing_inputs(argument, known)


def _misnamed(condition: Condition, relations: Mapping[str, Arrangeable], source: Source | None) -> Iterator[CepError]:
    if isinstance(condition, Disjunction):
        for inner in each_condition([condition]):
            yield from _misnamed(inner, relations, source)
        return
    if isinstance(condition, Comparison) or is_test(condition, relations):
        return
    name, count = condition.name, len(condition.arguments)
    if name not in relations and name in FUNCTIONS:
        hint = f"compare it with something: `{name}(...) = ...`"
        yield CepError(f"`{name}` returns a value, so it is not a condition", source, condition.span, hint, "type")
    elif name not in relations:
        define = f"define it, `{name}(...) :- ...`, or give its facts: `{name}(1, 2).`, `--facts {name}=FILE`"
        hint = did_you_mean(name, sorted({*relations, *TESTS, *ASKED})) or define
        if name in ASKED:
            written, arity = ASKED[name]
            if count != arity:
                yield CepError(
                    f"`{name}` has {arity} arguments, not {count}", source, condition.span, f"`{written}`", "arity"
                )
                return
            hint = f"`{name}` reads background knowledge: name the files with it, `--knowledge places.ttl`"
        yield CepError(f"unknown predicate `{name}`", source, condition.span, hint, "unknown")
    elif relations[name].arity != count:
        arity = relations[name].arity
        noun = "argument" if arity == 1 else "arguments"
        more = "use `_` for an argument that does not matter" if count < arity else None
        if name in ASKED and ASKED[name][1] == arity:
            more = f"`{ASKED[name][0]}`"
        yield CepError(f"`{name}` has {arity} {noun}, not {count}", source, condition.span, more, "arity")


def _calls(condition: Condition) -> Iterator[Call]:
    for inner in each_condition([condition]):
        match inner:
            case Comparison(_, left, right):
                yield from (call for side in (left, right) for call in called(side))
            case Predicate():
                yield from (call for argument in inner.arguments for call in called(argument))


def _stuck(
    left: list[Condition], known: set[str], relations: Mapping[str, Arrangeable], source: Source | None
) -> CepError:
    """Return the error for the variables that none of the remaining conditions can bind."""
    able = {name for condition in left for name in _could_bind(condition, known, relations)}
    errors: dict[str, CepError] = {}
    every: list[CepError] = []
    for condition in left:
        for variable in _needs(condition, known, relations):
            error = _unsafe(condition, variable, relations, source)
            every.append(error)
            if variable.name not in able:
                errors.setdefault(variable.name, error)
    raised = list(errors.values()) or every[:1]
    assert raised, "a condition that is not ready needs a variable"
    return raised[0] if len(raised) == 1 else CepErrors(raised)


def _could_bind(condition: Condition, known: Collection[str], relations: Mapping[str, Arrangeable]) -> list[str]:
    if isinstance(condition, Disjunction):
        behind = [names or set(known) for names in _bound_by(condition, known, relations)]
        return [name for name in binding(condition, known) if all(name in names for names in behind)]
    if isinstance(condition, Predicate):
        needed = {variable.name for variable in _needs(condition, known, relations)}
        return [name for name in binding(condition, known) if name not in needed]
    sides = (condition.left, condition.right)
    both = all(_unbound(side, known) for side in sides)
    if condition.operator != "=" or both:
        return []
    return [side.name for side in sides if isinstance(side, Variable) and _unbound(side, known)]


def _needs(condition: Condition, known: Collection[str], relations: Mapping[str, Arrangeable]) -> Iterator[Variable]:
    if isinstance(condition, Comparison):
        could = _could_bind(condition, known, relations)
        for side in (condition.left, condition.right):
            if not (isinstance(side, Variable) and side.name in could):
                yield from _missing_inputs(side, known)
        return
    if isinstance(condition, Disjunction):
        yield from _needs_of_alternatives(condition, known, relations)
        return
    waits = list(_waits(condition, known, relations))
    yield from waits
    if not waits and not is_test(condition, relations):  # a predicate that is called
        relation, bound = relations[condition.name], _bound_places(condition, known)
        free = [(i, v) for i, v in enumerate(condition.arguments) if i not in bound and isinstance(v, Variable)]
        everywhere = frozenset(range(len(condition.arguments)))
        needed = [variable for i, variable in free if not relation.ready(everywhere - {i})]
        if not relation.ready(bound):
            yield from needed or [variable for _, variable in free]


def _needs_of_alternatives(
    condition: Disjunction, known: Collection[str], relations: Mapping[str, Arrangeable]
) -> Iterator[Variable]:
    fresh = set(binding(condition, known))
    for alternative, behind in zip(condition.alternatives, _bound_by(condition, known, relations)):
        if behind is None:
            able = {name for inner in alternative for name in _could_bind(inner, known, relations)}
            wanted = [variable for inner in alternative for variable in _needs(inner, known, relations)]
            yield from [variable for variable in wanted if variable.name not in able] or wanted[:1]
        elif not behind.issuperset(fresh):
            for inner in each_condition([condition]):
                sides = (inner.left, inner.right) if isinstance(inner, Comparison) else inner.arguments
                for variable in (variable for side in sides for variable in variables(side)):
                    if variable.name in fresh and variable.name not in behind:
                        yield variable


def denied(condition: Predicate, name: str) -> str:
    """Return the hint for a variable under `not` that has no value."""
    other = "write `_`" if condition.graph is None else f"write `?{name[:1].lower()}{name[1:]}`"
    return f"`not` does not bind variables: bind `{name}` elsewhere, or {other} for any value"


def _unsafe(
    condition: Condition, variable: Variable, relations: Mapping[str, Arrangeable], source: Source | None
) -> CepError:
    name = variable.name
    if name == "_":
        return CepError("`_` has no value", source, variable.span, "give it a name and bind it", "unsafe")
    hint = f"bind `{name}` in the pattern, with `{name} = ...`, or in a predicate that lists its values"
    if isinstance(condition, Disjunction):
        return CepError(
            f"`{name}` is not bound by every alternative", source, variable.span, EVERY.format(name), "unsafe"
        )
    if isinstance(condition, Predicate) and condition.negated and not is_test(condition, relations):
        hint = denied(condition, name)
    elif isinstance(condition, Predicate) and not is_test(condition, relations):
        return CepError(f"`{condition.name}` needs a value for `{name}`", source, variable.span, hint, "unsafe")
    return CepError(f"`{name}` is not bound", source, variable.span, hint, "unsafe")
