"""The keywords of the language. All other lists of keywords are derived from this module."""

from __future__ import annotations

from cep.core.interval_relations import RELATIONS
from cep.core.metric_operators import TEMPORAL

OPERATORS = {
    **{name: f"joins two events: `{relation.example}`" for name, relation in RELATIONS.items()},
    "OR": "joins two events: `smoke(R) OR heat(R)`",
    "CNOT": "takes a sequence and what is absent: `(smoke(R) SEQ fire(R)) CNOT rain(R)`",
    "UNLESS": "needs a time limit: `smoke(R) UNLESS alarm(R) WITHIN 10 s`",
}
"""For each word that can be between two patterns, an explanation or an example."""
BINARY_OPERATORS = tuple(word for word in OPERATORS if word != "UNLESS")
"""The operators between two patterns that need no further clause. UNLESS needs a WITHIN."""
POSTFIXES = {
    "WHERE": "`smoke(R, T) WHERE T > 50`",
    "WITHIN": "`(smoke(R) SEQ heat(R)) WITHIN 10 s`",
    "POLICY": "`(smoke(R) SEQ heat(R)) POLICY recent`",
    "AGGREGATE": "`smoke(R, T) AGGREGATE A = avg(T) OVER LAST 5 EVENTS BY R`",
}
"""For each word that can follow a pattern, an example."""
FORMS = {
    "NOT": "`NOT(rain(R)).[smoke(R), heat(R)]`",
    "TIMES": "`smoke(R) TIMES 3`",
}
"""For each word of an operator that is neither in OPERATORS nor in POSTFIXES, an example."""

# Words that cannot name events, predicates, variables or constants.
RESERVED = frozenset((*OPERATORS, *POSTFIXES, "NOT", "TIMES", "OVER"))
# Words that begin statements, and so cannot name events or predicates.
STATEMENT_WORDS = frozenset(("PREFIX", "EVENT"))
# Keywords in certain positions only: `Start`, `End` and `Last` can name variables, and `start` is a function.
ALERTING = (
    "ON", "SEVERITY", "URGENCY", "CERTAINTY", "CATEGORY", "TITLE", "TEXT", "INSTRUCTION", "AFTER", "FOR", "KEEP",
    "ESCALATE", "REPEAT", "KEYED", "AT", "RADIUS", "AREA", "INHIBITED", "RUNBOOK", "LABELS",
)  # fmt: skip
WINDOWS = ("LAST", "EVENTS", "EACH", "SESSION", "EVERY", "ZONE", "BY", "DISTINCT")
RECORDS = ("FORMAT", "ZONE", "FOLD", "MISSING", "WHEN", "EXISTS", "QUOTED")
FLUENTS = (
    "FLUENT", "INITIALLY", "INITIATE", "TERMINATE", "ENDS", "AFTER", "BECOMES", "RENEWED", "BEGIN", "OF",
    "WHILE", *TEMPORAL,
)  # fmt: skip
POSITIONAL = frozenset(
    (
        *(word for word in FORMS if word not in RESERVED),
        *WINDOWS,
        *RECORDS,
        *FLUENTS,
        "FROM",
        "TIME",
        "START",
        "END",
        "IN",
        "IS",
        "MOD",
        "AS",
        "ALERT",
        "BETWEEN",
        "FACT",
        "PARAM",
        "STEP",
        *ALERTING,
    )
)
KEYWORDS = RESERVED | STATEMENT_WORDS | POSITIONAL
_SMALL = ("AND", "BETWEEN", "DISTINCT", "EVENT", "FACT", "IN", "IS", "MOD", "NOT", "OR", "POLICY")
SPELLINGS = (*sorted(KEYWORDS), *(word.lower() for word in _SMALL))
"""The keywords as programs write them. For instance, `TIME` is a keyword, `Time` is a variable and `time` is a type."""
