"""The output of `cep plan`: goals as rule text in running order. For each goal, the output shows the join key and the
state that the goal keeps."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from cep.core.fluents import EDGES, HOLDS, RECORDS
from cep.core.literals import say_duration, write_duration
from cep.core.schema import Schema
from cep.plan.algebra import Head, Triples
from cep.plan.goal_names import is_written, labels, rules, says_records, units
from cep.plan.horizon import horizon
from cep.plan.node import Meeting, Node
from cep.plan.order import Group, by_stretches
from cep.plan.partition import Stage, partition
from cep.plan.plan import Plan
from cep.plan.render import LONGEST, Rendering, counted, listed, shown_name
from cep.rules.conditions.relations import RelationInfo
from cep.rules.expressions.functions import TESTS
from cep.rules.graph_text import on_one_line
from cep.rules.keywords import OPERATORS, POSTFIXES
from cep.rules.printing import declaration
from cep.rules.terms import Graph, Predicate, each_condition

_RANKS = {meeting: rank for rank, meeting in enumerate(Meeting)}
MARK, ITEM, LABEL = 4, 6, 11


def explain(
    plan: Plan,
    compiled: Collection[str] | None = None,
    width: int = 80,
    answers: Mapping[str, RelationInfo] | None = None,
    written: int | None = None,
) -> str:
    """Return the output of `cep plan`: goals and rules in running order, `width` characters wide.

    - `compiled`: the recursive events that run as one compiled pass, or None if this is not known.
    - `answers`: for each key of `plan.rules.asked`, the answers to this query of the background knowledge.
    - `written`: for a LARS program, the number of rules that the author wrote, because the plan contains the rules to
      which they were lowered. None for any other program.
    """
    return _Listing(plan, compiled, width, answers or {}, written).text()


class _Listing:
    def __init__(
        self,
        plan: Plan,
        compiled: Collection[str] | None,
        width: int,
        answers: Mapping[str, RelationInfo],
        number: int | None,
    ) -> None:
        self.plan = plan
        self.number = number
        self.answers = answers
        self.compiled = compiled
        self.width = width
        self.lines: list[str] = []
        self.written = Rendering(
            plan.nodes, plan.names, plan.heads, plan.schemas, plan.source, plan.points, plan.columns
        )
        self.stored = {rule.name for rule in plan.rules.statics}
        self.alerts = {table: alert for alert in plan.rules.alerts for table in alert.tables}
        self.asked: list[Predicate] = []
        self.written.labels |= labels(plan)

    # --- the page ---

    def text(self) -> str:
        self.top()
        visible = {*self.written.labels, *self.plan.derived, *filter(self.written.changes, self.plan.schemas)}
        visible -= {name for name in self.plan.derived if self.made_of_changes(name)}
        visible -= {alert.ends for alert in self.plan.rules.alerts if alert.ends is not None}
        visible -= {table for alert in self.plan.rules.alerts if alert.hidden for table in alert.tables}
        shown = [group for group in self.plan.groups if not visible.isdisjoint(group.units)]
        for number, group in enumerate(shown, 1):
            self.lines.append("")
            self.group(f"{number}.", group)
        self.statics()
        self.knowledge()
        self.stages()
        return "\n".join(self.lines)

    def top(self) -> None:
        plan = self.plan
        every = [(node.kind, _RANKS[node.meeting]) for node in self.written.properties if node.kind is not None]
        kinds, ranks = Counter(kind for kind, _ in every), dict(sorted(every, key=lambda pair: -pair[1]))
        kept = [keeps for node in plan.nodes if (keeps := horizon(node, plan.points)) is not None]
        for_ever = sum(not keeps.forgets for keeps in kept)
        alerts = f"{counted(sum(not alert.hidden for alert in plan.rules.alerts), 'alert')}, " if self.alerts else ""
        own = [n for n, head in enumerate(plan.heads) if head.event not in self.alerts and is_written(plan, n)]
        number = len({plan.rules.rules[n].span for n in own}) if self.number is None else self.number
        line = f"{plan.source.name}: {counted(number, 'rule')}, {alerts}"
        line += counted(kinds.total(), "goal")
        if kinds:
            ordered = sorted(kinds.items(), key=lambda pair: (ranks[pair[0]], pair[0]))
            line += f" ({', '.join(counted(number, kind) for kind, number in ordered)})"
        if kept:
            line += f"; {'1 remembers' if len(kept) == 1 else f'{len(kept)} remember'}"
        self.put("", line + (f", {for_ever} of them for ever" if for_ever else ""), 2)
        self.lines.append("")
        both = [name for name in plan.derived if name in plan.inputs]
        read_names = [name for name in plan.schemas if name in plan.inputs and name not in both]
        derived = [name for name in plan.derived if name not in self.alerts and name not in plan.rules.helpers]
        for title, names in (("reads", read_names), ("derives", derived)):
            for name in names:
                self.item(title, _declared(plan.schemas[name]), 0)
                title = ""
        if both:
            self.item("", f"(declared, so also read: {listed(both)})", 0)

    def made_of_changes(self, event: str) -> bool:
        """Return True if `event` is a table of a fluent that generated rules compute: its intervals, or its beginnings
        and ends."""
        fluent = self.plan.schemas[event].fluent
        return fluent is not None and fluent.part in (HOLDS, EDGES)

    def group(self, mark: str, group: Group) -> None:
        if group.recursive:
            events = [unit for unit in group.units if isinstance(unit, str)]
            names = list(dict.fromkeys(shown_name(self.plan.schemas[event]) for event in events))
            self.put(mark, f"recursion of {listed(names)}: {self.way(group, events)}", MARK)
            mark = ""
        for unit in units(group):
            if isinstance(unit, str):
                if self.made_of_changes(unit):
                    continue
                for number, head in enumerate(self.plan.heads):
                    if head.event == unit and not says_records(self.plan.rules.rules[number]):
                        self.rule(mark, number, head)
                        mark = ""
            elif unit in self.written.labels:
                users = sorted(self.plan.users[unit])
                named = self.rules(users)
                note = f"{'shared by' if len(users) > 1 else 'for'} {named}" if named else ""
                self.put(mark, self.written.goal(unit), 2 * MARK, note)
                self.details(unit)
                mark = ""

    def rule(self, mark: str, number: int, head: Head) -> None:
        text, alert = self.written.rule(head), self.alerts.get(head.event)
        if alert is not None:
            text = f"ALERT {alert.name} ON {text.partition(' <- ')[2].removeprefix('BEGIN OF ')}"
        self.put(mark, text, 2 * MARK, self.rules([number]))
        if head.child not in self.written.labels:
            self.details(head.child)
        if alert is not None:
            keys = f"one for each {listed(alert.keys)}" if alert.keys else "one for all"
            times = [f"after {say_duration(alert.after)}"] if alert.after else []
            lasts = say_duration(alert.duration)
            times += [f"for {lasts}" if alert.ends is None else f"until it ends (receivers expect {lasts})"]
            times += [f"kept for {say_duration(alert.keep)}"] if alert.keep else []
            times += [f"{severity} after {say_duration(ticks)}" for severity, ticks in alert.escalations]
            times += [f"none while {self.inhibitor(alert.inhibitor.alert)}"] if alert.inhibitor is not None else []
            times += [f"again after {say_duration(alert.repeat)}"] if alert.repeat else []
            self.item("sends", f"{alert.severity} alerts, {', '.join(times)}, {keys}; by `cep serve`")

    def inhibitor(self, name: str) -> str:
        """Describe the condition that suppresses an alert: another alert fires, or a fluent holds.

        `name`: the alert that inhibits. If this alert is hidden, the description names its fluent.
        """
        for head in self.plan.heads:
            alert = self.alerts.get(head.event)
            if alert is not None and alert.name == name and alert.hidden:
                return f"{self.written.rule(head).partition(' <- ')[2].removeprefix('BEGIN OF ')} holds"
        return f"{name} fires"

    def way(self, group: Group, events: Sequence[str]) -> str:
        """Describe how the rules of a cycle are evaluated."""
        if any(isinstance(unit, int) and self.plan.nodes[unit].settles() for unit in group.units):
            return "from watermark to watermark, in rounds of intervals until nothing is new"
        if any(rounds for _, rounds in group.slices):
            return "instant by instant, inside each in rounds until nothing is new"
        if self.compiled is None:
            return "its results wait for something later"
        compiled = all(event in self.compiled for event in events)
        if compiled:
            return "compiled, one pass in order of arrival"
        stretches = by_stretches(group, self.plan.nodes)
        return "many instants at once, in passes until nothing changes" if stretches else "instant by instant"

    def rules(self, numbers: Iterable[int]) -> str:
        return rules(self.plan, numbers)

    def statics(self) -> None:
        """List the static predicates that rules use, each with its number of facts and rules."""
        names = dict.fromkeys([rule.name for rule in self.plan.rules.statics] + [p.name for p in self.asked])
        title = "static"
        for name in names:
            mine = [rule for rule in self.plan.rules.statics if rule.name == name]
            arities = [len(rule.arguments) for rule in mine] + [len(p.arguments) for p in self.asked if p.name == name]
            facts = sum(not rule.conditions for rule in mine)
            parts = [counted(n, what) for n, what in ((facts, "fact"), (len(mine) - facts, "rule")) if n]
            self.lines += [""] if title else []
            self.item(title, f"{name}/{arities[0]}: {', '.join(parts) or 'a table from outside'}", 0)
            title = ""

    def knowledge(self) -> None:
        """List the queries to the background knowledge.

        For each query, show the number of its answers, its columns, and how the answers are updated when the knowledge
        changes.
        """
        title = "knowledge"
        for name, asked in self.plan.rules.asked.items():
            text = on_one_line(asked.text, longest=LONGEST) if isinstance(asked, Graph) else name
            self.lines += [""] if title else []
            held = self.answers.get(name)
            self.item(title, text, 0, "" if held is None else counted(held.rows, "answer"))
            title = ""
            if held is not None:
                names = asked.variables if isinstance(asked, Graph) else _open(asked)
                columns = ", ".join(f"{name}: {type}" for name, type in zip(names, held.types)) or "holds or not"
                way = "changes by difference" if held.by_difference else "evaluated again when the knowledge changes"
                self.item("", f"{columns}; {way}", 2)

    def stages(self) -> None:
        """List the stages of the program. For each stage, show the key by which it runs in buckets, or the reason why
        it runs in one place."""
        stages = partition(self.plan)
        self.lines += [""] if stages else []
        for stage in stages:
            if all(event in self.alerts for event in stage.outputs):
                continue  # alerts are not derived on Spark
            inputs = [self.routed(event, stage, stages) for event in stage.inputs if event not in stage.outputs]
            keyed = any(isinstance(route, tuple) for route in stage.inputs.values())
            way = ("by key" if keyed else "in buckets") if stage.keyed else "in one place"
            self.item(f"stage {stage.number}", f"{way}: {', '.join(inputs)}" if inputs else way, 0)
            told: dict[str, None] = {}
            for reason in stage.reasons:
                named = self.rules([reason.rule])
                told.setdefault(f"{named}: {reason.text}" if named else reason.text)
            for text in told:
                self.item("", text, 2)
            blamed = {reason.rule for reason in stage.reasons}
            blamed |= {rule for rule in stage.rules if self.plan.heads[rule].event in self.alerts}
            others = [rule for rule in stage.rules if rule not in blamed]
            if named := self.rules(others):
                self.item("", f"{'also ' if stage.reasons else ''}{named}", 2)

    def routed(self, event: str, stage: Stage, stages: Sequence[Stage]) -> str:
        """Describe an input of a stage: the stages that derive it, if any, and how its rows are assigned to buckets."""
        makers = [str(other.number) for other in stages[: stage.number - 1] if event in other.outputs]
        name = shown_name(self.plan.schemas[event])
        text = f"{name} of stage{'s' if len(makers) > 1 else ''} {listed(makers)}" if makers else name
        match stage.inputs[event]:
            case "single":
                return text
            case "broadcast":
                return f"{text} to every bucket"
            case "whole":
                return f"{text} evenly"
            case positions:
                attributes = self.plan.schemas[event].attributes
                return f"{text} by {listed([attributes[position].name for position in positions])}"

    # --- one goal ---

    def details(self, number: int) -> None:
        for label, text in self.written.details(number):
            self.item(label, text)
        self.asks(self.plan.nodes[number])

    def asks(self, node: Node) -> None:
        """List the static predicates that the conditions of a goal use."""
        asked = [c for c in each_condition(node.properties().conditions) if isinstance(c, Predicate)]
        asked = [c for c in asked if c.name in self.stored or c.name not in TESTS]
        if asked:
            names = ("the knowledge" if c.name in self.plan.rules.asked else c.name for c in asked)
            self.item("asks", ", ".join(dict.fromkeys(names)))
            self.asked += [c for c in asked if c.name not in self.plan.rules.asked]

    # --- lines ---

    def put(self, mark: str, text: str, indent: int, note: str = "") -> None:
        """Add rule text to the output, wrapped and indented. `mark`: text to the left of the first line. `note`: text
        to the right of the last line.

        Generated variables, which stand for arguments that the author did not write, are shown as `_`.
        """
        text = _UNSPOKEN.sub("_", text)
        first = MARK if mark or note or indent > MARK else 0
        lines = _wrapped(text, self.width, first, indent)
        lines[0] = mark.ljust(first) + lines[0][first:]
        self.noted(lines, note)

    def item(self, label: str, text: str, indent: int = ITEM, note: str = "") -> None:
        text = _ANONYMOUS.sub("_", text)
        lines = _wrapped(text, self.width, indent + LABEL, indent + LABEL + 2)
        lines[0] = " " * indent + label.ljust(LABEL) + lines[0][indent + LABEL :]
        self.noted(lines, note)

    def noted(self, lines: list[str], note: str) -> None:
        """Add lines to the output. `note`: text to the right of the last line. If the note does not fit there, it gets
        a line of its own."""
        note = f"  # {note}" if note else ""
        if note and len(lines[-1]) + len(note) > self.width:
            lines.append("")
        if note:
            lines[-1] = lines[-1].ljust(self.width - len(note)) + note
        self.lines += lines


def _declared(schema: Schema) -> str:
    """Return the declaration of an event. If the author did not declare the event, the declaration is inferred from its
    schema."""
    attributes = [
        replace(attribute, optional=attribute.optional and schema.declared) for attribute in schema.attributes
    ]
    time, start, end = schema.time, schema.start, schema.end
    if schema.fluent is not None and schema.fluent.part == RECORDS:
        *attributes, last, _, _ = attributes  # the last three are end, bounds and start
        time, start, end = None, schema.time, last.source
    records = schema.records
    if records is not None:  # dialects store the tick in microseconds
        options = [(key, write_duration(int(v)) if key == "tick" else v) for key, v in records.options]
        records = replace(records, options=tuple(options))
    how = schema.further, schema.format, None, records, None, schema.when
    return declaration(shown_name(schema), attributes, schema.iri, time, start, end, *how).removesuffix("()")


def _open(asked: Triples) -> list[str]:
    return [name for name, term in zip(("subject", "predicate", "object"), asked.fixed) if term is None]


_WHOLE = re.compile(
    r'"(?:[^"\\]|\\.)*"|\b\d+ (?:ms|s|min|h|d|EVENTS)\b|\b(?:WITHIN|TIMES|LAST|BY|OVER|FROM|TIME|in) |\w: '
)
_ANONYMOUS = re.compile(r"\b(?:_|any)'\d+\b")
_UNSPOKEN = re.compile(r"\b\w+'(?=[,)])|\b(?:_|any)'\d+\b")
_CLAUSE = re.compile(rf" (?=(?:{'|'.join((*OPERATORS, *POSTFIXES))})[ \0\[])")


def _wrapped(text: str, width: int, first: int, rest: int) -> list[str]:
    """Wrap text to lines of `width` characters. `first`, `rest`: the indents of the first line and of all others.

    Rules break before a clause if possible. All text breaks between words. Strings and durations are never broken, even
    if they are wider than a line.
    """
    whole = _WHOLE.sub(lambda match: match[0].replace(" ", "\0"), text)
    lines = [""]
    for clause in _CLAUSE.split(whole) if " <- " in text or text.startswith("ALERT ") else [whole]:
        joined = f"{lines[-1]} {clause}" if lines[-1] else clause
        room = width - (first if len(lines) == 1 else rest)
        if len(joined) > room and lines[-1]:
            lines.append("")
            joined, room = clause, width - rest
        if len(joined) > room:
            more = " " * (0 if len(lines) > 1 else rest - first)  # further lines are indented by `rest`
            broken = textwrap.wrap(joined, room, subsequent_indent=more, break_long_words=False, break_on_hyphens=False)
            lines[-1:] = [line.strip() for line in broken]
        else:
            lines[-1] = joined
    return [" " * (rest if i else first) + line.replace("\0", " ") for i, line in enumerate(lines)]
