"""When a wheel is built, the page of `cep serve` gets what it needs of others, and kernels are compiled; both go in."""

from __future__ import annotations

import runpy
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Built(BuildHookInterface):  # type: ignore[type-arg]
    """An editable install has what `make page` and `make run` have made; without a network a wheel has no map, without
    numba no kernels, and says so."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        runpy.run_path(str(Path(self.root) / "connectors" / "serving" / "vendor.py"))["main"]()
        if find_spec("numba") is None:
            print("the wheel has no compiled kernels: they need numba where it is built", file=sys.stderr)
            return
        subprocess.run([sys.executable, "build_kernels.py", "--all"], cwd=self.root, check=True)
        build_data["artifacts"].append("cep/compiled/**")
        build_data["pure_python"] = False
        build_data["infer_tag"] = True  # of this minor version of Python, and this system
