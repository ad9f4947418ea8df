"""Help texts for the words of the language: keywords, types, functions and aggregates."""

from __future__ import annotations

from cep.core.metric_operators import TEMPORAL
from cep.editor.symbols import BUILT_IN
from cep.language.syntax import messages
from cep.rules.expressions.aggregates import AGGREGATES, PARAMETERS, example
from cep.rules.expressions.functions import FUNCTIONS
from cep.rules.keywords import ALERTING, FORMS, KEYWORDS, OPERATORS, POSTFIXES

TYPES = {
    "int": "a whole number of 64 bits",
    "float": "a number with decimals, always finite",
    "string": "a text",
    "bool": "`true` or `false`",
    "iri": "an IRI: `<http://example.org/x>`, `site:x`",
    "time": "a time, in microseconds, UTC; in records ISO 8601 or seconds",
    "duration": "a duration, in microseconds; in records seconds",
}
STATEMENTS = {
    "EVENT": messages.DECLARATION,
    "FLUENT": "a fluent holds for a time: `fluent low(tank: string).`",
    "FACT": messages.FACTS,
    "PARAM": "a parameter is a constant that can be set: `PARAM Hot = 7.0 IN 5..12 STEP 0.5.`",
    "ALERT": messages.ALERT,
    "PREFIX": messages.PREFIX,
    "POLICY": messages.POLICY,
    "INITIATE": "a fluent begins: `initiate low(T) <- level(T, L) WHERE L < 10.`",
    "TERMINATE": "a fluent ends: `terminate low(T) <- level(T, L) WHERE L >= 10.`",
    "INITIALLY": "a fluent holds from the beginning: `initially low(north).`",
}
"""The words that begin statements, each with a help text."""
_FURTHER = {
    "NOT": messages.ABSENCE,
    "TIMES": f"that many times, one after the other: {messages.TIMES}",
    "OVER": messages.WINDOW,
    "LAST": messages.WINDOW,
    "EACH": messages.EACH,
    "SESSION": messages.SESSION,
    "EVERY": messages.EVERY,
    "EVENTS": messages.WINDOW,
    "BY": "one result for each group: `... OVER LAST 30 min BY ID`",
    "ZONE": messages.ZONE,
    "BETWEEN": messages.BETWEEN,
    "IN": f"{messages.LIST}; {messages.RANGE}",
    "WHILE": "a fluent holds while a formula does: `spoiling(F) WHILE warm(F) LASTING >= 15 min.`",
    "ENDS": "a fluent ends by itself: `near(F, G) ENDS AFTER 15 s RENEWED.`",
    "BECOMES": "a fluent changes by itself: `light(L) = green BECOMES amber AFTER 30 s.`",
    "FROM": "the column or path that an attribute comes from: `wind: float FROM wind_speed`",
    "TIME": "the event is an instant, and this column holds it: `event reading(...) TIME time_hour.`",
    "KEY": "a later record of the same values and time replaces the earlier one: `... KEY station.`",
    "STEP": "the step of a grid: `PARAM Hot = 7.0 IN 5..12 STEP 0.5.`",
    **dict.fromkeys(ALERTING, messages.ALERT),
}


def keyword_help(word: str) -> str:
    """Return a help text or an example for a keyword. Returns an empty string if neither exists."""
    key = word.upper()
    if key in OPERATORS:
        return OPERATORS[key]
    if key in POSTFIXES:
        return f"follows a pattern: {POSTFIXES[key]}"
    if key in STATEMENTS:
        return STATEMENTS[key]
    if key in TEMPORAL:
        return f"`{TEMPORAL[key].example}`"
    return _FURTHER.get(key) or FORMS.get(key, "")


def function_help(name: str) -> tuple[str, str]:
    """Return the signature and the help text of a function. Both are empty if the function does not exist."""
    if name in BUILT_IN:
        called, _, says = BUILT_IN[name].removeprefix("`").partition("`: ")
        return called, says
    if name in AGGREGATES and name not in FUNCTIONS:
        return f"{name}(X)", f"an aggregate: `{example(name, 'X')}`" + (
            f", {PARAMETERS[name]}" if name in PARAMETERS else ""
        )
    if name not in FUNCTIONS:
        return "", ""
    function = FUNCTIONS[name]
    takes = ", ".join(f"{argument[:-1]} ..." if argument.endswith("*") else argument for argument in function.takes)
    gives = "the type of its argument" if function.gives == "same" else function.gives
    says = function.says + ("; over events the aggregate of that name" if name in AGGREGATES else "")
    return f"{name}({takes}): {gives}", says


def all_keywords() -> list[str]:
    """Return all keywords in their usual spelling."""
    lower = {"EVENT", "FLUENT", "FACT", "POLICY", "INITIATE", "TERMINATE", "INITIALLY", "IS", "MOD", "BETWEEN"}
    return sorted(word.lower() if word in lower else word for word in KEYWORDS)
