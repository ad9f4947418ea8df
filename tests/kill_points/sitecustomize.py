"""A module that each Python process of a run loads, to kill it just before a file changes (`tests/killing.py`).

`SEMCEP_KILL` selects the moment, as JSON. `does`: `open`, `rename` (the path is the new name), `remove` or `rmtree`.
`path`: a pattern to find in the path. `within`: a function that must be running; null: any. `nth`: the number of such
moments in all processes. `alone`: kill only this process, else its whole session. `told`: a file that is created then.

`SEMCEP_NUMBERS` has other values of constants, by module and name: `{"cep.connectors.rdf.rebuild:_REMOVED": 2000}`.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import signal
import sys
from types import FrameType
from typing import Any

EVENTS = {"open": "open", "os.rename": "rename", "os.remove": "remove", "shutil.rmtree": "rmtree"}


def install(at: dict[str, Any]) -> None:
    pattern, told, busy = re.compile(at["path"]), at["told"], list[int]()

    def under_way(name: str) -> bool:
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and frame.f_code.co_name != name:
            frame = frame.f_back
        return frame is not None

    def look(event: str, arguments: tuple[Any, ...]) -> None:
        if EVENTS.get(event) != at["does"] or busy:
            return
        place = arguments[1 if event == "os.rename" else 0]
        if isinstance(place, int | bytes) or not pattern.search(os.fspath(place)):
            return
        if at["within"] is not None and not under_way(at["within"]):
            return
        busy.append(1)
        try:
            counter = os.open(f"{told}.count", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.write(counter, b".")
            if os.lseek(counter, 0, os.SEEK_CUR) == at["nth"]:
                os.close(os.open(told, os.O_WRONLY | os.O_CREAT))
                kill(at["alone"])
            os.close(counter)
        finally:
            busy.clear()

    sys.addaudithook(look)


def kill(alone: bool) -> None:
    mine = os.getpid()
    for pid in [] if alone else [int(name) for name in os.listdir("/proc") if name.isdecimal()]:
        try:
            if pid != mine and os.getsid(pid) == os.getsid(0):
                os.kill(pid, signal.SIGKILL)
        except OSError:
            pass
    os.kill(mine, signal.SIGKILL)


for name, number in json.loads(os.environ.get("SEMCEP_NUMBERS", "{}")).items():
    module, _, constant = name.partition(":")
    setattr(importlib.import_module(module), constant, number)
if "SEMCEP_KILL" in os.environ:
    install(json.loads(os.environ["SEMCEP_KILL"]))
