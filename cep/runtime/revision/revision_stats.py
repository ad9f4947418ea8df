"""What revision has done since an engine began, for metrics and closing lines."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RevisionStats:
    """Sums. `late`: rows of the input that came, or went, when the watermark had passed them, within the window;
    `revisions`: pushes that had such rows; `withdrawn`: derived rows that were withdrawn; `keys_replayed`: keys that
    stages were run again for, in each stage anew, one where it was run again for all; `seconds`: the time that took.
    """

    late: int = 0
    revisions: int = 0
    withdrawn: int = 0
    keys_replayed: int = 0
    seconds: float = 0.0

    def __sub__(self, other: RevisionStats) -> RevisionStats:
        """What was done since these sums."""
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
