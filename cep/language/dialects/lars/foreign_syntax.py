"""Hints for unexpected syntax. Answer set programs or other languages have this syntax, but LARS does not."""

from __future__ import annotations

from cep.language.dialects.lars.tokens import LarsCursor

_MARKS = {
    ";": "separate conditions with `,`; write two rules for `or`",
    "|": "a head is one atom; write a choice as two rules: `a :- not b.` and `b :- not a.`",
    "&": "conditions are separated by `,`",
    "&&": "conditions are separated by `,`",
    "!": "use `not a` for negation, and `X != Y` for different values",
    "->": "the arrow is `:-`, with the head before it and the body after it",
    ":": "conditions are separated by `,`; put a conditional literal in a rule of its own",
}
_WORDS = {
    **dict.fromkeys(("and", "AND"), "conditions are separated by `,`"),
    **dict.fromkeys(("or", "OR"), "write two rules for `or`"),
    **dict.fromkeys(("if", "IF"), "the arrow is `:-`"),
    **dict.fromkeys(("is", "IS"), "`S = T + 1`"),
    **dict.fromkeys(("WHERE", "where"), "conditions are separated by `,`: `alpha(V) [10 sec], 18 <= V`"),
    **dict.fromkeys(("during", "within", "WITHIN", "since", "over"), "a window is written `a in [10 sec]`"),
    **dict.fromkeys(("NOT", "Not"), "write `not` in lower case"),
    **dict.fromkeys(("AT", "At"), "write `at` in lower case"),
    **dict.fromkeys(("IN", "In"), "write `in` in lower case"),
    **dict.fromkeys(("ALWAYS", "Always", "box"), "`a always in [10]`"),
    "diamond": "`a in [10]`",
    "SEQ": "only `.cep` programs have sequences; compare ticks instead: `a at T in [9], b at S in [9], T < S`",
}
COMPARED = {"=>": ">=", "=<": "<=", "<>": "!=", ":=": "=", "is": "=", "!": "!=", "equals": "=", "~": "="}
COMPARISON = "a comparison is written `18 <= V`, `S = T + 1` or `X != Y`; predicates begin with a lower-case letter"


def behind_element(cursor: LarsCursor, missing: bool = False) -> str | None:
    """Return a hint for the unexpected token at the cursor. Return None if no hint fits.

    `missing`: True if a condition should begin at this token, False if a condition ends before it.
    """
    token = cursor.token
    if missing and cursor.previous.text == ",":
        return "something is missing after the `,`, or there is one `,` too many"
    if token.kind == "mark" and token.text in _MARKS:
        return _MARKS[token.text]
    if token.text in _WORDS:
        return _WORDS[token.text]
    if token.kind == "mark" and token.text == "@":
        return "put the tick after the atom: `a at T in [10]`"
    if token.kind == "declaration" or cursor.on_new_line():
        return f"a rule ends with `.`; is it missing before `{token.text.split()[0] if token.text else ''}`?"
    if token.text in (")", "]", "}"):
        return f"there is no opening bracket for this `{token.text}`"
    if token.kind in ("name", "graph", "variable", "number", "string"):
        return "conditions are separated by `,`"
    return None


def compared(text: str, left: str) -> str:
    """Return a hint for `text`, which is written in place of a comparison operator. `left`: the text before it."""
    meant = COMPARED.get(text.lower())
    return f"write `{meant}`: `{left} {meant} ...`" if meant else COMPARISON


def head_hint(cursor: LarsCursor) -> str | None:
    """Return a hint for a token that follows a head but is not an arrow."""
    token = cursor.token
    if token.text == ",":
        return "a rule has one head; write a rule for each head"
    if token.text in (";", "|"):
        return _MARKS["|"]
    if token.text in ("<", "<=", "=", ":=", ":"):
        return "the arrow is `:-`"
    if cursor.previous.text == "import":
        return "imports are not supported; the windows are `[10 sec]`, `[5 min] step 1 min` and `[3 #]`"
    return behind_element(cursor)


def statement_hint(cursor: LarsCursor) -> str | None:
    """Return a hint for a token that cannot begin a statement."""
    token = cursor.token
    if token.text == "@":
        return "put the tick after the head: `high at T :- ...`"
    if token.text == "#":
        return "directives are not supported; declare with `event`, `fact` and `PREFIX`"
    if token.text == "-":
        return "there is only one negation: `not a`, in a body"
    if token.kind in ("graph", "brace"):
        return "write a choice as two rules: `a :- not b.` and `b :- not a.`"
    if token.text == "." and cursor.at > 0:
        return "end a rule with one `.`"
    return None
