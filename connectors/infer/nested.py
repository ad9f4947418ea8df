"""JSON records as columns. An event is either a whole record, or an element of a list in the record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cep.connectors.infer.sample import RecordSample
from cep.connectors.infer.types import allowed
from cep.connectors.records.paths import EACH, Path, first_at, level, path, written
from cep.connectors.records.values import Real
from cep.core.errors import CepError

OBJECT, LIST, VALUE, NUMBER, NULL = "an object", "a list", "a value", "a number", "null"
_PLAIN = frozenset((VALUE, NUMBER, NULL))
_ARGUMENTS = "args"
_FEW = 3
"""The maximum length of a list whose elements count as coordinates. Those of longer lists are measurements."""


@dataclass(slots=True)
class _Shape:
    """The structure of some JSON records, by path.

    - `kinds`: for each path, the number of values of each kind.
    - `longest`: for each path, the length of the longest list.
    - `elements`: for each path, the number of elements of all its lists together. Lists inside lists are left out.
    """

    kinds: dict[Path, Counter[str]] = field(default_factory=dict)
    elements: Counter[Path] = field(default_factory=Counter)
    longest: Counter[Path] = field(default_factory=Counter)

    def see(self, value: Any, steps: Path) -> None:
        kind = _kind(value)
        if steps:
            self.kinds.setdefault(steps, Counter())[kind] += 1
        if kind == OBJECT:
            for name, inner in value.items():
                self.see(inner, (*steps, name))
        elif kind == LIST:
            if EACH not in steps:
                self.elements[steps] += len(value)
            self.longest[steps] = max(self.longest[steps], len(value))
            for inner in value:
                self.see(inner, (*steps, EACH))

    def is_always(self, steps: Path, kind: str, count: int) -> bool:
        return self.kinds[steps][kind] >= count - allowed(count)


def _kind(value: Any) -> str:
    if value is None:
        return NULL
    if isinstance(value, dict):
        return OBJECT
    if isinstance(value, list):
        return LIST
    return NUMBER if isinstance(value, int | float | Real) and not isinstance(value, bool) else VALUE


def nested_sample(name: str | None, records: Sequence[Mapping[str, Any]]) -> RecordSample:
    """Return a sample of the records of one event type, as columns. `name`: the name of the event type in the records,
    or None if they do not name it."""
    sample = RecordSample(name, records=len(records))
    lengths = {len(record[_ARGUMENTS]) if isinstance(record.get(_ARGUMENTS), list) else -1 for record in records}
    own = {"type"} if name is not None else set()
    if len(lengths) == 1 and lengths != {-1}:
        if any(isinstance(value, dict | list) for record in records for value in record[_ARGUMENTS]):
            hint = 'without `args`, values of records are read by their names: `FROM "a.b"`'
            message = "`args` has values by position, and lists or objects are among them"
            raise CepError(message, hint=hint, code="input")
        _positional(records, own, sample)
        return sample
    if any(_ARGUMENTS in record for record in records):
        sample.left_out[_ARGUMENTS] = "values by position are for records that have all of them so"
        own.add(_ARGUMENTS)
    shape = _Shape()
    for record in records:
        shape.see({key: value for key, value in record.items() if key not in own}, ())
    series = _series(shape, len(records))
    paths = _leaves(shape, series, sample.left_out, len(records))
    if series is not None and not any(EACH in steps for steps in paths):
        series = None
        sample.left_out.clear()
        paths = _leaves(shape, series, sample.left_out, len(records))
    if series is None and not paths:
        lists = [element for element in shape.elements if _homogeneous(shape, element) and _reachable(shape, element)]
        series = max(lists, key=lambda path: shape.elements[path], default=None)
        paths = _leaves(shape, series, sample.left_out, len(records))
    _fill(sample, records, paths, series)
    return sample


def _positional(records: Sequence[Mapping[str, Any]], own: set[str], sample: RecordSample) -> None:
    """Fill the sample from records whose values are in a list. Each position in the list becomes a column, and so does
    each field that contains a time.

    `own`: the keys that are neither attributes nor times.
    """
    times = [key for key in ("time", "start", "end") if any(key in record for record in records)]
    for record in records:
        values = {f"arg{place}": value for place, value in enumerate(record[_ARGUMENTS], 1)}
        sample.add({key: record.get(key) for key in times} | values)
    sample.positional = True
    others = dict.fromkeys(key for record in records for key in record if key not in (*own, _ARGUMENTS, *times))
    for key in others:
        sample.left_out[key] = "the record has its values by position"
    if len(sample.columns) > len(times):
        sample.remarks.append("values come by position, `args`: give the attributes names of your own, in this order")


def _homogeneous(shape: _Shape, steps: Path) -> bool:
    kinds = _mostly(shape.kinds.get((*steps, EACH), Counter()))
    return kinds == {OBJECT} or (bool(kinds) and kinds <= _PLAIN)


def _is_place(shape: _Shape, steps: Path) -> bool:
    """Return True if the lists at a path contain only a few numbers, such as coordinates. A declaration can then read
    each number by its index."""
    inside = _mostly(shape.kinds.get((*steps, EACH), Counter()))
    return inside == {NUMBER} and shape.longest[steps] <= _FEW


def _series(shape: _Shape, count: int) -> Path | None:
    """Return the path of the list whose elements are events. Return None if each record is an event.

    Only lists that almost every record has are considered. A list of objects is preferred to a list of many numbers. If
    there are several such lists, the result is the one that has the most elements in all records together.
    """
    best: tuple[bool, int, int] | None = None
    series = None
    for steps, number in shape.elements.items():
        if not shape.is_always(steps, LIST, count) or not _homogeneous(shape, steps) or not _reachable(shape, steps):
            continue
        objects = OBJECT in _mostly(shape.kinds[*steps, EACH])
        if not objects and (_mostly(shape.kinds[*steps, EACH]) != {NUMBER} or shape.longest[steps] <= _FEW):
            continue
        rank = (objects, number, -len(steps))
        if best is None or rank > best:
            best, series = rank, steps
    return series


def _mostly(kinds: Counter[str]) -> set[str]:
    present = set(kinds) - {NULL}
    count = sum(kinds[kind] for kind in present)
    for most in ({VALUE, NUMBER}, {OBJECT}, {LIST}):
        others = count - sum(kinds[kind] for kind in most)
        if others <= allowed(count):
            return present & most
    return present


def _reachable(shape: _Shape, steps: Path) -> bool:
    return path(written(steps)) == steps and all(
        _mostly(shape.kinds[steps[:n]]) <= {OBJECT} for n in range(1, len(steps)) if steps[n - 1] != EACH
    )


def _leaves(shape: _Shape, series: Path | None, left_out: dict[str, str], count: int) -> list[Path]:
    """Return the paths of single values that a declaration can read.

    A path that no declaration can read is added to `left_out`, with the reason.
    """
    paths: list[Path] = []
    closed: set[Path] = set()
    names = {steps[0] for steps in shape.kinds}
    for steps, kinds in shape.kinds.items():
        if any(steps[:n] in closed for n in range(1, len(steps))):
            continue
        source = written(steps)
        present = _mostly(kinds)
        why = None
        if steps[-1] == EACH and steps[:-1] != series:
            closed.add(steps)
            continue
        if not writable(steps, names, source):
            why = "no path has such a name"
            if len(steps) > 1 and source in names:
                why = f"it is in the object `{steps[0]}`, but a field is called `{source}`, too"
        elif LIST in present and present != {LIST}:
            why = f"it is {' and '.join(sorted(_one(kind) for kind in present))}, {_of(kinds, LIST)}"
        elif LIST in present and steps != series and _is_place(shape, steps):
            closed.add(steps)
            paths += [(*steps, f"[{place}]") for place in range(shape.longest[steps])]
            continue
        elif LIST in present and steps != series:
            why = _no_event(shape, steps, series, count)
            source += EACH
        elif OBJECT in present and present != {OBJECT}:
            why = f"it is {' and '.join(sorted(_one(kind) for kind in present))}, {_of(kinds, OBJECT)}"
        if OBJECT in kinds and OBJECT not in present:
            closed.add(steps)
        if why is not None:
            closed.add(steps)
            left_out[source] = why
        elif present and not present & {LIST, OBJECT}:
            paths.append(steps)
        elif not present and not any(len(path) > len(steps) and path[: len(steps)] == steps for path in shape.kinds):
            paths.append(steps)
    return paths


def _one(kind: str) -> str:
    return VALUE if kind == NUMBER else kind


def _of(kinds: Counter[str], kind: str) -> str:
    number, count = kinds[kind], sum(kinds.values())
    return f"{kind} in {number} of {count}"


def writable(steps: Path, names: set[str], source: str) -> bool:
    """Return True if a declaration can name a path, written as `source`. `names`: the records' top-level keys.

    A path cannot be named if a top-level key equals `source`, because the declaration then reads this key.
    """
    if any(not step or ("[" in step and step != EACH) for step in steps) or level(source) is not None:
        return False
    try:
        source.encode("utf-8")
    except UnicodeEncodeError:
        return False
    if len(steps) == 1:
        return True
    return path(source) == steps and source not in names


def _no_event(shape: _Shape, steps: Path, series: Path | None, count: int) -> str:
    """Explain why the elements of the list at a path cannot be events."""
    inside = shape.kinds.get((*steps, EACH), Counter())
    if EACH in steps:
        return f'a list within a list; `FROM "{written(steps)}[0]"` is its first element'
    if not inside:
        return "it is empty in all records"
    if set(inside) - {NULL} == {LIST}:
        return (
            f'its elements are lists; `FROM "{written(steps)}[][0]"` makes an event of each, and is its first element'
        )
    if not _homogeneous(shape, steps):
        return "some of its elements are objects, and others are not"
    key = next((key for *above, key in shape.kinds if tuple(above) == (*steps, EACH)), None)
    remedy = f'`FROM "{written(steps)}[]{"" if key is None else f".{key}"}"` makes an event of each element'
    lists = shape.kinds[steps][LIST]
    if series is None and lists < count:
        return f"{count - lists} of {count} records have none; {remedy}, and a dead letter of such a record"
    other = "" if series is None else f"instead of those of `{written(series)}`"
    return f"{remedy} {other}".strip()


def _fill(
    sample: RecordSample, records: Sequence[Mapping[str, Any]], paths: Sequence[Path], series: Path | None
) -> None:
    if series is not None:
        sample.series = written(series)
    own = [steps for steps in paths if EACH not in steps]
    inner = [(written(steps), steps[steps.index(EACH) + 1 :]) for steps in paths if EACH in steps]
    for steps in paths:
        sample.columns[written(steps)] = []
    for record in records:
        values = {written(steps): first_at(record, steps) for steps in own}
        for element in _elements(record, series):
            sample.add(values | {source: first_at(element, rest) for source, rest in inner})


def _elements(record: Mapping[str, Any], series: Path | None) -> Iterator[Any]:
    if series is None:
        yield None
        return
    elements = first_at(record, series)
    if isinstance(elements, list):
        yield from elements
