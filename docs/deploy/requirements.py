"""Print the requirements of semcep with some extras, one per line, from pyproject.toml in the same folder."""

import sys
import tomllib
from pathlib import Path

project = tomllib.loads(Path(__file__).with_name("pyproject.toml").read_text())["project"]
extras = [project["optional-dependencies"][name] for name in "".join(sys.argv[1:2]).split(",") if name]
print(*project["dependencies"], *(one for extra in extras for one in extra), sep="\n")
