"""What reading CSV loads: no pandas, which takes a second, though pyarrow would where it is installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

READS = """
import sys
from cep.connectors.files import replay
from cep.engine import Engine
event = "event reading(station: string, wind: float, gusts: int) TIME time."
engine = Engine.from_text(event + " a(S) <- reading(S, _, _).")
(batch,) = replay(["reading=in.csv"], engine.inputs)
for name in ("wind", "gusts"):
    values = batch.tables["reading"][name]
    print(values.to_list(), values.dtype, end=" ")
print("pandas" in sys.modules)
"""


def test_missing_numbers_do_not_load_pandas(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("time,station,wind,gusts\n1,EWR,2.5,\n2,JFK,,7\n")
    ran = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(Path(__file__).parent.parent)!r})\n{READS}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert ran.stdout == "[2.5, None] Float64 [None, 7] Int64 False\n", ran.stderr
