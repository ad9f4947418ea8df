"""Calls of the command `cep` by tests, in temporary folders with a program and its events."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from cep.command import app

PROGRAM = """\
event heat(room: string, temp: float in -50..500).
event smoke(room: string, level: int?).
event fire(room: string, temp: float).

fire(R, T) <- (smoke(R, _) SEQ heat(R, T) WHERE T > 50) WITHIN 1 min.
"""
EVENTS = [
    {"type": "smoke", "time": 1, "room": "attic", "level": 3},
    {"type": "heat", "time": 4, "room": "attic", "temp": 80.5},
    {"type": "heat", "time": 5, "room": "cellar", "temp": 90},
]
COMPILING = "compiling kernels"
"""How lines begin that say so, in a process that compiles some."""
FIRE = {"type": "fire", "start": 1, "end": 4, "room": "attic", "temp": 80.5}


def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test runs in a folder of its own, with the program and its events in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    Path("fire.cep").write_text(PROGRAM)
    Path("events.jsonl").write_text(jsonl(EVENTS))
    return tmp_path


def jsonl(records: list[Any]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def lines_of(*texts: bytes) -> Counter[str]:
    """Lines of JSON, whatever the order of their fields."""
    return Counter(json.dumps(json.loads(line), sort_keys=True) for text in texts for line in text.splitlines())


def cep(*arguments: str, input: str | None = None) -> Result:
    return CliRunner().invoke(app, list(arguments), input=input, prog_name="cep")


def events(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def start(*arguments: str, **options: Any) -> subprocess.Popen[str]:
    root = str(Path(__file__).parent.parent)
    return subprocess.Popen(
        [sys.executable, "-m", "cep", *arguments],
        env={**os.environ, "PYTHONPATH": root},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


BAD = [*EVENTS, {"type": "heat", "time": 6, "room": "hall", "temp": 999}, {"type": "heat", "time": 7, "temp": 1}]


def without_compiling(messages: str) -> str:
    """The messages but those that kernels are compiled."""
    return "".join(line for line in messages.splitlines(keepends=True) if not line.startswith(COMPILING))
