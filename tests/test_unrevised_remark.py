"""What is said of `@change` where nothing is put right; what came late is looked for only where something is."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cep.app.pipeline import UNREVISED
from cep.command import app
from cep.connectors.records import late_input
from cep.connectors.records.batch import Batch
from cep.connectors.service import Round, Service
from cep.engine import Engine
from cep.runtime.run_stats import RunStats
from tests.revised_consumers import PROGRAM, SECOND, table

RULES = "event reading(sensor: string, temp: float) TIME time.\nhot(S, T) <- reading(S, T) WHERE T > 30.\n"
LINE = '{"type": "reading", "time": "2024-05-01T10:0%d:00Z", "sensor": "a", "temp": 31%s}'
LINES = [LINE % (0, ""), LINE % (1, ""), LINE % (1, ', "@change": "withdraw"')]
POINTS = [
    "reading,sensor=a temp=31 1714557600000000000",
    'reading,sensor=a temp=31,@change="withdraw" 1714557601000000000',
]


@pytest.mark.parametrize("name", ["r.jsonl", "r.jsonl.gz", "r.json", "r.lp", "-"])
def test_whatever_holds_the_records(name: str, tmp_path: Path) -> None:
    (tmp_path / "rules.cep").write_text(RULES)
    text = "\n".join(POINTS if name == "r.lp" else LINES) + "\n"
    if name == "r.json":
        text = f"[{', '.join(LINES)}]"
    path = tmp_path / name
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress(text.encode()))
    elif name != "-":
        path.write_text(text)
    arguments = ["run", str(tmp_path / "rules.cep"), "--batch", "1", "--output", str(tmp_path / "out.jsonl")]
    arguments += ["--input", "-" if name == "-" else str(path)]
    result = CliRunner().invoke(app, arguments, input=text)
    assert result.exit_code == 0 and result.stderr.count(UNREVISED) == 1, result.stderr
    revised = CliRunner().invoke(app, [*arguments, "--revise", "1h"], input=text)
    assert revised.exit_code == 0 and UNREVISED not in revised.stderr
    longer = CliRunner().invoke(app, [*arguments, "--revise", "1h", "--lateness", "2h"], input=text)
    assert longer.exit_code == 2 and "--lateness 2h is more than --revise 1h" in longer.stderr
    none = CliRunner().invoke(app, [*arguments, "--revise", "0s"], input=text)
    assert none.exit_code == 2 and "--revise 0s: the time must be longer than 0" in none.stderr


def test_what_came_late_is_looked_for_where_something_is_put_right(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    found = late_input.late_input
    monkeypatch.setattr(late_input, "late_input", lambda *given: looked.append(1) or found(*given))
    engine = Engine.from_text(PROGRAM, alerts=True, revise=60 * SECOND, begins=True)
    service = Service(engine, PROGRAM, "fridge.cep", RunStats())
    rounds: list[Round] = []
    service.listen(rounds.append)
    for number, record in enumerate([(0, "a", 0, 1.0, 1), (5, "a", 0, 1.0, 1), (2, "a", 0, 9.0, 1)]):
        batch = Batch({"reading": table([record], number)}, [], [])
        engine.receive(batch.tables)
        service.take(batch, engine.advance(engine.reached))
    assert not looked
    late = "reading(a, 0, 9) at 2024-05-01T08:00:02Z came 3 s late, at 2024-05-01T08:00:05Z"
    assert rounds[-1].late() == rounds[-1].late() == late and len(looked) == 1
