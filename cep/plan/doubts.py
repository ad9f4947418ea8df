"""What is no mistake but can hardly be meant: names that are nearly others, events that nothing can start."""

from __future__ import annotations

from collections import Counter

from cep.errors import Warning
from cep.plan.algebra import Atom, Either, Pair, Pattern, Rule, Rules
from cep.plan.names import excerpt, used_variables
from cep.plan.patterns import atoms, mentioned, parts, patterns
from cep.syntax.ast import Constant, Variable


def doubts(rules: Rules) -> list[Warning]:
    """Warnings about names and events, in program order."""
    slips = [w for rule in rules.rules for w in (*_slips(rules, rule), *_words(rules, rule))]
    return [*_strangers(rules), *slips, *_unstarted(rules)]


def _strangers(rules: Rules) -> list[Warning]:
    """Undeclared events that are named like a static predicate, or nearly like a known event."""
    known = {name for name, schema in rules.schemas.items() if schema.declared} | {rule.event for rule in rules.rules}
    statics = {static.name for static in rules.statics}
    spellings: dict[str, list[str]] = {}
    for name in sorted(known):
        for spelling in _spellings(name):
            spellings.setdefault(spelling, []).append(name)
    found: dict[str, Warning] = {}
    for atom in (atom for rule in rules.rules for atom in atoms(rule.body)):
        if atom.event in known or atom.event in found:
            continue
        candidates = dict.fromkeys(n for s in _spellings(atom.event) for n in spellings.get(s, ()))
        close = [name for name in candidates if _slip(atom.event, name, ends=True)]
        if atom.event in statics:
            message = f"`{atom.event}` is a static predicate; in a pattern it is an event of that name"
            hint = f"what is always so stands in the WHERE: `... WHERE {atom.event}(...)`"
        elif close:
            message = f"`{atom.event}` is neither declared nor derived"
            hint = f"did you mean `{close[0]}`? an event that is really called so is best declared"
        else:
            continue
        found[atom.event] = Warning(message, rules.source, atom.span, hint, "stranger")
    return list(found.values())


def _slips(rules: Rules, rule: Rule) -> list[Warning]:
    """Variables written once that are one letter off another of the rule."""
    written = [*used_variables(rule.arguments), *mentioned(rule.body)]
    times = Counter(variable.name for variable in written)
    times.update(each.policy.by for each in patterns(rule.body) if isinstance(each, Pair) and each.policy.by)
    found = []
    for variable in written:
        close = [name for name in times if times[variable.name] == 1 and _slip(variable.name, name)]
        if close and not (times[close[0]] == 1 and _before(variable, close[0], written)):
            message = f"`{variable.name}` stands here only, and is nearly `{close[0]}`"
            hint = f"`{close[0]}` if it is the same, `_` for what does not matter"
            found.append(Warning(message, rules.source, variable.span, hint, "slip"))
    return found


def _words(rules: Rules, rule: Rule) -> list[Warning]:
    """Lower-case words in the place of the attribute of that very name: a variable was meant."""
    found = []
    for atom in atoms(rule.body):
        schema = rules.schemas[atom.event]
        for attribute, argument in zip(schema.attributes, atom.arguments):
            if not isinstance(argument, Constant) or argument.value != attribute.name:
                continue
            if excerpt(rules.source, argument.span) != argument.value:
                continue  # in quotes: it was meant
            word = str(argument.value)
            variable = word[:1].upper() + word[1:]
            message = f'`{word}` is the string "{word}" here, not the value of `{attribute.name}`'
            hint = f"a variable starts with an upper-case letter: `{variable}`; the string itself goes in quotes"
            found.append(Warning(message, rules.source, argument.span, hint, "word"))
    return found


def _before(variable: Variable, other: str, written: list[Variable]) -> bool:
    names = [each.name for each in written]
    return names.index(variable.name) < names.index(other)


def _spellings(name: str) -> list[str]:
    """A name and all that lack one of its letters: names that share one are nearly the same."""
    return list(dict.fromkeys([name, *(name[:i] + name[i + 1 :] for i in range(len(name)))]))


def _slip(name: str, other: str, ends: bool = False) -> bool:
    """Whether one is the other with one small letter inside it wrong, missing, too many or swapped with the next.

    Names that differ in digits, or unless `ends` at an end, are often meant: `Temp1` and `Temp2`, `WindA` and `WindB`.
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
    """Derived events of which every rule needs one first, so that there is never any."""
    made = {rule.event for rule in rules.rules}
    possible = {name for name, schema in rules.schemas.items() if schema.declared or name not in made}
    grown = True
    while grown:
        grown = False
        for rule in rules.rules:
            if rule.event not in possible and _possible(rule.body, possible):
                possible.add(rule.event)
                grown = True
    needs: dict[str, list[str]] = {}
    for rule in rules.rules:
        if rule.event not in possible:
            needs.setdefault(rule.event, []).extend(_needs(rule.body, possible))
    found: dict[str, Warning] = {}
    for rule in rules.rules:
        if rule.event in found or rule.event not in needs:
            continue
        reached = _reached(rule.event, needs)
        if rule.event not in reached or found.keys() & set(reached):
            continue
        hint = f"a rule that starts it, without `{rule.event}`; or `event {rule.event}(...)` where it is read as well"
        message = f"`{rule.event}` can never occur: it takes one to make one"
        found[rule.event] = Warning(message, rules.source, rule.head_span, hint, "unstarted")
    return list(found.values())


def _possible(pattern: Pattern, possible: set[str]) -> bool:
    match pattern:
        case Atom(event):
            return event in possible
        case Either(left, right):
            return _possible(left, possible) or _possible(right, possible)
        case _:
            return all(_possible(part, possible) for part in parts(pattern))


def _needs(pattern: Pattern, possible: set[str]) -> list[str]:
    """The impossible events it needs."""
    if isinstance(pattern, Atom):
        return [] if pattern.event in possible else [pattern.event]
    return [name for part in parts(pattern) for name in _needs(part, possible)]


def _reached(event: str, needs: dict[str, list[str]]) -> list[str]:
    reached: list[str] = []
    todo = list(needs[event])
    while todo:
        name = todo.pop()
        if name not in reached:
            reached.append(name)
            todo += needs[name]
    return reached
