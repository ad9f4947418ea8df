"""What is asked of `cep run` where it may be for Spark: the options as they were given, and what of them cannot be."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cep.app.durations import refuse
from cep.core.logs import Log


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The options of a run, as they were given."""

    rules: Path
    inputs: list[str] | None
    format: str | None
    output: str
    output_format: str | None
    only: list[str] | None
    policy: str | None
    lateness: str | None
    dead_letter: str | None
    strict: bool
    facts: list[str] | None
    knowledge: list[str] | None
    reasoning: str | None
    updates: list[str] | None
    max_derivations: int
    idle: str | None
    explain: bool
    on: str | None
    master: str | None
    checkpoint: str | None
    once: bool
    follow: bool
    every: str | None
    keep: str | None
    migrate: bool
    buckets: int | None
    files: int | None
    conf: list[str] | None
    packages: list[str] | None = None
    metrics: str | None
    log: Log

    @property
    def spark(self) -> bool:
        """Whether it is for Spark. CepError: it is for what there is not, or half of it is."""
        if self.on == "spark":
            return True
        if self.on is not None:
            raise refuse(f"--on: `{self.on}` is nothing that programs run on", "`--on spark`, or none for one process")
        given = {
            "--master": self.master,
            "--checkpoint": self.checkpoint,
            "--once": self.once,
            "--follow": self.follow,
            "--every": self.every,
            "--keep": self.keep,
            "--migrate": self.migrate,
            "--buckets": self.buckets,
            "--files": self.files,
            "--conf": self.conf,
            "--packages": self.packages,
        }
        for option, value in given.items():
            if value:
                raise refuse(f"{option} is for Spark", "add `--on spark`")
        return False

    @property
    def open(self) -> bool:
        """Whether what is there now is not the end of the input."""
        return self.once or self.follow

    def checked(self) -> tuple[list[str], Path]:
        """The inputs and the checkpoint. CepError: what Spark cannot do, or needs to be told."""
        if self.explain:
            raise refuse("--explain is not for Spark", "run it in one process, without `--on spark`")
        if not self.inputs:
            raise refuse("there is no --input", "name files, or a folder: `--input readings/`")
        if "-" in self.inputs:
            raise refuse("--input -: Spark cannot read standard input", "name files, or a folder")
        if self.output == "-":
            raise refuse("there is no --output", "name a folder: `--output derived`")
        self._writable()
        if self.checkpoint is None:
            raise refuse("there is no --checkpoint", "name a folder, in which the state is kept: `--checkpoint state`")
        self._folders(self.checkpoint)
        self._times()
        return self.inputs, Path(self.checkpoint).absolute()

    def settings(self) -> dict[str, str]:
        """Those of the session. CepError: one is none."""
        return dict(_setting(one) for one in self.conf or ())

    def _writable(self) -> None:
        from connectors.sending import is_topic

        if is_topic(self.output) and self.output_format not in (None, "jsonl"):
            raise refuse(f"--output-format: messages are lines of JSON, not {self.output_format}")
        if is_topic(self.output) and self.keep is not None:
            raise refuse("--keep is for folders", "how long a broker keeps messages is for it to say")
        if self.output_format not in (None, "jsonl", "parquet"):
            raise refuse(f"--output-format: Spark does not write {self.output_format}", "jsonl or parquet")

    def _folders(self, checkpoint: str) -> None:
        from connectors.addresses import bare
        from connectors.sending import is_topic

        output = None if is_topic(self.output) else self.output
        for option, place in (("--output", output), ("--checkpoint", checkpoint), ("--dead-letter", self.dead_letter)):
            if place is not None and "://" in place:
                hint = "a folder that all machines have, mounted at the same place"
                raise refuse(f"{option}: `{bare(place)}` is an address, not a folder", hint)

    def _times(self) -> None:
        if self.once and self.follow:
            raise refuse("--once and --follow exclude each other")
        if self.open and self.lateness is None:
            option, hint = "--once" if self.once else "--follow", "how much later than others an event may come"
            raise refuse(f"{option} needs a --lateness", f"{hint}: `--lateness 10min`")
        if self.idle is not None and not self.follow:
            hint = "add `--follow`; a run that takes what there is leaves open what is open, or ends the input"
            raise refuse("--idle is for what comes live, and without --follow nothing does", hint)
        if self.every is not None and not self.follow:
            raise refuse("--every is for --follow", "without it a run takes what there is, and ends")
        if self.files is not None and self.lateness is None:
            raise refuse("--files needs a --lateness", "without one, all files are one micro-batch, sorted by time")


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.startswith("spark."):
        raise refuse(f"--conf: expected `name=value`, found `{text}`", "`--conf spark.sql.shuffle.partitions=8`")
    return name, value
