"""Checks of explanations: the rules must derive an event again from the constituents of its explanation."""

from __future__ import annotations

import re
from contextlib import chdir
from pathlib import Path

from typer.testing import CliRunner

from cep.command import app
from cep.connectors.why import fluents
from cep.connectors.why.text import Explainer
from cep.core.interval_sets import INFINITE
from cep.explain.derivation import DerivationNode
from cep.explain.formulas import FormulaReader
from cep.explain.gaps import Gap
from cep.explain.occurrences import Memory, Occurrence
from cep.explain.refusal import fixed_of

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


def told_codes(told: str) -> tuple[int, int]:
    """The codes of `.. from just after 3 to just before 5`, `.. from 3 to 5`, `.. at 3`, in seconds."""
    found = re.search(r"from (just \w+ )?(\S+) to (just \w+ )?(\S+)$", told)
    if found is None:
        found = re.search(r"(just after |at )(\S+)$", told)
        assert found is not None, told
        code = _code(None if found[1] == "at " else found[1], found[2])
        return code, code
    return _code(found[1], found[2]), _code(found[3], found[4])


def _code(word: str | None, time: str) -> int:
    return 2 * round(float(time) * 1_000_000) + {None: 0, "just after ": 1, "just before ": -1}[word]


def check_gap(explainer: Explainer, reader: FormulaReader, gap: Gap) -> None:
    """Check that what is said of a gap, and of all behind it, is so."""
    for each in (*gap.parts, *(each for refusal in gap.because for each in refusal.gaps)):
        check_gap(explainer, reader, each)
    told, bound = fluents.gap(explainer, gap)["told"], dict(gap.bound)
    memory, event = reader.memory, gap.pattern.properties().event
    if event is not None and memory.schemas[event].fluent is None:
        fixed = fixed_of(gap.pattern, {name: value for name, (value, _) in bound.items()})
        when = [(2 * one.end, 2 * one.end) for one in memory.find(event, fixed, -EVER, EVER) if one.start == one.end]
    else:
        when = [each for one in reader.extents(gap.pattern, bound) for each in one.when]
    ever = {"the beginning": "-inf", "the end": "inf"}
    if gap.kind in ("missing", "held"):
        assert any(first <= gap.moment <= last for first, last in when) == (gap.kind == "held"), told
        return
    if gap.kind not in ("never", "not always"):
        return
    since, until = max(gap.since, -INFINITE), min(gap.until, INFINITE)
    if not any(word in told for word in ever):
        assert told_codes(told) == (since, until), told
    if gap.kind == "never":
        assert not any(first <= until and last >= since for first, last in [*when, *gap.when]), told
    else:
        assert not any(first <= since and last >= until for first, last in when), told
