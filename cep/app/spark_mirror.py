"""Run Spark jobs whose checkpoint and output are in an object store, or at other addresses. The jobs use local folders,
which are copied to these addresses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from cep.app.durations import refuse
from cep.app.run_options import RunOptions
from cep.core.storage.urls import is_url
from cep.spark.driver import session
from cep.spark.mirror import DEAD, OUTPUT, STATE, Mirror
from cep.spark.working_folder import working_folder

RETAINED = "spark.sql.streaming.minBatchesToRetain"
FEW = "10"
"""The number of micro-batches whose logs Spark keeps. It is small because each manifest lists these logs."""


ALONE = "run it once on one machine, `--master 'local[*]' --once`; the cluster then continues from there"
"""The hint for operations that need the states of all keys on one machine."""


@contextmanager
def mirrored(options: RunOptions) -> Iterator[tuple[RunOptions, Mirror | None]]:
    """Yield options in which local folders replace addresses, and the mirror that copies these folders.

    If no option is an address, yield the same options and None. Raises CepError if an address contains files that do
    not belong to a checkpoint, or cannot be read. Errors raised inside the `with` block show the addresses instead of
    the local folders.
    """
    checkpoint, dead = options.spark.checkpoint, options.source.dead_letter
    if checkpoint is None or not is_url(checkpoint):
        yield options, None
        return
    apart = _apart(options)
    if apart:
        _refused(options)
    with working_folder() as folder:
        mirror = Mirror(folder, checkpoint, options.sink.output, dead if dead and is_url(dead) else None, apart)
        here = {name: str(mirror.folder(name)) for name in mirror.places}
        conf = options.spark.conf
        if not any(setting.startswith(f"{RETAINED}=") for setting in conf):
            conf = (*conf, f"{RETAINED}={FEW}")
        changed = replace(
            options,
            sink=replace(options.sink, output=here[OUTPUT]),
            spark=replace(options.spark, checkpoint=here[STATE], conf=conf),
            source=replace(options.source, dead_letter=here.get(DEAD, dead)),
        )
        with mirror.naming():
            try:
                yield changed, mirror
            except BaseException:
                mirror.leave_log()
                raise


def _refused(options: RunOptions) -> None:
    """Raise CepError if an option does not work on several machines that share no folder."""
    checkpoint, dead = options.spark.checkpoint, options.source.dead_letter
    if dead is not None and not is_url(dead):
        hint = f"use an address beside {checkpoint}"
        raise refuse(f"--dead-letter: {dead} is a folder of this machine, which the other machines do not have", hint)
    if options.spark.migrate:
        raise refuse("--migrate needs all states on one machine, but this cluster has no shared folder", ALONE)
    if options.dialect.solve_limit is not None:
        message = "--solve-limit: when a machine is lost, its answers are searched for again, and may differ"
        raise refuse(message, "use a folder that all machines share as --checkpoint, or leave --solve-limit out")


def _apart(options: RunOptions) -> bool:
    return re.match(r"local(\[|$)", session.named_master(options.spark.master, options.spark.settings)) is None
