"""Tasks of a page's main thread in Chromium: their wall time and their CPU time."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

LONG = 50.0
"""The milliseconds above which browsers report a task as long."""
_CATEGORIES = ["toplevel", "disabled-by-default-devtools.timeline", "devtools.timeline", "v8"]
_STEPS = 3  # the number of steps shown per task


@dataclass(frozen=True, slots=True)
class BrowserTask:
    """A task. `wall` and `cpu` are in milliseconds. `steps`: the most expensive parts, with their CPU time."""

    wall: float
    cpu: float
    steps: tuple[tuple[str, float], ...]


def traced(browser: Browser, page: Page, act: Callable[[], object]) -> list[BrowserTask]:
    """Return the tasks of the page's main thread while `act` runs, in order."""
    browser.start_tracing(page=page, categories=_CATEGORIES)
    try:
        act()
    finally:
        trace = browser.stop_tracing()
    return tasks(json.loads(trace)["traceEvents"])


def tasks(events: list[dict[str, Any]]) -> list[BrowserTask]:
    """Return the tasks of the busiest main thread in a trace."""
    threads = {
        (each["pid"], each["tid"])
        for each in events
        if each["name"] == "thread_name" and each["args"]["name"] == "CrRendererMain"
    }
    spans: dict[tuple[int, int], list[dict[str, Any]]] = {thread: [] for thread in threads}
    for each in events:
        if each["ph"] == "X" and (thread := (each["pid"], each["tid"])) in spans:
            spans[thread].append(each)
    busiest = max(spans.values(), key=lambda own: sum(each.get("tdur", 0) for each in own if _outermost(each)))
    busiest.sort(key=lambda each: (each["ts"], -each["dur"]))
    found: list[tuple[dict[str, Any], dict[str, float]]] = []
    for each in busiest:
        if _outermost(each):
            found.append((each, {}))
        elif found and each["ts"] < found[-1][0]["ts"] + found[-1][0]["dur"] and (name := _name(each)):
            steps = found[-1][1]
            steps[name] = steps.get(name, 0) + each.get("tdur", 0) / 1e3
    return [
        BrowserTask(task["dur"] / 1e3, task.get("tdur", 0) / 1e3, tuple(sorted(steps.items(), key=_dearest)[:_STEPS]))
        for task, steps in found
    ]


def _dearest(step: tuple[str, float]) -> float:
    return -step[1]


def _outermost(event: dict[str, Any]) -> bool:
    return bool(event["name"] == "RunTask")


def _name(event: dict[str, Any]) -> str:
    """Return a readable name of a step, which is a function with its position, or a part of the browser's work. Returns
    an empty text for other steps."""
    if event["name"] == "FunctionCall":
        data = event["args"].get("data", {})
        file = str(data.get("url", "")).rpartition("/")[2]
        return f"{data.get('functionName') or 'function'} {file}:{data.get('lineNumber', 0) + 1}" if file else ""
    return event["name"] if event["name"] in _PARTS else ""


_PARTS = {
    *("ParseHTML", "EvaluateScript", "v8.evaluateModule", "RunMicrotasks", "MinorGC", "MajorGC", "HitTest"),
    *("UpdateLayoutTree", "Layout", "PrePaint", "Paint", "Layerize", "Commit"),
}
