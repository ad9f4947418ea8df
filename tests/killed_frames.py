"""A process that runs rules over a streaming DataFrame, and kills itself at a given point.

`python -m tests.killed_frames FOLDER WHERE COUNT`: the folder contains `rules.cep`, and `rows` with Parquet files of
the event `reading`. The events that each micro-batch derives are written to `given`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cep.spark import Events, Rules
from cep.spark.sink.file_sink import FileWriter
from cep.spark.state.batch_notes import BatchNotes
from tests import spark_runs

PHASES = ("tasks", "note", "commit", "given", "end")
"""Before tasks have been run, a note is written, a micro-batch counts; while it is given; never."""


def killed(after: int, run: Callable[..., Any]) -> Callable[..., Any]:
    """The function, whose call of this number kills the process."""
    calls = 0

    def counted(*given: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == after:
            os.kill(os.getpid(), signal.SIGKILL)
        return run(*given)

    return counted


def main(folder: Path, where: str, after: int) -> None:
    rules = Rules.from_file(folder / "rules.cep")
    spark = spark_runs.spark()
    kinds = spark.read.parquet(str(folder / "rows")).schema
    rows = spark.readStream.schema(kinds).option("maxFilesPerTrigger", 1).parquet(str(folder / "rows"))

    def take(events: Events, batch: int) -> None:
        for name, frame in events.items():
            found = sorted(json.dumps(row.asDict(), default=str) for row in frame.collect())
            file = folder / "given" / f"{batch:03}-{name}.json"
            if file.exists():
                assert json.loads(file.read_text()) == found, "a micro-batch is given with other rows"
            file.write_text(json.dumps(found))

    if where == "tasks":
        FileWriter.counts = killed(after, FileWriter.counts)  # type: ignore[method-assign]
    elif where == "note":
        BatchNotes.write = killed(after, BatchNotes.write)  # type: ignore[method-assign]
    elif where == "commit":
        FileWriter.commit = killed(after, FileWriter.commit)  # type: ignore[method-assign]
    elif where == "given":
        take = killed(after, take)
    stream = rules.over({"reading": rows}, order={"reading": "number"}, lateness="4 s")
    stream.each(take, checkpoint=folder / "state", available_now=True).awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
