"""Start of the watchdog in a bare interpreter (`python -I -S`), in about 50 ms."""

import sys
import types
from pathlib import Path

here = Path(__file__).resolve().parent
# The runtime package's own __init__ imports pydantic, which is not there and not needed.
runtime = types.ModuleType("jobauto_prefect.runtime")
runtime.__path__ = [str(here.parent)]
sys.modules[runtime.__name__] = runtime
sys.path.append(str(here.parents[2]))

from jobauto_prefect.runtime.watchdog.server import main  # noqa: E402 - the path comes first

main(int(sys.argv[1]))
