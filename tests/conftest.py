"""Settings for all tests.

Hypothesis tries the same examples everywhere, unless `SEMCEP_FUZZ=n` requests n times as many new ones. Long tests are
selected as in `tests/long.py`. Time limits are generous, because a machine may be busy. Processes and compiled code are
shared to save time.
"""

from __future__ import annotations

import gc
import os
import signal
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, settings

from cep.core.array_capacity import CHECKED
from cep.core.compilation import compilation
from tests import kernels, long

FUZZ = int(os.environ.get("SEMCEP_FUZZ", "0"))

settings.register_profile(
    "semcep",
    deadline=None,
    derandomize=FUZZ == 0,
    database=None,
    print_blob=False,
    suppress_health_check=list(HealthCheck),
)
settings.load_profile("semcep")

for each in ("connect", "read", "write", "pool"):  # of every client that names no other
    setattr(httpx._config.DEFAULT_TIMEOUT_CONFIG, each, 120.0)

for each in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS"):  # no test lasts until Java's better compiler pays
    os.environ.setdefault(each, "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in the background of a shell, which commands would inherit
    signal.signal(signal.SIGINT, signal.default_int_handler)

gc.set_threshold(50_000)  # most objects last as long as the process, and are not to be looked through again and again

if CHECKED:
    kernels.strict()

os.environ["SEMCEP_CACHE_DIR"] = os.devnull  # no closure of the user's is taken, and none is left behind

_LONGEST = ["windows_before", "windows", "serve_revised_process", "serve_revised", "record_times", "stops"]
EARLY = frozenset(f"test_{name}.py" for name in _LONGEST)
"""Files with single tests that take long, or that compile large kernels: as the last ones they leave others idle."""

LEFT = pytest.StashKey[int]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--write",
        action="store_true",
        help="write generated files anew (tests/test_passes.py, test_editor_files.py)",
    )
    parser.addoption("--long", default="all", metavar="SHARE", help="long tests: all, none, or a share as 2/3")


def pytest_configure(config: pytest.Config) -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # of a shell's background: commands would not hear Ctrl-C
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        long.choose(long.Share.read(config.getoption("long")), FUZZ)
    except ValueError as wrong:
        raise pytest.UsageError(str(wrong)) from None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """For `-n auto` one more than there are processors, since tests wait for Spark, for servers and for each other to
    compile a kernel; in the checked run they do not."""
    affinity = getattr(os, "sched_getaffinity", None)
    return (len(affinity(0)) if affinity else os.cpu_count() or 1) + (not CHECKED)


@pytest.fixture(autouse=True)
def compiling_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """What commands say in this process is the same whatever tests were before."""
    monkeypatch.setattr(compilation, "_tell", lambda there_is_news: None)


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Each process of several begins elsewhere to import the tests: pytest rewrites and compiles their modules, which
    takes longer than all else before the first test, and what one has done the others load."""
    number, count = os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:], os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")
    named = [Path(session.config.invocation_params.dir, argument.split("::")[0]) for argument in session.config.args]
    files = sorted({file for one in named for file in (one.glob("test_*.py") if one.is_dir() else [one])})
    first = len(files) * int(number) // int(count)
    for file in (*files[first:], *files[:first]) if first else ():
        with suppress(Exception):  # it is imported again, and said
            import_module(f"tests.{file.stem}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out the long tests of other shares. Those that run have more time. What takes long comes first."""
    share = long.Share.read(config.getoption("long"))
    marked = [item for item in items if item.get_closest_marker("long")]
    for item in marked if config.getoption("timeout") is None else ():
        item.add_marker(pytest.mark.timeout(long.TIMEOUT))
    left = set(marked) - set(share.dealt(marked))
    config.stash[LEFT] = len(left)
    if left:
        config.hook.pytest_deselected(items=[item for item in marked if item in left])
        items[:] = [item for item in items if item not in left]
    items.sort(key=lambda item: item.path.name not in EARLY)


def pytest_collection_finish() -> None:
    gc.freeze()  # of modules and tests nothing goes before the end


def pytest_sessionfinish(session: pytest.Session) -> None:
    if (said := getattr(session.config, "workeroutput", None)) is not None:  # to the process that has the terminal
        said["left"] = session.config.stash.get(LEFT, 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    node.config.stash[LEFT] = getattr(node, "workeroutput", {}).get("left", 0)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    share = config.getoption("long")
    if share != "all":
        ran = "" if share == "none" else f"long tests: share {share}; "
        terminalreporter.write_line(f"{ran}{config.stash.get(LEFT, 0)} long tests were left to `make test-all`")
