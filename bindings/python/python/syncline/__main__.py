"""The command: ``python -m syncline`` is ``syncline``."""

import os
import shutil
import sys
import sysconfig


def find():
    """Return the path of the command, which the wheel installs beside the interpreter's scripts."""
    schemes = [None, *(name for name in sysconfig.get_scheme_names() if "user" in name)]
    for scheme in schemes:
        folder = sysconfig.get_path("scripts", scheme) if scheme else sysconfig.get_path("scripts")
        path = os.path.join(folder or "", "syncline")
        if os.access(path, os.X_OK):
            return path
    return shutil.which("syncline")


def main():
    """Run the command in place of this process."""
    path = find()
    if path is None:
        sys.exit("syncline: the command is not installed: `make wheel` puts it into the package")
    sys.stdout.flush()
    os.execv(path, ["syncline", *sys.argv[1:]])


if __name__ == "__main__":
    main()
