"""Where this repository and its command are."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
"""The repository's top."""

JOBAUTO = str(Path(sys.executable).parent / "jobauto")
"""The command, as it is installed beside this Python."""
