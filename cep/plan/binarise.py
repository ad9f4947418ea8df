"""Rules to binary goals: equal sub-patterns become one node, conditions go where they are decided (M4).

A rule's pattern is built from the leaves up; each node is looked up before it is made, with its columns under canonical
names, so that what two rules have in common is planned, and run, once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from cep.core.errors import Span
from cep.plan.algebra import (
    Aggregation,
    Atom,
    Deadline,
    Either,
    Given,
    Head,
    Join,
    Node,
    Pair,
    Pattern,
    Point,
    Repeat,
    Rule,
    Scan,
    Select,
    Tick,
    Union,
    Unless,
    Window,
)
from cep.plan.order import Unit, components
from cep.plan.patterns import atoms
from cep.rules.terms import (
    Call,
    Comparison,
    Condition,
    Constant,
    Expression,
    Predicate,
    Variable,
    condition_variables,
    rename_condition,
    rename_expression,
)

DEFAULT_TIES = {"unrestricted": "longest", "recent": "longest", "chronological": "shortest"}


@dataclass(frozen=True, slots=True)
class Component:
    """Conditions of one WHERE that stand or fall together; `variables`: those that the pattern binds."""

    conditions: tuple[Condition, ...]
    variables: frozenset[str]
    timed: bool
    binds: bool


@dataclass(slots=True)
class Binarised:
    """Nodes in an order in which children come first, the variable names and place of each node as first written."""

    nodes: list[Node] = field(default_factory=list)
    names: list[tuple[str, ...]] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    heads: list[Head] = field(default_factory=list)
    users: list[set[int]] = field(default_factory=list)


def binarise(rules: Sequence[Rule]) -> Binarised:
    """The shared nodes of all rules and their heads. The rules are safe (`cep.plan.safety`)."""
    builder = _Builder()
    cycles = _cycles(rules)
    for number, rule in enumerate(rules):
        builder.rule = number
        builder.cycle = cycles.get(rule.event, frozenset())
        node, places = builder.build(rule.body, ())
        names = {variable: f"v{place}" for variable, place in places.items()}
        arguments = tuple(rename_expression(a, names) for a in rule.arguments)
        builder.done.heads.append(Head(rule.event, node, arguments, rule.label, rule.head_span))
    return builder.done


def _cycles(rules: Sequence[Rule]) -> dict[str, frozenset[str]]:
    """For every recursive event the events of its cycle."""
    needs: dict[Unit, list[Unit]] = {}
    for rule in rules:
        needs.setdefault(rule.event, []).extend(atom.event for atom in atoms(rule.body))
    found: dict[str, frozenset[str]] = {}
    for component in components(list(needs), lambda event: needs.get(event, [])):
        if len(component) > 1 or component[0] in needs[component[0]]:
            found |= dict.fromkeys((str(event) for event in component), frozenset(str(event) for event in component))
    return found


class _Builder:
    def __init__(self) -> None:
        self.done = Binarised()
        self.known: dict[tuple[Node, bool], int] = {}
        self.rule = 0
        self.cycle: frozenset[str] = frozenset()

    def add(self, node: Node, names: Sequence[str], span: Span) -> int:
        # A rule of a cycle sees its events round by round, others see the instant whole: they share no goal on them.
        place = (node, isinstance(node, Scan) and node.event in self.cycle)
        number = self.known.get(place)
        if number is None:
            number = len(self.done.nodes)
            self.known[place] = number
            self.done.nodes.append(node)
            self.done.names.append(tuple(names))
            self.done.spans.append(span)
            self.done.users.append(set())
        self.done.users[number].add(self.rule)
        return number

    def build(
        self, pattern: Pattern, components: tuple[Component, ...], bounded: int | None = None
    ) -> tuple[int, dict[str, int]]:
        """The node of a pattern on which `components` are to be decided as low as they can, and its columns.

        `bounded`: the WITHIN of a goal above whose interval covers this one's, so that it need not be checked here too.
        """
        match pattern:
            case Atom():
                node, places = self.scan(pattern)
                if pattern.within is not None and pattern.within != bounded:
                    node = self.select(node, places, (), (), pattern.within, pattern.span)
                return self.decided(node, places, components, pattern.span), places
            case Point(ticks, _, span):
                node = self.add(Tick(ticks), (), span)
                return self.decided(node, {}, components, span), {}
            case Pair():
                return self.pair(pattern, components)
            case Either(left, right, _, span):
                return self.either(left, right, components, span, bounded)
            case Unless():
                return self.unless(pattern, components)
            case Repeat(links, chain, _, span):
                if len(links) > 1 and isinstance(chain, Pair):
                    return self.pair(chain, components, push=False)
                node, places = self.build(chain, (), bounded)
                return self.decided(node, places, components, span), places
            case Window():
                return self.window(pattern, components)
            case Given():
                return self.given(pattern, components, bounded)

    # --- WHERE ---

    def given(self, given: Given, components: tuple[Component, ...], bounded: int | None) -> tuple[int, dict[str, int]]:
        bound = variables(given.pattern)
        mine = components_of(given.conditions, bound)
        through = tuple(c for c in components if c.variables <= bound)
        above = tuple(c for c in components if not c.variables <= bound)
        top = _goal(given.pattern)
        chronological = isinstance(top, Pair) and top.policy.name == "chronological"
        lower = _lower(given.pattern)
        down = tuple(c for c in mine if not c.binds or chronological or lower(c))
        node, places = self.build(given.pattern, down + through, bounded)
        answers = [condition for c in mine if c.binds for condition in c.conditions]
        if answers:
            binds: list[str] = []
            for condition in answers:
                for name in condition_variables(condition):
                    if name not in bound and name not in binds and name != "_":
                        binds.append(name)
            node = self.select(node, places, answers, binds, None, given.span)
            places = places | {name: len(places) + i for i, name in enumerate(binds)}
        return self.decided(node, places, above, given.span), places

    def decided(self, node: int, places: dict[str, int], components: Iterable[Component], span: Span) -> int:
        conditions = [condition for c in components for condition in c.conditions]
        return self.select(node, places, conditions, (), None, span) if conditions else node

    def select(
        self,
        node: int,
        places: dict[str, int],
        conditions: Sequence[Condition],
        binds: Sequence[str],
        within: int | None,
        span: Span,
    ) -> int:
        names = self.done.names[node]
        renamed, bound = canonical(conditions, places, binds)
        return self.add(Select(node, renamed, bound, within), (*names, *binds), span)

    # --- leaves ---

    def scan(self, atom: Atom) -> tuple[int, dict[str, int]]:
        constants: list[tuple[int, Constant]] = []
        equal: list[tuple[int, int]] = []
        take: list[int] = []
        places: dict[str, int] = {}
        for position, argument in enumerate(atom.arguments):
            if isinstance(argument, Constant):
                constants.append((position, argument))
            elif argument.name == "_":
                continue
            elif argument.name in places:
                equal.append((take[places[argument.name]], position))
            else:
                places[argument.name] = len(take)
                take.append(position)
        scan = Scan(atom.event, tuple(constants), tuple(equal), tuple(take))
        return self.add(scan, tuple(places), atom.span), places

    # --- binary ---

    def pair(self, pair: Pair, components: tuple[Component, ...], push: bool = True) -> tuple[int, dict[str, int]]:
        left_bound, right_bound = variables(pair.left), variables(pair.right)
        to_left: list[Component] = []
        to_right: list[Component] = []
        here: list[Component] = []
        for component in components:
            fits_left = push and not component.timed and component.variables and component.variables <= left_bound
            fits_right = push and not component.timed and component.variables and component.variables <= right_bound
            if fits_left:
                to_left.append(component)
            if fits_right:
                to_right.append(component)
            if not (fits_left or fits_right):
                here.append(component)
        left, left_places = self.build(pair.left, tuple(to_left), pair.within)
        right, right_places = self.build(pair.right, tuple(to_right), pair.within)
        key = tuple((left_places[v], right_places[v]) for v in left_places if v in right_places)
        taken = {r for _, r in key}
        places = dict(left_places)
        right_columns = sorted((place, v) for v, place in right_places.items() if place not in taken)
        for _, v in right_columns:
            places[v] = len(places)
        absent: int | None = None
        absent_key: tuple[tuple[int, int], ...] = ()
        if pair.absent is not None:
            absent, absent_places = self.build(pair.absent, (), pair.within)
            absent_key = tuple((absent_places[v], places[v]) for v in absent_places if v in places)
        choice = pair.policy
        tie = choice.tie or DEFAULT_TIES[choice.name]
        by: tuple[int | None, int | None] = (None, None)
        if choice.name == "unrestricted":
            tie = "longest"
        elif choice.by is not None:
            tie = "by"
            by = (left_places.get(choice.by), right_places.get(choice.by))
            if by == (None, None):
                tie = DEFAULT_TIES[choice.name]
        decide, _ = canonical([condition for c in here for condition in c.conditions], places, ())
        node = Join(
            pair.relation, left, right, key, choice.name, tie, by, pair.within, absent, absent_key, decide,
            len(left_places),
        )  # fmt: skip
        return self.add(node, tuple(places), pair.span), places

    def either(
        self, left: Pattern, right: Pattern, components: tuple[Component, ...], span: Span, bounded: int | None
    ) -> tuple[int, dict[str, int]]:
        down = tuple(c for c in components if not c.timed and c.variables)
        here = tuple(c for c in components if c.timed or not c.variables)
        left_node, places = self.build(left, down, bounded)
        right_node, right_places = self.build(right, down, bounded)
        order = tuple(right_places[v] for v in places)
        node = self.add(Union(left_node, right_node, order), tuple(places), span)
        return self.decided(node, places, here, span), places

    def unless(self, unless: Unless, components: tuple[Component, ...]) -> tuple[int, dict[str, int]]:
        down = tuple(c for c in components if not c.timed and c.variables)
        here = tuple(c for c in components if c.timed or not c.variables)
        left, places = self.build(unless.left, down, unless.within)
        absent, absent_places = self.build(unless.absent, ())
        key = tuple((places[v], absent_places[v]) for v in places if v in absent_places)
        node = self.add(Deadline(left, absent, key, unless.duration), tuple(places), unless.span)
        if unless.within is not None:
            node = self.select(node, places, (), (), unless.within, unless.span)
        return self.decided(node, places, here, unless.span), places

    def window(self, window: Window, components: tuple[Component, ...]) -> tuple[int, dict[str, int]]:
        child, inner = self.build(window.pattern, ())
        names = {v: f"v{place}" for v, place in inner.items()}
        results = tuple(
            replace(
                result,
                variable=f"r{i}",
                argument=None if result.argument is None else rename_expression(result.argument, names),
            )
            for i, result in enumerate(window.results)
        )
        places: dict[str, int] = {}
        for v in window.by:
            places.setdefault(v.name, len(places))
        by = tuple(inner[v] for v in places)
        for result in window.results:
            places[result.variable] = len(places)
        node = self.add(Aggregation(child, results, window.events, window.duration, by), tuple(places), window.span)
        if window.within is not None:
            node = self.select(node, places, (), (), window.within, window.span)
        return self.decided(node, places, components, window.span), places


def variables(pattern: Pattern) -> frozenset[str]:
    """The variables a pattern binds for what is around it."""
    match pattern:
        case Atom():
            return frozenset(a.name for a in pattern.arguments if isinstance(a, Variable) and a.name != "_")
        case Point():
            return frozenset()
        case Pair():
            return variables(pattern.left) | variables(pattern.right)
        case Either():
            return variables(pattern.left)
        case Unless():
            return variables(pattern.left)
        case Repeat():
            return variables(pattern.chain)
        case Window():
            return frozenset(v.name for v in pattern.by) | frozenset(r.variable for r in pattern.results)
        case Given():
            bound = variables(pattern.pattern)
            return bound | {name for c in pattern.conditions for name in condition_variables(c)}


def components_of(conditions: Sequence[Condition], bound: frozenset[str]) -> list[Component]:
    """Conditions grouped by the variables they share that no pattern binds (M4), in program order."""
    names = [set(condition_variables(condition)) for condition in conditions]
    first = list(range(len(conditions)))  # an earlier condition of the same group, or itself

    def leader(number: int) -> int:
        while first[number] != number:
            first[number] = number = first[first[number]]
        return number

    speaks: dict[str, int] = {}
    for number, used in enumerate(names):
        for name in used - bound:
            one, other = sorted((leader(number), leader(speaks.setdefault(name, number))))
            first[other] = one
    groups: dict[int, list[int]] = {}
    for number in range(len(conditions)):
        groups.setdefault(leader(number), []).append(number)
    made: list[Component] = []
    for members in groups.values():
        mine = tuple(conditions[m] for m in members)
        used = set[str]().union(*(names[m] for m in members))
        made.append(Component(mine, frozenset(used & bound), any(map(_timed, mine)), not used <= bound))
    return made


def _timed(condition: Condition) -> bool:
    match condition:
        case Comparison(_, left, right):
            return _times(left) or _times(right)
        case Predicate(_, arguments):
            return any(_times(a) for a in arguments)


def _times(expression: Expression) -> bool:
    if isinstance(expression, Call):
        if expression.function in ("start", "end", "duration") and not expression.arguments:
            return True
        return any(_times(a) for a in expression.arguments)
    return False


def _goal(pattern: Pattern) -> Pattern:
    """The pattern that decides what is written on this one."""
    while isinstance(pattern, Given | Repeat):
        pattern = pattern.pattern if isinstance(pattern, Given) else pattern.chain
    return pattern


def _lower(pattern: Pattern) -> Callable[[Component], bool]:
    """Whether a component belongs to something below `pattern` rather than to it."""
    sides: tuple[frozenset[str], ...] = ()
    below: Callable[[Component], bool] | None = None
    match pattern:
        case Pair():
            sides = (variables(pattern.left), variables(pattern.right))
        case Either() | Unless():
            return lambda component: bool(component.variables) and not component.timed
        case Given():
            sides, below = (variables(pattern.pattern),), _lower(pattern.pattern)
        case _:
            pass

    def lower(component: Component) -> bool:
        if component.timed or not component.variables or not any(component.variables <= side for side in sides):
            return False
        return below is None or below(component)

    return lower


def canonical(
    conditions: Sequence[Condition], places: dict[str, int], binds: Sequence[str]
) -> tuple[tuple[Condition, ...], tuple[str, ...]]:
    """Conditions over canonical names: `v0`... for columns, `w0`... for what they bind; and the names of `binds`."""
    names = {v: f"v{place}" for v, place in places.items()}
    fresh: dict[str, str] = {}
    for name in [*binds, *(n for c in conditions for n in condition_variables(c))]:
        if name not in names and name not in fresh:
            fresh[name] = f"w{len(fresh)}"
    every = names | fresh
    renamed = tuple(rename_condition(c, every) for c in conditions)
    return renamed, tuple(fresh[name] for name in binds)
