"""Why an event was derived, or was not, as text: a tree by indentation."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Generator, Iterator, Mapping
from typing import Any

WIDTH = 80
STEP = "  "
Explained = Mapping[str, Any]
"""As `connectors.why.text` gives it."""


def tree(node: Explained, width: int = WIDTH) -> list[str]:
    """The tree of a derived event."""
    lines = list(_node(node, 0, width))
    first = len(_head(node, 0, width))
    return [*lines[:first], f"{STEP}@{node['id']}", *lines[first:]]


def refusals(answer: Explained, width: int = WIDTH) -> list[str]:
    """Why there is no event, rule by rule; or that there is."""
    at = "" if answer["at"] is None else f" at {' to '.join(map(str, dict.fromkeys(answer['at'])))}"
    if answer["exists"]:
        lines = [f"{answer['asked']} is there{at}:"]
        for one in answer["found"]:
            what = "record of the input" if "record" in one else f"@{one['id']}"
            lines += _wrapped(f"{one['text']} {_when(one)}  {what}", 1, width)
        return lines
    lines = [f"{answer['asked']} is not there{at}"]
    if not answer["rules"]:
        lines.append(f"{STEP}no rule gives it: it is read from the input")
    lines += _around(answer, 1, width)
    for each in answer["rules"]:
        lines += _refusal(each, 1, width)
    return lines


def _refusal(answer: Explained, depth: int, width: int) -> list[str]:
    failure = answer["failure"]
    lines = _wrapped(_rule(answer), depth, width)
    for one in answer["parts"]:
        lines += _wrapped(f"there is {one['text']} {_when(one)}", depth + 1, width)
    for condition in answer["conditions"]:
        if condition["holds"]:
            lines += _condition(condition, depth + 1, width)
    lines += _wrapped(f"but {failure['told']}", depth + 1, width)
    for condition in failure.get("conditions", ()):
        lines += _condition(condition, depth + 2, width)
    lines += _around(failure, depth + 2, width)
    for each in answer.get("because", ()):
        lines += _refusal(each, depth + 2, width)
    return lines


def _around(answer: Explained, depth: int, width: int) -> list[str]:
    lines = []
    for key, what in (("before", "the latest before"), ("after", "the next after")):
        if key in answer:
            lines += _wrapped(f"{what}: {answer[key]['text']} {_when(answer[key])}", depth, width)
    return lines


def _node(node: Explained, depth: int, width: int) -> Iterator[str]:
    yield from _head(node, depth, width)
    if "rule" in node:
        yield from _wrapped(_rule(node), depth + 1, width)
        if node.get("also"):
            lines = " and ".join(f"line {rule['line']}" for rule in node["also"])
            yield from _wrapped(f"also by {lines}", depth + 2, width)
        variables = ", ".join(f"{name} = {_value(value)}" for name, value in node["variables"].items())
        if variables:
            yield from _wrapped(variables, depth + 2, width)
        for condition in node["conditions"]:
            yield from _condition(condition, depth + 2, width)
        for each in node.get("absent", ()):
            yield from _wrapped(f"no {each['pattern']} until {each['until']}", depth + 2, width)
    elif node.get("parts"):
        yield from _wrapped("by a rule that is no longer known, from", depth + 1, width)
    for part in node.get("parts", ()):
        yield from _node(part, depth + 1, width)
    chain = node.get("chain", ())
    if chain:
        yield from _wrapped(f"it goes on from {len(chain)} before it, the latest first:", depth + 1, width)
        answer = (node["rule"]["line"], node["rule"]["column"])
        for link in chain:
            answer = yield from _link(link, answer, depth + 2, width)
    if node.get("left_out"):
        count = node["left_out"]
        yield from _wrapped(f"... and {count:,} more, with what they come from", depth + 1, width)


def _head(node: Explained, depth: int, width: int) -> list[str]:
    place = node.get("record") or {}
    where = f"  {place['file']}:{place['line']}" if place else ""
    again = "  (see above)" if node.get("again") else ""
    return _wrapped(f"{node['text']} {_when(node)}{where}{again}", depth, width)


def _link(link: Explained, answer: tuple[int, int], depth: int, width: int) -> Generator[str, None, tuple[int, int]]:
    """One of a chain: its rule only where it is another than that of the one after it."""
    rule = link.get("rule")
    if rule is None or (rule["line"], rule["column"]) != answer:
        yield from _node(link, depth, width)
        return answer if rule is None else (rule["line"], rule["column"])
    yield from _wrapped(f"{link['text']} {_when(link)}", depth, width)
    for part in link.get("parts", ()):
        yield from _node(part, depth + 1, width)
    return answer


def _condition(answer: Explained, depth: int, width: int) -> Iterator[str]:
    text = answer["text"]
    if "told" in answer and answer["told"] != text:
        text += f":  {answer['told']}"
    elif "told" not in answer and answer["values"]:
        text += ":  " + ", ".join(f"{name} = {_value(value)}" for name, value in answer["values"].items())
    yield from _wrapped(text, depth, width)
    for each in answer.get("because", ()):
        yield from _condition(each, depth + 1, width)
    for fact in answer.get("triples", ()):
        for line in fact["proof"] or [fact["triple"]]:
            indent = len(line) - len(line.lstrip())
            yield from _wrapped(line.strip(), depth + 1 + indent // len(STEP), width)


def _rule(answer: Explained) -> str:
    return f"line {answer['rule']['line']}:  {answer['rule']['text']}"


def _when(answer: Explained) -> str:
    start, end = answer["start"], answer["end"]
    return f"at {end}" if start == end else f"from {start} to {end}"


def _value(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else json.dumps(value, ensure_ascii=False)


def _wrapped(text: str, depth: int, width: int) -> list[str]:
    begin = STEP * min(depth, 16)
    return textwrap.wrap(
        text,
        max(width, len(begin) + 24),
        initial_indent=begin,
        subsequent_indent=begin + 2 * STEP,
        break_long_words=False,
        break_on_hyphens=False,
        drop_whitespace=True,
    )
