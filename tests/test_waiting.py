"""Tests wait for what happens, not for a time to pass: one module sleeps, and what waits says what did not come."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import pytest

from tests.waiting import Received, until

SLEEPS = re.compile(r"\bsleep\(|\bEvent\(\)\.wait\([^)]|\.wait\(0?\.\d+\)")


def test_one_module_sleeps() -> None:
    """Nor is a part of a second waited for on an event that never comes."""
    folder = Path(__file__).parent
    found = [path.name for path in sorted(folder.rglob("*.py")) if SLEEPS.search(path.read_text())]
    assert found == ["waiting.py"], "`tests/waiting.py` has `until`, `Received` and, where a time is the test, `pause`"


def test_what_does_not_come_is_told() -> None:
    with pytest.raises(AssertionError, match=r"not within 0 s: the third"):
        until(lambda: False, "the third", seconds=0)
    answers = iter([0, "", "here"])
    assert until(lambda: next(answers), "an answer") == "here"


def test_what_comes_is_awaited() -> None:
    came: Received[int] = Received()
    sending = threading.Thread(target=lambda: [came.append(number) for number in range(100)])
    sending.start()
    came.at_least(100)
    assert came == list(range(100))
    with pytest.raises(AssertionError, match="100 have come: 101 in all"):
        came.wait(lambda: len(came) > 100, "101 in all", seconds=0.0)
    sending.join()
