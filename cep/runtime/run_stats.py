"""Statistics of a run, and the line that summarizes them at its end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from time import perf_counter

from cep.plan.order import PlanUnit


@dataclass(frozen=True, slots=True)
class Count:
    """The statistics of one unit of a plan.

    - `produced`, `time`: the number of output rows, and the nanoseconds spent, since the last call of `take_counts`.
    - `rows`, `bytes`: the number of waiting rows, and their size.

    The time of a recursion is counted for the first of its nodes.
    """

    unit: PlanUnit
    produced: int
    time: int
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class RevisionStats:
    """Sums over all revisions of a run.

    - `late`: the number of input rows that were added or withdrawn within the revision window, after the watermark had
      passed them.
    - `revisions`: the number of pushes that contained such rows.
    - `withdrawn`: the number of derived rows that were withdrawn.
    - `keys_replayed`: the number of keys for which a stage ran again, summed over the stages. A run for all keys at
      once counts as one.
    - `seconds`: the time spent on revisions.
    """

    late: int = 0
    revisions: int = 0
    withdrawn: int = 0
    keys_replayed: int = 0
    seconds: float = 0.0

    def __sub__(self, other: RevisionStats) -> RevisionStats:
        return RevisionStats(
            self.late - other.late,
            self.revisions - other.revisions,
            self.withdrawn - other.withdrawn,
            self.keys_replayed - other.keys_replayed,
            self.seconds - other.seconds,
        )

    def __add__(self, other: RevisionStats) -> RevisionStats:
        return RevisionStats(
            self.late + other.late,
            self.revisions + other.revisions,
            self.withdrawn + other.withdrawn,
            self.keys_replayed + other.keys_replayed,
            self.seconds + other.seconds,
        )


REASONS = {  # the codes of dead letters in words, unless the code itself is a word
    "ahead": "ahead of the clock",
    "args": "with wrong arguments",
    "change": "with a wrong `@change`",
    "file": "from a wrong file",
    "graph": "from a graph without a time",
    "gzip": "from a damaged gzip file",
    "interval": "with a wrong interval",
    "json": "bad JSON",
    "long": "too long",
    "object": "not a JSON object",
    "quad": "bad N-Quads",
    "range": "out of range",
    "row": "with wrong fields",
    "time": "with a wrong time",
    "type": "of an unknown event",
    "unknown-withdrawal": "withdrawing unknown records",
    "utf-8": "not UTF-8",
}


@dataclass(slots=True)
class RunStats:
    """Statistics of one run.

    - `records`: the number of records read.
    - `dead`: the number of dead letters, by reason. Files that could not be read to the end are included.
    - `derived`: the number of derived events, by type. `written`: the numbers of those that the user requested, or
      None if all were requested.
    - `unseen`: the input events of which no record was read. `seen`: the input events for which tables arrived.
    - `batches`: the number of finished batches.
    - `with_records`: the files that have records. `empty`: the files that have none.
    - `no_records`: the number of dead letters that are not records, but files or remainders of files.
    - `unmatched`: the number of records that are not events.
    - `merged`: the number of records that were dropped as duplicates.
    - `twice`: by time zone, how many local times without a FOLD were ambiguous because of a clock change.
    - `remarks`: remarks about input that looks wrong for other reasons.
    - `revision`: the statistics of revision, or None if output is never withdrawn.
    - `busy`: the seconds spent on batches, without the time spent waiting for them.
    - `watermark`: the current watermark, or None if there is no watermark yet.
    - `done`: the share of the input that was read, or None if it is unknown.
    - `tasks`: on Spark, the number of finished tasks of the current micro-batch and the number of all its tasks. None
      if they are unknown.
    """

    records: int = 0
    no_records: int = 0
    unmatched: int = 0
    merged: int = 0
    dead: Counter[str] = field(default_factory=Counter)
    derived: Counter[str] = field(default_factory=Counter)
    written: Counter[str] | None = None
    unseen: list[str] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    with_records: set[str] = field(default_factory=set)
    empty: list[str] = field(default_factory=list)
    twice: Counter[str] = field(default_factory=Counter)
    remarks: list[str] = field(default_factory=list)
    revision: RevisionStats | None = None
    batches: int = 0
    busy: float = 0.0
    watermark: int | None = None
    state_rows: int = 0
    state_bytes: int = 0
    done: float | None = None
    tasks: tuple[int, int] | None = None
    began: float = field(default_factory=perf_counter)

    @property
    def seconds(self) -> float:
        return perf_counter() - self.began

    def spent(self, since: float) -> float:
        """Add the time since `since` to `busy`, and return the current time."""
        now = perf_counter()
        self.busy += now - since
        return now

    def closing(self) -> str:
        """Summarize the run: `26,115 records, 6 dead letters (5 missing, 1 out of range), 120 derived events: ..., 0.8
        s`."""
        parts = [count(self.records, "record")]
        if self.unmatched:
            parts.append(f"{self.unmatched:,} matching no event")
        if self.merged:
            parts.append(f"{self.merged:,} equal to others")
        if self.dead:
            reasons = ", ".join(f"{number:,} {REASONS.get(code, code)}" for code, number in ranked(self.dead))
            parts.append(f"{count(self.dead.total(), 'dead letter')} ({reasons})")
        if self.empty:
            parts.append(
                f"nothing in {_listed(['standard input' if path == '-' else f'`{path}`' for path in self.empty])}"
            )
        if self.unseen and self.records:
            parts.append(
                f"no {'readable ' if self.dead else ''}{_listed([f'`{event}`' for event in self.unseen])} in the input"
            )
        parts += [
            f"{count(number, 'time')} that occur twice in {name} (read as the earlier; FOLD chooses)"
            for name, number in ranked(self.twice)
        ]
        derived = count(self.derived.total(), "derived event")
        written = self.derived if self.written is None else self.written
        if written.total() > self.derived.total():  # fluents that hold are written at each tick
            derived += f", {count(written.total(), 'row')} written"
        elif written.total() != self.derived.total():
            derived = f"{written.total():,} of {derived} written"
        types = ", ".join(f"{name} {number:,}" for name, number in ranked(written))
        parts.append(f"{derived}: {types}" if types else derived)
        if self.revision is not None and self.revision.revisions:
            parts.append(revised_line(self.revision))
        return ", ".join(parts) + f", {self.seconds:.1f} s"

    def numbers(self) -> dict[str, object]:
        """Return the statistics as a dictionary with numbers, which is output as JSON."""
        written = self.derived if self.written is None else self.written
        return {
            "records": self.records,
            "dead": dict(self.dead),
            **({"unmatched": self.unmatched} if self.unmatched else {}),
            **({"equal": self.merged} if self.merged else {}),
            "derived": dict(self.derived),
            "written": dict(written),
            **({"twice": dict(self.twice)} if self.twice else {}),
            **({} if self.revision is None else {"revision": revised_numbers(self.revision)}),
            "seconds": round(self.seconds, 3),
        }


def revised_numbers(done: RevisionStats) -> dict[str, object]:
    """Return the statistics of revision as a dictionary, which is output as JSON."""
    return asdict(done) | {"seconds": round(done.seconds, 3)}


def revised_line(done: RevisionStats) -> str:
    """Summarize revision: `revised: 3 late changes, 2 events withdrawn, 2 keys run again in 0.1 s`."""
    changes, keys = count(done.late, "late change"), count(done.keys_replayed, "key")
    return f"revised: {changes}, {count(done.withdrawn, 'event')} withdrawn, {keys} run again in {done.seconds:.1f} s"


def _listed(all_of_them: Sequence[str]) -> str:
    names = list(all_of_them)
    names[3:] = [f"{len(names) - 3} others"] if len(names) > 4 else names[3:]
    return " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def count(number: int, noun: str) -> str:
    """Format a count: `1 record`, `2,000 records` or `no records`."""
    return f"{number or 'no':{',' if number else ''}} {noun}{'' if number == 1 else 's'}"


def ranked(counts: Counter[str]) -> list[tuple[str, int]]:
    """Sort counts: the largest first, and equal counts by name."""
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))
