"""Triples given as knowledge: to programs from Python, and to the engine below, where `cep.knowledge.graph` is."""

from __future__ import annotations

import subprocess
import sys

import pytest

GIVEN = """
from rdflib import Graph
from cep.core.errors import CepError
from cep.events import Event
graph = Graph().parse(data="<http://k/a> <http://k/limit> 3 .")
program = "event reading(temp: float). seen(L) <- reading(T) WHERE {{ ?s <http://k/limit> ?L }}."
reading = Event("reading", (1.0,), 0, 0)
{use}
"""
FOUND = "print([event.args for event in {detect}(program, [reading], knowledge=graph)])"


def run(use: str) -> str:
    done = subprocess.run([sys.executable, "-c", GIVEN.format(use=use)], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize(
    "use",
    [
        "import cep\n" + FOUND.format(detect="cep.detect"),
        "import cep.engine, cep.knowledge.graph\n" + FOUND.format(detect="cep.engine.detect"),
    ],
)
def test_a_graph_is_taken_as_it_is(use: str) -> None:
    assert run(use) == "[(3,)]"


def test_the_engine_alone_says_what_to_import() -> None:
    use = f"import sys, cep.engine\ntry:\n    {FOUND.format(detect='cep.engine.detect')}\n"
    use += "except CepError as error:\n    print(error, 'cep.knowledge.graph' in sys.modules)"
    found = run(use)
    assert "no imported module can read triples from this Graph" in found
    assert "from cep.knowledge.graph import Knowledge" in found and found.endswith("False")
