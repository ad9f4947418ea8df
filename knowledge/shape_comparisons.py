"""Changes to the comparisons of pyshacl. With them, values that cannot be compared do not conform to a shape.

SHACL compares as SPARQL does. For example, a number and a date cannot be compared. Neither can a time that has a zone
and a time that has none. Such values do not conform (https://www.w3.org/TR/shacl/#core-components-range). However,
pyshacl orders such literals by their datatype, and fails at blank nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pyshacl.constraints.core import property_pair_constraints, value_range_constraints
from pyshacl.rdfutil.compare import compare_literal
from rdflib import SH, XSD, BNode, Literal

if TYPE_CHECKING:
    from rdflib.term import Node

PAIRS = (SH.lessThan, SH.lessThanOrEquals)
RANGES = (SH.minInclusive, SH.minExclusive, SH.maxInclusive, SH.maxExclusive)
_TIMES = (XSD.dateTime, XSD.dateTimeStamp)
_NAMES = {XSD.string: "a string", XSD.boolean: "a boolean", XSD.date: "a date", XSD.time: "a time of day"}
_DURATIONS = (XSD.duration, XSD.dayTimeDuration, XSD.yearMonthDuration)


def without_order(node: Node, other: Node) -> str | None:
    """Return the reason why two values cannot be compared. Return None if they can be compared."""
    (name, ordered), (other_name, _) = _kind(node), _kind(other)
    if name != other_name:
        return f"{name} and {other_name} cannot be compared"
    return None if ordered else f"{name} has no order"


def _kind(node: Node) -> tuple[str, bool]:
    """Return a name for the kind of a value, and a flag that is True if values of this kind have an order."""
    if not isinstance(node, Literal):
        return ("a blank node", False) if isinstance(node, BNode) else ("an IRI", False)
    if node.language:
        return "a text with a language", False
    datatype = node.datatype or XSD.string
    local = datatype.rpartition("#")[2]
    if node.ill_typed:
        return f"`{node}`, which is not a valid {local},", False
    if isinstance(node.value, int | float | Decimal) and datatype != XSD.boolean:
        return "a number", True
    if datatype in _TIMES:
        return ("a time without a zone" if node.value.tzinfo is None else "a time with a zone"), True
    if datatype in _DURATIONS:
        return f"a {local}", datatype != XSD.duration
    return (_NAMES[datatype], True) if datatype in _NAMES else (f"a {local}", False)


def _compared(literal: Literal, other: Literal) -> int:
    """Compare literals as pyshacl does. Raises TypeError if they cannot be compared, which pyshacl reports as a
    violation."""
    if (reason := without_order(literal, other)) is not None:
        raise TypeError(reason)
    return int(compare_literal(literal, other))  # type: ignore[no-untyped-call]


def _pairs(original: Callable[..., tuple[bool, list[Any]]]) -> Callable[..., tuple[bool, list[Any]]]:
    """Wrap a method of pyshacl that compares each value with each of some other values. Pairs that cannot be compared
    become violations."""

    def compare(
        self: Any, values: Iterable[Node], others: Iterable[Node], graph: Any, focus: Node
    ) -> tuple[bool, list[Any]]:
        reports: list[Any] = []
        others = list(others)
        for value in values:
            ordered = {other for other in others if without_order(value, other) is None}
            reports += original(self, {value}, ordered, graph, focus)[1]
            if len(ordered) < len(others):
                reports.append(self.make_v_result(graph, focus, value_node=value))
        return bool(reports), reports

    return compare


value_range_constraints.compare_literal = _compared  # type: ignore[attr-defined]
for _component, _name in (
    (property_pair_constraints.LessThanConstraintComponent, "_compare_lt"),
    (property_pair_constraints.LessThanOrEqualsConstraintComponent, "_compare_ltoe"),
):
    setattr(_component, _name, _pairs(getattr(_component, _name)))
