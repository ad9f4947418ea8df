"""The placement of stages: which workers run a stage's partitions, and how rows are distributed to them."""

from __future__ import annotations

from dataclasses import dataclass

from cep.plan.partition import Stage, dealt_by_keys, partition
from cep.plan.plan import Plan
from cep.runtime.options import EngineOptions


@dataclass(frozen=True, slots=True)
class Placement:
    """The workers that run each stage.

    A stage that has a key has one partition in each worker. Any other stage runs in a single worker.
    """

    stages: tuple[Stage, ...]
    workers: int

    def places(self, stage: Stage) -> range:
        """Return the workers that run the partitions of a stage, in the order of the partitions."""
        if stage.keyed:
            return range(self.workers)
        only = (stage.number - 1) % self.workers
        return range(only, only + 1)

    def stages_of(self, worker: int) -> tuple[int, ...]:
        """Return the numbers of the stages that have a partition in a worker."""
        return tuple(stage.number for stage in self.stages if worker in self.places(stage))


def changing(plan: Plan, options: EngineOptions) -> bool:
    """Return True if records may withdraw or replace earlier records."""
    keyed = any(plan.schemas[name].key is not None for name in plan.inputs)
    return options.revise is not None or (keyed and not options.corrected)


def dealt_stages(plan: Plan, options: EngineOptions) -> tuple[Stage, ...]:
    """Return the stages of a program. Each stage says by which keys its input rows are distributed to workers."""
    stages = partition(plan)
    return dealt_by_keys(plan, stages) if changing(plan, options) else stages
