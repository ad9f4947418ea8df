"""Answers of Oxigraph that differ from SPARQL: each example of the decision about them is run."""

from __future__ import annotations

import re
from pathlib import Path

import pyoxigraph as ox
import pytest

PAGE = Path(__file__).parent.parent / "docs" / "decisions" / "2026-11-29-sparql-differences.md"
XSD = "http://www.w3.org/2001/XMLSchema#"
ROW = re.compile(r"^\| `(.*?)` \| `(SELECT .*?)` \| (.*?) \| (.*?) \|$", re.MULTILINE)
ROWS = ROW.findall(PAGE.read_text(encoding="utf-8"))


def shown(term: ox.NamedNode | ox.Literal | None) -> str:
    if term is None:
        return "-"
    return term.value.replace("http://e.org/", ":") if isinstance(term, ox.NamedNode) else term.value


@pytest.mark.parametrize(("data", "query", "said", "found"), ROWS)
def test_an_answer_that_differs(data: str, query: str, said: str, found: str) -> None:
    store = ox.Store()
    text = data + ("" if data.endswith("}") else " .")
    store.load(f"@prefix : <http://e.org/> . @prefix xsd: <{XSD}> . {text}".encode(), ox.RdfFormat.TRIG)
    rows = store.query(query, prefixes={"": "http://e.org/", "xsd": XSD})
    answers = [" ".join(map(shown, row)) for row in rows]
    assert answers == ([] if found == "nothing" else [found.strip("`")]) and said != found


def test_all_kinds_have_examples() -> None:
    assert len(ROWS) >= 10
    for word in ("STR", "FILTER", ":p*", ":p?", "VALUES", "MINUS", "OPTIONAL"):
        assert any(word in query for _, query, _, _ in ROWS)
