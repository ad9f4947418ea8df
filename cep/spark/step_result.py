"""The result of a step of a bucket."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cep.spark.shuffle_blocks import ShuffleBlock, WorldRows


@dataclass(frozen=True, slots=True)
class Stepped:
    """The `version` of its state; when it is to be stepped again though nothing comes (`call`, milliseconds of the
    watermark; None: it sleeps); the `blocks` for later stages and the driver; and what goes to the sink (`world`)."""

    version: int
    call: int | None
    blocks: Sequence[ShuffleBlock]
    world: Sequence[WorldRows]
