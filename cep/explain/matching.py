"""A rule's pattern over a few occurrences: what matches it, and what nearly does and why not.

A plain nested loop, by the definitions of the language. It knows no consumption policy: what a policy would choose is
among what it gives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from cep.core.schema import Schema
from cep.events import Value
from cep.explain.judging import Bound, Judge, Judged, Typed
from cep.explain.occurrences import Occurrence, same
from cep.explain.windows import results
from cep.plan.algebra import Atom, Either, Given, Pair, Pattern, Point, Repeat, Unless, Window
from cep.plan.binarise import variables
from cep.rules.terms import Constant, Variable

Find = Callable[[str, Mapping[int, Value]], Sequence[Occurrence]]
"""The occurrences of an event with these arguments, by (end, start)."""

_PLACED = {"missing": 0, "relation": 0, "deadline": 1, "open": 1}
MOST_PAIRS = 20_000
"""Pairs of occurrences that are tried for one operator, the latest first."""


@dataclass(frozen=True, slots=True)
class Failure:
    """What is wrong with an attempt. `kind`:

    missing: nothing matches `pattern` with these `values`; condition: `judged` do not hold; relation: the parts do not
    lie as `pattern` wants, `occurrence` is the second, `by` how far it is from where it would; deadline: WITHIN is
    exceeded `by` so much; came: `occurrence` should not have come, `by` is how far it is from where it might have;
    open: the deadline is `by` so much later than what is known; head: it gives other arguments, `given`; apart: all
    holds, but it was over `by` so much before the time asked for; policy: all holds, and another partner was chosen.
    """

    kind: str
    pattern: Pattern | None = None
    values: Mapping[str, Value] = field(default_factory=dict)
    occurrence: Occurrence | None = None
    by: int = 0
    judged: tuple[Judged, ...] = ()
    given: tuple[Value, ...] | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """Occurrences put into the places of a pattern. `held`: how many of its events are there; `silent`: patterns that
    it needed not to occur, and until when."""

    bound: Bound
    start: int
    end: int
    parts: tuple[Occurrence, ...] = ()
    judged: tuple[tuple[Judged, Bound], ...] = ()
    silent: tuple[tuple[Pattern, int], ...] = ()
    held: int = 0
    failure: Failure | None = None

    @property
    def rank(self) -> tuple[int, int, int, int, int]:
        """The more, the nearer: events there, lying as they should, conditions that hold, how little time is missed by,
        how late it ends."""
        return self.held, self.placed, self.holding, 0 if self.failure is None else -self.failure.by, self.end

    @property
    def placed(self) -> int:
        """How far it came: to the events, their order, the conditions, all of them."""
        return 3 if self.failure is None else _PLACED.get(self.failure.kind, 2)

    @property
    def holding(self) -> int:
        """How many conditions hold."""
        return sum(each.holds for each, _ in self.judged)


class Matcher:
    """Patterns of one program. `find`: what there is; `until`: the instant up to which all is known."""

    def __init__(self, find: Find, judge: Judge, schemas: Mapping[str, Schema], until: int) -> None:
        self.find = find
        self.judge = judge
        self.schemas = schemas
        self.until = until

    def attempts(self, pattern: Pattern, bound: Bound) -> list[Attempt]:
        """Everything that matches, and where nothing does at a place, the best without it; the nearest first."""
        found = self._attempts(pattern, bound)
        if pattern.within is not None:
            found = [self._bounded(attempt, pattern, pattern.within) for attempt in found]
        return sorted(found, key=lambda attempt: (attempt.failure is None, *attempt.rank), reverse=True)

    def _attempts(self, pattern: Pattern, bound: Bound) -> list[Attempt]:
        self.judge.patience()
        match pattern:
            case Atom():
                return self._atom(pattern, bound)
            case Point(ticks):
                late = Failure("open", pattern, by=ticks - self.until) if ticks > self.until else None
                return [Attempt(bound, ticks, ticks, failure=late)]
            case Pair():
                return self._pair(pattern, bound)
            case Either(left, right):
                return [*self.attempts(left, bound), *self.attempts(right, bound)]
            case Repeat(_, chain):
                return self.attempts(chain, bound)
            case Unless():
                return self._unless(pattern, bound)
            case Window():
                return self._window(pattern, bound)
            case Given():
                return self._given(pattern, bound)

    # --- events ---

    def _atom(self, atom: Atom, bound: Bound) -> list[Attempt]:
        fixed: dict[int, Value] = {}
        for place, argument in enumerate(atom.arguments):
            if isinstance(argument, Constant):
                fixed[place] = argument.value
            elif argument.name in bound:
                fixed[place] = bound[argument.name][0]
        attributes = self.schemas[atom.event].attributes
        made = []
        for occurrence in self.find(atom.event, fixed):
            now = dict(bound)
            for argument, value, attribute in zip(atom.arguments, occurrence.args, attributes):
                if isinstance(argument, Constant) or argument.name == "_":
                    fits = isinstance(argument, Variable) or same(argument.value, value)
                elif argument.name in now:
                    fits = same(now[argument.name][0], value)
                else:
                    now[argument.name], fits = (value, attribute.type), True
                if not fits:
                    break
            else:
                made.append(Attempt(now, occurrence.start, occurrence.end, (occurrence,), held=1))
        return made or [self._missing(atom, bound)]

    def _missing(self, pattern: Pattern, bound: Bound) -> Attempt:
        values = {name: value for name, (value, _) in bound.items()}
        return Attempt(bound, 0, 0, failure=Failure("missing", pattern, values))

    # --- pairs ---

    def _pair(self, pair: Pair, bound: Bound) -> list[Attempt]:
        lefts, rights = self.attempts(pair.left, bound), self.attempts(pair.right, bound)
        whole, others = [a for a in lefts if not a.failure], [a for a in rights if not a.failure]
        if not whole or not others:
            return self._half(lefts, rights)
        shared = sorted((variables(pair.left) & variables(pair.right)) - bound.keys())
        by_key: dict[tuple[Value, ...], list[Attempt]] = {}
        for right in others:
            by_key.setdefault(tuple(right.bound[name][0] for name in shared), []).append(right)
        made: list[Attempt] = []
        for left in whole:
            self.judge.patience()
            key = tuple(left.bound[name][0] for name in shared)
            partners = [] if None in key else by_key.get(key, [])
            pairs = [self._paired(pair, left, right) for right in partners]
            good = [each for each in pairs if not each.failure]
            made += good or sorted(pairs, key=_nearness)[:1] or [self._lacking(pair.right, left)]
            if len(made) > MOST_PAIRS:
                break
        return made

    def _half(self, lefts: list[Attempt], rights: list[Attempt]) -> list[Attempt]:
        """One side is missing; the other is counted."""
        made = []
        for left in lefts[:16]:
            for right in rights[:16]:
                bad = left if left.failure else right
                good = right if left.failure else left
                both = left.failure and right.failure
                made.append(
                    replace(
                        _joined(left, right),
                        start=bad.start if both else good.start,
                        end=max(left.end, right.end) if both else good.end,
                        failure=bad.failure,
                    )
                )
        return made

    def _lacking(self, pattern: Pattern, left: Attempt) -> Attempt:
        """A left that no right joins; why, is said of the pattern with the left's values."""
        best = self.attempts(pattern, left.bound)[0]
        failure = best.failure or self._missing(pattern, left.bound).failure
        return replace(left, held=left.held + best.held * bool(best.failure), failure=failure)

    def _paired(self, pair: Pair, left: Attempt, right: Attempt) -> Attempt:
        a, b, c, d = left.start, left.end, right.start, right.end
        start, end = _interval(pair.relation, a, b, c, d)
        both = replace(_joined(left, right), start=start, end=end)
        if not _holds(pair.relation, a, b, c, d):
            second = (right.parts or (None,))[-1]
            return replace(
                both, failure=Failure("relation", pair, occurrence=second, by=_apart(pair.relation, a, b, c, d))
            )
        if pair.within is not None and both.end - both.start > pair.within:
            return self._bounded(both, pair, pair.within)
        if pair.absent is not None:
            local = {name: value for name, value in both.bound.items() if name in variables(pair.absent)}
            for other in self.attempts(pair.absent, local):
                if other.failure is None and b < other.start and other.end < c:
                    came = other.parts[-1] if other.parts else None
                    near = min(other.start - b, c - other.end)
                    return replace(both, failure=Failure("came", pair, occurrence=came, by=near))
            both = replace(both, silent=(*both.silent, (pair.absent, c)))
        return both

    def _bounded(self, attempt: Attempt, pattern: Pattern, within: int) -> Attempt:
        over = attempt.end - attempt.start - within
        if attempt.failure is not None or over <= 0:
            return attempt
        return replace(attempt, failure=Failure("deadline", pattern, by=over))

    # --- the rest ---

    def _unless(self, unless: Unless, bound: Bound) -> list[Attempt]:
        made = []
        for left in self.attempts(unless.left, bound):
            if left.failure is not None:
                made.append(left)
                continue
            due = left.end + unless.duration
            local = {name: value for name, value in left.bound.items() if name in variables(unless.absent)}
            came = [
                other
                for other in self.attempts(unless.absent, local)
                if other.failure is None and left.end < other.end < due
            ]
            failure = None
            if came:
                first = min(came, key=lambda other: (other.end, other.start))
                near = min(first.end - left.end, due - first.end)
                failure = Failure("came", unless, occurrence=first.parts[-1] if first.parts else None, by=near)
            elif due > self.until:
                failure = Failure("open", unless, by=due - self.until)
            silent = (*left.silent, (unless.absent, due))
            made.append(replace(left, end=due, silent=silent, failure=failure))
        return made

    def _window(self, window: Window, bound: Bound) -> list[Attempt]:
        groups = {variable.name for variable in window.by}
        inner = self.attempts(window.pattern, {name: value for name, value in bound.items() if name in groups})
        whole = [attempt for attempt in inner if attempt.failure is None]
        made = [
            replace(one, bound={**bound, **one.bound}) for one in results(window, whole, self.judge) if _fit(one, bound)
        ]
        return made or [replace(attempt, bound=bound) for attempt in inner if attempt.failure] or [
            self._missing(window.pattern, bound)
        ]  # fmt: skip

    def _given(self, given: Given, bound: Bound) -> list[Attempt]:
        inner = self.attempts(given.pattern, bound)
        whole = [attempt for attempt in inner if attempt.failure is None]
        made = [attempt for attempt in inner if attempt.failure is not None]
        cases = self.judge.judge(given.conditions, [_timed(attempt) for attempt in whole])
        for case in cases:
            attempt = whole[case.origin]
            now = {name: value for name, value in case.bound.items() if not name.endswith("()")}
            judged = (*attempt.judged, *((each, case.bound) for each in case.judged))
            failure = None
            if case.failed:
                failed = tuple(self.judge.detailed(each, case.bound) for each in case.failed)
                failure = Failure("condition", given, judged=failed)
            made.append(replace(attempt, bound=now, judged=judged, failure=failure))
        return made


def _timed(attempt: Attempt) -> dict[str, Typed]:
    times: dict[str, Typed] = {
        "start()": (attempt.start, "time"),
        "end()": (attempt.end, "time"),
        "duration()": (attempt.end - attempt.start, "duration"),
    }
    return {**attempt.bound, **times}


def _joined(left: Attempt, right: Attempt) -> Attempt:
    return Attempt(
        {**left.bound, **right.bound},
        min(left.start, right.start),
        max(left.end, right.end),
        (*left.parts, *right.parts),
        (*left.judged, *right.judged),
        (*left.silent, *right.silent),
        left.held + right.held - len({*left.parts} & {*right.parts}),
    )


def _fit(one: Attempt, bound: Bound) -> bool:
    return all(same(one.bound[name][0], value) for name, (value, _) in bound.items() if name in one.bound)


def _nearness(attempt: Attempt) -> tuple[bool, int, int]:
    assert attempt.failure is not None, "the good ones were taken"
    return attempt.failure.kind == "relation", attempt.failure.by, -attempt.end


def _holds(relation: str, a: int, b: int, c: int, d: int) -> bool:
    match relation:
        case "SEQ":
            return b < c
        case "AND":
            return True
        case "PAR":
            return max(a, c) < min(b, d)
        case "EQUALS":
            return a == c and b == d
        case "MEETS":
            return b == c
        case "DURING":
            return c < a and b < d
        case "STARTS":
            return a == c and b < d
        case _:
            assert relation == "FINISHES", "all relations are known"
            return b == d and c < a


def _apart(relation: str, a: int, b: int, c: int, d: int) -> int:
    """How far two intervals are from lying so, by how far ends would have to move (until they touch, at least)."""
    match relation:
        case "PAR":
            return max(a, c) - min(b, d)
        case "EQUALS":
            return abs(a - c) + abs(b - d)
        case "MEETS":
            return abs(b - c)
        case "DURING":
            return max(c - a, 0) + max(b - d, 0)
        case "STARTS":
            return abs(a - c) + max(b - d, 0)
        case "FINISHES":
            return abs(b - d) + max(c - a, 0)
        case _:
            return b - c


def _interval(relation: str, a: int, b: int, c: int, d: int) -> tuple[int, int]:
    if relation in ("DURING", "STARTS", "FINISHES"):
        return c, d
    return min(a, c), max(b, d)
