"""Reports about the work on a batch, file or bucket. A report can be sent between processes."""

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
"""The `stage` in reports about reading records."""


class Counted(Protocol):
    """The attributes and methods of an engine that a report uses."""

    @property
    def watermark(self) -> int:
        """The watermark in microseconds: no event that ends at or before it will arrive."""

    @property
    def state_rows(self) -> int:
        """The number of rows that the engine stores."""

    @property
    def state_bytes(self) -> int:
        """The size in bytes of the rows that the engine stores."""

    def take_counts(self) -> list[Count]:
        """Return the statistics of each goal since the last call, and the current size of the goal's state."""

    def take_key_shares(self) -> Sequence[KeyShares]:
        """Return the most frequent keys of the rows that were distributed since the last call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A report of a stage and bucket. `rows` and `bytes` describe the current state. All other numbers are counted
    since the last report.

    - `read`: the number of input events, by type. `latest`: the latest end of an input event. `place`: the file and
      line of that event's record.
    - `dead`: the number of dead letters, by code. `late`: the number of late rows among them, by event type.
    - `unread`: the reason for each file that cannot be read.
    - `no_records`: the number of dead letters that are not records, but files, remainders of files, or changes of the
      knowledge.
    - `unmatched`: the number of records that are not events. `merged`: the number of records dropped as duplicates.
    - `derived`: the number of derived events, by type. Identical events of several buckets are counted several times.
    - `counts`: the statistics of goals that ran or store rows.
    - `revised`: the statistics of revision, or None if output is never withdrawn. `withdrawn`: the number of
      withdrawn output rows, by type.
    - `remarks`: remarks about an input that looks wrong.
    - `lacking`: by event, the attributes that no record has under their own name. Each has the path in the
      records where its value probably is.
    - `keys`: the most frequent keys of the distributed rows.

    Times are in microseconds. A time is None before the first event, and after the end of the input.
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
        """Create a report of an engine's step, and reset the counts of its goals."""
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
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        counts = [dataclasses.astuple(count) for count in self.counts]
        revised = None if self.revised is None else dataclasses.astuple(self.revised)
        keys = [dataclasses.astuple(key) for key in self.keys]
        return json.dumps(fields | {"counts": counts, "revised": revised, "keys": keys}, separators=(",", ":"))

    @classmethod
    def of_line(cls, line: str) -> Report:
        """Read a report from the JSON of `line`."""
        fields = json.loads(line)
        revised = None if fields["revised"] is None else RevisionStats(*fields["revised"])
        keys = [KeyShares(*shares) for shares in fields["keys"]]
        return cls(**fields | {"counts": [Count(*row) for row in fields["counts"]], "revised": revised, "keys": keys})
