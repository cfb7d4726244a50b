"""Work of unpredictable cost, run in a process with limits."""

import os
import pickle
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import TypeVar, cast

from jobauto_prefect.errors import Contended

CPU_SECONDS = 5
WALL_SECONDS = 30.0
"""Real time for the CPU seconds on a busy machine."""

MEMORY_BYTES = 1024**3
ANSWER_BYTES = 16 * 1024 * 1024
AT_ONCE = 2
WAIT_SECONDS = 2.0
"""How long to wait for a free process: waiting threads serve nobody."""

INHERITED = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH")
"""The only variables that the process inherits."""

OUT_OF_MEMORY, TOO_LONG = 3, 4  # exit codes

_free = threading.BoundedSemaphore(AT_ONCE)

T = TypeVar("T")


class TooExpensive(Exception):
    """The work exceeds a limit; the message names it."""


def run_bounded(work: Callable[..., T], *arguments: object) -> T:
    """Return the function's result, or raise its error; all of it must be picklable.

    Do not call it inside a transaction: it may take seconds.

    Raises:
        TooExpensive: it takes too much time or memory, or its result is too large.
        Contended: too many others are running; ask again.
    """
    if not _free.acquire(timeout=WAIT_SECONDS):
        raise Contended("too many values are being read at the moment; try again")
    try:
        ended = subprocess.run(
            [sys.executable, "-P", "-m", __name__],
            input=pickle.dumps((work, arguments)),
            capture_output=True,
            check=False,
            timeout=WALL_SECONDS,
            env={name: os.environ[name] for name in INHERITED if name in os.environ},
        )
    except subprocess.TimeoutExpired:
        raise TooExpensive(f"it takes more than {WALL_SECONDS:.0f} s") from None
    finally:
        _free.release()
    if ended.returncode != 0:
        raise TooExpensive(_reason(ended.returncode))
    returned, outcome = pickle.loads(ended.stdout)  # noqa: S301 - of our own program
    if not returned:
        raise outcome
    return cast("T", outcome)


def _reason(code: int) -> str:
    if code in (-signal.SIGXCPU, -signal.SIGKILL):
        return f"it takes more than {CPU_SECONDS} s of CPU time"
    if code == TOO_LONG:
        return f"its result has more than {ANSWER_BYTES} bytes"
    return f"it needs more than {MEMORY_BYTES // 1024**2} MB of memory"


def main() -> int:
    """Do the work read from standard input, and write its result to standard output."""
    os.nice(10)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    try:
        work, arguments = pickle.load(sys.stdin.buffer)  # noqa: S301 - of our own program
        try:
            outcome = True, work(*arguments)
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - it is raised where the work was asked for
            outcome = False, error
        answer = pickle.dumps(outcome)
    except MemoryError:
        return OUT_OF_MEMORY
    if len(answer) > ANSWER_BYTES:
        return TOO_LONG
    sys.stdout.buffer.write(answer)
    return 0


if __name__ == "__main__":
    sys.exit(main())
