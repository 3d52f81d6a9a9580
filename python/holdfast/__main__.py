"""`python -m holdfast`: the command `holdfast`, which the wheel has."""

import os
import shutil
import sys
from importlib import metadata
from typing import Union


def find_command() -> Union[str, None]:
    """The program that was installed with this package; else the one of the system."""
    try:
        files = metadata.files("holdfast") or []
    except metadata.PackageNotFoundError:
        files = []
    for each in files:
        if each.name == "holdfast" and each.parent.name == "bin":
            found = os.path.realpath(str(each.locate()))
            if os.access(found, os.X_OK):
                return found
    return shutil.which("holdfast")


def main() -> None:
    """Becomes that program."""
    program = find_command()
    if program is None:
        sys.exit(
            "holdfast: this installation has no command: build the wheel where Debian's packages libcli11-dev and "
            "nlohmann-json3-dev are, or install the package holdfast"
        )
    os.execv(program, ["holdfast", *sys.argv[1:]])


if __name__ == "__main__":
    main()
