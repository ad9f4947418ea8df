"""A Spark checkpoint with its input and output, moved to another folder: files of ours and of Spark's name theirs by
absolute paths, and ours are sealed. Each is read as the version that wrote it sealed it, and sealed anew."""

from __future__ import annotations

from pathlib import Path

from cep.core import checksum
from cep.spark.disk import CHECKPOINT, FILES, SINK_LOG
from cep.spark.sink.commit_log import NOTE, RUN


def relocate(root: Path, before: str, after: str) -> None:
    """What is in a folder (`state`, the checkpoint; `out`, the output) was written as if it were at `before`, and is to
    be at `after`."""

    def moved(text: bytes) -> bytes:
        return text.replace(before.encode(), after.encode())

    def lines(path: Path, of: bytes = b"") -> None:
        read, written = checksum.Chain(of), checksum.Chain(of)
        found = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join(written.add(moved(read.read(line))) for line in found))

    lines(root / "state" / CHECKPOINT, CHECKPOINT.encode())
    lines(root / "state" / FILES)
    log = root / "out" / SINK_LOG
    run = bytes(checksum.content((log / RUN).read_bytes()))
    for path in log.iterdir():
        of = run + path.name.encode()
        if path.name.startswith(NOTE):
            path.write_bytes(checksum.seal(moved(bytes(checksum.content(path.read_bytes(), of))), of=of))
        elif path.name.isdecimal() and b"{" in (data := path.read_bytes()):
            path.write_bytes(checksum.Chain(of).add(moved(checksum.Chain(of).read(data))))
    for path in (root / "state" / "spark" / "state").glob("*/_metadata/v2/*"):  # Spark's own, where its schemas are
        path.write_bytes(moved(path.read_bytes()))
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
