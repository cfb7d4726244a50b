"""Starts the watchdog in a bare interpreter (`python -I -S`), in about 50 ms."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[3]))

from jobauto_prefect.runtime.watchdog.server import main

main(int(sys.argv[1]))
