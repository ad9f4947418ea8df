"""Matchers over the labels of alerts, in the text form of Alertmanager: `{severity="Severe",site=~"north.*"}`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import re2

from cep.connectors.alerts.text import clean
from cep.core.errors import CepError
from cep.core.suggest import did_you_mean
from cep.rules.alert import SEVERITIES

Operator = Literal["=", "!=", "=~", "!~"]
OPERATORS: tuple[Operator, ...] = get_args(Operator)

IGNORE_CASE = frozenset(("severity", "urgency", "certainty", "status"))
"""Labels whose values are compared regardless of case: programs write `Severe`, receivers `severe`."""

MOST, LONGEST = 100, 1_000
"""The maximum number of matchers in a list, and the maximum number of characters in a name or value."""

_NAME = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]*")
_SIGN = re.compile(r"\s*(=~|!~|!=|=)\s*")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_BARE = re.compile(r"[^\s,{}\"=!~][^,{}\"]*")
_ESCAPES = {"n": "\n", '"': '"', "\\": "\\"}
_FORM = '`name="value"`, with `=`, `!=`, `=~` or `!~`, and a comma between two: `{severity="Severe",site=~"north.*"}`'


@dataclass(frozen=True, slots=True)
class Matcher:
    """A condition on one label. If an alert lacks the label, the label's value is "".

    A regular expression must match the whole value. Its syntax is that of Alertmanager. RE2 evaluates it in time linear
    in the length of the value. The constructor raises CepError if the expression is not valid.
    """

    name: str
    operator: Operator
    value: str
    _pattern: Any = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for text in (self.name, self.value):
            if len(text) > LONGEST:
                raise _wrong(f"`{clean(text, 40)}` has {len(text):,} characters", f"at most {LONGEST:,}")
            if any("\ud800" <= character <= "\udfff" for character in text):
                raise _wrong(
                    f"`{clean(text, 40)}` has half a surrogate pair, which is not a character",
                    "use text in valid Unicode",
                )
        if not self.name:
            raise _wrong("a matcher has no label name", _FORM)
        if self.operator in ("=~", "!~"):
            object.__setattr__(self, "_pattern", _compiled(self.name, self.value))

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return True if the label of an alert satisfies the condition."""
        value = labels.get(self.name, "")
        if self._pattern is not None:
            equal = self._pattern.fullmatch(value) is not None
        elif self.name in IGNORE_CASE:
            equal = value.lower() == self.value.lower()
        else:
            equal = value == self.value
        return equal is (self.operator in ("=", "=~"))

    def __str__(self) -> str:
        name = self.name if _NAME.fullmatch(self.name) else _quoted(self.name)
        return f"{name}{self.operator}{_quoted(self.value)}"


@dataclass(frozen=True, slots=True)
class Matchers:
    """A list of conditions on labels. An alert matches if it satisfies all. An empty list matches every alert."""

    matchers: tuple[Matcher, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Matchers:
        """Parse `a="b",c=~"d.*"`, with or without braces. A one-word value needs no quotes.

        Raises CepError if the text is not valid.
        """
        return cls.of(_parsed(text))

    @classmethod
    def parse_all(cls, texts: Iterable[str]) -> Matchers:
        """Parse several texts, each of which has one or more matchers. An alert must satisfy all these matchers.

        Raises CepError if a text is not valid.
        """
        return cls.of(matcher for text in texts for matcher in _parsed(text))

    @classmethod
    def of(cls, matchers: Iterable[Matcher]) -> Matchers:
        """Create `Matchers` from single conditions, without duplicates. Raises CepError if there are too many."""
        distinct = tuple(dict.fromkeys(matchers))
        if len(distinct) > MOST:
            raise _wrong(
                f"there are {len(distinct)} matchers", f"use at most {MOST}; `=~` matches several values: `a|b|c`"
            )
        return cls(distinct)

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return True if an alert that has these labels (`labels.alert_labels`) satisfies all conditions."""
        return all(matcher.matches(labels) for matcher in self.matchers)

    @property
    def match_all(self) -> bool:
        """True if the conditions match even an alert without labels."""
        return all(matcher.matches({}) for matcher in self.matchers)

    @property
    def doubt(self) -> str:
        """The reason why a matcher is unlikely to match, such as an unknown severity, or "" if there is none."""
        words = [word.lower() for word in SEVERITIES]
        for matcher in self.matchers:
            asked = matcher.value if matcher.name == "severity" and matcher.operator in ("=", "!=") else ""
            if asked and asked.lower() not in words:
                hint = did_you_mean(asked.title(), SEVERITIES) or f"use one of {', '.join(SEVERITIES)}"
                return f"no alert has the severity `{clean(asked, 40)}`: {hint}"
        return ""

    def __iter__(self) -> Iterator[Matcher]:
        return iter(self.matchers)

    def __bool__(self) -> bool:
        return bool(self.matchers)

    def __str__(self) -> str:
        return "{" + ",".join(map(str, self.matchers)) + "}"


def _compiled(name: str, pattern: str) -> Any:
    """Compile a pattern with RE2, which may use at most a megabyte. Raises CepError if RE2 rejects the pattern."""
    options = re2.Options()
    options.log_errors, options.max_mem = False, 1 << 20
    options.case_sensitive = name not in IGNORE_CASE
    options.dot_nl = True
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0] if error.args else "not valid"
        reason = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        hint = "use the syntax of RE2, which has no look-around and no back-references"
        raise _wrong(f"`{clean(pattern, 80)}` is not a regular expression: {clean(reason, 200)}", hint) from None


def _parsed(text: str) -> Iterator[Matcher]:
    inside = text.strip()
    if inside.startswith("{") != inside.endswith("}") or inside == "{":
        raise _wrong(f"`{clean(text, 80)}`: a brace is not closed or not opened", _FORM)
    if inside.startswith("{"):
        inside = inside[1:-1].strip()
    if not inside:
        return
    place = 0
    while True:
        place = _blank(inside, place)
        name, place = _name(text, inside, place)
        if (sign := _SIGN.match(inside, place)) is None:
            raise _wrong(f"`{clean(text, 80)}`: `{clean(name, 40)}` is not followed by an operator", _FORM)
        value, place = _value(text, inside, sign.end())
        operator = sign[1]
        assert operator in OPERATORS, "the pattern has no others"
        yield Matcher(name, operator, value)
        place = _blank(inside, place)
        if place == len(inside):
            return
        if inside[place] != ",":
            raise _wrong(f"`{clean(text, 80)}`: a comma is missing before `{clean(inside[place:], 40)}`", _FORM)
        place = _blank(inside, place + 1)
        if place == len(inside):  # a comma at the end, which Alertmanager accepts
            return


def _blank(text: str, place: int) -> int:
    while place < len(text) and text[place].isspace():
        place += 1
    return place


def _name(text: str, inside: str, place: int) -> tuple[str, int]:
    if (match := _NAME.match(inside, place)) is not None:
        return match[0], match.end()
    if (quoted := _QUOTED.match(inside, place)) is not None:
        return _unescaped(quoted[1]), quoted.end()
    raise _wrong(f"`{clean(text, 80)}`: the name of a label is missing at `{clean(inside[place:], 40)}`", _FORM)


def _value(text: str, inside: str, place: int) -> tuple[str, int]:
    if (quoted := _QUOTED.match(inside, place)) is not None:
        return _unescaped(quoted[1]), quoted.end()
    if (match := _BARE.match(inside, place)) is not None:
        return match[0].rstrip(), match.end()
    if place == len(inside) or inside[place] == ",":
        return "", place
    raise _wrong(f"`{clean(text, 80)}`: a value is missing at `{clean(inside[place:], 40)}`", _FORM)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[0]), text, flags=re.DOTALL)


def _wrong(message: str, hint: str) -> CepError:
    return CepError(f"matchers: {message}", hint=hint, code="matchers")
