"""Parsing of test files (`*.test.yaml`), including a check of the keys in their mappings."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cep.connectors.records.times import of_duration
from cep.core.errors import CepError, Mistakes, mistakes_together, reason_of
from cep.core.suggest import missing
from cep.testing.yaml_tree import Value, read_yaml

SUFFIX = ".test.yaml"
TOLERANCE = 1e-9
"""The default relative tolerance in comparisons of floats."""

FILE_KEYS = {
    "program": "the file of the rules, or a list of files",
    "tests": "the tests",
    "params": "values of parameters of the rules, by name",
    "knowledge": "files of RDF that graph patterns ask",
    "reasoning": "none, rdfs or owlrl: what follows from the knowledge",
    "facts": "tables of facts, by predicate",
    "lateness": "how far out of order records may arrive, for the law `shuffle`",
    "revise": "how old records may be that come late, are corrected or withdrawn",
    "policy": "unrestricted, recent or chronological",
    "dialect": "the dialect of the program, where its suffix does not say it",
    "tick": "the length of one tick in a dialect",
    "tolerance": "how far apart two floats may be, relative to the larger; 1e-9 by default",
}
TEST_KEYS = {
    "name": "what the test shows",
    "given": "records by event: CSV with a header, a list of records, or `{path: FILE}`",
    "input": "files of records, as `--input` takes them",
    "until": "the time up to which the test runs, or `end`; without it, that of the last record",
    "expect": "the events that are derived, each `event: {attribute: value}`",
    "none": "events that are not derived",
    "holds": "the intervals of fluents, each with its arguments, `from` and `until`",
    "alerts": "the alerts that are pending, firing, inhibited or resolved at a time",
    "dead": "how many records are dead letters; 0 by default",
    "at_least": "true: more events of the expected types may be derived",
    "params": "values of parameters for this test",
    "tolerance": "how far apart two floats may be in this test",
}
ALERT_KEYS = {
    "at": "a time",
    "pending": "the alerts whose condition holds, for less than `AFTER` so far",
    "firing": "those that fire then, and are not inhibited",
    "inhibited": "those that fire, and are inhibited",
    "resolved": "those that fired, and were resolved by then",
}
ALERT_STATES = tuple(key for key in ALERT_KEYS if key != "at")
CHECKS = ("expect", "none", "holds", "alerts", "dead")


@dataclass(frozen=True, slots=True)
class Expectation:
    """An expected event, interval or alert: its name and its expected values."""

    place: Value
    name: Value
    values: Mapping[str, tuple[Value, Value]]

    @property
    def type(self) -> str:
        return self.name.word("a name")


@dataclass(frozen=True, slots=True)
class AlertCheck:
    """A check of alerts in a test: the time of the check, the state, and the alerts that must be in this state then."""

    place: Value
    time: Value
    state: str
    expected: tuple[Expectation, ...]


@dataclass(frozen=True, slots=True)
class RuleTest:
    """A test of a test file.

    - `records`: the records in the test file, by event.
    - `until`: the time at which the test stops, or None to stop at the time of the last record.
    """

    file: RuleTestFile
    name: str
    place: Value
    records: tuple[tuple[Value, Value], ...]
    inputs: tuple[Value, ...]
    until: Value | None
    expect: tuple[Expectation, ...]
    expected_types: tuple[Value, ...]
    none: tuple[Value, ...]
    holds: tuple[Expectation, ...]
    held_types: tuple[Value, ...]
    alerts: tuple[AlertCheck, ...]
    dead: int
    at_least: bool
    params: Mapping[str, tuple[Value, Value]]
    tolerance: float

    @property
    def id(self) -> str:
        """The path of the test file, and the name of the test."""
        return f"{self.file.path}: {self.name}"


@dataclass(slots=True)
class RuleTestFile:
    """A test file: its program, the options of its runs, and its tests."""

    path: Path
    root: Value
    programs: tuple[Value, ...]
    knowledge: tuple[Value, ...]
    reasoning: Value | None
    facts: Mapping[str, tuple[Value, Value]]
    params: Mapping[str, tuple[Value, Value]]
    lateness: int
    revise: int | None
    policy: Value | None
    dialect: Value | None
    tick: Value | None
    tests: list[RuleTest] = field(default_factory=list)

    def beside(self, name: Value) -> Path:
        """Return the path of a file that the test file names. It is relative to the folder of the test file."""
        return self.path.parent / name.word("the name of a file")


def find_test_files(paths: Sequence[Path]) -> list[Path]:
    """Return the test files among `paths`, and all test files in the folders among them.

    Raises CepError if there are no test files.
    """
    files: dict[Path, None] = {}
    for path in paths or [Path(".")]:
        if path.is_dir():
            files |= dict.fromkeys(_below(path))
        elif path.is_file():
            if path.suffix not in (".yaml", ".yml"):
                tests = path.with_name(path.name.partition(".")[0] + SUFFIX)
                hint = f"`cep test {tests}`" if tests.is_file() else f"its tests are in another file: `{tests}`"
                raise CepError(f"{path}: this is not a test file", hint=hint, code="option")
            files[path] = None
        else:
            raise CepError(f"{path}: no such file", hint=missing(path), code="option")
    if not files:
        places = ", ".join(map(str, paths)) or "this folder and those below it"
        raise CepError(f"{places}: there is no test file", hint=f"test files are called `rules{SUFFIX}`", code="option")
    return list(files)


def _below(folder: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(folder for folder in folders if not folder.startswith("."))
        for name in sorted(names):
            if name.endswith(SUFFIX):
                path = Path(place) / name
                yield path.relative_to(".") if not path.is_absolute() else path


def read_test_file(path: Path) -> RuleTestFile:
    """Read a test file. Raises CepError if it cannot be read or is not valid."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise CepError(f"{path}: {reason_of(error)}", code="option") from None
    except UnicodeDecodeError:
        raise CepError(f"{path}: this is not UTF-8 text", hint="save the file as UTF-8", code="test") from None
    return parse_test_file(text, path)


def parse_test_file(text: str, path: Path) -> RuleTestFile:
    """Parse the text of a test file. Raises CepErrors, which lists all mistakes."""
    with mistakes_together() as wrong:
        root = read_yaml(text, str(path), wrong)
        says = root.known(FILE_KEYS, "a test file", wrong)
        if "program" not in says:
            wrong.append(root.error("the test file names no program", "add `program: rules.cep`"))
        if "tests" not in says:
            wrong.append(root.error("the test file has no tests", "add `tests:` and a list"))
        file = RuleTestFile(
            path,
            root,
            says["program"].one_or_list() if "program" in says else (),
            says["knowledge"].one_or_list() if "knowledge" in says else (),
            says.get("reasoning"),
            _mapping(says.get("facts"), "tables by predicate, e.g. `{limits: limits.csv}`", wrong),
            _mapping(says.get("params"), "values by parameter, e.g. `{Hot: 7}`", wrong),
            wrong.attempt(_duration, says.get("lateness"), 0),
            wrong.attempt(_duration, says.get("revise"), None),
            says.get("policy"),
            says.get("dialect"),
            says.get("tick"),
        )
        tolerance = wrong.attempt(_tolerance, says.get("tolerance"), TOLERANCE)
        names: dict[str, Value] = {}
        for entry in wrong.attempt(_tests, says.get("tests"), list[Value]()):
            with wrong.kept():
                test = _test(file, entry, tolerance)
                if test.name in names:
                    entry.fail(f"two tests are called `{test.name}`", f"the first is in line {names[test.name].line}")
                names[test.name] = entry
                file.tests.append(test)
    return file


def _tests(value: Value) -> list[Value]:
    tests = value.list("a list of tests, each beginning with `- name:`")
    if not tests:
        value.fail("the test file has no tests", "each begins with `- name:`")
    return [*tests]


def _test(file: RuleTestFile, place: Value, tolerance: float) -> RuleTest:
    """Parse one test. Raises CepErrors, which lists all mistakes."""
    with mistakes_together() as wrong:
        says = place.known(TEST_KEYS, "a test", wrong)
        if "name" not in says:
            place.fail("the test has no name", "add a name: `- name: a warm fridge is reported`")
        name = says["name"].word("the name of the test")
        # After a mistake, the check may be there but misspelt.
        if not any(key in says and says[key].filled for key in CHECKS) and not wrong:
            listed = ", ".join(f"`{key}`" for key in CHECKS)
            hint = f"say what you expect with one of {listed}"
            wrong.append(says["name"].error(f"the test `{name}` checks nothing", hint))
        if "given" not in says and "input" not in says and not wrong:
            hint = "add `given:` with records by event, or `input:` with files"
            wrong.append(says["name"].error(f"the test `{name}` has no records", hint))
        inputs = tuple(_mapping(says.get("given"), "records by event, e.g. `reading: |`", wrong).values())
        expect = list[Expectation]()
        if "expect" in says:
            expect = _expectations(says["expect"], "warming: {fridge: milk}", wrong)
        none = says["none"].one_or_list() if "none" in says else ()
        excluded = dict[str, Value]()
        for entry in none:
            with wrong.kept():
                excluded[entry.word("the name of an event")] = entry
        for wanted in expect:
            if wanted.type in excluded:
                line = excluded[wanted.type].line
                wrong.append(
                    wanted.name.error(f"`{wanted.type}` is expected here, but line {line} says that none occurs")
                )
        held, held_types = _held(says["holds"], wrong) if "holds" in says else ([], [])
        alerts = list[AlertCheck]()
        with wrong.kept():
            for entry in says["alerts"].list("a list") if "alerts" in says else ():
                with wrong.kept():
                    alerts += _alert_checks(entry)
        params = _mapping(says.get("params"), "values by parameter, e.g. `{Hot: 7}`", wrong)
        test = RuleTest(
            file,
            name,
            says["name"],
            inputs,
            says["input"].one_or_list() if "input" in says else (),
            says.get("until"),
            tuple(expect),
            _first_of_each([expectation.name for expectation in expect]),
            none,
            tuple(held),
            tuple(held_types),
            tuple(alerts),
            wrong.attempt(_count, says.get("dead"), 0),
            wrong.attempt(_flag, says.get("at_least"), False),
            {**file.params, **params},
            wrong.attempt(_tolerance, says.get("tolerance"), tolerance),
        )
    return test


def _first_of_each(names: Sequence[Value]) -> tuple[Value, ...]:
    first_names: dict[str | None, Value] = {}
    for name in names:
        first_names.setdefault(name.text, name)
    return tuple(first_names.values())


def _expectations(value: Value, example: str, wrong: Mistakes) -> list[Expectation]:
    expectations = list[Expectation]()
    items: Sequence[Value] = ()
    with wrong.kept():
        items = value.list(f"a list, each item as `- {example}`")
    for item in items:
        with wrong.kept():
            expectations.append(_expectation(item, example))
    return expectations


def _expectation(value: Value, example: str) -> Expectation:
    if value.mapping is None:  # a bare name expects any occurrence of this event
        value.word(f"`{example}`")
        return Expectation(value, value, {})
    name, values = value.only_entry(f"`{example}`")
    nothing = values.scalar is None and values.mapping is None and values.items is None
    return Expectation(value, name, {} if nothing else values.entries("values by attribute"))


def _held(value: Value, wrong: Mistakes) -> tuple[list[Expectation], list[Value]]:
    expectations, names = list[Expectation](), list[Value]()
    for name, intervals in _mapping(
        value, "intervals by fluent, e.g. `door_open: [{door: a, from: ..}]`", wrong
    ).values():
        names.append(name)
        with wrong.kept():
            for entry in intervals.list("a list of intervals, each as `{door: a, from: .., until: ..}`"):
                with wrong.kept():
                    values = entry.entries("an interval, e.g. `{door: a, from: .., until: ..}`")
                    expectations.append(Expectation(entry, name, values))
    return expectations, names


def _alert_checks(value: Value) -> list[AlertCheck]:
    checks = list[AlertCheck]()
    with mistakes_together() as wrong:
        says = value.known(ALERT_KEYS, "a check of alerts", wrong)
        if "at" not in says:
            value.fail("the check of alerts has no time", "add a time: `{at: 2024-05-01 08:45, firing: []}`")
        if len(says) == 1 and not wrong:
            value.fail("the check of alerts checks nothing", "add `firing: []`, or `resolved:` with alerts")
        for state in ALERT_STATES:
            if state in says:
                expected = _expectations(says[state], "hot: {room: attic}", wrong)
                checks.append(AlertCheck(says[state], says["at"], state, tuple(expected)))
    return checks


def _mapping(value: Value | None, expected: str, wrong: Mistakes) -> Mapping[str, tuple[Value, Value]]:
    with wrong.kept():
        return {} if value is None else value.entries(expected)
    return {}


def _duration(value: Value) -> int:
    ticks = value.read(of_duration, "a duration, e.g. `10 min`")
    if ticks < 0:
        value.fail(f"the duration `{value.text}` is negative")
    return ticks


def _count(value: Value) -> int:
    if not isinstance(value.scalar, int) or isinstance(value.scalar, bool) or value.scalar < 0:
        value.fail(f"expected a number of dead letters, found {value.kind}")
    return value.scalar


def _flag(value: Value) -> bool:
    if not isinstance(value.scalar, bool):
        value.fail(f"expected `true` or `false`, found {value.kind}")
    return value.scalar


def _tolerance(value: Value) -> float:
    if not isinstance(value.scalar, int | float) or isinstance(value.scalar, bool) or not 0 <= value.scalar < 1:
        value.fail(f"expected a tolerance from 0 to 1, found {value.kind}", "use a number like `tolerance: 1e-6`")
    return float(value.scalar)


def schema() -> dict[str, Any]:
    """Return the JSON Schema of test files, for editors."""
    names = {"type": "array", "items": {"type": "string"}}
    one_or_more = {"oneOf": [{"type": "string"}, names]}
    event = {"oneOf": [{"type": "string"}, {"type": "object", "minProperties": 1, "maxProperties": 1}]}
    events = {"type": "array", "items": event}
    record_list = {"type": "array", "items": {"type": "object"}}
    path = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
    alerts = _object(ALERT_KEYS, dict.fromkeys(ALERT_STATES, events), ["at"])
    test = _object(
        TEST_KEYS,
        {
            "name": {"type": "string"},
            "given": {"type": "object", "additionalProperties": {"oneOf": [{"type": "string"}, record_list, path]}},
            "input": one_or_more,
            "expect": events,
            "none": one_or_more,
            "holds": {"type": "object", "additionalProperties": record_list},
            "alerts": {"type": "array", "items": alerts},
            "dead": {"type": "integer", "minimum": 0},
            "at_least": {"type": "boolean"},
            "params": {"type": "object"},
            "tolerance": {"type": "number", "minimum": 0},
        },
        ["name"],
    )
    test |= {"anyOf": [{"required": [key]} for key in CHECKS]}
    file = _object(
        FILE_KEYS,
        {
            "program": one_or_more,
            "knowledge": one_or_more,
            "params": {"type": "object"},
            "facts": {"type": "object", "additionalProperties": {"type": "string"}},
            "tolerance": {"type": "number", "minimum": 0},
            "tests": {"type": "array", "minItems": 1, "items": test},
        },
        ["program", "tests"],
    )
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Tests of event rules"} | file


def _object(keys: Mapping[str, str], types: Mapping[str, Any], required: list[str]) -> dict[str, Any]:
    own = {key: {"description": text} | types.get(key, {}) for key, text in keys.items()}
    return {"type": "object", "properties": own, "required": required, "additionalProperties": False}
