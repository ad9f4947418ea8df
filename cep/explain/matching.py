"""Match a rule's pattern with a few occurrences. Return the complete matches, and the incomplete matches with the
reasons why they failed.

The code consists of nested loops that follow the definitions of the language. It ignores consumption policies, so it
returns more matches than the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from cep.core.schema import Schema
from cep.events import Value
from cep.explain.judging import BoundValues, Judge, Judged, TypedValue
from cep.explain.occurrences import Occurrence, same
from cep.explain.windows import Members, windowed
from cep.plan.pattern import Pattern
from cep.rules.terms import AggregateResult, Condition, Constant, Variable, condition_variables

Find = Callable[[str, Mapping[int, Value]], Sequence[Occurrence]]
"""A function that returns the occurrences of an event that have these arguments, by position.

The result is sorted by (end, start).
"""

HeldAt = Callable[[str, Mapping[int, Value], int], Sequence[Occurrence]]

_PLACED = {"missing": 0, "relation": 0, "deadline": 1, "open": 1}


@dataclass(frozen=True, slots=True)
class Failure:
    """The reason why an attempt failed, by its `kind`:

    - missing: no occurrence that has these `values` matches `pattern`.
    - condition: the conditions `judged` are false.
    - relation: the two parts are not in the relation of `pattern`. `occurrence` is the second part. `by` is how far the
      parts are from satisfying the relation.
    - deadline: the attempt is longer than its WITHIN, by the duration `by`.
    - came: `occurrence` happened in a period in which it had to be absent. `by` is the time from the occurrence to the
      nearer end of the period.
    - unheld: the fluent `pattern` did not hold at the end of the attempt or, if `time` is not None, at that time.
    - held: the fluent held over `occurrence`, but must not hold.
    - open: the attempt needs all occurrences up to a time that is later than `Matcher.until`, by the duration `by`.
    - head: the rule derives other arguments, `arguments`.
    - apart: everything holds, but the attempt ended before the requested time, by the duration `by`.
    - policy: everything holds, but the policy chose another partner.
    - whole: everything holds, and no policy can have chosen another partner.

    For fluents:

    - over: the rule began the fluent by `occurrence`, but it ended again.
    - cancelled: at the instant of `occurrence`, the fluent was also ended, or another value began.
    - later: the fluent holds from just after the requested time.
    - formula: parts of the formula do not hold.

    For a value of a fluent that replaces another value by a deadline:

    - waits: `occurrence` has the other value. It is replaced at `time`, which is the duration `by` after it began.
    - stopped: the other value ended before its deadline.
    - endless: the other value holds from before all time, without a deadline.
    - unbegun: the other value never held for these `arguments`.
    """

    kind: str
    pattern: Pattern | None = None
    values: Mapping[str, Value] = field(default_factory=dict)
    occurrence: Occurrence | None = None
    by: int = 0
    judged: tuple[Judged, ...] = ()
    arguments: tuple[Value | None, ...] | None = None
    time: int | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt to match a pattern with occurrences.

    - `held`: the number of the pattern's events that were matched.
    - `silent`: the patterns that had to be absent. Each is paired with the end of the period in which it had to be
      absent.
    """

    bound: BoundValues
    start: int
    end: int
    parts: tuple[Occurrence, ...] = ()
    judged: tuple[tuple[Judged, BoundValues], ...] = ()
    silent: tuple[tuple[Pattern, int], ...] = ()
    held: int = 0
    failure: Failure | None = None

    @property
    def rank(self) -> tuple[int, int, int, int, int]:
        """The sort key of attempts. The attempt that matched the most has the greatest key.

        The key compares, in this order:

        - the number of matched events,
        - the stage at which the attempt failed,
        - the number of conditions that hold,
        - the time by which the attempt misses its limit (see `Failure.by`),
        - the attempt's end.
        """
        return self.held, self.placed, self.holding, 0 if self.failure is None else -self.failure.by, self.end

    @property
    def placed(self) -> int:
        """The stage at which the attempt failed, as a number. The stages are the events, their order, the conditions.

        The greatest number means that the attempt did not fail.
        """
        return 3 if self.failure is None else _PLACED.get(self.failure.kind, 2)

    @property
    def holding(self) -> int:
        """The number of the attempt's conditions that hold."""
        return sum(judgement.holds for judgement, _ in self.judged)


class Matcher:
    """A matcher for the patterns of a program.

    - `find`: a function that returns the occurrences of an event.
    - `until`: the time up to which all occurrences are known.
    - `held`: a function that returns the intervals of a fluent that contain a time. Its arguments are a table of the
      fluent, the known arguments of the fluent by position, and the time.
    """

    def __init__(
        self, find: Find, judge: Judge, schemas: Mapping[str, Schema], until: int, held: HeldAt = lambda *_: ()
    ) -> None:
        self.find, self.held = find, held
        self.judge = judge
        self.schemas = schemas
        self.until = until

    def attempts(self, pattern: Pattern, bound: BoundValues) -> list[Attempt]:
        """Return all matches of a pattern: first the complete ones, then the incomplete ones, each sorted by `rank`
        with the greatest first.

        If a part of the pattern has no match, return the best attempts without this part.
        """
        self.judge.check_limit()
        attempts: list[Attempt] = pattern.attempts(self, bound)
        if pattern.within is not None:
            attempts = [self.bounded(attempt, pattern, pattern.within) for attempt in attempts]
        return sorted(attempts, key=lambda attempt: (attempt.failure is None, *attempt.rank), reverse=True)

    # --- what operators ask (`Pattern.attempts`) ---

    def attempt(self, bound: BoundValues, start: int, end: int, failure: Failure | None = None) -> Attempt:
        return Attempt(bound, start, end, failure=failure)

    def failure(self, kind: str, pattern: Pattern, occurrence: Occurrence | None = None, by: int = 0) -> Failure:
        return Failure(kind, pattern, occurrence=occurrence, by=by)

    def check_limit(self) -> None:
        self.judge.check_limit()

    def windows(
        self,
        pattern: Pattern,
        whole: Sequence[Attempt],
        bound: BoundValues,
        by: Sequence[str],
        members_at: Members,
        results: Sequence[AggregateResult],
    ) -> list[Attempt]:
        """Return the windows over the complete matches `whole`. Windows are left out if their groups or aggregates have
        other values than those in `bound`."""
        attempts = []
        for attempt in windowed(whole, by, members_at, results, self.judge):
            late = attempt.end - self.until
            failure = self.failure("open", pattern, by=late) if late > 0 else None
            if _fit(attempt, bound):
                attempts.append(replace(attempt, bound={**bound, **attempt.bound}, failure=failure))
        return attempts

    # --- events ---

    def of_event(self, atom: Pattern, bound: BoundValues) -> list[Attempt]:
        event, arguments = atom.properties().event, atom.properties().arguments
        assert event is not None, "of an event pattern"
        fixed: dict[int, Value] = {}
        for place, argument in enumerate(arguments):
            if isinstance(argument, Constant):
                fixed[place] = argument.value
            elif argument.name in bound:
                fixed[place] = bound[argument.name][0]
        attributes = self.schemas[event].attributes
        attempts = []
        for occurrence in self.find(event, fixed):
            now = dict(bound)
            for argument, value, attribute in zip(arguments, occurrence.args, attributes):
                if isinstance(argument, Constant) or argument.name == "_":
                    fits = isinstance(argument, Variable) or same(argument.value, value)
                elif argument.name in now:
                    fits = same(now[argument.name][0], value)
                else:
                    now[argument.name], fits = (value, attribute.type), True
                if not fits:
                    break
            else:
                attempts.append(Attempt(now, occurrence.start, occurrence.end, (occurrence,), held=1))
        return attempts or [self.missing(atom, bound)]

    def missing(self, pattern: Pattern, bound: BoundValues) -> Attempt:
        values = {name: value for name, (value, _) in bound.items()}
        return Attempt(bound, 0, 0, failure=Failure("missing", pattern, values))

    def joined(self, left: Attempt, right: Attempt) -> Attempt:
        """Join two attempts to one attempt, which lasts from the earlier start to the later end of the two."""
        return Attempt(
            {**left.bound, **right.bound},
            min(left.start, right.start),
            max(left.end, right.end),
            (*left.parts, *right.parts),
            (*left.judged, *right.judged),
            (*left.silent, *right.silent),
            left.held + right.held - len({*left.parts} & {*right.parts}),
        )

    def lacking(self, pattern: Pattern, left: Attempt) -> Attempt:
        """Return a copy of the attempt `left` that failed because `pattern` has no match for the values of `left`."""
        best = self.attempts(pattern, left.bound)[0]
        failure = best.failure or self.missing(pattern, left.bound).failure
        return replace(left, held=left.held + best.held * bool(best.failure), failure=failure)

    def bounded(self, attempt: Attempt, pattern: Pattern, within: int) -> Attempt:
        over = attempt.end - attempt.start - within
        if attempt.failure is not None or over <= 0:
            return attempt
        return replace(attempt, failure=Failure("deadline", pattern, by=over))

    def holding(
        self, pattern: Pattern, fluent: Pattern, no: bool, bound: BoundValues, instant: str | None = None
    ) -> list[Attempt]:
        """Return those matches of a pattern for which a fluent holds. If `no` is True, return the matches for which it
        does not hold.

        The fluent is checked at the end of the match, or at the time that the variable `instant` contains if it is not
        None.
        """
        attempts: list[Attempt] = []
        for attempt in self.attempts(pattern, bound):
            if attempt.failure is not None:
                attempts.append(attempt)
                continue
            time: Value = attempt.end if instant is None else attempt.bound[instant][0]
            if instant is not None and "'" in instant:  # an internal variable for a constant time
                judged = tuple(pair for pair in attempt.judged if instant not in condition_variables(pair[0].condition))
                shown = {name: term for name, term in attempt.bound.items() if name != instant}
                attempt = replace(attempt, bound=shown, judged=judged)
            known = isinstance(time, int)
            when = int(time) if isinstance(time, int) else attempt.end
            extended = self.of_fluent(fluent, attempt, when) if known and when <= attempt.end else []
            if no and extended:
                failure = Failure("held", fluent, occurrence=extended[0].parts[-1], time=when)
                attempts.append(replace(attempt, failure=failure))
            elif no and known:
                attempts.append(replace(attempt, silent=(*attempt.silent, (fluent, when))))
            elif extended:
                attempts += extended
            else:
                values = {name: value for name, (value, _) in attempt.bound.items()}
                attempts.append(replace(attempt, failure=Failure("unheld", fluent, values, time=when)))
        return attempts

    def of_fluent(self, fluent: Pattern, attempt: Attempt, time: int) -> list[Attempt]:
        """Return copies of the attempt, each extended by one of the fluent's intervals that contain `time`."""
        event, arguments = fluent.properties().event, fluent.properties().arguments[:-1]
        assert event is not None, "of a fluent"
        known: dict[int, Value] = {n: a.value for n, a in enumerate(arguments) if isinstance(a, Constant)}
        for place, argument in enumerate(arguments):
            if isinstance(argument, Variable) and argument.name in attempt.bound:
                known[place] = attempt.bound[argument.name][0]
        attempts = []
        for interval in self.held(event, known, time):
            now, fits = dict(attempt.bound), True
            for argument, value, attribute in zip(arguments, interval.args, self.schemas[event].attributes):
                if isinstance(argument, Variable) and argument.name not in now:
                    now[argument.name] = value, attribute.type
                elif isinstance(argument, Variable):
                    fits = fits and same(now[argument.name][0], value)
            if fits:
                now = {name: value for name, value in now.items() if "'" not in name}
                attempts.append(replace(attempt, bound=now, parts=(*attempt.parts, interval), held=attempt.held + 1))
        return attempts

    def where(
        self, formula: Pattern, pattern: Pattern, conditions: Sequence[Condition], bound: BoundValues
    ) -> list[Attempt]:
        """Return the matches of a pattern, each with the results of its conditions."""
        inner = self.attempts(pattern, bound)
        whole = [attempt for attempt in inner if attempt.failure is None]
        attempts = [attempt for attempt in inner if attempt.failure is not None]
        cases = self.judge.judge(conditions, [_timed(attempt) for attempt in whole])
        for case in cases:
            attempt = whole[case.origin]
            now = {name: value for name, value in case.bound.items() if not name.endswith("()")}
            judged = (*attempt.judged, *((judgement, case.bound) for judgement in case.judged))
            failure = None
            if case.failed:
                failed = tuple(self.judge.detailed(judgement, case.bound) for judgement in case.failed)
                failure = Failure("condition", formula, judged=failed)
            attempts.append(replace(attempt, bound=now, judged=judged, failure=failure))
        return attempts


def _timed(attempt: Attempt) -> dict[str, TypedValue]:
    times: dict[str, TypedValue] = {
        "start()": (attempt.start, "time"),
        "end()": (attempt.end, "time"),
        "duration()": (attempt.end - attempt.start, "duration"),
    }
    return {**attempt.bound, **times}


def _fit(attempt: Attempt, bound: BoundValues) -> bool:
    return all(same(attempt.bound[name][0], value) for name, (value, _) in bound.items() if name in attempt.bound)
