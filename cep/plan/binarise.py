"""Split rules into binary nodes that rules share. Each condition is assigned to the lowest node that can decide it.

Nodes are built from the leaves up and have canonical column names. A node is added only if no equal node exists, so a
part that two rules have in common is planned and run once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from cep.core.components import components
from cep.core.errors import Span
from cep.plan.algebra import Head, Rule
from cep.plan.node import Node
from cep.plan.order import PlanUnit
from cep.plan.pattern import events
from cep.rules.terms import (
    Call,
    Comparison,
    Condition,
    Disjunction,
    Expression,
    Predicate,
    condition_variables,
    rename_condition,
    rename_expression,
)


@dataclass(frozen=True, slots=True)
class Component:
    """Conditions of one WHERE that share variables. One node must decide all of them.

    - `variables`: those variables of the conditions that the pattern binds.
    - `timed`: True if the conditions use the start, end or duration of a match.
    - `binds`: True if the conditions bind further variables.
    - `late`: for a formula whose conditions query the background knowledge, the formula's delay in microseconds.
      Otherwise None.
    """

    conditions: tuple[Condition, ...]
    variables: frozenset[str]
    timed: bool
    binds: bool
    late: int | None = None


@dataclass(slots=True)
class Binarised:
    """The shared nodes and the heads of a program.

    - `nodes`: the nodes, children before parents.
    - `names`: the names of each node's columns, which are the author's variables.
    - `spans`: for each node, the first place in the program where the author wrote it.
    - `users`: for each node, the numbers of the rules that need it.
    """

    nodes: list[Node] = field(default_factory=list)
    names: list[tuple[str, ...]] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    heads: list[Head] = field(default_factory=list)
    users: list[set[int]] = field(default_factory=list)


def binarise(rules: Sequence[Rule]) -> Binarised:
    """Return the shared nodes and the heads of all rules. The rules must have passed `cep.plan.safety`."""
    builder = Binariser()
    cycles = _cycles(rules)
    for number, rule in enumerate(rules):
        builder.rule = number
        builder.cycle = cycles.get(rule.event, frozenset())
        node, places = rule.body.lower(builder, (), None)
        names = {variable: f"v{place}" for variable, place in places.items()}
        arguments = tuple(rename_expression(a, names) for a in rule.arguments)
        builder.done.heads.append(Head(rule.event, node, arguments, rule.label, rule.head_span))
    return builder.done


def _cycles(rules: Sequence[Rule]) -> dict[str, frozenset[str]]:
    needs: dict[PlanUnit, list[PlanUnit]] = {}
    for rule in rules:
        needs.setdefault(rule.event, []).extend(events(rule.body))
    cycles: dict[str, frozenset[str]] = {}
    for component in components(list(needs), lambda event: needs.get(event, [])):
        if len(component) > 1 or component[0] in needs[component[0]]:
            cycles |= dict.fromkeys((str(event) for event in component), frozenset(str(event) for event in component))
    return cycles


class Binariser:
    """A builder that collects the nodes of all rules. Each pattern adds its nodes to the builder (method
    `Pattern.lower`)."""

    def __init__(self) -> None:
        self.done = Binarised()
        self.known: dict[tuple[Node, bool], int] = {}
        self.rule = 0
        self.cycle: frozenset[str] = frozenset()

    def add(self, node: Node, names: Sequence[str], span: Span) -> int:
        """Return the number of the node that equals `node`. If there is none, add `node` and return its number.

        `names`: the variables of the node's columns.
        """
        # Rules of a cycle see its events round by round, other rules see complete instants. So they share no nodes.
        place = (node, node.properties().event in self.cycle)
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


def components_of(conditions: Sequence[Condition], bound: frozenset[str]) -> list[Component]:
    """Group the conditions that share variables which no pattern binds. The groups are in program order.

    `bound`: the variables that patterns bind.
    """
    names = [set(condition_variables(condition)) for condition in conditions]
    first = list(range(len(conditions)))  # an earlier condition of the same group, or itself

    def leader(number: int) -> int:
        while first[number] != number:
            first[number] = number = first[first[number]]
        return number

    speaks: dict[str, int] = {}
    for number, used in enumerate(names):
        for name in used - bound:
            earlier, other = sorted((leader(number), leader(speaks.setdefault(name, number))))
            first[other] = earlier
    groups: dict[int, list[int]] = {}
    for number in range(len(conditions)):
        groups.setdefault(leader(number), []).append(number)
    components: list[Component] = []
    for members in groups.values():
        mine = tuple(conditions[m] for m in members)
        used = set[str]().union(*(names[m] for m in members))
        components.append(Component(mine, frozenset(used & bound), any(map(timed, mine)), not used <= bound))
    return components


def timed(condition: Condition) -> bool:
    """Return True if a condition uses the start, end or duration of the pattern to which its WHERE belongs."""
    match condition:
        case Comparison(_, left, right):
            return _times(left) or _times(right)
        case Predicate(_, arguments):
            return any(_times(a) for a in arguments)
        case Disjunction(alternatives):
            return any(timed(nested) for inside in alternatives for nested in inside)


def _times(expression: Expression) -> bool:
    if isinstance(expression, Call):
        if expression.function in ("start", "end", "duration") and not expression.arguments:
            return True
        return any(_times(a) for a in expression.arguments)
    return False


def canonical(
    conditions: Sequence[Condition], places: dict[str, int], binds: Sequence[str]
) -> tuple[tuple[Condition, ...], tuple[str, ...]]:
    """Rename the variables of conditions to canonical names: `v0`, `v1`, ... for columns, `w0`, `w1`, ... for variables
    that the conditions bind.

    - `places`: the column of each variable.
    - `binds`: the variables that the conditions bind.

    Returns the conditions, and the canonical names of `binds`.
    """
    names = {v: f"v{place}" for v, place in places.items()}
    fresh: dict[str, str] = {}
    for name in [*binds, *(n for c in conditions for n in condition_variables(c))]:
        if name not in names and name not in fresh:
            fresh[name] = f"w{len(fresh)}"
    every = names | fresh
    renamed = tuple(rename_condition(c, every) for c in conditions)
    return renamed, tuple(fresh[name] for name in binds)
