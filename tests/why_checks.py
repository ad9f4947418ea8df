"""Explanations checked by tests: the rules derive an event again from what it is said to come from."""

from __future__ import annotations

from contextlib import chdir
from pathlib import Path

from typer.testing import CliRunner

from cep.command import app
from cep.explain.derivation import DerivationNode
from cep.explain.occurrences import Memory, Occurrence

EVER = 2**62


def everything(memory: Memory) -> list[Occurrence]:
    engine = memory.engine
    return [one for name in engine.outputs for one in memory.find(name, {}, -EVER, EVER) if not memory.is_input(one)]


def nodes(node: DerivationNode) -> list[tuple[DerivationNode, list[Occurrence]]]:
    """All of a tree, each with what its rule was given: its parts, and the one it goes on from."""
    found: list[tuple[DerivationNode, list[Occurrence]]] = []
    for one, before in zip([node, *node.chain], [*node.chain, None]):
        earlier = [] if before is None else [before.occurrence]
        found.append((one, [*(part.occurrence for part in one.parts), *earlier]))
        found += [each for part in one.parts for each in nodes(part)]
    return found


KITCHEN = """
@prefix : <http://example.org/kitchen#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
:DairyFridge rdfs:subClassOf :Fridge .
:f1 a :DairyFridge ; :name "milk" ; :limit 7 .
"""
FRIDGE = """
PREFIX k: <http://example.org/kitchen#>
event reading(fridge: string, temp: float) TIME time.
limit(F, L) :- { ?f a k:Fridge ; k:name ?F ; k:limit ?L }.
warm: warm(F, T) <- reading(F, T) WHERE limit(F, L), T > L.
rising(F) <- reading(F, A) SEQ reading(F, B) WHERE B > A WITHIN 15 min.
silent(F) <- reading(F, _) UNLESS reading(F, _) WITHIN 30 min.
steep(F) <- NOT(warm(F, _)).[reading(F, A), reading(F, B)] WHERE B > A + 5.
"""
READINGS = """time,fridge,temp
2024-05-01 08:00,milk,4
2024-05-01 08:10,milk,8
2024-05-01 08:20,milk,6
2024-05-01 08:50,milk,12
"""


def cep(folder: Path, *arguments: str, status: int = 0) -> str:
    files = {"fridge.cep": FRIDGE, "fridge.csv": READINGS, "kitchen.ttl": KITCHEN}
    for name, text in files.items():
        (folder / name).write_text(text)
    options = ["--input", "reading=fridge.csv", "--knowledge", "kitchen.ttl"]
    with chdir(folder):
        result = CliRunner().invoke(app, ["explain", "fridge.cep", *arguments, *options])
    assert result.exit_code == status, result.output
    return result.output


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path
