"""Run by a watchdog to end a container of a worker that is gone.

    python -m jobauto_prefect.runtime.executors.containers.undo URL CONTAINER SECONDS

Exit code 0: the container no longer exists.
"""

import sys

from jobauto_prefect.runtime.executors.containers.engine import connect, end_container


def main(url: str, container: str, seconds: str) -> None:
    """End the container; an exception makes exit code 1, and the watchdog tries again."""
    end_container(connect(url), container, float(seconds))


if __name__ == "__main__":
    main(*sys.argv[1:])
