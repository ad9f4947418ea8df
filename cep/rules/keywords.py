"""The keywords of the language, which name no event, variable or constant."""

from __future__ import annotations

from cep.core.intervals import RELATIONS

BINARY_OPERATORS = (*RELATIONS, "OR", "CNOT")
POSTFIXES = ("WHERE", "WITHIN", "POLICY", "AGGREGATE")

# Words that name nothing else: neither an event or predicate, nor a variable, nor a constant.
RESERVED = frozenset((*BINARY_OPERATORS, *POSTFIXES, "NOT", "UNLESS", "TIMES", "OVER"))
# These begin statements, so no event or predicate is called by them.
STATEMENT_WORDS = frozenset(("PREFIX", "EVENT"))
# Keywords by position only: `Start`, `End` and `Last` stay good variables, `start` a good function.
ALERTING = (
    "ON", "SEVERITY", "URGENCY", "CERTAINTY", "CATEGORY", "TITLE", "TEXT", "INSTRUCTION", "FOR", "KEYED",
    "AT", "RADIUS", "AREA",
)  # fmt: skip
POSITIONAL = frozenset(
    ("LAST", "EVENTS", "BY", "FROM", "TIME", "START", "END", "IN", "IS", "MOD", "DISTINCT", "AS", "ALERT", *ALERTING)
)
KEYWORDS = RESERVED | STATEMENT_WORDS | POSITIONAL
