# SPDX-License-Identifier: Apache-2.0
"""A small file system of a test's own."""
import os
import subprocess
import sys

SKIP = 77


class Disk:
    """A small file system; its size can be changed."""

    def __init__(self, path, size):
        self.path = path
        os.mkdir(path)
        made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "gridline-test", path],
                              stderr=subprocess.PIPE)
        if made.returncode:
            os.rmdir(path)
            print("skipped: mount is not permitted here: " + made.stderr.decode().strip())
            sys.exit(SKIP)

    def resize(self, size):
        subprocess.run(["mount", "-o", f"remount,size={size}", self.path], check=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run(["umount", "-l", self.path], check=False)
