"""The metrics of a run. They are sums over the reports of its batches, by event type, rule and operator."""

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
    """A rule or operator in the metrics.

    - `name`: its name in `cep plan`.
    - `users`: for an operator, the rules that use it; for a rule, the event that the rule derives.
    - `node`: the node of the plan whose rows are counted.
    - `reads`: the nodes whose output the node reads.
    """

    name: str
    users: str
    node: int
    reads: tuple[PlanUnit, ...]


@dataclass(frozen=True, slots=True)
class Chart:
    """The rules and operators of a stage, and the nodes whose rows are counted for them."""

    rules: tuple[Named, ...]
    goals: tuple[Named, ...]

    @classmethod
    def of(cls, plan: Plan, stage: Stage | None = None) -> Chart:
        """Create the chart of a whole program, or of one stage. The nodes of a stage are numbered from 0."""
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
        outputs = [Named(names[old], head.event, head.child, read[head.child]) for old, head in zip(heads, mine.heads)]
        return cls(tuple(outputs), tuple(goals))


@dataclass(slots=True)
class GoalTotals:
    """The totals of an operator over all buckets.

    - `produced`: the number of rows that the operator produced.
    - `time`: the time that the operator took, in nanoseconds.
    - `state_by_bucket`: for each bucket, the number of rows in the operator's state, and their size in bytes.
    """

    produced: int = 0
    time: int = 0
    state_by_bucket: dict[int, tuple[int, int]] = field(default_factory=dict)


class Meter:
    """Sums over the reports of a run: by event type, and by stage and node.

    - `charts`: the rules and operators of each stage, beginning with stage 1.
    - `batches`, `seconds`: the number of batches, and the time that they took.
    - `revision`: the statistics of revision, or None if results are final.
    - `withdrawn`: the number of withdrawn rows, by event type.
    - `keys`: the frequent keys of the last batch whose rows were distributed to partitions.

    Several threads add reports and read the sums. A reader must hold the `lock`.
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
        """Add the reports of one batch. `seconds`: the time that the batch took."""
        with self.lock:
            self.batches += 1
            self.seconds += seconds
            listed = list(reports)
            for report in listed:
                self._add(report)
            self.keys = merged(share for report in listed for share in report.keys) or self.keys
            self._add_revised([report.revised for report in listed if report.revised is not None])

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
            goal.produced += count.produced
            goal.time += count.time
            if count.rows:
                goal.state_by_bucket[report.bucket] = count.rows, count.bytes

    def _add_revised(self, revised: Sequence[RevisionStats]) -> None:
        if revised:
            done = sum(revised, self.revision or RevisionStats())
            before = 0 if self.revision is None else self.revision.revisions
            self.revision = replace(done, revisions=before + any(revision.revisions for revision in revised))

    @property
    def state(self) -> tuple[int, int]:
        """Return the number of rows in the state of all engines, and the size of the state in bytes."""
        return sum(rows for rows, _ in self.state_by_bucket.values()), sum(
            size for _, size in self.state_by_bucket.values()
        )

    def made(self, stage: int, units: Iterable[PlanUnit]) -> int:
        """Return the number of rows that the nodes `units` of a stage have produced."""
        goals = (self.goals.get((stage, unit)) for unit in units)
        return sum(goal.produced for goal in goals if goal is not None)


def charts(plan: Plan, stages: Sequence[Stage] | None = None) -> tuple[Chart, ...]:
    """Return the charts of a program's stages, or one chart of the whole program if `stages` is None."""
    return (Chart.of(plan),) if stages is None else tuple(Chart.of(plan, stage) for stage in stages)


def _rules(plan: Plan) -> Mapping[int, str]:
    """Return the name of each rule: its label or line, and also its column if several rules are on the same line."""
    names = {number: rules(plan, [number]) for number in range(len(plan.heads))}
    several = Counter(names.values())
    spans = [rule.span for rule in plan.rules.rules]
    return {n: name if several[name] == 1 else f"{name}:{spans[n].column}" for n, name in names.items()}


def _later(first: int | None, other: int | None) -> int | None:
    return other if first is None else first if other is None else max(first, other)
