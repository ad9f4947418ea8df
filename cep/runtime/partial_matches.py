"""Partial matches: the occurrences that wait in the goals of an event's rules, their progress, and what they wait for.

This module only reads the goals. A row that waits in a goal is an occurrence of a part of a rule's pattern. The goals
that read this goal's output determine what else the rule needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from cep.core.errors import NOWHERE, CepError
from cep.core.fluents import EDGES, ENDED_ALL, TRANSITIONS, author_name
from cep.core.literals import SECOND, read_time, say_duration
from cep.core.relation import FIRST
from cep.core.suggest import did_you_mean
from cep.core.time import BEGINNING, END_OF_TIME
from cep.core.values import Pool
from cep.events import Iri, Value
from cep.operators.goals.contract import Goal, KeepsWaiting, WaitingRows
from cep.plan.algebra import Head
from cep.plan.names import excerpt
from cep.plan.order import PlanUnit
from cep.plan.partition import Stage
from cep.plan.plan import Plan
from cep.plan.render import CHANGE, Rendering, listed, places_of
from cep.rules import pattern_text
from cep.rules.pattern_text import Text
from cep.rules.printing import instant, print_expression
from cep.rules.terms import Constant, Expression, Variable
from cep.runtime.decode import values

Ints: TypeAlias = NDArray[np.int64]

DEADLINE, FILTER, UNION, FLUENT = "deadline", "filter", "union", "fluent"
"""The kinds of plan nodes (see `NodeProperties.kind`) that this module describes in a special way."""
LONGEST = 200
"""The maximum length of an awaited pattern, in characters of the source text."""


@dataclass(frozen=True, slots=True)
class PartialMatch:
    """An occurrence of a part of a rule's pattern. It waits for the rest of the pattern. Times are in microseconds.

    - `rule`: the label of the rule, or `line 5` if it has no label. `line`: the line where the rule begins.
    - `have`, `of`: the number of constituents that have occurred, and the number that the rule needs.
    - `constituents`: the constituents that have occurred, as patterns that contain their values.
    - `start`, `end`: the interval of these constituents. For a part of an AND of fluents, both are the watermark.
    - `values`: the values of the rule's variables so far.
    - `waits_for`: the next part of the pattern. For UNLESS and AND NOT, this is `no` and the absent part. If the match
      waits only for a time, it is the source text.
    - `until`: the last time at which the next part can occur. If the match waits only for a time, it is this time. None
      if there is no time limit.
    - `left`: the time from the watermark to `until`.
    """

    rule: str
    line: int
    have: int
    of: int
    constituents: tuple[str, ...]
    start: int
    end: int
    values: Mapping[str, Value]
    waits_for: str
    until: int | None
    left: int | None

    def __str__(self) -> str:
        times = f"at {instant(self.end)}" if self.start == self.end else f"{instant(self.start)} to {instant(self.end)}"
        bound = "" if self.left is None else f", {say_duration(_rounded(self.left))} left"
        listed_events = ", ".join(self.constituents)
        return f"{self.rule}: {self.have} of {self.of}, {listed_events} {times}; waits for {self.waits_for}{bound}"


@dataclass(frozen=True, slots=True)
class PartialMatches:
    """The partial matches of an event at a watermark. The most complete ones are first. `more`: the number of further
    matches, which are not listed."""

    event: str
    watermark: int
    matches: tuple[PartialMatch, ...]
    more: int = 0

    def __iter__(self) -> Iterator[PartialMatch]:
        return iter(self.matches)

    def __len__(self) -> int:
        return len(self.matches)

    def __str__(self) -> str:
        rest = [f"and {self.more} more"] if self.more else []
        return "\n".join([*map(str, self.matches), *rest]) or f"no partial match of {self.event}"


Key = Mapping[str, Value]
"""The values that a partial match must have. Each name is an attribute of the event or a variable of one of its
rules."""


@dataclass(frozen=True, slots=True)
class _Place:
    """An input of a goal in which rows wait. If several rules use the goal, there is one such object per rule.

    - `rule`: the number of the rule in the program.
    - `turn`: the number of this object within the rule.
    - `number`, `side`: the node of the goal, and the position of the input.
    - `names`: the names of the input's columns.
    - `wanted`: the values that some columns must have.
    - `lacks`: the number of constituents that a match still needs.
    - `within`: the smallest WITHIN around the input.
    """

    head: Head
    rule: int
    turn: int
    number: int
    side: int
    names: Sequence[str]
    wanted: Mapping[int, Value]
    lacks: int
    within: int


Rank = tuple[int | str, ...]
"""The sort key of partial matches: the number of missing constituents, times, rule and part, arrival, and values."""


@dataclass(frozen=True, slots=True)
class RankedMatches:
    """The partial matches of one engine. `matches`: the most complete ones, each after its sort key. `count`: the
    number of all partial matches of the engine."""

    matches: tuple[tuple[Rank, PartialMatch], ...]
    count: int


@dataclass(frozen=True, slots=True)
class StagePart:
    """The stage that an engine of one stage runs. `copies`: True to list also the rows that every bucket of the stage
    stores."""

    stage: Stage
    copies: bool


def partial_matches(
    plan: Plan,
    goals: Mapping[PlanUnit, Goal],
    pool: Pool,
    watermark: int,
    event: str,
    key: Key | None,
    limit: int,
) -> PartialMatches:
    """Return the partial matches of an event, at most `limit`.

    Raises CepError if no rule derives the event, or if `key` has an unknown name.
    """
    check_asked(plan, event, key or {}, limit)
    return merged(event, watermark, [ranked_matches(plan, goals, pool, watermark, event, key or {}, limit)], limit)


def ranked_matches(
    plan: Plan,
    goals: Mapping[PlanUnit, Goal],
    pool: Pool,
    watermark: int,
    event: str,
    key: Key,
    limit: int,
    part: StagePart | None = None,
) -> RankedMatches:
    """Return the partial matches of one engine, which `merged` combines. The caller has checked the request with
    `check_asked`.

    `part`: the stage to which `plan` belongs, or None if it is the plan of a whole program.
    """
    return _Search(plan, goals, pool, watermark, part).ranked(event, key, limit)


def merged(event: str, watermark: int, places: Sequence[RankedMatches], limit: int) -> PartialMatches:
    """Combine the partial matches of several engines. `places`: the partial matches of each engine."""
    ranked = sorted((match for place in places for match in place.matches), key=lambda entry: entry[0])[:limit]
    count = sum(place.count for place in places)
    return PartialMatches(event, watermark, tuple(match for _, match in ranked), count - len(ranked))


def check_asked(plan: Plan, event: str, key: Key, limit: int) -> None:
    """Check a request for partial matches. The key may name attributes of the event and variables of its rules.

    Raises CepError if no rule derives the event, if `limit` is negative, or if a name in the key is unknown.
    """
    if limit < 0:
        raise CepError(
            f"limit: {limit} is negative", hint="use the number of partial matches to list; the default is 100"
        )
    names = [name for name in plan.derived if name not in plan.rules.helpers]
    if event not in names:
        known = [f"`{author_name(name)}`" for name in names]
        hint = did_you_mean(event, names) or f"rules derive {listed(known) if known else 'no event'}"
        read = event in plan.inputs
        text = f"`{event}` is read, not derived" if read else f"no rule derives an event `{event}`"
        raise CepError(text, hint=hint, code="unknown")
    rendering = _rendering(plan)
    attributes = [attribute.name for attribute in plan.schemas[event].attributes]
    variables = [name for head in _heads(plan, event) for name in rendering.names[head.child] if not _hidden(name)]
    known = list(dict.fromkeys([*attributes, *variables]))
    for name in key:
        if name not in known:
            hint = did_you_mean(name, known) or f"it has {listed([f'`{word}`' for word in known]) if known else 'none'}"
            text = f"`{author_name(event)}` has no attribute or variable `{name}`"
            raise CepError(text, hint=hint, code="unknown")
    types = {attribute.name: attribute.type for attribute in plan.schemas[event].attributes}
    for name, value in key.items():
        if types.get(name) in ("string", "iri"):
            _check_text(value, types[name], name)


def _rendering(plan: Plan) -> Rendering:
    return Rendering(plan.nodes, plan.names, plan.heads, plan.schemas, plan.source, plan.points)


def _heads(plan: Plan, event: str) -> list[Head]:
    if plan.schemas[event].fluent is None:
        return [head for head in plan.heads if head.event == event]
    tables = {
        name
        for name, schema in plan.schemas.items()
        if schema.fluent is not None and schema.fluent.name == event and schema.fluent.part in (TRANSITIONS, EDGES)
    }
    return [head for head in plan.heads if head.event in tables]


def _hidden(name: str) -> bool:
    return CHANGE in name


class _Search:
    """A search for waiting rows in the goals of a plan."""

    def __init__(
        self, plan: Plan, goals: Mapping[PlanUnit, Goal], pool: Pool, watermark: int, part: StagePart | None
    ) -> None:
        self.plan, self.goals, self.pool, self.watermark = plan, goals, pool, watermark
        self.rendering = _rendering(plan)
        self.rules = range(len(plan.heads)) if part is None else part.stage.rules
        self.copied = frozenset[str]() if part is None or part.copies else _in_each_bucket(plan, part.stage)

    def ranked(self, event: str, key: Key, limit: int) -> RankedMatches:
        waiting = [] if self.watermark in (BEGINNING, END_OF_TIME) else self._waiting(event, key)
        sizes = [len(rows.end) for _, rows in waiting]
        columns = [
            _joined([np.full(size, place.lacks, np.int64) for (place, _), size in zip(waiting, sizes, strict=True)]),
            _joined([rows.start for _, rows in waiting]),
            _joined([rows.end for _, rows in waiting]),
            _joined([np.full(size, place.rule, np.int64) for (place, _), size in zip(waiting, sizes, strict=True)]),
            _joined([np.full(size, place.turn, np.int64) for (place, _), size in zip(waiting, sizes, strict=True)]),
            _joined([rows.arrival for _, rows in waiting]),
        ]
        which = np.repeat(np.arange(len(waiting)), sizes)
        row = _joined([np.arange(size) for size in sizes])
        order = np.lexsort(columns[::-1])
        if 0 < limit < len(order):  # values decide among rows of equal rank
            last = np.logical_and.reduce([column[order] == column[order[limit - 1]] for column in columns])
            order = order[: int(np.flatnonzero(last)[-1]) + 1]
        order = order[: len(order) if limit else 0]
        texts: dict[int, tuple[str, ...]] = {}
        for number, (place, rows) in enumerate(waiting):
            mine = order[which[order] == number]
            texts.update(zip(mine.tolist(), self._value_texts(place, rows.taken(row[mine])), strict=True))
        ranks: dict[int, Rank] = {i: (*(int(column[i]) for column in columns), *texts[i]) for i in order.tolist()}
        chosen = sorted(ranks, key=ranks.__getitem__)[:limit]
        matches: dict[int, PartialMatch] = {}
        for number, (place, rows) in enumerate(waiting):
            mine = np.array([i for i in chosen if which[i] == number], np.int64)
            matches.update(zip(mine.tolist(), self._matches(place, rows.taken(row[mine])), strict=True))
        return RankedMatches(tuple((ranks[i], matches[i]) for i in chosen), len(row))

    def _value_texts(self, place: _Place, rows: WaitingRows) -> Iterator[tuple[str, ...]]:
        types = self.plan.types(self._part(place))
        columns = [map(str, self._decoded(column, type)) for column, type in zip(rows.arguments, types, strict=True)]
        return zip(*columns, strict=True) if columns else iter([()] * len(rows.end))

    # --- the query ---

    def _wanted(self, head: Head, key: Key) -> dict[int, Value] | None:
        """Return the values that columns of a rule's node must have to match `key`. Returns None if the rule cannot
        match the key."""
        names, fluent = self.rendering.names[head.child], self.plan.schemas[head.event].fluent
        attributes = self.plan.schemas[head.event if fluent is None else fluent.name].attributes
        arguments = dict(zip([attribute.name for attribute in attributes], head.arguments))
        if fluent is not None and fluent.valued and _ends_all(head.arguments[-1]):
            del arguments[attributes[-1].name]
            key = {name: value for name, value in key.items() if name != attributes[-1].name}
        wanted: dict[int, Value] = {}
        for name, value in key.items():
            argument = arguments.get(name)
            if isinstance(argument, Variable):
                wanted[int(argument.name[1:])] = value
            elif isinstance(argument, Constant):
                if not _equal(argument.value, value, argument.type, name):
                    return None
            elif argument is None:
                if name not in names:
                    return None  # the variable belongs to another rule
                wanted[names.index(name)] = value
        return wanted

    # --- waiting rows ---

    def _waiting(self, event: str, key: Key) -> list[tuple[_Place, WaitingRows]]:
        """Return the waiting rows of an event's rules that match `key`, by goal and input."""
        waiting = []
        heads = _heads(self.plan, event)
        for rule, head in zip(self.rules, self.plan.heads, strict=True):
            wanted = self._wanted(head, key) if head in heads else None
            if wanted is None:
                continue
            known = set()
            places = self._places(head, head.child, self.rendering.names[head.child], wanted, 0, END_OF_TIME)
            for turn, place in enumerate(replace(place, rule=rule) for place in places):
                place = replace(place, turn=turn)
                same = place.number, place.side, tuple(place.names), place.lacks, place.within
                rows = None if same in known else self._rows(place)  # a part may occur twice: `(a SEQ b) OR (a SEQ b)`
                known.add(same)
                if rows is not None and len(rows.end):
                    waiting.append((place, rows))
        return waiting

    def _places(
        self, head: Head, number: int, names: Sequence[str], wanted: Mapping[int, Value], lacks: int, within: int
    ) -> Iterator[_Place]:
        """Yield the inputs of goals in which unfinished matches of a rule wait, at the node `number` or below it.

        - `names`: the names of the node's columns.
        - `wanted`: the values that some of these columns must have.
        - `lacks`: the number of constituents that the rule needs in addition to those of the node.
        - `within`: the smallest WITHIN around the node.
        """
        properties, parts = self.rendering.properties[number], self.plan.nodes[number].parts
        if not properties.constituents:
            return
        within = within if properties.within is None else min(within, properties.within)
        below = self._below(number, names)
        goals_wanted = self._wanted_below(number, wanted)
        if properties.kind == FLUENT:  # its transitions have the same columns
            below, goals_wanted = [list(names)], [dict(wanted)]
        for part in properties.constituents:
            others = 0 if properties.kind == UNION else self._size(number) - self._size(parts[part])
            if part in (properties.waits or properties.constituents):
                yield _Place(head, 0, 0, number, part, below[part], goals_wanted[part], lacks + others, within)
            yield from self._places(head, parts[part], below[part], goals_wanted[part], lacks + others, within)

    def _size(self, number: int) -> int:
        properties = self.rendering.properties[number]
        if not properties.constituents or properties.kind == UNION:
            return 1
        return sum(self._size(self.plan.nodes[number].parts[part]) for part in properties.constituents)

    def _below(self, number: int, names: Sequence[str]) -> list[list[str]]:
        """Return the names or texts of the columns of the nodes that a node reads, one list per read node.

        `names`: the names or texts of the node's own columns.
        """
        properties = self.rendering.properties[number]
        part_names = [["_"] * len(self.plan.names[part]) for part in self.plan.nodes[number].parts]
        for name, places in zip(names, properties.shows):
            for part, column in places:
                part_names[part][column] = name
        for (first_part, mine), (other, theirs) in properties.equal:
            part_names[other][theirs] = part_names[first_part][mine]
        for (part, column), own in properties.forbids:
            part_names[part][column] = names[own]
        return part_names

    def _wanted_below(self, number: int, wanted: Mapping[int, Value]) -> list[dict[int, Value]]:
        """Return, for each part of a node, the values that columns of this part must have. A part is a node whose
        output this node reads.

        `wanted`: the values that the node's own columns must have.
        """
        properties = self.rendering.properties[number]
        wanted_parts: list[dict[int, Value]] = [{} for _ in self.plan.nodes[number].parts]
        for own, value in wanted.items():
            for part, column in properties.shows[own] if own < len(properties.shows) else ():
                wanted_parts[part][column] = value
        for (first_part, mine), (other, theirs) in properties.equal:
            if mine in wanted_parts[first_part]:
                wanted_parts[other][theirs] = wanted_parts[first_part][mine]
        return wanted_parts

    def _rows(self, place: _Place) -> WaitingRows | None:
        """Return the waiting rows of an input that have the required values. Returns None if the goal stores no waiting
        rows, or if another bucket of the stage lists them."""
        goal = self.goals.get(place.number)
        if not isinstance(goal, KeepsWaiting) or self._copied(self._part(place)):
            return None
        types = self.plan.types(self._part(place))
        rows = goal.unmatched(place.side, len(types), self.watermark)
        keep = np.ones(len(rows.end), np.bool_)
        last = (
            np.full(len(rows.end), END_OF_TIME, np.int64) if place.within >= END_OF_TIME else rows.start + place.within
        )
        if self.rendering.properties[place.number].kind == DEADLINE:
            keep &= rows.until <= last  # otherwise, the UNLESS ends too late for the WITHIN around it
            last = rows.until
        last = np.minimum(rows.until, last)
        keep &= last > self.watermark
        for column, value in place.wanted.items():
            known, positions = np.unique(rows.arguments[column], return_inverse=True)
            held = self._decoded(known, types[column])
            name = place.names[column]
            same = [_equal(held_value, value, types[column], name) for held_value in held]
            keep &= np.array(same, np.bool_)[positions] if len(known) else keep
        return replace(rows, until=last).taken(np.flatnonzero(keep))

    def _copied(self, number: int) -> bool:
        event, parts = self.rendering.properties[number].event, self.plan.nodes[number].parts
        return event in self.copied if event is not None else bool(parts) and all(map(self._copied, parts))

    def _part(self, place: _Place) -> int:
        return self.plan.nodes[place.number].parts[place.side]

    def _decoded(self, column: Ints, type: str) -> list[Value]:
        table = np.zeros((FIRST + 1, len(column)), np.int64)
        table[FIRST] = column
        return values(table, 0, type, self.pool)

    # --- texts ---

    def _matches(self, place: _Place, rows: WaitingRows) -> Iterator[PartialMatch]:
        part = self._part(place)
        types = self.plan.types(part)
        columns = [self._decoded(column, type) for column, type in zip(rows.arguments, types, strict=True)]
        line = 1 if place.head.span == NOWHERE else place.head.span.line
        rule = place.head.label or self.plan.source.line_name(line)
        have = self._size(part)
        fluent = self.plan.schemas[place.head.event].fluent
        own = [attribute.name for attribute in self.plan.schemas[fluent.name].attributes] if fluent is not None else []
        named = [
            (position, name.removesuffix(CHANGE))
            for position, name in enumerate(place.names)
            if name != "_" and (not _hidden(name) or name.removesuffix(CHANGE) in own)
        ]
        for row in range(len(rows.end)):
            held = [column[row] for column in columns]
            texts = [_written(value, type) for value, type in zip(held, types, strict=True)]
            until = int(rows.until[row])
            bounded = until < END_OF_TIME
            yield PartialMatch(
                rule,
                self.plan.source.place(line)[1],
                have,
                have + place.lacks,
                tuple(self._constituents(part, texts)),
                int(rows.start[row]),
                int(rows.end[row]),
                {name: held[position] for position, name in named},
                self._awaited(place, texts),
                until if bounded else None,
                until - self.watermark if bounded else None,
            )

    def _constituents(self, number: int, shown: Sequence[str]) -> Iterator[str]:
        properties = self.rendering.properties[number]
        if not properties.constituents or properties.kind == UNION:
            yield self._text(number, shown)
            return
        below = self._below(number, shown)
        for part in properties.constituents:
            yield from self._constituents(self.plan.nodes[number].parts[part], below[part])

    def _awaited(self, place: _Place, texts: Sequence[str]) -> str:
        """Return the text of the pattern for which a row waits. Variables whose values are known are replaced by them.

        `texts`: the texts of the waiting row's columns.
        """
        node, properties = self.plan.nodes[place.number], self.rendering.properties[place.number]
        shown = ["_"] * len(self.plan.names[place.number])
        for own, places in enumerate(properties.shows):
            shown[own] = next((texts[column] for part, column in places if part == place.side), "_")
        for pair in properties.equal:
            mine = next((column for part, column in pair if part == place.side), None)
            for own, places in enumerate(properties.shows):
                if mine is not None and set(pair) & set(places):
                    shown[own] = texts[mine]
        below = self._below(place.number, shown)
        if place.side not in properties.waits:  # this side waits for a time, not for an event
            if (after := node.after(texts)) is not None:
                return f"{self._text(node.parts[place.side], texts)} {after}"
            sides = [Text(self._text(part, own)) for part, own in zip(node.parts, below, strict=True)]
            return node.text(self.rendering, place.number, sides).text
        other = 1 - place.side  # an UNLESS has two sides as well
        text = self._text(node.parts[other], below[other])
        return f"no {text}" if other == properties.negated else text

    def _text(self, number: int, shown: Sequence[str]) -> str:
        """Return the text of a node of the plan. `shown`: the texts of the node's columns.

        A node that reads an event is shown as this event with the arguments `shown`. A node for another pattern is
        shown as the pattern is written in the program.
        """
        node, properties = self.plan.nodes[number], self.rendering.properties[number]
        fluent = None if properties.event is None else self.plan.schemas[properties.event].fluent
        if fluent is not None and fluent.part == TRANSITIONS:
            return pattern_text.changing(fluent.name, [Variable(argument) for argument in shown], fluent.valued).text
        if properties.kind is None:
            return node.under(self.rendering, shown).text
        if properties.kind == FILTER:
            asked, names = places_of(properties.conditions), self.rendering.names[number]
            shown = [names[place] if text == "_" and place in asked else text for place, text in enumerate(shown)]
            (part,) = node.parts
            if not properties.conditions and self.plan.points[part]:  # a WITHIN around an instant has no effect
                return self._text(part, self._below(number, shown)[0])
            return node.text(self.rendering, number, [Text(self._text(part, self._below(number, shown)[0]))]).text
        written = excerpt(self.plan.source, self.plan.spans[number], LONGEST)
        return written or ", ".join(self._constituents(number, shown))


def _joined(parts: Sequence[Ints]) -> Ints:
    return np.concatenate([np.empty(0, np.int64), *parts])


def _in_each_bucket(plan: Plan, stage: Stage) -> frozenset[str]:
    """Return the events for which every bucket of a stage has all occurrences."""
    reads = {head.event: set[str]() for head in plan.heads}
    for head in plan.heads:
        parts = [head.child]
        while parts:
            node = plan.nodes[parts.pop()]
            parts += node.parts
            reads[head.event] |= {event for event in [node.properties().event] if event is not None}
    everywhere = {name for name, route in stage.inputs.items() if route == "broadcast"} | (
        reads.keys() - stage.inputs.keys()
    )
    while lost := {event for event in everywhere & reads.keys() if not reads[event] <= everywhere}:
        everywhere -= lost
    return frozenset(everywhere)


def _ends_all(effect: Expression) -> bool:
    return isinstance(effect, Constant) and effect.value == ENDED_ALL


def _rounded(duration: int) -> int:
    """Round a duration to whole seconds. The rounding hides that a watermark is one microsecond earlier than the record
    that moved it.

    Durations under a second stay as they are.
    """
    return duration if duration < SECOND else (duration + SECOND // 2) // SECOND * SECOND


def _written(value: Value, type: str) -> str:
    if value is None:
        return "null"
    if type not in ("time", "duration"):
        type = "iri" if isinstance(value, Iri) else "string" if isinstance(value, str) else type
    return print_expression(Constant(value, type))


def _check_text(asked: Value, type: str, name: str) -> None:
    if asked is not None and not isinstance(asked, str):
        raise CepError(
            f"`{name}` is of type {type}, and `{asked}` is not", hint=f'use a text: `"{asked}"`', code="type"
        )


def _equal(held: Value, asked: Value, type: str, name: str) -> bool:
    """Compare a stored value with a requested value, which may be a text.

    Raises CepError if the requested value has another type.
    """
    if held is None or asked is None:
        return held is asked
    if isinstance(held, str):
        _check_text(asked, type, name)
    if not isinstance(asked, str) or isinstance(held, str):
        return str(held) == str(asked) if isinstance(held, str) and isinstance(asked, str) else held == asked
    if isinstance(held, bool):
        return asked == ("true" if held else "false")
    try:
        if type == "time" and "-" in asked[1:]:
            return held == read_time(asked)
        return held == (int(asked) if asked.lstrip("-").isdecimal() else float(asked))
    except (ValueError, CepError):
        hint = "use `true` or `false`" if type == "bool" else "use a number"
        raise CepError(f"`{name}` is of type {type}, and `{asked}` is not", hint=hint, code="type") from None
