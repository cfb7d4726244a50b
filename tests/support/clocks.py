"""A clock of some processes that can be set ahead and back while they run."""

import shutil
import struct
import subprocess
from pathlib import Path

from tests.support.container_engines import require
from tests.support.paths import ROOT

COMPILER = shutil.which("cc")


class Clock:
    """The time of day of the processes that are started with its `variables`."""

    def __init__(self, folder: Path) -> None:
        require(COMPILER, "a C compiler")
        self._ahead, library = folder / "ahead", folder / "clock.so"
        self.set_ahead(0)
        source = ROOT / "tests" / "support" / "clock.c"
        command = [str(COMPILER), "-shared", "-fPIC", "-O2", "-o", str(library), str(source)]
        subprocess.run(command, check=True)
        self.variables = {"LD_PRELOAD": str(library), "CLOCK_AHEAD": str(self._ahead)}

    def set_ahead(self, seconds: int) -> None:
        """From now on it is ahead by so many seconds; the monotonic clock stays true."""
        with self._ahead.open("r+b" if self._ahead.exists() else "wb") as file:
            file.write(struct.pack("q", seconds))
