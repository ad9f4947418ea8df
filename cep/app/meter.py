"""The metrics of a run: sums of the reports of its batches, by event, rule and goal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from time import time

from cep.plan.goal_names import labels, rules
from cep.plan.order import PlanUnit, reads
from cep.plan.partition import Stage
from cep.plan.plan import Plan
from cep.plan.staged import needed, staged
from cep.runtime.buckets import KeyShares, merged
from cep.runtime.report import READING, Report
from cep.runtime.run_stats import RevisionStats


@dataclass(frozen=True, slots=True)
class Named:
    """A rule or goal: its name as in `cep plan`, the rules that use it (for a rule: the event it derives), the node
    whose rows are counted, and the nodes that this one reads."""

    name: str
    users: str
    node: int
    reads: tuple[PlanUnit, ...]


@dataclass(frozen=True, slots=True)
class Chart:
    """The rules and goals of a stage, by the nodes whose rows are counted."""

    rules: tuple[Named, ...]
    goals: tuple[Named, ...]

    @classmethod
    def of(cls, plan: Plan, stage: Stage | None = None) -> Chart:
        """Make the chart of a whole program, or of one stage, whose plan numbers its nodes from 0 again."""
        mine = plan if stage is None else staged(plan, stage.number)
        nodes = range(len(plan.nodes)) if stage is None else needed(plan, stage)
        heads = range(len(plan.heads)) if stage is None else stage.rules
        names, labelled = _rules(plan), labels(plan)
        read = [tuple(reads(node)) for node in mine.nodes]
        goals = []
        for new, old in enumerate(nodes):
            if mine.nodes[new].properties().kind is not None:
                users = sorted(plan.users[old])
                used = ", ".join(names[user] for user in users)
                goals.append(Named(labelled.get(old, used), used, new, read[new]))
        made = [Named(names[old], head.event, head.child, read[head.child]) for old, head in zip(heads, mine.heads)]
        return cls(tuple(made), tuple(goals))


@dataclass(slots=True)
class GoalTotals:
    """Sums over all buckets: the rows that a node made, and the nanoseconds it took; and the rows and bytes that each
    bucket holds."""

    made: int = 0
    time: int = 0
    state_by_bucket: dict[int, tuple[int, int]] = field(default_factory=dict)


class Meter:
    """Sums of reports, by event, and by stage and node. `charts`: the nodes of each stage, from stage 1.

    `batches`: the number of batches, which took so many `seconds`. `revision`: the revised results; None: results are
    final; `withdrawn`: by event, if reports have it. `keys`: frequent keys of the rows that were dealt out in the last
    batch that dealt some. Several threads add reports and read: hold the `lock` while you read.
    """

    def __init__(self, charts: Sequence[Chart]) -> None:
        self.charts = charts
        self.lock = Lock()
        self.began = time()
        self.records = self.batches = 0
        self.seconds = 0.0
        self.read: Counter[str] = Counter()
        self.derived: Counter[str] = Counter()
        self.late: Counter[str] = Counter()
        self.dead: Counter[str] = Counter()
        self.no_records = self.unmatched = self.merged = 0
        self.revision: RevisionStats | None = None
        self.withdrawn: Counter[str] = Counter()
        self.keys: tuple[KeyShares, ...] = ()
        self.latest: int | None = None
        self.watermark: int | None = None
        self.goals: dict[tuple[int, PlanUnit], GoalTotals] = {}
        self.state_by_bucket: dict[tuple[int, int], tuple[int, int]] = {}

    def take(self, reports: Iterable[Report], seconds: float) -> None:
        """Add the reports of a batch that took so many seconds."""
        with self.lock:
            self.batches += 1
            self.seconds += seconds
            found = list(reports)
            for one in found:
                self._add(one)
            self.keys = merged(share for one in found for share in one.keys) or self.keys
            self._add_revised([one.revised for one in found if one.revised is not None])

    def _add(self, report: Report) -> None:
        self.records += sum(report.read.values())
        if report.stage == READING:
            self.no_records += report.no_records
            self.unmatched += report.unmatched
            self.records += report.unmatched
            self.records += sum(report.dead.values()) - report.no_records  # the records that are not events
        for total, numbers in (
            (self.read, report.read),
            (self.derived, report.derived),
            (self.late, report.late),
            (self.dead, report.dead),
            (self.withdrawn, report.withdrawn),
        ):
            total.update(numbers)
        self.merged += report.merged
        self.latest = _later(self.latest, report.latest)
        self.watermark = _later(self.watermark, report.watermark)
        if report.stage == READING:
            return
        self.state_by_bucket[report.stage, report.bucket] = report.rows, report.bytes
        for (stage, _), goal in self.goals.items():
            if stage == report.stage:
                goal.state_by_bucket.pop(report.bucket, None)
        for count in report.counts:
            goal = self.goals.setdefault((report.stage, count.unit), GoalTotals())
            goal.made += count.made
            goal.time += count.time
            if count.rows:
                goal.state_by_bucket[report.bucket] = count.rows, count.bytes

    def _add_revised(self, revised: Sequence[RevisionStats]) -> None:
        """Add what the buckets of a batch have revised."""
        if revised:
            done = sum(revised, self.revision or RevisionStats())
            before = 0 if self.revision is None else self.revision.revisions
            self.revision = replace(done, revisions=before + any(one.revisions for one in revised))

    @property
    def state(self) -> tuple[int, int]:
        """Return the rows and bytes in the state of all engines."""
        return sum(rows for rows, _ in self.state_by_bucket.values()), sum(
            size for _, size in self.state_by_bucket.values()
        )

    def made(self, stage: int, units: Iterable[PlanUnit]) -> int:
        """Return how many rows these nodes of a stage made."""
        found = (self.goals.get((stage, unit)) for unit in units)
        return sum(goal.made for goal in found if goal is not None)


def charts(plan: Plan, stages: Sequence[Stage] | None = None) -> tuple[Chart, ...]:
    """Return the charts of a program that runs in these stages; None: as a whole."""
    return (Chart.of(plan),) if stages is None else tuple(Chart.of(plan, stage) for stage in stages)


def _rules(plan: Plan) -> Mapping[int, str]:
    """Return names of rules: the label or line; if a line has several rules, the column too."""
    names = {number: rules(plan, [number]) for number in range(len(plan.heads))}
    several = Counter(names.values())
    spans = [rule.span for rule in plan.rules.rules]
    return {n: name if several[name] == 1 else f"{name}:{spans[n].column}" for n, name in names.items()}


def _later(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else max(one, other)
