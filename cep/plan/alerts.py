"""Alerts in a plan: check their positions and areas, and remove alerts from a program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from cep.core.errors import CepError, Source
from cep.core.schema import Schema
from cep.plan.algebra import Rule, Rules
from cep.rules.alert import AREA, LATITUDE, LONGITUDE, RADIUS, Alert
from cep.rules.expressions.typed import a
from cep.rules.terms import Constant, Expression

_NUMBERS = ("int", "float", "any")
_PLACES = {LATITUDE: ("a latitude is a number of degrees", _NUMBERS),
           LONGITUDE: ("a longitude is a number of degrees", _NUMBERS),
           RADIUS: ("a radius is a number of metres", _NUMBERS),
           AREA: ('an area is a text in WKT, `"POLYGON((...))"`', ("string", "any"))}  # fmt: skip


def ill_placed(alerts: Sequence[Alert], rules: Sequence[Rule], schemas: Mapping[str, Schema],
               source: Source) -> list[CepError]:  # fmt: skip
    """Return an error for each alert whose position or area is not valid: it has the wrong type or is out of range."""
    errors = []
    for rule in rules:
        if rule.event not in {alert.table for alert in alerts} or rule.event not in schemas:
            continue
        for attribute, value in zip(schemas[rule.event].attributes, rule.arguments):
            said, types = _PLACES.get(attribute.name, ("", ()))
            if said and (wrong_place := _ill(attribute.name, value)):
                errors.append(CepError(wrong_place[0], source, value.span, wrong_place[1], "area"))
                continue
            if said and attribute.type not in (*types, "unknown"):
                wrong = f"{said}, but this is {a(attribute.type)}"
                hint = "e.g. `AREA Shape`" if attribute.name == AREA else "e.g. `AT Lat, Long RADIUS 40000`"
                errors.append(CepError(wrong, source, value.span, hint, "type"))
    return errors


def _ill(column: str, value: Expression) -> tuple[str, str | None] | None:
    """Explain why a constant is not a valid position or area, and suggest a replacement.

    Return None if the constant is valid, or if `value` is not a constant.
    """
    if not isinstance(value, Constant):
        return None
    constant = value.value
    if column == AREA and value.type == "string":
        from cep.rules.expressions.areas import WrongArea, read  # shapely: loaded only where there are areas

        try:
            shape = read(str(constant))
        except WrongArea as wrong:
            return str(wrong), wrong.hint
        if not shape.convex_hull.area:
            return "this area has no inside", "for a circle around a point use `AT Lat, Long RADIUS 40000`"
    if column == AREA or not isinstance(constant, int | float) or isinstance(constant, bool):
        return None
    if column == LATITUDE and abs(constant) > 90:
        return "a latitude must be from -90 to 90 degrees", "write the latitude first: `AT 40.7, -74.2`"
    if column == LONGITUDE and abs(constant) > 720:
        return "this longitude is beyond 720 degrees", "use a longitude from -180 to 180"
    if column == RADIUS and constant < 0:
        return "a radius cannot be negative", "write it in metres: `RADIUS 40000`"
    return None


def alert_tables(rules: Rules) -> frozenset[str]:
    return frozenset(table for alert in rules.alerts for table in alert.tables)


def alerts_last(rules: Rules) -> Rules:
    """Move the rules that derive occurrences of alerts to the end of the program."""
    tables = alert_tables(rules)
    return replace(rules, rules=tuple(sorted(rules.rules, key=lambda rule: rule.event in tables)))


def without_alerts(rules: Rules) -> Rules:
    """Return the program without the rules and tables of alerts."""
    tables = alert_tables(rules)
    return replace(
        rules,
        schemas={name: schema for name, schema in rules.schemas.items() if name not in tables},
        rules=tuple(rule for rule in rules.rules if rule.event not in tables),
        alerts=(),
    )
