"""Answer sets of rules, key by key.

solve(facts, last):  the answer set nearest to the last one, or all of them

Facts that come and go are externals of one grounding, which serves as long as nothing comes that it does not know
(Gebser, Kaminski, Kaufmann, Schaub, *Multi-shot ASP solving with clingo*, 2019). Rules that ask which tick it is are
grounded anew at each; for those that only ask whether it lies in a window, that is an external, too. What is found
depends on the facts and on those that were grounded, never on earlier searches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import monotonic

from cep.events import Value
from cep.operators.goals.fluents.answer_set_grounding import (
    Calculate,
    Derived,
    Fact,
    Found,
    Grounding,
    SolverLimits,
    required,
)
from cep.rules.answer_set_rules import AnswerSetRules

Key = tuple[Value, ...] | None
KEPT = 256
"""Of so many keys the groundings are kept, of those that were searched last."""
SHARED: Key = ()
WHOLE: Key = None
"""The key of what belongs to all; that of all together."""
_HOLDS_ALL = 8
"""Facts are grounded anew without those that are gone when these are so many times as many as those that are true."""


class AnswerSetSolver:
    """The answer sets of rules. `written`: how a derived atom is told, which decides between equals.

    Where the rules have `keys`, each key is searched by itself, and only when its facts have changed, or its part of
    the last answer set is not what was found."""

    def __init__(
        self, rules: AnswerSetRules, calculate: Calculate, written: Callable[[Derived], str], limits: SolverLimits
    ) -> None:
        required()
        self.rules, self.calculate, self.written, self.limits = rules, calculate, written, limits
        self.known: dict[Fact, None] = {}
        """The facts that are grounded, in the order in which they came."""
        self.become(())

    def become(self, known: Iterable[Fact]) -> None:
        """Know these facts, in this order, and no others."""
        self.known = dict.fromkeys(known)
        self._by_key: dict[Key, list[Fact]] = {}
        for fact in self.known:
            self._by_key.setdefault(self._key(fact), []).append(fact)
        self._grounded: dict[Key, Grounding] = {}
        self._found: dict[Key, tuple[frozenset[Fact], frozenset[Derived] | None]] = {}
        """Of keys the facts of the last search, and the answer set; None: there is none."""
        self._about_all: tuple[frozenset[Fact], frozenset[str]] | None = None
        """The facts of no key, and what is true of the tick, in the last search."""

    def solve(self, facts: frozenset[Fact], last: frozenset[Derived], first: int, now: int, every: bool) -> Found:
        """At tick `now` of a stream that began at `first`: the answer set nearest to `last`, or all. CepError: they are
        more than are told, or the rules go on without end."""
        if not self.rules.clocked:
            self._learn(facts)
        if every or self.rules.keys is None:
            grounded = self._grounding(WHOLE, facts, first, now)
            grounded.assign(facts, last, self.rules.told(first, now))
            return grounded.all() if every else grounded.nearest(last, self.limits.seconds)
        return self._by_keys(facts, last, first, now)

    def _by_keys(self, facts: frozenset[Fact], last: frozenset[Derived], first: int, now: int) -> Found:
        """Of each key the answer set nearest to its part of `last`: together they are the nearest of all."""
        keys = self.rules.keys
        assert keys is not None, "it is asked of rules that have them"
        dealt: dict[Key, list[Fact]] = {SHARED: []}
        for fact in facts:
            dealt.setdefault(self._key(fact), []).append(fact)
        before: dict[Key, list[Derived]] = {}
        for each in last:
            before.setdefault(tuple(each[1][column] for column in keys.derived[each[0]]), []).append(each)
        shared, told = about_all = frozenset(dealt[SHARED]), self.rules.told(first, now)
        if about_all != self._about_all or self.rules.clocked:
            self._about_all, self._found = about_all, {}
        self._found = {key: found for key, found in self._found.items() if key in dealt}
        made: list[Derived] = []
        changed: list[tuple[Key, frozenset[Fact], frozenset[Derived]]] = []
        for key, own in dealt.items():
            mine, was = frozenset(own), frozenset(before.get(key, ()))
            known = self._found.get(key)
            if known is None or known[0] != mine or (known[1] is not None and known[1] != was):
                changed.append((key, mine, was))
            elif known[1] is None:
                return Found(())
            else:
                made += known[1]
        late = False
        until = None if self.limits.seconds is None else monotonic() + self.limits.seconds
        for place, (key, mine, was) in enumerate(changed):
            grounded = self._grounding(key, mine | shared, first, now)
            grounded.assign(mine | shared, was, told)
            found = grounded.nearest(was, None if until is None else (until - monotonic()) / (len(changed) - place))
            late = late or found.late
            if not found.late:
                answer = found.answers[0] if found.answers else None
                self._found[key] = mine, answer
                if answer is None:
                    return Found(())
                made += answer
        return Found((), True) if late else Found((frozenset(made),))

    def _key(self, fact: Fact) -> Key:
        """The key to which a fact belongs."""
        columns = None if self.rules.keys is None else self.rules.keys.inputs[fact[0]]
        return SHARED if columns is None else tuple(fact[1][column] for column in columns)

    def _learn(self, facts: frozenset[Fact]) -> None:
        """Facts that are not known are grounded from now on."""
        new = [each for each in facts if each not in self.known]
        if new and len(self.known) > _HOLDS_ALL * len(facts) + 256:
            self.become(())
            new = list(facts)
        for fact in sorted(new, key=_order):
            key = self._key(fact)
            self.known[fact] = None
            self._by_key.setdefault(key, []).append(fact)
            if key == SHARED:
                self._grounded = {}
            for each in (key, WHOLE):
                self._grounded.pop(each, None)

    def _grounding(self, key: Key, facts: frozenset[Fact], first: int, now: int) -> Grounding:
        if self.rules.clocked:
            return self._new(sorted(facts, key=_order), first, now)
        grounded = self._grounded.pop(key, None)
        if grounded is None:
            keys = () if key == WHOLE else dict.fromkeys((SHARED, key))
            given = [fact for each in keys for fact in self._by_key.get(each, ())]
            grounded = self._new(list(self.known) if key == WHOLE else given, first, now)
            if len(self._grounded) >= KEPT:
                del self._grounded[next(iter(self._grounded))]
        self._grounded[key], grounded.now = grounded, now
        return grounded

    def _new(self, facts: list[Fact], first: int, now: int) -> Grounding:
        return Grounding(self.rules, self.calculate, self.written, self.limits, facts, first, now)


def _order(fact: Fact) -> tuple[int, list[tuple[str, str]]]:
    return fact[0], [(type(each).__name__, str(each)) for each in fact[1]]
