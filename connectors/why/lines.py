"""Explanations as text, in the form of an indented tree."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any

from cep.connectors.why.revised import told

WIDTH = 80
STEP = "  "
Explained = Mapping[str, Any]
"""An explanation as returned by `cep.connectors.why.text`."""


def tree(node: Explained, width: int = WIDTH) -> list[str]:
    """Return the lines of text that explain why an event was derived."""
    return [*_head(node, 0, width), f"{STEP}@{node['id']}", *origins(node, width)]


def origins(node: Explained, width: int) -> list[str]:
    """Return the lines of `tree` that are below the event and its id."""
    return [*_changes(node, width), *_body(node, 0, width)]


def withdrawn(node: Explained, width: int = WIDTH) -> list[str]:
    """Return the lines of text that describe a withdrawn event."""
    lines = [*_wrapped(f"{node['text']} {_when(node)} was withdrawn", 0, width), f"{STEP}@{node['id']}"]
    lines += _changes(node, width)
    return lines + [line for reason in node["because"] for line in _wrapped(f"it came from {reason}", 1, width)]


def _changes(node: Explained, width: int) -> list[str]:
    return [line for change in node.get("changes", ()) for line in _wrapped(told(change), 1, width)]


def refusals(answer: Explained, width: int = WIDTH, ids: bool = True) -> list[str]:
    """Return the lines that explain, for each rule, why it did not derive an event, or that say that the event was
    derived. `ids`: True to include the ids of derived events."""
    when = "" if answer["at"] is None else f" at {' to '.join(map(str, dict.fromkeys(answer['at'])))}"
    if answer["exists"]:
        lines = [f"{answer['asked']} {'holds' if answer.get('fluent') else 'is there'}{when}:"]
        for event in answer["found"]:
            what = "  record of the input" if "record" in event else f"  @{event['id']}" if ids else ""
            lines += _wrapped(f"{event['text']} {_when(event)}{what}", 1, width)
        return lines
    lines = [f"{answer['asked']} {'does not hold' if answer.get('fluent') else 'is not there'}{when}"]
    if not answer["rules"]:
        lines.append(f"{STEP}no rule derives it: it is read from the input")
    lines += _around(answer, 1, width)
    if "ended" in answer:
        lines += _turn(answer["ended"], 1, width)
    for rule in answer["rules"]:
        lines += _refusal(rule, 1, width)
    return lines


def _refusal(answer: Explained, depth: int, width: int) -> list[str]:
    failure = answer["failure"]
    if not answer["rule"]["text"]:  # a rule without text
        return _behind(answer, depth, width)
    lines = _wrapped(_rule(answer), depth, width)
    for part in answer["parts"]:
        lines += _wrapped(f"there is {part['text']} {_when(part)}", depth + 1, width)
    for condition in answer["conditions"]:
        if condition["holds"]:
            lines += _condition(condition, depth + 1, width)
    lines += _wrapped(f"but {failure['told']}", depth + 1, width)
    for condition in failure.get("conditions", ()):
        lines += _condition(condition, depth + 2, width)
    for constraint in failure.get("forbidden", ()):
        told = f"if it held instead, {_line(constraint)} would be violated:  {constraint['text']}"
        lines += _wrapped(told, depth + 2, width)
    lines += _around(failure, depth + 2, width)
    return lines + _behind(answer, depth + 2, width)


def _behind(answer: Explained, depth: int, width: int) -> list[str]:
    lines = _turn(answer["ended"], depth, width) if "ended" in answer else []
    for gap in dict.fromkeys(tuple(_gap(gap_document, depth, width)) for gap_document in answer.get("gaps", ())):
        lines += gap
    for refusal in answer.get("because", ()):
        lines += _refusal(refusal, depth, width)
    return lines


def _gap(answer: Explained, depth: int, width: int) -> list[str]:
    lines = _wrapped(answer["told"], depth, width)
    for condition in answer.get("conditions", ()):
        lines += _condition(condition, depth + 1, width)
    values = ", ".join(f"{name} = {_value(value)}" for name, value in answer.get("values", {}).items())
    if values:
        lines += _wrapped(values, depth + 1, width)
    if answer.get("intervals"):
        lines += _wrapped(f"it holds {_over(answer['intervals'])}", depth + 1, width)
    lines += _around(answer, depth + 1, width)
    return lines + _behind(answer, depth + 1, width)


def _turn(answer: Explained, depth: int, width: int) -> list[str]:
    told, where = answer["told"], answer.get("statement")
    lines = _wrapped(told if where is None else f"{told}: {_line(where)}:  {where['text']}", depth, width)
    for cause in answer["by"]:
        lines += _node(cause, depth + 1, width) if "rule" not in cause else _body(cause, depth, width)
    return lines


def _formula(answer: Explained, depth: int, width: int) -> Iterator[str]:
    """Yield the lines that describe a formula and the intervals of its parts."""
    if "rule" in answer and not answer["rule"]["text"]:
        depth -= 1  # a rule without text
    elif "rule" in answer:
        yield from _wrapped(_rule(answer), depth, width)
        variables = ", ".join(f"{name} = {_value(value)}" for name, value in answer["variables"].items())
        if variables:
            yield from _wrapped(variables, depth + 1, width)
    elif answer["negated"]:
        held = f", only {_over(answer['intervals'])}" if answer["intervals"] else ""
        yield from _wrapped(f"{answer['formula']} does not hold then{held}", depth, width)
    else:
        yield from _wrapped(f"{answer['formula']} {_over(answer['intervals'])}", depth, width)
    for condition in answer.get("conditions", ()):
        yield from _condition(condition, depth + 1, width)
    for part in answer["parts"]:
        yield from _formula(part, depth + 1, width) if "formula" in part else _node(part, depth + 1, width)
    if answer.get("left_out"):
        yield from _wrapped(f"... and {answer['left_out']:,} more", depth + 1, width)


def _over(intervals: Sequence[Explained]) -> str:
    """Return intervals as text: `over (1, 5] and [7, 7]`."""
    return "over " + " and ".join(map(_interval, intervals))


def _interval(answer: Explained) -> str:
    start, end = ("inf" if answer[key] is None else answer[key] for key in ("start", "end"))
    minus = "-" if answer["start"] is None else ""
    return f"{answer['bounds'][0]}{minus}{start}, {end}{answer['bounds'][1]}"


def _around(answer: Explained, depth: int, width: int) -> list[str]:
    lines = []
    for key, what in (("before", "the latest before"), ("after", "the next after")):
        if key in answer:
            lines += _wrapped(f"{what}: {answer[key]['text']} {_when(answer[key])}", depth, width)
    return lines


def _node(node: Explained, depth: int, width: int) -> Iterator[str]:
    yield from _head(node, depth, width)
    yield from _body(node, depth, width)


def _body(node: Explained, depth: int, width: int) -> Iterator[str]:
    """Yield the lines that explain an occurrence. In the tree, they are below the line of the occurrence."""
    if "rule" in node:
        yield from _wrapped(_rule(node), depth + 1, width)
        if node.get("also"):
            lines = " and ".join(map(_line, node["also"]))
            yield from _wrapped(f"also by {lines}", depth + 2, width)
        variables = ", ".join(f"{name} = {_value(value)}" for name, value in node["variables"].items())
        if variables:
            yield from _wrapped(variables, depth + 2, width)
        for condition in node["conditions"]:
            yield from _condition(condition, depth + 2, width)
        for detail in node.get("absent", ()):
            told = f"no {detail['pattern']} until {detail['until']}" if "until" in detail else _unheld(detail)
            yield from _wrapped(told, depth + 2, width)
    elif "began" in node:
        yield from _turn(node["began"], depth + 1, width)
        if "ended" in node:
            yield from _turn(node["ended"], depth + 1, width)
        elif node["end"] is None:
            yield from _wrapped("nothing has ended it since", depth + 1, width)
            yield from _deadline(node, depth + 1, width)
    elif "ended" in node:
        yield from _turn(node["ended"], depth + 1, width)
    elif "answer" in node:
        yield from _answer(node["answer"], depth + 1, width)
    elif "bounds" in node:
        for detail in node.get("formulas", ()):
            yield from _formula(detail, depth + 1, width)
    elif node.get("parts") and any(part["event"] != node["event"] for part in node["parts"]):
        # also for the beginning or end of an interval
        yield from _wrapped("by a rule that is no longer known, from", depth + 1, width)
    for part in node.get("parts", ()):
        yield from _node(part, depth + 1, width)
    chain = node.get("chain", ())
    if chain:
        earlier = "an earlier one" if len(chain) == 1 else f"{len(chain)} earlier ones, the latest first"
        yield from _wrapped(f"this `{node['event']}` continues {earlier}:", depth + 1, width)
        answer = (node["rule"]["line"], node["rule"]["column"])
        for link in chain:
            answer = yield from _link(link, answer, depth + 2, width)
    if node.get("left_out"):
        count = node["left_out"]
        yield from _wrapped(f"... and {count:,} more, with their origins", depth + 1, width)


def _answer(answer: Explained, depth: int, width: int) -> Iterator[str]:
    """Yield the lines that describe the rule that derives an atom of an answer stream."""
    yield from _wrapped(f"in the answer at {answer['time']} by {_rule(answer)}", depth, width)
    variables = ", ".join(f"{name} = {_value(value)}" for name, value in answer["variables"].items())
    if variables:
        yield from _wrapped(variables, depth + 1, width)
    for condition in answer["conditions"]:
        yield from _condition(condition, depth + 1, width)
    for literal in answer["literals"]:
        yield from _wrapped(literal["text"], depth + 1, width)
        for part in literal["parts"]:
            yield from _node(part, depth + 2, width)
        if literal.get("left_out"):
            yield from _wrapped(f"... and {literal['left_out']:,} more", depth + 2, width)


def _head(node: Explained, depth: int, width: int) -> list[str]:
    place = node.get("record") or {}
    where = f"  {place['file']}:{place['line']}" if place else ""
    again = "  (see above)" if node.get("again") else ""
    said = "".join(f"  {node[key]['told']}" for key in ("late", "replaces") if key in node)
    return _wrapped(f"{node['text']} {_when(node)}{where}{again}{said}", depth, width)


def _unheld(answer: Explained) -> str:
    return f"{answer['pattern']} does not hold at {answer['at']}"


def _deadline(node: Explained, depth: int, width: int) -> Iterator[str]:
    if "deadline" in node:
        where = node["deadline"].get("statement")
        line = "" if where is None else f": {_line(where)}:  {where['text']}"
        yield from _wrapped(f"it ends at {node['deadline']['time']} if nothing else does{line}", depth, width)


def _link(link: Explained, answer: tuple[int, int], depth: int, width: int) -> Generator[str, None, tuple[int, int]]:
    """Yield the lines of one link in a chain of events, with its rule only if the next link has another rule.

    `answer`: the line and column of the next link's rule. Returns the line and column of this link's rule.
    """
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
    for cause in answer.get("because", ()):
        yield from _condition(cause, depth + 1, width)
    for fact in answer.get("triples", ()):
        for line in fact["proof"] or [fact["triple"]]:
            indent = len(line) - len(line.lstrip())
            yield from _wrapped(line.strip(), depth + 1 + indent // len(STEP), width)


def _rule(answer: Explained) -> str:
    return f"{_line(answer['rule'])}:  {answer['rule']['text']}"


def _line(place: Explained) -> str:
    """Return the line number of a rule as text: `line 3` or, if the program has several files, `policies.lars:3`."""
    return f"{place['file']}:{place['line_of_file']}" if "file" in place else f"line {place['line']}"


def _when(answer: Explained) -> str:
    start, end = answer["start"], answer["end"]
    if "bounds" in answer:
        return f"from {start} on" if end is None and start is not None else f"over {_interval(answer)}"
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
