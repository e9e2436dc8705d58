"""Prints every requirement that pyproject.toml names: build, run, test and lint, one a line."""

import sys
from pathlib import Path

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10 has no tomllib; pip carries the same parser
    from pip._vendor import tomli as tomllib

project = tomllib.loads(Path(sys.argv[1]).read_text())
groups = [
    project["build-system"]["requires"],
    project["project"]["dependencies"],
    *project["project"]["optional-dependencies"].values(),
]
print("\n".join(sorted({requirement for group in groups for requirement in group})))
