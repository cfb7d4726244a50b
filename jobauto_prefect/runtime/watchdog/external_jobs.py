"""Jobs that run elsewhere, such as in containers, and how the watchdog ends them.

The worker registers such a job before its start, so that it can always be ended.
"""

import subprocess
import time

from jobauto_prefect.runtime.watchdog.framing import Message
from jobauto_prefect.runtime.watchdog.native_jobs import MARKER, current_time

FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 15.0
PATIENCE_SECONDS = 600.0
NOBODY = -1


class ExternalJobGuard:
    """One job. Its command, `undo`, returns 0 once nothing of it runs nor can be started.

    `done` is None while that is open; False: it could not be ended within some minutes, and is
    left to the worker's successor.
    """

    started = 2**63  # like a job that began last: no process of another one counts as its own

    def __init__(self, message: Message) -> None:
        self.message = message
        self.id: int = message["job"]
        self.marker = f"{MARKER}={message['directory']}"
        self.started_at = current_time(message)
        self.pid = NOBODY  # of the command
        self.done: bool | None = None
        self.due: float | None = None  # monotonic seconds
        self._pause = FIRST_PAUSE_SECONDS
        self._until = 0.0

    def end(self) -> None:
        """Run the command, again and again until it succeeds."""
        self.due = time.monotonic()
        self._until = self.due + PATIENCE_SECONDS

    def run_if_due(self) -> None:
        """Start the command unless it runs."""
        if self.due is None or time.monotonic() < self.due:
            return
        self.due = None
        try:
            process = subprocess.Popen(
                self.message["undo"],
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError:
            self._try_later()
            return
        process.returncode = 0  # the watchdog reaps it; Popen must not
        self.pid = process.pid

    def exited(self, exit_code: int) -> None:
        """Settle that the command ended: done, or tried again later."""
        self.pid = NOBODY
        if exit_code == 0:
            self.done = True
        else:
            self._try_later()

    def _try_later(self) -> None:
        moment = time.monotonic()
        if moment >= self._until:
            self.done = False
            return
        self.due = moment + self._pause
        self._pause = min(2 * self._pause, LONGEST_PAUSE_SECONDS)
