"""What a checkpoint is of: the program and the options that its state depends on, kept beside Spark's own files."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from difflib import unified_diff
from pathlib import Path

from cep.errors import CepError

NAME = "semcep.json"


@dataclass(frozen=True, slots=True)
class Kept:
    """`program`: the fingerprint of text, policy, facts and knowledge together; `facts`, `knowledge` and its `updates`:
    those of each. `output`, its `format` and the events that go there (`only`): Spark's sink keeps there how far it
    is."""

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


def claim(folder: Path, now: Kept) -> None:
    """Make the checkpoint this program's, or see that it is. CepError: it is another's; says what differs."""
    file = folder / NAME
    if file.exists():
        try:
            before = Kept(**json.loads(file.read_text(encoding="utf-8")))
        except (ValueError, TypeError) as error:
            raise CepError(f"--checkpoint: {file} is damaged", hint="another folder", code="checkpoint") from error
        if before != now:
            raise CepError(
                f"--checkpoint: {folder} is of another program\n" + difference(before, now),
                hint="go on with the program it was made with, or start anew with another folder",
                code="checkpoint",
            )
        return
    if folder.exists() and any(folder.iterdir()):
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
    made = folder / f".{NAME}"
    made.write_text(json.dumps(asdict(now), ensure_ascii=False), encoding="utf-8")
    made.replace(file)


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
    for name in ("buckets", "output", "format"):
        if getattr(before, name) != getattr(now, name):
            told.append(f"{name}: {getattr(before, name)} before, {getattr(now, name)} now")
    if before.only != now.only:
        told.append(f"events written: {', '.join(before.only)} before, {', '.join(now.only)} now")
    return "\n".join(told or ["it was made by another version"])
