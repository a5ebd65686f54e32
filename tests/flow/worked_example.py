#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The sensor that CONTRIBUTING shows is a sensor: it compiles as it stands there.

    worked_example.py SOURCE CC"""
import re
import subprocess
import sys

source, cc = sys.argv[1:3]
with open(source + "/CONTRIBUTING.md") as f:
    code = re.search(r"```c\n(/\* src/sensor/.*?)```", f.read(), re.S).group(1)
subprocess.run([cc, "-std=gnu17", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-Wmissing-field-initializers",
                "-fsyntax-only", "-I" + source + "/src", "-include", "base/banned.h", "-xc", "-"],
               input=code, text=True, check=True)
