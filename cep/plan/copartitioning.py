"""Assign occurrences to buckets when rules run in parallel in buckets. An occurrence is in the bucket that its key
selects, or in every bucket.

A goal can run in buckets if all occurrences that it may pair, group or compare are in the same bucket. For each node,
this module finds the columns that contain the key, or the reason why the goal cannot run in buckets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from cep.plan.dependencies import Dependencies
from cep.plan.names import excerpt, plain
from cep.plan.node import Meeting, PartColumn
from cep.rules.expressions.typed import TICKS, Typed, TypedCall, TypedVariable

KeyColumns = frozenset[int] | None
"""The positions of a node's columns, or of an event's arguments, that contain the key. The key assigns an occurrence to
a bucket.

All these columns have the same value. The set is empty if no column determines the bucket. EVERYWHERE (None) means that
the occurrence is in every bucket.
"""
EVERYWHERE = None


@dataclass(frozen=True, slots=True)
class SplitFailure:
    """The reason why a rule cannot run in buckets. `node`: the goal that prevents it, or -1 if no single goal does."""

    node: int
    reason: str


@dataclass(frozen=True, slots=True)
class Copartitioned:
    """The rules that can run together in buckets, as found by `copartition`.

    - `rules`: the numbers of these rules.
    - `failures`: for each other rule, the reason why it cannot run in buckets.
    - `places`: the key columns of each derived event.
    - `nodes`: the key columns of each node.
    - `leaves`: for each derived event, the inputs on which it depends.
    """

    rules: tuple[int, ...]
    failures: Mapping[int, SplitFailure]
    places: Mapping[str, KeyColumns]
    leaves: Mapping[str, frozenset[str]]
    nodes: Mapping[int, KeyColumns]


def copartition(
    dependencies: Dependencies,
    rules: Iterable[int],
    held: Mapping[str, int],
    everywhere: Set[str],
    given_events: Set[str],
) -> Copartitioned:
    """Find the rules that can run together in buckets.

    - `rules`: the numbers of the rules to choose from.
    - `held`: inputs that are partitioned by an argument, each with the argument's position.
    - `everywhere`: inputs that every bucket receives. An occurrence of any other input is in one arbitrary bucket.
    - `given_events`: events that are complete before the rules run. If a rule reads any other event, the rules of
      the result must derive all its occurrences.
    """
    return _Copartitioning(dependencies, rules, held, everywhere, given_events).run()


class _Copartitioning:
    def __init__(
        self,
        dependencies: Dependencies,
        rules: Iterable[int],
        held: Mapping[str, int],
        everywhere: Set[str],
        given_events: Set[str],
    ) -> None:
        self.dependencies = dependencies
        self.plan = dependencies.plan
        self.rules = sorted(rules, key=dependencies.rank.__getitem__)
        self.held = held
        self.everywhere = everywhere
        self.given = given_events
        self.failures: dict[int, SplitFailure] = {}
        self.places: dict[str, KeyColumns] = {}
        self.leaves: dict[str, frozenset[str]] = {}
        self.found: dict[int, KeyColumns | SplitFailure] = {}
        self.below: dict[int, frozenset[str]] = {}

    def run(self) -> Copartitioned:
        while failed := self.unread() or self.unmet():
            self.failures |= failed
            self.rules = [rule for rule in self.rules if rule not in failed]
        nodes = {number: place for number, place in self.found.items() if not isinstance(place, SplitFailure)}
        return Copartitioned(tuple(sorted(self.rules)), self.failures, self.places, self.leaves, nodes)

    def unread(self) -> dict[int, SplitFailure]:
        """Return the rules that read an incomplete event, each with the reason. An event is incomplete if it is not in
        `given_events` and rules outside `self.rules` also derive it.

        A rule of a recursion is also returned if another rule of the recursion is not in `self.rules`.
        """
        failed: dict[int, SplitFailure] = {}
        remaining = set(self.rules)
        makers = self.dependencies.makers
        before = -1
        while len(failed) > before:
            before = len(failed)
            for rule in self.rules:
                event = self.plan.heads[rule].event
                for read in sorted(self.dependencies.reads[rule] | ({event} & self.dependencies.recursive)):
                    if (
                        rule in remaining
                        and read not in self.given
                        and not remaining.issuperset(makers.get(read, (-1,)))
                    ):
                        failed[rule] = SplitFailure(-1, f"other rules that derive `{read}` do not run by key")
                        remaining.remove(rule)
        return failed

    def unmet(self) -> dict[int, SplitFailure]:
        """Return the rules that have a goal whose partners may be in different buckets.

        The key columns are found by elimination (a greatest fixpoint). At first, every argument of an event counts as a
        key column. An argument is removed if some rule may put a value other than the key into it.
        """
        heads, events = self.plan.heads, {rule: self.plan.heads[rule].event for rule in self.rules}
        self.leaves = self.traced()
        self.places = {}
        for rule, event in events.items():
            if self.leaves[event] <= self.everywhere:
                self.places[event] = EVERYWHERE
            elif event in self.dependencies.both:
                self.places[event] = self.input(event)
            else:
                self.places[event] = frozenset(range(len(heads[rule].arguments)))
        changed = True
        while changed:
            changed = False
            self.found, self.below = {}, {}
            for rule, event in events.items():
                for number in self.dependencies.nodes[rule]:
                    if number not in self.found:
                        self.below[number] = self.inputs_of(number)
                        self.found[number] = self.node(number)
                place, known = self.found[heads[rule].child], self.places[event]
                if isinstance(place, frozenset) and known is not EVERYWHERE:
                    self.places[event] = known & self.carried(rule, place)
                    changed = changed or self.places[event] != known
        failed: dict[int, SplitFailure] = {}
        for rule, event in events.items():
            place = self.found[heads[rule].child]
            if isinstance(place, SplitFailure):
                failed[rule] = place
            elif place is EVERYWHERE and self.places[event] is not EVERYWHERE:
                failed[rule] = SplitFailure(-1, "none of its parts has a key")
        return failed

    def traced(self) -> dict[str, frozenset[str]]:
        """Return, for each derived event, the inputs on which it depends. If the event is itself also an input, the
        result includes it."""
        leaves = {self.plan.heads[rule].event: frozenset[str]() for rule in self.rules}
        for event in leaves:
            leaves[event] = frozenset({event} & self.dependencies.both)
        changed = True
        while changed:
            changed = False
            for rule in self.rules:
                event = self.plan.heads[rule].event
                reached = leaves[event].union(*(leaves.get(read, {read}) for read in self.dependencies.reads[rule]))
                changed = changed or reached != leaves[event]
                leaves[event] = reached
        return leaves

    def inputs_of(self, number: int) -> frozenset[str]:
        event = self.dependencies.properties[number].event
        if event is not None:
            return self.leaves.get(event, frozenset({event}))
        return frozenset[str]().union(*(self.below[child] for child in self.plan.nodes[number].parts))

    def input(self, event: str) -> KeyColumns:
        if event in self.everywhere:
            return EVERYWHERE
        return frozenset({self.held[event]}) if event in self.held else frozenset()

    def carried(self, rule: int, place: frozenset[int]) -> frozenset[int]:
        """Return the positions of head arguments that copy a key column of the rule's body unchanged. `place`: the key
        columns."""
        shown = [_column(argument) for argument in self.plan.arguments[rule]]
        return frozenset(position for position, column in enumerate(shown) if column in place)

    # --- nodes ---

    def node(self, number: int) -> KeyColumns | SplitFailure:
        properties = self.dependencies.properties[number]
        if properties.event is not None:
            arguments = (
                self.places[properties.event] if properties.event in self.places else self.input(properties.event)
            )
            if arguments is EVERYWHERE:
                return EVERYWHERE
            takes = self.plan.nodes[number].takes()
            return frozenset(column for column, position in enumerate(takes) if position in arguments)
        places: list[KeyColumns] = []
        for child in self.plan.nodes[number].parts:
            place = self.found[child]
            if isinstance(place, SplitFailure):
                return place
            places.append(place)
        if all(place is EVERYWHERE for place in places):
            return EVERYWHERE
        for part, kind in properties.changing:
            if (place := places[part]) is not EVERYWHERE and place <= {kind}:
                text = self.text(number)
                return SplitFailure(number, f"what holds in {text} has no key, so its changes may be in any bucket")
        match properties.meeting:
            case Meeting.SAME:
                return places[0]
            case Meeting.PAIRS:
                return self.paired(number, places)
            case Meeting.AGAINST:
                return self.against(number, places[0], places[1])
            case Meeting.EITHER:
                return self.either(number, places)
            case Meeting.GROUPS:
                return self.grouped(number, places[0])

    def paired(self, number: int, places: Sequence[KeyColumns]) -> KeyColumns | SplitFailure:
        """Return the key columns of a node that pairs the occurrences of its first two parts. A third part, if there is
        one, is negated: its occurrences prevent pairs.

        If partners may be in different buckets, return the reason.
        """
        left, right = places[0], places[1]
        properties = self.dependencies.properties[number]
        if left is not EVERYWHERE and right is not EVERYWHERE:
            pairs = self.dependencies.pairs(number)
            if not any(a[1] in left and b[1] in right for a, b in pairs):
                return self.apart(number, pairs, places)
        elif left is not right:
            everywhere = 0 if left is EVERYWHERE else 1
            why = self.plan.nodes[number].undivided(everywhere, self.text(number))
            if why is not None:
                return SplitFailure(number, why)
            if not self.kept_apart(number):
                return self.apart(number, (), places)
        place = self.shown(number, places[:2])
        if properties.negated is None or places[properties.negated] is EVERYWHERE:
            return place
        absent = places[properties.negated] or frozenset()
        if place is not EVERYWHERE and any(
            a[1] in absent and c in place for a, c in self.dependencies.forbidden(number)
        ):
            return place
        return SplitFailure(number, f"the absent part of {self.text(number)} does not share its key")

    def shown(self, number: int, places: Sequence[KeyColumns]) -> KeyColumns:
        """Return the columns of a node that contain a key column of one of its parts."""
        if all(place is EVERYWHERE for place in places):
            return EVERYWHERE
        properties = self.dependencies.properties[number]
        equal = {other: left for left, other in properties.equal}
        column_of = {shows[0]: column for column, shows in enumerate(properties.shows) if shows}
        held = [(part, column) for part, place in enumerate(places) for column in place or ()]
        columns = (column_of.get(equal.get(place, place)) for place in held)
        return frozenset(column for column in columns if column is not None)

    def either(self, number: int, places: Sequence[KeyColumns]) -> KeyColumns | SplitFailure:
        """Return the key columns of a node whose results are the occurrences of all its parts.

        A column is a key column if it contains a key column of each part.
        """
        if any(place is EVERYWHERE for place in places):
            return SplitFailure(number, f"the sides of {self.text(number)} are not all divided by key")
        types = self.dependencies.plan.types(number)
        return frozenset(
            column
            for column, shows in enumerate(self.dependencies.properties[number].shows)
            if all(
                below in (places[part] or ()) and _same(self.dependencies.type(number, (part, below)), types[column])
                for part, below in shows
            )
        )

    def against(self, number: int, left: KeyColumns, absent: KeyColumns) -> KeyColumns | SplitFailure:
        """Return the key columns of a node that returns the occurrences of its first part which have no partner in the
        second part.

        If partners may be in different buckets, return the reason.
        """
        if absent is EVERYWHERE:
            return left if self.kept_apart(number) else self.apart(number, (), (left, absent))
        shows = self.dependencies.properties[number].shows
        pairs = [(shows[column][0], place) for place, column in self.dependencies.forbidden(number)]
        if left is not EVERYWHERE and any(a[1] in left and b[1] in absent for a, b in pairs):
            return left
        return self.apart(number, pairs, (left, absent))

    def grouped(self, number: int, child: KeyColumns) -> KeyColumns | SplitFailure:
        properties = self.dependencies.properties[number]
        place = frozenset(
            column
            for column, shows in enumerate(properties.shows)
            if shows and child is not EVERYWHERE and shows[0][1] in child and shows[0] in properties.groups
        )
        if place:
            return place
        text = self.text(number)
        if not properties.groups:
            why = "has no BY: one window for all" if properties.by else "has no key"
            return SplitFailure(number, f"{text} {why}")
        known = self.named(self.plan.nodes[number].parts[0], child or frozenset()) or "the key of its rows"
        return SplitFailure(number, f"{'the BY of ' if properties.by else ''}{text} leaves out {known}")

    def kept_apart(self, number: int) -> bool:
        """Return True if a node may combine a part that is partitioned by key with a part that is in every bucket.

        This is allowed only if some goal joins, compares or groups the partitioned inputs by an argument.
        """
        left, other = self.plan.nodes[number].parts[:2]
        inputs = self.below[left] | self.below[other]
        return not inputs & self.everywhere or bool((inputs - self.everywhere) & self.dependencies.apart)

    # --- words ---

    def apart(
        self, number: int, pairs: Sequence[tuple[PartColumn, PartColumn]], places: Sequence[KeyColumns]
    ) -> SplitFailure:
        """Return the reason why occurrences that a node must combine may be in different buckets.

        - `pairs`: columns of the first two parts that the node joins on.
        - `places`: the key columns of these parts.
        """
        text = self.text(number)
        properties, parts = self.dependencies.properties[number], self.plan.nodes[number].parts
        if not pairs and (properties.equal or (properties.forbids and properties.meeting is Meeting.AGAINST)):
            return SplitFailure(number, f"{text} joins a time or duration with a number of seconds")
        if not pairs:
            what = "any such event ends it" if properties.meeting is Meeting.AGAINST else "every pair is tried"
            return SplitFailure(number, f"no variable is on both sides of {text}: {what}")
        reason = f"{text} joins on {', '.join(dict.fromkeys(plain(self.plan.names[parts[0]][a[1]]) for a, _ in pairs))}"
        joined = ({a[1] for a, _ in pairs}, {b[1] for _, b in pairs})
        for word, node, place, mine in zip(("left", "right"), parts, places, joined):
            if place is not EVERYWHERE and not place & mine:
                known = self.named(node, place)
                return SplitFailure(
                    number, f"{reason}, but its {word} side {f'is divided by {known}' if known else 'has no key'}"
                )
        return SplitFailure(number, f"{reason}, but its two sides are divided by different ones")

    def named(self, node: int, place: frozenset[int]) -> str:
        return ", ".join(dict.fromkeys(plain(self.plan.names[node][column]) for column in sorted(place)))

    def text(self, number: int) -> str:
        written = excerpt(self.plan.source, self.plan.spans[number])
        word = self.dependencies.properties[number].word.removeprefix("a ")
        return f"`{written}`" if written is not None else f"this {word}"


def _column(argument: Typed) -> int | None:
    match argument:
        case TypedVariable(name) if name[0] == "v":
            return int(name[1:])
        case TypedCall("to_any", (TypedVariable(name, type),)) if name[0] == "v" and type not in TICKS:
            return int(name[1:])
        case _:
            return None


def _same(type: str, expected: str) -> bool:
    return type == expected or (expected == "any" and type not in TICKS)
