"""Warn about names that are similar to other names, and about derived events that can never occur."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise

from cep.core.components import components
from cep.core.errors import Warning
from cep.plan.algebra import Rule, Rules
from cep.plan.names import excerpt, used_variables
from cep.plan.pattern import Pattern, atoms, events, mentioned, parts, policies
from cep.rules.terms import Constant

LONGEST = 64
"""The maximum length of names that are compared with similar names. Longer names are ignored."""


def suspicious(rules: Rules) -> list[Warning]:
    """Return warnings about suspicious names and about events that can never occur, in program order."""
    slips = [w for rule in rules.rules for w in (*_slips(rules, rule), *_words(rules, rule))]
    return [*_strangers(rules), *slips, *_unstarted(rules)]


def _strangers(rules: Rules) -> list[Warning]:
    """Return warnings about undeclared events that are named like a static predicate, or almost like a known event."""
    known = {name for name, schema in rules.schemas.items() if schema.declared} | {rule.event for rule in rules.rules}
    statics = {static.name for static in rules.statics}
    written = [(atom, event) for rule in rules.rules for atom in atoms(rule.body) if (event := atom.properties().event)]
    strangers = [(atom, event) for atom, event in written if event not in known]
    near = _Near(sorted(known) if strangers else ())
    remarks: dict[str, Warning] = {}
    for atom, event in strangers:
        if event in remarks:
            continue
        close = [name for name in near.candidates(event) if _slip(event, name, ends=True)]
        if event in statics:
            message = f"`{event}` is a static predicate; in a pattern it is an event of that name"
            hint = f"put a static predicate in the WHERE: `... WHERE {event}(...)`"
        elif close:
            message = f"`{event}` is neither declared nor derived"
            hint = f"did you mean `{close[0]}`? if not, declare the event"
        else:
            continue
        remarks[event] = Warning(message, rules.source, atom.span, hint, "stranger")
    return list(remarks.values())


def _slips(rules: Rules, rule: Rule) -> list[Warning]:
    """Return warnings about variables that occur once and whose name is almost that of another variable of the rule."""
    written = [*used_variables(rule.arguments), *mentioned(rule.body)]
    times = Counter(variable.name for variable in written)
    times.update(policy.by for policy in policies(rule.body) if policy.by)
    once = [variable for variable in written if times[variable.name] == 1]
    near = _Near(times if once else ())
    place = {name: number for number, name in enumerate(times)}
    remarks = []
    for variable in once:
        close = [name for name in near.candidates(variable.name) if _slip(variable.name, name)]
        if close and not (times[close[0]] == 1 and place[variable.name] < place[close[0]]):
            message = f"`{variable.name}` is used only here, and looks like `{close[0]}`"
            hint = f"use `{close[0]}` if it is the same, `_` if any value will do"
            remarks.append(Warning(message, rules.source, variable.span, hint, "slip"))
    return remarks


def _words(rules: Rules, rule: Rule) -> list[Warning]:
    """Return warnings about lower-case words that equal the name of the attribute in whose place they are written. The
    author probably meant a variable."""
    remarks = []
    for atom in atoms(rule.body):
        properties = atom.properties()
        for attribute, argument in zip(rules.schemas[properties.event or ""].attributes, properties.arguments):
            if not isinstance(argument, Constant) or argument.value != attribute.name:
                continue
            if excerpt(rules.source, argument.span) != argument.value:
                continue  # in quotes: the author means the string
            word = str(argument.value)
            variable = word[:1].upper() + word[1:]
            message = f'`{word}` is the string "{word}" here, not the value of `{attribute.name}`'
            hint = f"a variable starts with an upper-case letter: `{variable}`; the string itself goes in quotes"
            remarks.append(Warning(message, rules.source, argument.span, hint, "word"))
    return remarks


class _Near:
    """An index of names that finds misspellings of a name."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = list(names)
        self.spelt: dict[str, list[int]] = {}
        for number, name in enumerate(self.names):
            for spelling in _spellings(name):
                self.spelt.setdefault(spelling, []).append(number)

    def candidates(self, name: str) -> list[str]:
        """Return the indexed names that may be misspellings of a name, in their original order."""
        numbers = {number for spelling in _spellings(name) for number in self.spelt.get(spelling, ())}
        return [self.names[number] for number in sorted(numbers)]


def _spellings(name: str) -> set[str]:
    """Return the spellings under which a name is indexed. If one name is a misspelling of another, both have at least
    one spelling in common.

    The spellings are the name itself, and the name with one of these changes:

    - all letters in lower case
    - one lower-case letter left out
    - two neighbouring characters put in descending order, if neither of them is a lower-case letter
    """
    spellings = {name, name.lower()}
    if len(name) <= LONGEST:
        spellings.update(name[:i] + name[i + 1 :] for i, letter in enumerate(name) if letter.islower())
        for i, (left, two) in enumerate(pairwise(name)):
            if left != two and not (left.islower() or two.islower()):
                spellings.add(name[:i] + max(left, two) + min(left, two) + name[i + 2 :])
    return spellings


def _slip(name: str, other: str, ends: bool = False) -> bool:
    """Return True if two names differ by one wrong, missing, added or swapped lower-case letter inside the name.

    Differences in digits are often intended: `Temp1` and `Temp2`. So are differences at the ends: `WindA` and `WindB`.
    `ends`: True to accept differences at the ends as misspellings.
    """
    if name == other or min(len(name), len(other)) < 4 or abs(len(name) - len(other)) > 1:
        return False
    if name.lower() == other.lower():
        return True
    if not ends and (name[0] != other[0] or name[-1] != other[-1]):
        return False
    shorter_length = min(len(name), len(other))
    first = next((i for i in range(shorter_length) if name[i] != other[i]), shorter_length)
    a, b = name[first:], other[first:]
    if len(a) == len(b):
        swapped = a[:2] == b[1::-1] and a[2:] == b[2:]
        return swapped or (a[1:] == b[1:] and a[0].islower() and b[0].islower())
    longer, shorter = (a, b) if len(a) > len(b) else (b, a)
    return longer[1:] == shorter and longer[0].islower()


def _unstarted(rules: Rules) -> list[Warning]:
    """Return warnings about derived events that can never occur because each of their rules needs an earlier occurrence
    of the same event."""
    derived = {rule.event for rule in rules.rules}
    possible = {name for name, schema in rules.schemas.items() if schema.declared or name not in derived}
    readers: dict[str, list[Rule]] = {}
    for rule in rules.rules:
        for name in derived.intersection(events(rule.body)):
            readers.setdefault(name, []).append(rule)
    waiting = list(rules.rules)
    while waiting:
        rule = waiting.pop()
        if rule.event not in possible and _possible(rule.body, possible):
            possible.add(rule.event)
            waiting += readers.get(rule.event, ())
    needs: dict[str, list[str]] = {}
    for rule in rules.rules:
        if rule.event not in possible:
            needs.setdefault(rule.event, []).extend(_needs(rule.body, possible))
    cycles = [component for component in components(needs, lambda name: needs[str(name)]) if len(component) > 1]
    cyclic = {name for cycle in cycles for name in cycle} | {name for name in needs if name in needs[name]}
    needed_by: dict[str, list[str]] = {}
    for name, others in needs.items():
        for other in others:
            needed_by.setdefault(other, []).append(name)
    reported: set[str] = set()  # includes the events that need a reported one
    remarks: dict[str, Warning] = {}
    for rule in rules.rules:
        if rule.event not in cyclic or rule.event in reported:
            continue
        todo = [rule.event]
        while todo:
            name = todo.pop()
            if name not in reported:
                reported.add(name)
                todo += needed_by.get(name, ())
        hint = f"add a rule without `{rule.event}` that starts it, or `event {rule.event}(...)` if it is read as well"
        message = f"`{rule.event}` can never occur: each one needs an earlier one"
        remarks[rule.event] = Warning(message, rules.source, rule.head_span, hint, "unstarted")
    return list(remarks.values())


def _possible(pattern: Pattern, possible: set[str]) -> bool:
    properties = pattern.properties()
    if properties.event is not None:
        return properties.event in possible
    startable = [_possible(part, possible) for part in properties.parts]
    return any(startable) if properties.alternatives else all(startable)


def _needs(pattern: Pattern, possible: set[str]) -> list[str]:
    event = pattern.properties().event
    if event is not None:
        return [] if event in possible else [event]
    return [name for part in parts(pattern) for name in _needs(part, possible)]
