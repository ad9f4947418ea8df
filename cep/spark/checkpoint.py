"""What a checkpoint is of: the program and the options that its state depends on, kept beside Spark's own files."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from difflib import unified_diff
from pathlib import Path

from cep.errors import CepError
from cep.spark.lock import NAME as LOCK
from cep.spark.migration import Laid, Migration, migrated

NAME = "semcep.json"


@dataclass(frozen=True, slots=True)
class Kept:
    """`program`: the fingerprint of text, policy, facts and knowledge together; `facts`, `knowledge` and its `updates`:
    those of each. `output`, its `format` and the events that go there (`only`): Spark's sink keeps there how far it
    is. `laid`: where its state is. `earlier`: programs whose state was carried over, (fingerprint, names of goals),
    the oldest first."""

    program: str
    text: str
    policy: str | None
    facts: dict[str, str]
    knowledge: str | None
    updates: str | None
    buckets: int
    output: str
    format: str
    only: list[str]
    laid: Laid
    earlier: list[tuple[str, list[str]]] = field(default_factory=list, compare=False)

    @classmethod
    def read(cls, file: Path) -> Kept:
        """The one of a file. CepError: it is damaged."""
        try:
            found = json.loads(file.read_text(encoding="utf-8"))
            earlier = [(str(program), list(goals)) for program, goals in found.pop("earlier")]
            return cls(**{**found, "laid": Laid(**found["laid"])}, earlier=earlier)
        except (ValueError, TypeError, KeyError) as error:
            raise CepError(f"--checkpoint: {file} is damaged", hint="another folder", code="checkpoint") from error

    def write(self, file: Path) -> None:
        """Put it there, whole or not at all."""
        made = file.with_name(f".{file.name}")
        made.write_text(json.dumps(asdict(self), ensure_ascii=False), encoding="utf-8")
        made.replace(file)

    @property
    def states(self) -> dict[str, frozenset[str]]:
        """The earlier programs of which states may be met, with the goals that have been there ever since."""
        found: dict[str, frozenset[str]] = {}
        since = frozenset(self.laid.goals)
        for program, goals in reversed(self.earlier):
            since &= frozenset(goals)
            found.setdefault(program, since)
        return {program: goals for program, goals in found.items() if program != self.program}


def claim(folder: Path, now: Kept, migrate: bool = False) -> tuple[Kept, Migration | None]:
    """Make the checkpoint this program's, or see that it is; what it is then, and what was carried over if anything
    was. CepError: it is another's; says what differs, or with `migrate` what of it cannot be carried over."""
    file = folder / NAME
    if file.exists():
        before = Kept.read(file)
        if before == now:
            return before, None
        if not migrate:
            raise CepError(
                f"--checkpoint: {folder} is of another program\n" + difference(before, now),
                hint="go on with the program it was made with, start anew with another folder, or add `--migrate`",
                code="checkpoint",
            )
        moved = migrated(before.laid, now.laid, [*fixed(before, now), *written(before, now)])
        earlier = before.earlier
        if before.program != now.program:
            earlier = [*earlier, (before.program, sorted(before.laid.goals))]
        kept = replace(now, earlier=earlier)
        kept.write(file)
        return kept, moved
    if folder.exists() and any(one.name not in (f".{NAME}", LOCK) for one in folder.iterdir()):  # of a killed run
        raise CepError(
            f"--checkpoint: {folder} is not empty, and no checkpoint of this command",
            hint="name an empty folder, or one that is not there yet",
            code="checkpoint",
        )
    output = Path(now.output)
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise CepError(
            f"--output: {output} is there already, and the checkpoint is new",
            hint="name an empty folder, or one that is not there yet",
            code="checkpoint",
        )
    folder.mkdir(parents=True, exist_ok=True)
    now.write(file)
    return now, None


def ended(folder: Path) -> bool:
    """Whether the end of the input was told, so that what comes now would be late."""
    done = [int(file.name) for file in (folder / "spark" / "commits").glob("[0-9]*")]
    if not done:
        return False
    told = (folder / "spark" / "offsets" / str(max(done))).read_text(encoding="utf-8").splitlines()[-1]
    return int(json.loads(told)["end"]) > 1


def difference(before: Kept, now: Kept) -> str:
    """What differs, line by line."""
    told = list(
        unified_diff(before.text.splitlines(), now.text.splitlines(), "the checkpoint's", "now", lineterm="", n=1)
    )
    if before.policy != now.policy:
        told.append(f"policy: {before.policy or 'the default'} before, {now.policy or 'the default'} now")
    for name in sorted(before.facts.keys() | now.facts.keys()):
        if before.facts.get(name) != now.facts.get(name):
            told.append(f"facts {name}: other rows")
    if before.knowledge != now.knowledge:
        told.append("knowledge: another one")
    if before.updates != now.updates:
        told.append("updates of knowledge: others")
    told += fixed(before, now)
    if before.only != now.only:
        told.append(f"events written: {', '.join(before.only)} before, {', '.join(now.only)} now")
    return "\n".join(told or ["it was made by another version"])


def fixed(before: Kept, now: Kept) -> list[str]:
    """What of the options differs, and goes with the checkpoint for good."""
    return [
        f"{name}: {getattr(before, name)} before, {getattr(now, name)} now"
        for name in ("buckets", "output", "format")
        if getattr(before, name) != getattr(now, name)
    ]


def written(before: Kept, now: Kept) -> list[str]:
    """Why what is written now does not fit what is in the folder, or the changes of the knowledge those in the
    state."""
    told = []
    if now.format == "parquet" and before.only != now.only and 1 in (len(before.only), len(now.only)):
        told.append(f"the files hold {_listed(before.only)}, and would hold {_listed(now.only)}: see `--only`")
    if before.knowledge == now.knowledge and before.updates not in (None, now.updates):
        told.append("updates of knowledge: others, and the state has those of before")
    return told


def _listed(events: list[str]) -> str:
    return f"`{events[0]}` alone" if len(events) == 1 else ", ".join(f"`{event}`" for event in events)
