"""Settings of Hypothesis: the same examples everywhere, unless `SEMCEP_FUZZ=n` asks for n times as many new ones."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

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

os.environ["SEMCEP_CACHE_DIR"] = os.devnull  # no closure of the user's is taken, and none is left behind
