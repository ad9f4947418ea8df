"""Settings of Hypothesis: the same examples everywhere, unless `SEMCEP_FUZZ=n` asks for n times as many new ones.

And patience: a machine may have much else to do. And thrift, with processes and what they compile.
"""

from __future__ import annotations

import os
import signal

import httpx
from hypothesis import HealthCheck, settings

from cep.core.room import CHECKED
from tests import kernels

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

kernels.once()
if CHECKED:
    kernels.strict()

os.environ["SEMCEP_CACHE_DIR"] = os.devnull  # no closure of the user's is taken, and none is left behind
