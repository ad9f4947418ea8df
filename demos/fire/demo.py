"""The fire demo: a few invented events, observations in RDF, and an ontology that says which of them are about wind."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from cep.demos.moments import moment
from cep.demos.printed import rendered, table
from cep.demos.run import ONTOLOGIES, RunResult, run
from cep.knowledge.graph import Knowledge

HERE = Path(__file__).parent
PROGRAM = HERE / "fire.cep"
EVENTS = HERE / "events.jsonl"
KNOWLEDGE = (ONTOLOGIES / "weather.ttl", HERE / "observations.ttl")


def find(reasoning: str = "owlrl") -> RunResult:
    """Run the program with one kind of reasoning: `none`, `rdfs`, `owlrl`."""
    return run(PROGRAM, [str(EVENTS)], Knowledge.load(KNOWLEDGE, reasoning=reasoning))


def show(reasoning: str) -> str:
    """Return what `cep demo fire` prints."""
    found = find(reasoning)
    return rendered(lambda console: _print(console, found, reasoning))


def _print(console: Console, found: RunResult, reasoning: str) -> None:
    rows = table(f"Fires with wind within three hours (reasoning: {reasoning})", "fire wind observation", "mph from to")
    for fire, observation, kind, speed, start, end in (
        found.derived["enhanced_fire"].select("fire", "observation", "kind", "speed", "start", "end").iter_rows()
        if "enhanced_fire" in found.derived
        else ()
    ):
        rows.add_row(
            fire, kind.rpartition("#")[2], observation.rpartition(":")[2], str(speed), moment(start), moment(end)
        )
    console.print(rows)
    console.print(f"{PROGRAM.name}: {found.stats.closing()}", style="dim", soft_wrap=True)
