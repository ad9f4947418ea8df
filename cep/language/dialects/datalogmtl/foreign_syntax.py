"""Hints for unexpected syntax that other languages have, but DatalogMTL does not."""

from __future__ import annotations

from cep.language.dialects.datalogmtl.tokens import DatalogMtlToken

_OPERATORS = {
    **dict.fromkeys(("once", "past", "diamond", "p"), "`Diamondminus[0,2]`"),
    **dict.fromkeys(("eventually", "finally", "future", "f"), "`Diamondplus[0,2]`"),
    **dict.fromkeys(("historically", "box", "h"), "`Boxminus[0,2]`"),
    **dict.fromkeys(("globally", "always", "g"), "`Boxplus[0,2]`"),
    **dict.fromkeys(("next", "x"), "`Diamondplus[1,1]` is one tick later"),
    **dict.fromkeys(("previous", "prev", "yesterday", "y"), "`Diamondminus[1,1]` is one tick earlier"),
    **dict.fromkeys(("release", "trigger", "triggered"), "the operators are `Since`, `Until`, boxes and diamonds"),
    "since": "`Since[0,2]`",
    "until": "`Until[0,2]`",
    "sometime": "`SOMETIME[-2,0]`",
    "diamondminus": "`Diamondminus[0,2]`",
    "diamondplus": "`Diamondplus[0,2]`",
    "boxminus": "`Boxminus[0,2]`",
    "boxplus": "`Boxplus[0,2]`",
}
_BETWEEN = {
    **dict.fromkeys((";", "|", "or", "OR", "\u2228"), "write a rule for each of the two"),
    **dict.fromkeys(("and", "AND", "&", "\u2227"), "put `,` between the atoms"),
    **dict.fromkeys(
        ("=", "<", ">", "!", "\\", "is", "+", "*", "/"),
        "DatalogMTL does not compare or calculate: use a predicate with a fact for each case; or "
        "`cep convert` prints the program in our own language, which has WHERE",
    ),
    "@": "only facts have times; in a rule use an operator: `Diamondminus[3,3]B(X)`",
    "not": "put `not` before the atom and its operators: `not Boxminus[0,1]B(X)`",
}


def instead(token: DatalogMtlToken, before: DatalogMtlToken) -> str | None:
    """Suggest what to write instead of the unexpected token `token`. Return None if no suggestion fits. `before`: the
    token before `token`."""
    if token is before and token.text in ("!", "-", "\u00ac"):
        return "negation is written `not B(X)`"
    if token.text in _BETWEEN and token.kind != "string":
        return _BETWEEN[token.text]
    for word in (token, before):
        if word.kind == "name" and (hint := _OPERATORS.get(word.text.lower())) is not None:
            return f"`{word.text}` is not an operator here: {hint}"
    return None
