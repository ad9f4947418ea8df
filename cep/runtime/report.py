"""Reports of a piece of work, as values that can be sent: a batch in one process, or a file or bucket on Spark."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from cep.core.time import FARTHEST
from cep.runtime.buckets import KeyShares
from cep.runtime.run_stats import Count, RevisionStats

READING = 0
"""The `stage` of work that reads records."""


class Counted(Protocol):
    """The subject of a report: an engine, which has steps."""

    @property
    def watermark(self) -> int:
        """No event that ends at or before it will come any more (microseconds)."""

    @property
    def state_rows(self) -> int:
        """The number of rows held."""

    @property
    def state_bytes(self) -> int:
        """In how many bytes."""

    def take_counts(self) -> list[Count]:
        """Return each goal's counts since the last call, and its size."""

    def take_key_shares(self) -> Sequence[KeyShares]:
        """Return the keys with many of the rows that were dealt since the last call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Numbers are those since the last report of this stage and bucket, but `rows` and `bytes`: what is held now.

    `read`: events from outside, by type; `latest`: the last end among them, `place`: the file and line of that
    record. `dead`: dead letters by code, those of
    `late` events, by type, among them, and whole files, which are `unread`, each with its reason; `no_records`: how
    many of them are files, their rests, or changes of the knowledge. `unmatched`: records that are no event; `merged`:
    records that were one with an equal one.
    `derived`: by type, before identical ones of several buckets are made one. `counts`: the goals that did something
    or hold something. `revised`: what was put right, where what is derived may be withdrawn, and `withdrawn`: how much
    of it was, by type. `remarks`: what looks wrong with an input; `lacking`: the attributes that none of the records
    read has, by event, with where the value may be. `keys`: which keys have many of the rows that were dealt.
    Times in microseconds, None: there is none (yet, or any more: after the end of the input).
    """

    stage: int = READING
    bucket: int = 0
    read: Mapping[str, int] = field(default_factory=dict)
    derived: Mapping[str, int] = field(default_factory=dict)
    late: Mapping[str, int] = field(default_factory=dict)
    dead: Mapping[str, int] = field(default_factory=dict)
    unread: Sequence[str] = ()
    no_records: int = 0
    unmatched: int = 0
    merged: int = 0
    counts: Sequence[Count] = ()
    rows: int = 0
    bytes: int = 0
    latest: int | None = None
    place: str | None = None
    watermark: int | None = None
    remarks: Sequence[str] = ()
    lacking: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)
    revised: RevisionStats | None = None
    withdrawn: Mapping[str, int] = field(default_factory=dict)
    keys: Sequence[KeyShares] = ()

    @classmethod
    def of(
        cls,
        engine: Counted,
        derived: Mapping[str, int],
        *,
        stage: int = 1,
        bucket: int = 0,
        late: Mapping[str, int] | None = None,
        dead: Mapping[str, int] | None = None,
        revised: RevisionStats | None = None,
        withdrawn: Mapping[str, int] | None = None,
        merged: int = 0,
    ) -> Report:
        """Report a step of an engine, and reset the counts of its goals."""
        return cls(
            stage=stage,
            bucket=bucket,
            derived={event: number for event, number in derived.items() if number},
            late=late or {},
            dead=dead or {},
            counts=engine.take_counts(),
            rows=engine.state_rows,
            bytes=engine.state_bytes,
            watermark=engine.watermark if -FARTHEST < engine.watermark < FARTHEST else None,
            revised=revised,
            withdrawn=withdrawn or {},
            merged=merged,
            keys=engine.take_key_shares(),
        )

    def line(self) -> str:
        """Return the report as JSON."""
        fields = {each.name: getattr(self, each.name) for each in dataclasses.fields(self)}
        counts = [dataclasses.astuple(one) for one in self.counts]
        revised = None if self.revised is None else dataclasses.astuple(self.revised)
        keys = [dataclasses.astuple(one) for one in self.keys]
        return json.dumps(fields | {"counts": counts, "revised": revised, "keys": keys}, separators=(",", ":"))

    @classmethod
    def of_line(cls, line: str) -> Report:
        """The report again."""
        fields = json.loads(line)
        revised = None if fields["revised"] is None else RevisionStats(*fields["revised"])
        keys = [KeyShares(*one) for one in fields["keys"]]
        return cls(**fields | {"counts": [Count(*one) for one in fields["counts"]], "revised": revised, "keys": keys})
