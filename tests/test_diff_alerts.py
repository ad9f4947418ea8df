"""`cep diff` over alerts: differences against brute force over random programs, and how they are shown."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from cep.app.explained_run import StoredRecords
from cep.app.opening import ProgramSource
from cep.compile import CompileOptions
from cep.diff.comparison import Comparison
from cep.diff.matching import names_of
from cep.diff.meaning import program_diff
from cep.diff.programs import Compared
from cep.diff.report import difference_json, lines
from cep.runtime.options import EngineOptions
from tests.alert_programs import AlertProgram, alert_program, batches, in_order
from tests.cli_runs import cep
from tests.long import seeds
from tests.reference_alerts import Change, Reading, there

SECOND = 1_000_000
Alert = tuple[Any, ...]
"""From when, until when (None: it goes on), its key by the names of attributes, its severity."""


class Edited(random.Random):
    """Draws what another one of its seed draws, but for some of the draws that decide whether there is a clause."""

    def random(self) -> float:
        drawn = super().random()
        return (drawn * 7.77) % 1 if drawn * 1000 % 1 < 0.2 else drawn


def written(records: Iterable[Reading], path: Path, names: dict[str, tuple[str, ...]]) -> None:
    rows = []
    for one in records:
        row = {"type": one.type, "time": one.time, **dict(zip(names[one.type], one.args))}
        rows.append(json.dumps(row if one.change > 0 else {**row, "@change": "withdraw"}) + "\n")
    path.write_text("".join(rows))


def expected(program: AlertProgram, changes: Sequence[Change]) -> dict[str, Counter[Alert]]:
    """The alerts that somebody was notified of, by their names."""
    keys = {each.name: each.attributes if each.keys is None else [each.attributes[at] for at in each.keys]
            for each in program.statements}  # fmt: skip
    lives: dict[tuple[Any, ...], list[Change]] = {}
    for each in changes:
        lives.setdefault((each.name, each.key, each.first), []).append(each)
    found: dict[str, Counter[Alert]] = {f"alert {name}": Counter() for name in keys}
    for life in lives.values():
        told = [each for each in life if each.fired is not None and each.state != "resolved" and not each.inhibited]
        if told:
            last = life[-1]
            end = round(last.time * SECOND) if last.state == "resolved" else None
            key = tuple(sorted(zip(keys[last.name], last.key)))
            found[f"alert {last.name}"][round(told[0].time * SECOND), end, key, last.severity] += 1
    return found


def compared(name: str, text: str) -> Compared:
    source = ProgramSource(name, text, CompileOptions())
    return Compared(name, source, source.compiled(alerts=True))


@pytest.mark.parametrize("revised", [False, True])
@pytest.mark.parametrize("seed", seeds(120))
def test_alerts_that_differ_are_those_of_brute_force(
    seed: int, revised: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rng = random.Random(f"diff {seed}")
    keyed = rng.random() < 0.5
    old = alert_program(random.Random(seed), keyed)
    new = alert_program(Edited(seed) if rng.random() < 0.7 else random.Random(-seed - 1), keyed)
    window = rng.choice((3, 8, 20))
    came = [one for batch in (batches(rng, old, window) if revised else in_order(rng, old)) for one in batch]
    written(came, Path("records.jsonl"), {"reading": ("s", "n", "l"), "blip": ("s",)})
    records, latest = there(came, window if revised else None)
    assert latest is not None
    beyond = max(each.reaches(records, latest, SECOND) for each in (old, new))
    wanted = [expected(each, each.changes(records, latest, SECOND, True, beyond=beyond)) for each in (old, new)]

    options = EngineOptions(lateness=0, revise=window * SECOND if revised else None)
    stored = StoredRecords(inputs=["records.jsonl"], format=None, as_they_stand=revised)
    one, two = compared("old.cep", old.text), compared("new.cep", new.text)
    comparison = Comparison(one, two, stored, options)
    assert comparison.alert_names == wanted[0].keys() | wanted[1].keys()
    for name in comparison.alert_names:
        event = comparison.events[name]
        own = [each for each in comparison.differences if each.event == name]
        told: tuple[Counter[Alert], Counter[Alert]] = (Counter(), Counter())
        for each in own:
            for side, row, schema in zip(told, (each.old, each.new), (event.old, event.new)):
                if row is not None:
                    assert schema is not None
                    *key, severity = row[2:-1]
                    side[row[0], row[1], tuple(sorted(zip(names_of(schema), key))), severity] += 1
        before, after = (each.get(name, Counter()) for each in wanted)
        assert told == (before - after, after - before), name
        for each in own[:2]:
            reasons = comparison.alert_reason(each)
            for row, reason in zip((each.old, each.new), reasons):
                assert row is None or (reason is not None and [one.row for one in reason["alerts"]] == [row])
            assert json.loads(json.dumps(difference_json(comparison, each)))["kind"] == each.kind
    long = [line for line in lines(program_diff(one.program, two.program), comparison, 1, ()) if len(line) > 80]
    assert long == []


BASE = """\
event reading(s: string, t: float) TIME time.
hot(S, T) <- reading(S, T) WHERE T > 7.
down(S) <- reading(S, T) WHERE T > 9.
ALERT outage ON down(S) SEVERITY "Severe" TITLE "down {S}" FOR 1 h KEYED BY S.
ALERT warm ON hot(S, T) SEVERITY "Minor" TITLE "hot {S}" FOR 30 min KEYED BY S INHIBITED BY outage(s: S).
"""
HISTORY = """\
time,s,t
2024-05-01T08:00Z,a,9.5
2024-05-01T08:10Z,a,8.5
2024-05-01T09:30Z,a,8.5
2024-05-01T12:00Z,b,1
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("old.cep").write_text(BASE)
    Path("new.cep").write_text(BASE.replace("INHIBITED BY outage(s: S)", "AFTER 5 min"))
    Path("history.csv").write_text(HISTORY)
    return tmp_path


def test_alerts_are_shown_with_what_becomes_of_them_in_both_programs(folder: Path) -> None:
    result = cep("diff", "old.cep", "new.cep", "-i", "reading=history.csv")
    assert result.exit_code == 0, result.output
    text = result.stdout
    assert "alert warm           1     1      0" in text and "alert outage         0     0      0" in text, text
    assert 'appeared: alert warm(s: "a", severity: "Minor") from 2024-05-01T08:10:00Z to' in text
    assert "  old: nobody is notified\n    firing    2024-05-01T08:00:00Z  inhibited; s: a, t: 9.5\n" in text
    assert (
        "    pending   2024-05-01T09:30:00Z  s: a, t: 8.5\n    resolved  2024-05-01T10:00:00Z  before it fired" in text
    )
    told = json.loads(cep("diff", "old.cep", "new.cep", "-i", "reading=history.csv", "--json").stdout)
    assert told["counts"]["alert warm"] == {"appeared": 1, "gone": 1, "moved": 0}
    gone = next(each for each in told["differences"] if each["kind"] == "gone")
    assert gone["old"] == {
        "start": "2024-05-01T09:30:00Z", "end": "2024-05-01T10:00:00Z", "s": "a", "severity": "Minor"
    }  # fmt: skip
    assert gone["reasons"]["new"]["alerts"][0][1]["fired"] is False and not gone["reasons"]["new"]["exists"]


def test_an_alert_is_limited_by_its_name_and_may_be_in_one_program_alone(folder: Path) -> None:
    history = ("-i", "reading=history.csv")
    result = cep("diff", "old.cep", "new.cep", *history, "--show", "0", "--allow", "alert warm gone 0")
    assert result.exit_code == 1 and "not allowed: alert warm gone 1 (at most 0)" in result.stdout
    wrong = cep("diff", "old.cep", "new.cep", *history, "--allow", "alert worm gone 0")
    assert wrong.exit_code == 2 and "did you mean `alert warm`" in wrong.stderr, wrong.stderr
    Path("less.cep").write_text(BASE[: BASE.index("ALERT warm")])
    result = cep("diff", "old.cep", "less.cep", *history)
    assert result.exit_code == 0 and "  new: it has no `alert warm`" in result.stdout, result.output
    markdown = cep("diff", "old.cep", "less.cep", *history, "--markdown").stdout
    assert "| `alert warm` | 0 | 1 | 0 |" in markdown
