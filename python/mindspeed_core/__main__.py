"""``python -m mindspeed_core --cmake-dir`` prints where ``find_package(MindSpeed)`` looks."""

import argparse
import sys
from importlib.util import find_spec
from pathlib import Path


def cmake_folder() -> Path:
    """The installed folder that holds MindSpeedConfig.cmake.

    Raises:
        FileNotFoundError: the C++ part is not installed.
    """
    # The compiled module and the CMake files are installed side by side, maybe apart from this file.
    module = find_spec("mindspeed_core._C")
    if module is None or module.origin is None:
        raise FileNotFoundError("mindspeed_core._C is not installed; run make build")
    folder = Path(module.origin).parent / "cmake"
    if not (folder / "MindSpeedConfig.cmake").is_file():
        raise FileNotFoundError(f"{folder}/MindSpeedConfig.cmake is not there; run make build")
    return folder


def main() -> int:
    """Entry of ``python -m mindspeed_core``."""
    parser = argparse.ArgumentParser(prog="python -m mindspeed_core", description=__doc__)
    parser.add_argument("--cmake-dir", action="store_true", required=True, help="print the folder")
    parser.parse_args()
    try:
        print(cmake_folder())
    except FileNotFoundError as error:
        print(f"mindspeed: error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
