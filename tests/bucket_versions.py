"""The versions of the states in a folder, for tests."""

from __future__ import annotations

from pathlib import Path

from cep.spark.state.bucket_states import batch_of


def newest_versions(folder: Path, last: int) -> dict[str, int]:
    """Return the newest version of each bucket, by its name, that a micro-batch up to `last` made."""
    newest: dict[str, int] = {}
    for path in folder.glob("[0-9]*-*-*"):
        bucket, _, version = path.name.rpartition("-")
        if batch_of(path) <= last:
            newest[bucket] = max(newest.get(bucket, 0), int(version))
    return dict(sorted(newest.items()))
