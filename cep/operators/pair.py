"""Pairs of occurrences: `L SEQ R` and the other interval relations, and `NOT(X).[L, R]`.

The properties of a relation follow from its row in `cep.core.interval_relations`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from cep.core.errors import NOWHERE, Span
from cep.core.interval_relations import LEFT_INSTANT, RIGHT_INSTANT, UNBOUNDED, IntervalRelation, relation_named
from cep.core.suggest import did_you_mean
from cep.operators.where import of_parts
from cep.plan.binarise import Component, canonical, timed
from cep.plan.horizon import Horizon
from cep.plan.join_conditions import searched
from cep.plan.lint.ranges import Ranges, Searcher, both
from cep.plan.names import author_names
from cep.plan.node import Lasting, Meeting, Node, NodeProperties, PartColumn
from cep.plan.pattern import Omission, Pattern, PatternProperties, rechosen, variables
from cep.plan.render import listed, restricted
from cep.plan.rule_edits import ABSENCE
from cep.rules import pattern_text
from cep.rules.expressions.typed import MIRRORED
from cep.rules.pattern_text import Text
from cep.rules.printing import print_condition
from cep.rules.terms import Comparison, Condition, Expression, PolicyChoice, expression_variables, rename_condition

if TYPE_CHECKING:
    from cep.events import Value
    from cep.explain.judging import BoundValues
    from cep.explain.matching import Attempt, Matcher
    from cep.operators.build import GoalBuilder
    from cep.operators.goals.contract import Goal
    from cep.plan.binarise import Binariser
    from cep.plan.render import Rendering
    from cep.plan.safety import Checker
    from cep.plan.types import ColumnType, Inference

DEFAULT_TIES = {"unrestricted": "longest", "recent": "longest", "chronological": "shortest"}
MOST_PAIRS = 20_000
"""The maximum number of pairs that an explanation tries for one operator."""


@dataclass(frozen=True, slots=True)
class Pair(Pattern):
    """`left RELATION right` or, with `absent`, `NOT(absent).[left, right]`, where the relation is SEQ.

    `gap`: the bounds of `SEQ[g, h]`.
    """

    relation: str
    left: Pattern
    right: Pattern
    policy: PolicyChoice
    within: int | None = None
    absent: Pattern | None = None
    span: Span = field(default=NOWHERE, compare=False)
    gap: tuple[int, int] | None = None

    def describe(self) -> PatternProperties:
        sides = (self.left, self.right)
        negated = () if self.absent is None else (self.absent,)
        return PatternProperties(sides, negated, sides, policy=self.policy, goal=True)

    def renamed(self, names: Mapping[str, str]) -> Pattern:
        renamed = Pattern.renamed(self, names)
        assert isinstance(renamed, Pair), "it stays one"
        return replace(renamed, policy=rechosen(self.policy, names))

    def belongs_below(self, component: Component) -> bool:
        return of_parts(component) and any(component.variables <= variables(side) for side in (self.left, self.right))

    def lower(
        self, builder: Binariser, components: tuple[Component, ...], bounded: int | None
    ) -> tuple[int, dict[str, int]]:
        return self.paired(builder, components, True)

    def paired(self, builder: Binariser, components: tuple[Component, ...], push: bool) -> tuple[int, dict[str, int]]:
        """Add the node of the pair to the plan. Return its number, and the column of each variable.

        `push`: True if a condition may move to the side that binds all its variables.
        """
        bound = variables(self.left), variables(self.right)
        down: tuple[list[Component], list[Component]] = ([], [])
        here: list[Component] = []
        for component in components:
            fits = [push and of_parts(component) and component.variables <= side for side in bound]
            for side, fit in zip(down, fits, strict=True):
                side += [component] if fit else []
            here += [] if any(fits) else [component]
        left, left_places = self.left.lower(builder, tuple(down[0]), self.within)
        right, right_places = self.right.lower(builder, tuple(down[1]), self.within)
        key = tuple((left_places[v], right_places[v]) for v in left_places if v in right_places)
        places, by_column = dict(left_places), {column: v for v, column in right_places.items()}
        for column in own_columns(key, len(right_places)):
            places[by_column[column]] = len(places)
        absent: int | None = None
        absent_key: tuple[tuple[int, int], ...] = ()
        if self.absent is not None:
            absent, absent_places = self.absent.lower(builder, (), self.within)
            absent_key = tuple((absent_places[v], places[v]) for v in absent_places if v in places)
        tie, by = self._choice(left_places, right_places)
        decide, _ = canonical([condition for c in here for condition in c.conditions], places, ())
        node = Join(
            self.relation, left, right, key, self.policy.name, tie, by, self.within, absent, absent_key, decide,
            len(left_places), self.gap, len(right_places),
        )  # fmt: skip
        return builder.add(node, tuple(places), self.span), places

    def _choice(self, left: Mapping[str, int], right: Mapping[str, int]) -> tuple[str, tuple[int | None, int | None]]:
        choice = self.policy
        if choice.name == "unrestricted":
            return "longest", (None, None)
        by = (None, None) if choice.by is None else (left.get(choice.by), right.get(choice.by))
        if by != (None, None):
            return "by", by
        return (choice.tie if choice.by is None else None) or DEFAULT_TIES[choice.name], by

    def check(self, checker: Checker, outside: frozenset[str]) -> None:
        by = self.policy.by
        if by is not None and checker.writes(self.policy) and by not in checker.names:
            checker.error(
                f"the policy chooses by `{by}`, which is not in the rule",
                self.policy.span,
                did_you_mean(by, sorted(checker.written_names)) or "use a variable of one of the events",
            )

    def ranges(self, searcher: Searcher) -> Ranges:
        if self.absent is not None:
            self.absent.ranges(searcher)
        return both(self.left.ranges(searcher), self.right.ranges(searcher))

    def omissions(self) -> Iterator[Omission]:
        if self.absent is not None:
            yield replace(self, absent=None), self.span, ABSENCE, "NOT"

    def changes(self) -> Iterator[tuple[Pattern, str]]:
        if self.relation == "SEQ":
            yield replace(self, relation="AND", gap=None), "SEQ as AND"
        name = "chronological" if self.policy.name == "recent" else "recent"
        yield replace(self, policy=PolicyChoice(name)), f"policy {self.policy.name} as {name}"
        left, right = (set(side.properties().binds) for side in (self.left, self.right))
        for name in sorted(left & right):
            if not name.startswith("_"):
                split = self.right.renamed({name: f"{name}_apart"})
                yield replace(self, right=split), f"`{name}` of both sides as two variables"

    # --- explanation ---

    def attempts(self, matcher: Matcher, bound: BoundValues) -> list[Attempt]:
        lefts, rights = matcher.attempts(self.left, bound), matcher.attempts(self.right, bound)
        whole, others = [a for a in lefts if not a.failure], [a for a in rights if not a.failure]
        if not whole or not others:
            return _half(matcher, lefts, rights)
        shared = sorted((variables(self.left) & variables(self.right)) - bound.keys())
        by_key: dict[tuple[Value, ...], list[Attempt]] = {}
        for right in others:
            by_key.setdefault(tuple(right.bound[name][0] for name in shared), []).append(right)
        attempts: list[Attempt] = []
        for left in whole:
            matcher.check_limit()
            key = tuple(left.bound[name][0] for name in shared)
            partners = [] if None in key else by_key.get(key, [])
            pairs = [self._paired(matcher, left, right) for right in partners]
            good = [pair for pair in pairs if not pair.failure]
            attempts += good or sorted(pairs, key=_nearness)[:1] or [matcher.lacking(self.right, left)]
            if len(attempts) > MOST_PAIRS:
                break
        return attempts

    def _paired(self, matcher: Matcher, left: Attempt, right: Attempt) -> Attempt:
        both = matcher.joined(left, right)
        missed = relation_named(self.relation, self.gap).misses(left.start, left.end, right.start, right.end)
        if missed is not None:
            second = (right.parts or (None,))[-1]
            return replace(both, failure=matcher.failure("relation", self, occurrence=second, by=missed))
        if self.within is not None and both.end - both.start > self.within:
            return matcher.bounded(both, self, self.within)
        if self.absent is not None:
            after, until = left.end, right.start
            local = {name: value for name, value in both.bound.items() if name in variables(self.absent)}
            for other in matcher.attempts(self.absent, local):
                if other.failure is None and after < other.start and other.end < until:
                    arrived = other.parts[-1] if other.parts else None
                    near = min(other.start - after, until - other.end)
                    return replace(both, failure=matcher.failure("came", self, occurrence=arrived, by=near))
            both = replace(both, silent=(*both.silent, (self.absent, until)))
        return both


def _half(matcher: Matcher, lefts: list[Attempt], rights: list[Attempt]) -> list[Attempt]:
    attempts = []
    for left in lefts[:16]:
        for right in rights[:16]:
            bad = left if left.failure else right
            good = right if left.failure else left
            neither = left.failure and right.failure
            start, end = bad.start if neither else good.start, max(left.end, right.end) if neither else good.end
            attempts.append(replace(matcher.joined(left, right), start=start, end=end, failure=bad.failure))
    return attempts


def _nearness(attempt: Attempt) -> tuple[bool, int, int]:
    assert attempt.failure is not None, "only of those that failed"
    return attempt.failure.kind == "relation", attempt.failure.by, -attempt.end


@dataclass(frozen=True, slots=True)
class Join(Node):
    """The node of a join. Output columns: the columns of the left side, then the columns of the right side that are not
    in the key.

    - `key`: pairs of a column of the left side and a column of the right side that must be equal.
    - `absent`: the node of the event that must not occur between the two sides, or None.
    - `absent_key`: pairs of a column of `absent` and an output column that must be equal.
    - `decide`: the conditions that the join tests on each pair.
    """

    relation: str
    left: int
    right: int
    key: tuple[tuple[int, int], ...]
    policy: str
    tie: str
    by: tuple[int | None, int | None]
    within: int | None
    absent: int | None
    absent_key: tuple[tuple[int, int], ...]
    decide: tuple[Condition, ...]
    left_width: int
    gap: tuple[int, int] | None = None
    right_width: int = field(default=0, compare=False)

    @property
    def interval_relation(self) -> IntervalRelation:
        return relation_named(self.relation, self.gap)

    @property
    def word(self) -> str:
        return "NOT" if self.absent is not None else self.relation

    @property
    def own(self) -> list[int]:
        return own_columns(self.key, self.right_width)

    @property
    def between(self) -> dict[Condition, Comparison]:
        """Return the conditions that compare an expression of the left side with one of the right side.

        Each condition is mapped to an equivalent comparison whose first operand reads the left side. The result is
        empty under the policy `recent`, which tests conditions only on the pair that it has chosen.
        """
        comparisons: dict[Condition, Comparison] = {}
        for condition in () if self.policy == "recent" else self.decide:
            if isinstance(condition, Comparison) and not timed(condition):
                sides = self._side(condition.left), self._side(condition.right)
                if sides == (0, 1):
                    comparisons[condition] = condition
                elif sides == (1, 0):
                    operator = MIRRORED[condition.operator]
                    comparisons[condition] = Comparison(operator, condition.right, condition.left, condition.span)
        return comparisons

    def _side(self, expression: Expression) -> int | None:
        names = expression_variables(expression)
        if not names or any(name[0] != "v" for name in names):
            return None
        sides = {int(int(name[1:]) >= self.left_width) for name in names}
        return sides.pop() if len(sides) == 1 else None

    def describe(self) -> NodeProperties:
        relation = self.interval_relation
        completing = relation.completing
        waits = completing if len(completing) > 1 else (1 - completing[0],)
        shows = [((0, column),) for column in range(self.left_width)] + [((1, column),) for column in self.own]
        return NodeProperties(
            self.word,
            "join",
            remembers=True,
            shows=tuple(shows),
            looks=tuple((side, column) for side, column in enumerate(self.by) if column is not None),
            equal=tuple(((0, left), (1, right)) for left, right in self.key),
            negated=None if self.absent is None else 2,
            forbids=tuple(((2, absent), column) for absent, column in self.absent_key),
            conditions=self.decide,
            earlier=() if waits == completing else (*waits, 2),
            completes=completing,
            waits=waits,
            lasting=_lasting(relation),
            within=self.within,
            meeting=Meeting.PAIRS,
            multiplies=self.policy == "unrestricted",
            uncounted=(0, 1) if self.policy == "unrestricted" else (),
            constituents=(0, 1),
        )

    def going_on(self) -> str:
        return (
            "to exclude one that ends after `p`, use `p UNLESS (p PAR x) WITHIN q`; to exclude each, use a fluent; "
            "see NOT in docs/language.md"
        )

    def asked_first(self) -> bool:
        return self.policy != "recent"

    def spends(self) -> tuple[int, ...]:
        again = self.interval_relation.meets_again
        return tuple(side for side in (0, 1) if self.policy == "chronological" or not again(side))

    def undivided(self, part: int, text: str) -> str | None:
        chosen = {"chronological": (0, 1), "recent": self.interval_relation.completing}.get(self.policy, ())
        if part not in chosen:
            return None
        return f"no variable is on both sides of {text}, and `{self.policy}` chooses among all"

    def columns(self, inference: Inference, number: int) -> tuple[ColumnType, ...]:
        left, right = inference.columns[self.left], inference.columns[self.right]
        for mine, theirs in self.key:
            inference.meet(number, (self.left, mine), (self.right, theirs))
        in_key = {left for left, _ in self.key}
        columns = [inference.column(c.type, c.optional and i not in in_key) for i, c in enumerate(left)]
        columns += [right[i] for i in self.own]
        if self.absent is not None:
            for theirs, mine in self.absent_key:
                known = (self.left, mine) if mine < len(left) else (self.right, self.own[mine - len(left)])
                inference.meet(number, known, (self.absent, theirs))
        for side, by in zip((self.left, self.right), self.by, strict=True):
            if by is not None:
                inference.ranked(number, side, by)
        inference.decided(number, self.decide, columns)
        return tuple(columns)

    # --- time ---

    def instants(self, parts: Sequence[bool]) -> bool:
        relation = self.interval_relation
        facts = [fact for fact, instant in zip((LEFT_INSTANT, RIGHT_INSTANT), parts) if instant]
        return any(relation.instant_if(fact) for fact in facts)

    def horizon(self, parts: Sequence[bool]) -> Horizon:
        relation, point = self.interval_relation, parts[1]
        reach = relation.reach
        return Horizon(
            self.within,
            relation.ends_together() or (point and relation.ends_together(RIGHT_INSTANT)),
            self.policy == "recent" and self.relation == "SEQ" and self.gap is None and point and self._settled(),
            self.policy == "chronological",
            reach=reach if self.gap is not None and point and reach < UNBOUNDED else None,
        )

    def memory(self, types: Sequence[str]) -> int | None:
        return None if self.policy == "chronological" else self.within

    def _settled(self) -> bool:
        """Return True if the negated event is compared only with columns of the join key or of the right side."""
        keys = {left for left, _ in self.key}
        return all(column in keys or column >= self.left_width for _, column in self.absent_key)

    def by_order(self, types: Sequence[str]) -> bool:
        return self.policy != "unrestricted"

    def impossible(self, parts: Sequence[bool]) -> tuple[int, str, str] | None:
        relation = self.interval_relation
        instants = (LEFT_INSTANT, RIGHT_INSTANT)
        sides = [side for side in (0, 1) if parts[side] and not relation.possible(instants[side])]
        if not sides or relation.of_instant is None:
            return None
        why, hint = relation.of_instant
        if relation.possible(LEFT_INSTANT) and parts[0]:
            hint = "`EQUALS` for the same instant"
        return sides[0], why, hint

    # --- text ---

    def text(self, rendering: Rendering, number: int, sides: Sequence[Text]) -> Text:
        word = self.relation if self.gap is None else self.relation + pattern_text.gap(*self.gap)
        if self.absent is None:
            text = pattern_text.joined(sides[0], word, sides[1])
        elif self.gap is None:
            text = pattern_text.negated(sides[2], sides[0], sides[1])
        else:
            text = pattern_text.cnot(sides[0], word, sides[1], sides[2])
        names = author_names(self.decide, rendering.names[number], rendering.source)
        return restricted(text, self.within, self.decide, names)

    def details(self, rendering: Rendering, number: int, sides: Sequence[str]) -> list[tuple[str, str]]:
        names = rendering.names[number]
        written = author_names(self.decide, names, rendering.source)
        types = [[column.type for column in rendering.columns[part]] for part in (self.left, self.right)]
        search = searched(self.between, types[0], types[1], self.own, rendering.source)
        ways: dict[str, list[str]] = {"key": [names[left] for left, _ in self.key], "index": [], "row by row": []}
        for condition in self.decide if self.policy != "recent" else ():
            operator = search[condition][0] if condition in search else None
            way = "row by row" if operator is None else "key" if operator == "=" else "index"
            ways[way].append(print_condition(rename_condition(condition, written)))
        key, index, tested = map(", ".join, ways.values())
        horizon = self.horizon(rendering.points(self))
        said = [("key", key or ("none" if index else "none: every pair is tried"))]
        said += [("index", index)] if index else []
        said += [("row by row", tested)] if tested else []
        if tested and not (key or index or horizon.forgets):
            said.append(("warning", "each new row is tried with all kept rows: add WITHIN, or a shared variable"))
        if self.absent is not None:
            common = ", ".join(names[mine] for _, mine in self.absent_key)
            said.append(("absent", f"{sides[2]} of the same {common}" if common else f"any {sides[2]}"))
        said.append(("policy", self._policy(rendering, number)))
        waiting = [sides[part] for part in self.properties().waits]
        said.append(("remembers", listed(list(dict.fromkeys([*waiting, *sides[2:]])))))
        said.append(("forgets", horizon.text(key)))
        return said

    def _policy(self, rendering: Rendering, number: int) -> str:
        if self.policy == "unrestricted":
            return "unrestricted: every pair"
        which = self.tie
        if self.tie == "by":
            left, right = rendering.below(number)[:2]
            columns = zip((left, right), self.by, strict=True)
            named = dict.fromkeys(side[column] for side, column in columns if column is not None)
            which = f"one of the greatest {' or '.join(named)}"
        if self.policy == "recent":
            asked = "; the WHERE tests only that pair" if self.decide else ""
            return f"recent: the latest, among equal ends the {which}{asked}"
        allowed = " that the WHERE allows" if self.decide else ""
        return f"chronological: the oldest{allowed}, among equal ends the {which}; both are then used up"

    def goal(self, builder: GoalBuilder, number: int) -> Goal:
        from cep.operators.goals.converted_keys import with_converted_keys
        from cep.operators.goals.pairs.join import JoinGoal
        from cep.operators.goals.pairs.join_spec import spec_of

        spec, _, widenings = spec_of(self, builder)
        return with_converted_keys(
            JoinGoal(spec, builder.lineage, builder.shared_rows, builder.equal.once.get(number, ())),
            widenings,
            [builder.types(part) for part in self.parts],
        )


def own_columns(key: Sequence[tuple[int, int]], right_width: int) -> list[int]:
    taken = {right for _, right in key}
    return [column for column in range(right_width) if column not in taken]


def _lasting(relation: IntervalRelation) -> Lasting:
    if relation.instant_if(LEFT_INSTANT) or relation.instant_if(RIGHT_INSTANT):
        return Lasting.AS_SHORTEST
    return Lasting.TOUCHING if relation.instant_if(LEFT_INSTANT, RIGHT_INSTANT) else Lasting.MORE


def place_of(join: Join, column: int) -> PartColumn:
    """Return the part of a join from which an output column is copied (0: left, 1: right), and the column of this
    part."""
    return (0, column) if column < join.left_width else (1, join.own[column - join.left_width])
