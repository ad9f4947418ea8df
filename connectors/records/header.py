"""Assignment of a file's columns to an event type. All missing columns are reported in one error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from cep.connectors.records.declarations import RESERVED, declaration
from cep.connectors.records.paths import level, path, source_of
from cep.connectors.records.records import closest
from cep.connectors.records.time_hint import column_name, likely
from cep.core.errors import CepError
from cep.core.fluents import RECORD_BOUNDS
from cep.core.schema import CHANGE, Schema


def bind(file: str, schema: Schema, columns: Sequence[str], types: Mapping[str, str] | None = None) -> Schema:
    """Return a copy of the schema in which the time columns are filled in.

    `types`: the type of each column, guessed from its values. It is used to suggest a declaration. Raise CepError if a
    column that the event type needs is missing or appears twice.
    """
    bound = _timed(file, schema, columns)
    by_key = schema.key is not None and any(
        attribute.name == CHANGE == source_of(attribute) for attribute in bound.attributes
    )
    by_key = by_key and CHANGE in columns  # then a withdrawal needs only its KEY
    bound = replace(
        bound,
        attributes=tuple(
            attribute
            for attribute in bound.attributes
            if source_of(attribute) in columns
            or not (
                attribute.name in (RECORD_BOUNDS, CHANGE) or (by_key and attribute.optional)
            )  # records may leave these out
        ),
    )
    if CHANGE in columns and CHANGE not in map(source_of, bound.attributes):
        ways = "`--revise 6h`, in Python `revise=`, reads it" if schema.declared else f"declare `{schema.name}`"
        message = f"{file}: the column `{CHANGE}` marks withdrawn records, but this run would read all records as added"
        raise CepError(
            message, hint=f'{ways}; to read it as an attribute, declare `change: string FROM "{CHANGE}"`', code="input"
        )
    wanted = [key for key in (bound.time, *bound.further, bound.start, bound.end) if key is not None]
    missing = [f"`{key}` for the time{closest(key, columns)}" for key in wanted if key not in columns]
    for attribute in bound.attributes:
        key = source_of(attribute)
        wanted.append(key)
        if key not in columns:
            missing.append(f"`{key}`{closest(key, columns)}")
    if missing:
        guessed = None if schema.time is not None or schema.start is not None else likely(columns)
        hint = (
            "the columns are "
            + ", ".join(columns)
            + "; to read other columns, name them with FROM and TIME in the declaration"
        )
        if not schema.declared and not {attribute.name for attribute in schema.attributes} <= set(columns):
            declared = declaration(schema, columns, types or {})
            hint = f"{schema.name} is not declared; declare it to have its values by name: `{declared}`; {hint}"
        if level_of := next((column for column in wanted if level(column) is not None and column not in columns), None):
            hint = f"`{level_of}` is a level of an MQTT topic, but this is a file; {hint}"
        elif column := next((column for column in wanted if len(path(column)) > 1 and column not in columns), None):
            hint = f"`{column}` is a path in nested records, but a table has only columns; {hint}"
        if schema.declared and guessed is not None and bound.time == "time" and "time" not in columns:
            hint = f"`{guessed}` looks like the time: add `TIME {column_name(guessed)}` after the attributes; "
            hint += f"`cep infer {file}` prints the declaration; the columns are {', '.join(columns)}"
        raise CepError(
            f"{file}: {schema.name} needs {'a column' if len(missing) == 1 else 'columns'} {', '.join(missing)}",
            hint=hint,
            code="input",
        )
    for key in wanted:
        if columns.count(key) > 1:
            hint = "rename the columns: each column that is read needs its own name"
            raise CepError(f"{file}: {columns.count(key)} columns are called `{key}`", hint=hint, code="input")
    return bound


def _timed(file: str, schema: Schema, columns: Sequence[str]) -> Schema:
    if schema.time is not None:
        return schema
    if schema.start is not None or schema.end is not None:
        return replace(schema, start=schema.start or "start", end=schema.end or "end")
    reserved = [key for key in RESERVED if key in columns]
    if "time" in reserved and len(reserved) > 1:
        raise CepError(
            f"{file}: both `time` and `{reserved[1]}` give the time of {schema.name}",
            hint=f"say which in the declaration: `event {schema.name}(...) TIME time.`",
            code="input",
        )
    return (
        replace(schema, start="start", end="end")
        if "time" not in reserved and reserved
        else replace(schema, time="time")
    )
