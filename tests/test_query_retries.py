"""A query that fails for want of a Python process begins again; one that fails for another reason says it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]

from cep.core.errors import CepError
from cep.spark.driver import query, session
from cep.spark.driver.failure import failed, reason
from cep.spark.driver.query import TRIES, StopRequest, run_query

BUSY = CepError("the query has failed: Timed out while waiting for the Python worker to connect back", code="failed")
OTHER = CepError("the query has failed: no space left on device", code="failed")


class Asked:
    """Fails as it is scripted, or finishes so many micro-batches."""

    def __init__(self, *ends: CepError | int) -> None:
        self.ends: Iterator[CepError | int] = iter(ends)
        self.times = self.finished = self.signal = 0
        self.reported: list[str] = []

    def begun(self, begin: Callable[[], object]) -> object:
        return begin()

    def wait(self, query: object, endless: bool) -> None:
        end = next(self.ends)
        if isinstance(end, CepError):
            raise end
        self.finished += end
        if end > 1:
            raise BUSY

    def run(self) -> None:
        def begin() -> Any:
            self.times += 1

        def log(event: str, text: str | None, *level: str) -> None:
            self.reported.append(event)

        run_query(begin, cast(Any, self), True, lambda: self.finished, cast(Any, log))


def test_it_begins_again_where_the_machine_was_slow() -> None:
    one = Asked(BUSY, BUSY, 7, *[BUSY] * (TRIES - 2), 3, BUSY, 1)
    one.run()
    assert (one.times, one.finished, one.reported) == (TRIES + 4, 11, ["again"] * (TRIES + 3))
    for failing, begun in ((Asked(*[BUSY] * TRIES), TRIES), (Asked(BUSY, OTHER), 2)):
        with pytest.raises(CepError, match="the query has failed"):
            failing.run()
        assert failing.times == begun
    stopped = Asked(BUSY)
    stopped.signal = 15
    with pytest.raises(CepError):
        stopped.run()
    assert query.passing(CepError("Python worker failed to connect back.")) and not query.passing(OTHER)


def test_it_begins_again_where_the_process_that_plans_was_lost(tmp_path: Path) -> None:
    """All that Java says then is that nothing more came from it."""

    class Eof:
        def getMessage(self) -> None: ...  # noqa: N802

        def toString(self) -> str:  # noqa: N802
            return "java.io.EOFException"

        def getCause(self) -> None: ...  # noqa: N802

    error = Exception()
    error.__dict__["java_exception"] = Eof()
    assert query.passing(failed(error, str(tmp_path / "spark.log")))
    assert not query.passing(CepError("the query has failed: mqtt://b: Connection reset"))


def test_java_that_has_ended_is_said(tmp_path: Any) -> None:
    class Query:
        def awaitTermination(self, seconds: float) -> bool:  # noqa: N802
            raise Py4JNetworkError("Answer from Java side is empty")

    with pytest.raises(CepError, match="Spark's Java process has ended") as raised:
        StopRequest(tmp_path).wait(cast(Any, Query()), True)
    assert raised.value.code == "failed" and "spark.driver.memory" in (raised.value.hint or "")


@pytest.mark.parametrize(
    "master, wanted",
    [
        ("local", "local[1, 4]"),
        ("local[3]", "local[3, 4]"),
        ("local[*]", "local[*, 4]"),
        ("local[2,1]", "local[2,1]"),
        ("local-cluster[2,1,1024]", "local-cluster[2,1,1024]"),
        ("spark://10.0.0.1:7077", "spark://10.0.0.1:7077"),
    ],
)
def test_tasks_are_done_again_on_one_machine_too(master: str, wanted: str) -> None:
    assert session.with_retries(master) == wanted


def test_a_worker_that_crashed_in_a_job_of_a_micro_batch_is_named() -> None:
    """As Py4J tells it of a job that is run in the driver's Python."""
    crashed = (
        "Job aborted due to stage failure: Task 0 in stage 5.0 failed 1 times, most recent failure: Lost task 0.0 in "
        "stage 5.0 (TID 9): org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)"
    )
    text = (
        "An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):\n"
        '  File "clientserver.py", line 617, in _call_proxy\n'
        "py4j.protocol.Py4JJavaError: An error occurred while calling z:org.apache.spark.api.python.PythonRDD.call.\n"
        f": org.apache.spark.SparkException: {crashed}\n"
        "\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:3122)\n"
        "Caused by: java.io.EOFException\n"
    )
    found = reason(["the query ended", text])
    assert found == crashed
    assert query.passing(CepError(found))
