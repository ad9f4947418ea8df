"""Nothing that is read back from a disk or a store is unpickled: whoever could write there would run code."""

from __future__ import annotations

import ast
import pickle
from dataclasses import replace
from pathlib import Path
from zlib import crc32

from cep.spark.handed_blocks import FilePart, HandedBlocks
from cep.spark.shuffle_blocks import ShuffleBlock
from cep.spark.tasks import BucketInput, TaskInput

ROOT = Path(__file__).parent.parent
PICKLING = frozenset(("pickle", "_pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve", "multiprocessing"))
RUNNING = frozenset(("eval", "exec", "compile", "__import__"))
MESSAGES = {
    "cep/backtest/passes.py": "points and what they found, through pipes to the processes of one backtest",
    "cep/core/kernel_files.py": "numba's cache, in a folder that its owner alone may write (`cep.core.kernels`)",
    "cep/spark/handed_blocks.py": "blocks that Spark has brought from a task",
    "cep/spark/handover.py": "blocks that Spark brings from a task",
    "cep/spark/micro_batch.py": "the input of a task, that Spark broadcasts",
    "cep/spark/program.py": "the knowledge, which Spark has brought to a worker",
    "cep/spark/rules.py": "the knowledge, to be sent to workers",
    "cep/spark/shuffled_batch.py": "blocks that Spark brings from a task to another",
    "cep/spark/worker.py": "programs and the work of a query, that Spark broadcasts or has in the plan of a query",
    "cep/workers/messages.py": "messages between a process and its workers, over a pair of sockets",
    "connectors/rdf/query_process.py": "the answer of a fork, through a pipe",
    "connectors/rdf/store_process.py": "messages to the process of the store, over a pair of sockets",
    "connectors/rdf/store_worker.py": "messages to the process that began it, over a pair of sockets",
    "demos/side_process.py": "messages to a process of the demo, through a pipe",
}
"""The modules that may pickle, and what: messages between processes of one run."""


def found_in(path: Path) -> set[str]:
    """The names in a module by which something may be unpickled, or run."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {name.name.partition(".")[0] for name in node.names} & PICKLING
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found |= {str(node.module).partition(".")[0]} & PICKLING
        elif isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else ""
            attribute = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            found |= {name} & RUNNING | {attribute} & {"read_pickle", "import_module", "pickleFile"}
            if any(each.arg == "allow_pickle" and ast.unparse(each.value) != "False" for each in node.keywords):
                found.add("allow_pickle")
            if attribute == "load" and ast.unparse(node.func) in ("np.load", "numpy.load"):
                found |= set() if any(each.arg == "allow_pickle" for each in node.keywords) else {"np.load"}
    return found


def test_only_messages_between_processes_are_pickled() -> None:
    paths = [path for package in ("cep", "connectors", "demos", "knowledge") for path in (ROOT / package).rglob("*.py")]
    found = {str(path.relative_to(ROOT)): names for path in paths if (names := found_in(path))}
    assert {name: found[name] for name in found.keys() - MESSAGES.keys()} == {}
    assert MESSAGES.keys() <= found.keys(), "they still do"


def test_what_a_task_is_to_do_comes_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"rows in a file")
    blocks = [
        ShuffleBlock(0, 2, "e", 7, None, b"in a"),
        ShuffleBlock(1, 0, "e", 7, "f", b"rows"),
        ShuffleBlock(1, 2, "Kälte", 1 << 40),
    ]
    stored = HandedBlocks.of(
        [replace(blocks[0], rows=b""), *blocks[1:]], [FilePart(str(tmp_path / "a"), 5, 4, crc32(b"in a"))]
    )
    for world, some in ((blocks, stored), (stored, ()), ((), blocks[:1])):
        asked = TaskInput(4, 7, 1, 99, {0: BucketInput(5, some), 3: BucketInput(0, ())}, world, True)
        found: TaskInput = pickle.loads(pickle.dumps(asked))
        assert [*found.world] == [*world] in ([], blocks)
        assert {bucket: (one.version, [*one.blocks]) for bucket, one in found.buckets.items()} == {
            bucket: (one.version, [*one.blocks]) for bucket, one in asked.buckets.items()
        }
        assert (found.number, found.batch, found.stage, found.watermark, found.writes) == (4, 7, 1, 99, True)
