"""Where occurrences are when rules run in buckets: by a key, or whole in every bucket.

A goal may run in buckets where all that it could ever pair, group or hold against each other is in one bucket. For
each node this says which of its columns hold the key, or why its goal cannot run so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass

from cep.plan.algebra import Aggregation, Deadline, Join, Node, Scan, Select, Tick, Union, children
from cep.plan.dependencies import Dependencies
from cep.plan.horizon import WAITS_LEFT
from cep.plan.names import excerpt
from cep.rules.typed import TICKS, Typed, TypedCall, TypedVariable

Place = frozenset[int] | None
"""The columns (of an event: the arguments) that hold the key by which an occurrence has its bucket, all the same value;
none where nothing of the occurrence tells its one bucket. EVERYWHERE: it is in every bucket."""
EVERYWHERE = None


@dataclass(frozen=True, slots=True)
class Failure:
    """A goal whose partners would not meet (-1: none is to blame), and why, in words."""

    node: int
    reason: str


@dataclass(frozen=True, slots=True)
class Spread:
    """The `rules` that can run in buckets together, why the others of those asked cannot, where the events are that
    they make, and which inputs these go back to."""

    rules: tuple[int, ...]
    failures: Mapping[int, Failure]
    places: Mapping[str, Place]
    leaves: Mapping[str, frozenset[str]]


def spread(
    book: Dependencies, rules: Iterable[int], held: Mapping[str, int], everywhere: Set[str], given: Set[str]
) -> Spread:
    """Rules over inputs that are spread: those of `held` by one argument, those of `everywhere` to every bucket, the
    others anyhow, each occurrence to one bucket.

    `given`: the events that are complete before; any other that a rule reads these rules have to make, all of it.
    """
    return _Spreading(book, rules, held, everywhere, given).run()


class _Spreading:
    def __init__(
        self, book: Dependencies, rules: Iterable[int], held: Mapping[str, int], everywhere: Set[str], given: Set[str]
    ) -> None:
        self.book = book
        self.plan = book.plan
        self.rules = sorted(rules, key=book.rank.__getitem__)
        self.held = held
        self.everywhere = everywhere
        self.given = given
        self.failures: dict[int, Failure] = {}
        self.places: dict[str, Place] = {}
        self.leaves: dict[str, frozenset[str]] = {}
        self.found: dict[int, Place | Failure] = {}
        self.below: dict[int, frozenset[str]] = {}

    def run(self) -> Spread:
        while failed := self.unread() or self.unmet():
            self.failures |= failed
            self.rules = [rule for rule in self.rules if rule not in failed]
        return Spread(tuple(sorted(self.rules)), self.failures, self.places, self.leaves)

    def unread(self) -> dict[int, Failure]:
        """The rules that read what is neither given nor made here whole, and those of a recursion that is not whole."""
        failed: dict[int, Failure] = {}
        there = set(self.rules)
        makers = self.book.makers
        before = -1
        while len(failed) > before:
            before = len(failed)
            for rule in self.rules:
                event = self.plan.heads[rule].event
                for read in sorted(self.book.reads[rule] | ({event} & self.book.recursive)):
                    if rule in there and read not in self.given and not there.issuperset(makers.get(read, (-1,))):
                        failed[rule] = Failure(-1, f"`{read}` is not all made with it")
                        there.remove(rule)
        return failed

    def unmet(self) -> dict[int, Failure]:
        """The rules with a goal whose partners would not meet. Where events are is the greatest fixpoint: each keeps
        the arguments by which all that its rules make of such events has its bucket."""
        heads, events = self.plan.heads, {rule: self.plan.heads[rule].event for rule in self.rules}
        self.leaves = self.traced()
        self.places = {}
        for rule, event in events.items():
            if self.leaves[event] <= self.everywhere:
                self.places[event] = EVERYWHERE
            elif event in self.book.both:
                self.places[event] = self.input(event)
            else:
                self.places[event] = frozenset(range(len(heads[rule].arguments)))
        changed = True
        while changed:
            changed = False
            self.found, self.below = {}, {}
            for rule, event in events.items():
                for number in self.book.nodes[rule]:
                    if number not in self.found:
                        self.below[number] = self.inputs_of(self.plan.nodes[number])
                        self.found[number] = self.node(number, self.plan.nodes[number])
                place, known = self.found[heads[rule].child], self.places[event]
                if isinstance(place, frozenset) and known is not EVERYWHERE:
                    self.places[event] = known & self.carried(rule, place)
                    changed = changed or self.places[event] != known
        failed: dict[int, Failure] = {}
        for rule, event in events.items():
            place = self.found[heads[rule].child]
            if isinstance(place, Failure):
                failed[rule] = place
            elif place is EVERYWHERE and self.places[event] is not EVERYWHERE:
                failed[rule] = Failure(-1, "nothing in it has a key")
        return failed

    def traced(self) -> dict[str, frozenset[str]]:
        """For every event made here the inputs that it goes back to, itself where it also comes from outside."""
        leaves = {self.plan.heads[rule].event: frozenset[str]() for rule in self.rules}
        for event in leaves:
            leaves[event] = frozenset({event} & self.book.both)
        changed = True
        while changed:
            changed = False
            for rule in self.rules:
                event = self.plan.heads[rule].event
                found = leaves[event].union(*(leaves.get(read, {read}) for read in self.book.reads[rule]))
                changed = changed or found != leaves[event]
                leaves[event] = found
        return leaves

    def inputs_of(self, node: Node) -> frozenset[str]:
        if isinstance(node, Scan):
            return self.leaves.get(node.event, frozenset({node.event}))
        return frozenset[str]().union(*(self.below[child] for child in children(node)))

    def input(self, event: str) -> Place:
        if event in self.everywhere:
            return EVERYWHERE
        return frozenset({self.held[event]}) if event in self.held else frozenset()

    def carried(self, rule: int, place: frozenset[int]) -> frozenset[int]:
        """The arguments of a head that are the key as it stands."""
        shown = [_column(argument) for argument in self.plan.arguments[rule]]
        return frozenset(position for position, column in enumerate(shown) if column in place)

    # --- nodes ---

    def node(self, number: int, node: Node) -> Place | Failure:
        places: list[Place] = []
        for child in children(node):
            place = self.found[child]
            if isinstance(place, Failure):
                return place
            places.append(place)
        match node:
            case Scan(event, take=take):
                arguments = self.places[event] if event in self.places else self.input(event)
                if arguments is EVERYWHERE:
                    return EVERYWHERE
                return frozenset(column for column, position in enumerate(take) if position in arguments)
            case Tick():
                return EVERYWHERE
            case Select():
                return places[0]
            case Join():
                return self.join(number, node, places)
            case Union():
                return self.union(number, node, places)
            case Deadline():
                return self.deadline(number, node, places)
            case Aggregation():
                return self.window(number, node, places[0])

    def join(self, number: int, join: Join, places: Sequence[Place]) -> Place | Failure:
        left, right = places[0], places[1]
        if left is not EVERYWHERE and right is not EVERYWHERE:
            pairs = self.book.pairs(join)
            if not any(a in left and b in right for a, b in pairs):
                return self.apart(number, pairs, (join.left, left), (join.right, right))
        elif left is not right:
            if join.policy == "chronological" or (
                join.policy == "recent" and (right is EVERYWHERE or join.relation not in WAITS_LEFT)
            ):
                why = f"and `{join.policy}` chooses among all"
                return Failure(number, f"no variable is on both sides of {self.text(number)}, {why}")
            if not self.kept_apart(join.left, join.right):
                return self.apart(number, (), (join.left, left), (join.right, right))
        place = left
        if right is not EVERYWHERE:
            own = self.book.own(join)
            under = {b: a for a, b in join.key} | {b: join.left_width + i for i, b in enumerate(own)}
            place = frozenset(under[column] for column in right) | (left or frozenset())
        if join.absent is None or places[2] is EVERYWHERE:
            return place
        absent = places[2]
        if place is not EVERYWHERE and any(a in absent and c in place for a, c in self.book.absent_pairs(join)):
            return place
        return Failure(number, f"what is absent in {self.text(number)} does not share its key")

    def union(self, number: int, union: Union, places: Sequence[Place]) -> Place | Failure:
        left, right = places
        if left is EVERYWHERE and right is EVERYWHERE:
            return EVERYWHERE
        if left is EVERYWHERE or right is EVERYWHERE:
            return Failure(number, f"the sides of {self.text(number)} are not kept apart alike")
        types = self.book.types(number)
        mine, theirs = self.book.types(union.left), self.book.types(union.right)
        return frozenset(
            column
            for column, other in enumerate(union.right_columns)
            if column in left
            and other in right
            and _same(mine[column], types[column])
            and _same(theirs[other], types[column])
        )

    def deadline(self, number: int, deadline: Deadline, places: Sequence[Place]) -> Place | Failure:
        left, absent = places
        if absent is EVERYWHERE:
            if left is EVERYWHERE or self.kept_apart(deadline.left, deadline.absent):
                return left
            return self.apart(number, (), (deadline.left, left), (deadline.absent, absent))
        pairs = self.book.held_against(deadline)
        if left is not EVERYWHERE and any(a in left and b in absent for a, b in pairs):
            return left
        return self.apart(number, pairs, (deadline.left, left), (deadline.absent, absent))

    def window(self, number: int, window: Aggregation, child: Place) -> Place | Failure:
        if child is EVERYWHERE:
            return EVERYWHERE
        place = frozenset(i for i, column in enumerate(window.by) if column in child)
        if place:
            return place
        if not window.by:
            return Failure(number, f"{self.text(number)} has no BY: one window for all")
        known = self.named(window.child, child)
        return Failure(number, f"the BY of {self.text(number)} leaves out {known or 'the key of what is in it'}")

    def kept_apart(self, one: int, other: int) -> bool:
        """Whether a side that is in one bucket has a key for some other reason than this goal, where the one that is in
        every bucket is made of events: what is large is not to be told from what is small by anything else."""
        inputs = self.below[one] | self.below[other]
        return not inputs & self.everywhere or bool((inputs - self.everywhere) & self.book.apart)

    # --- words ---

    def apart(
        self, number: int, pairs: Sequence[tuple[int, int]], left: tuple[int, Place], right: tuple[int, Place]
    ) -> Failure:
        text = self.text(number)
        goal = self.plan.nodes[number]
        if not pairs and isinstance(goal, Join | Deadline) and goal.key:
            return Failure(number, f"{text} joins a time or duration with a number of seconds")
        if not pairs:
            what = "any such event ends it" if isinstance(goal, Deadline) else "every pair is tried"
            return Failure(number, f"no variable is on both sides of {text}: {what}")
        reason = f"{text} joins on {', '.join(dict.fromkeys(self.plan.names[left[0]][a] for a, _ in pairs))}"
        joined = ({a for a, _ in pairs}, {b for _, b in pairs})
        for word, (node, place), mine in zip(("left", "right"), (left, right), joined, strict=True):
            if place is not EVERYWHERE and not place & mine:
                known = self.named(node, place)
                return Failure(number, f"{reason}, its {word} side {f'on {known}' if known else 'has no key'}")
        return Failure(number, f"{reason}, its two sides on different ones of them")

    def named(self, node: int, place: frozenset[int]) -> str:
        return ", ".join(dict.fromkeys(self.plan.names[node][column] for column in sorted(place)))

    def text(self, number: int) -> str:
        """A goal as it is written, or what it is."""
        written = excerpt(self.plan.source, self.plan.spans[number])
        if written is not None:
            return f"`{written}`"
        match self.plan.nodes[number]:
            case Join(relation=relation, absent=absent):
                return "this NOT" if absent is not None else f"this {relation}"
            case Deadline():
                return "this UNLESS"
            case Union():
                return "this OR"
            case _:
                return "this AGGREGATE"


def _column(argument: Typed) -> int | None:
    """The column that a head's argument is, the value unchanged."""
    match argument:
        case TypedVariable(name) if name[0] == "v":
            return int(name[1:])
        case TypedCall("to_any", (TypedVariable(name, type),)) if name[0] == "v" and type not in TICKS:
            return int(name[1:])
        case _:
            return None


def _same(type: str, wanted: str) -> bool:
    """Whether a conversion leaves every value what it is."""
    return type == wanted or (wanted == "any" and type not in TICKS)
