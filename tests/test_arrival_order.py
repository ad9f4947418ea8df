"""The laws of `cep test` change the order in which records arrive. A policy may choose by this order, for example among
results of windows that end together. In this case, the laws must leave the records of these windows in order."""

from __future__ import annotations

from pathlib import Path

import pytest

from cep.engine import Engine
from cep.testing.arrival_order import ordered_inputs
from cep.testing.laws import broken, laws_named
from cep.testing.rule_files import parse_test_file
from cep.testing.runs import Programs
from tests.cli_runs import jsonl

EVENTS = "event a(k: int, v: int).\nevent b(k: int, v: int).\nevent c(k: int, v: int).\n"
COUNTS = "e(G, A) <- (a(G, _) AGGREGATE A = count() OVER LAST 3 s EVERY 1 s BY G).\n"
CHOSEN = "f(G, A, N) <- (e(G, A) AND b(_, N)) POLICY recent.\n"
LATEST = "f(A) <- (e(_, A0) AGGREGATE A = last(A0) OVER LAST 3 EVENTS).\n"


@pytest.mark.parametrize(
    ("rules", "ordered"),
    [
        (COUNTS, ""),
        (COUNTS + "f(G, A, N) <- e(G, A) AND b(_, N).", ""),
        (COUNTS + CHOSEN, "ab"),
        (COUNTS + LATEST, "a"),
        (COUNTS + "f(A) <- (e(_, A0) AGGREGATE A = max(A0) OVER LAST 3 s).", ""),
        (COUNTS + "m(G, A) <- e(G, A) AND c(G, _).\nf(G, N) <- (m(G, _) SEQ b(_, N)) POLICY chronological.", "abc"),
        (COUNTS.replace("EVERY 1 s ", "") + CHOSEN, ""),
        (COUNTS.replace("LAST 3 s EVERY 1 s", "SESSION 1 s") + CHOSEN, "ab"),
        (COUNTS.replace("LAST 3 s EVERY 1 s", "EACH 3 s") + CHOSEN, "ab"),
        ("e(G, V) <- a(G, V) UNLESS c(G, _) WITHIN 2 s.\n" + CHOSEN, "ab"),
        ("e(G, V) <- (a(G, V) SEQ c(G, _)) POLICY recent.\n" + CHOSEN, ""),
        ("e(G, V) <- (a(G, V) SEQ c(G, _)) POLICY recent.\nf(A) <- e(_, _) AGGREGATE A = count() OVER EACH 3 s.", ""),
    ],
)
def test_inputs_whose_order_of_arrival_matters(rules: str, ordered: str) -> None:
    assert ordered_inputs(Engine.from_text(EVENTS + rules).plan) == set(ordered)


@pytest.mark.parametrize("file", ["lateness: 5 s", "revise: 5 s"])
def test_the_laws_keep_the_order_of_records_that_a_policy_goes_by(file: str, tmp_path: Path) -> None:
    (tmp_path / "p.rules").write_text(EVENTS + COUNTS + CHOSEN)
    times = [("a", 0, 0, 0), ("a", 1, 0, 1), ("b", 0, 1, 1), ("a", 0, 2, 2), ("b", 1, 4, 4)]
    records = [{"type": name, "start": start, "end": end, "k": k, "v": 0} for name, k, start, end in times]
    (tmp_path / "events.jsonl").write_text(jsonl(records))
    text = f"program: p.rules\n{file}\ntests:\n  - name: t\n    input: events.jsonl\n    until: end\n    dead: 0\n"
    prepared = Programs().prepare(parse_test_file(text, tmp_path / "t.test.yaml").tests[0])
    law = laws_named(["shuffle" if file.startswith("lateness") else "late"], workers=False)
    passed, failures = broken(prepared, prepared.run(), law, range(40))
    assert not failures, [(failure.message, *failure.details) for failure in failures]
    assert passed == 40
