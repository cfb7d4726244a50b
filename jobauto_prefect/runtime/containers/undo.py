"""What a watchdog runs to end a container of a worker that is gone.

    python -m jobauto_prefect.runtime.containers.undo URL CONTAINER SECONDS

Exit code 0: there is no such container any more.
"""

import sys

from jobauto_prefect.runtime.containers.engine import connect, end


def main(url: str, container: str, seconds: str) -> None:
    """End it; an exception is exit code 1, and the watchdog tries again."""
    end(connect(url), container, float(seconds))


if __name__ == "__main__":
    main(*sys.argv[1:])
