"""The start of one job's process."""

import errno
import os
import subprocess
from collections.abc import Callable
from typing import NamedTuple

from jobauto_prefect.runtime.watchdog.framing import Message

NOT_FOUND, NOT_EXECUTABLE = 127, 126  # what a POSIX shell returns
UNABLE = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)
REASONS = {
    errno.EACCES: "may not be executed",
    errno.ENOEXEC: "is not a program this system can run (a script needs a first line with #!)",
    errno.E2BIG: "can't be started: arguments and environment together are too long",
    errno.EAGAIN: "can't be started: too many processes",
    errno.ENOMEM: "can't be started: not enough memory",
}


class NotStarted(NamedTuple):
    """Why there is no process. `unable`: there could be none of any job just now."""

    exit_code: int
    message: str
    unable: bool = False


def spawn(
    message: Message, outputs: tuple[int, int], before_exec: Callable[[], None]
) -> subprocess.Popen[bytes] | NotStarted:
    """Start `argv` in a session of its own, with nothing but `environment`.

    Keys of `message`: argv, environment, folder, user (None, or uid, gid, groups).
    `outputs` are the descriptors of stdout and stderr.
    """
    user = message["user"] or {}
    argv = [_bytes(word) for word in message["argv"]]
    try:
        return subprocess.Popen(
            argv,
            env={_bytes(name): _bytes(text) for name, text in message["environment"].items()},
            cwd=_bytes(message["folder"]),
            stdin=subprocess.DEVNULL,
            stdout=outputs[0],
            stderr=outputs[1],
            start_new_session=True,
            user=user.get("uid"),
            group=user.get("gid"),
            extra_groups=user.get("groups"),
            preexec_fn=before_exec,  # noqa: PLW1509 - this process has one thread
        )
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return _reason(error, argv[0], message)


def _bytes(text: str) -> bytes:
    """Return UTF-8 whatever the locale says."""
    return text.encode("utf-8", "surrogateescape")


def _reason(error: Exception, executable: bytes, message: Message) -> NotStarted:
    name = message["argv"][0]
    number = error.errno if isinstance(error, OSError) else None
    if isinstance(error, OSError) and error.filename == _bytes(message["folder"]):
        return NotStarted(NOT_EXECUTABLE, f"the job's directory can't be entered: {error.strerror}")
    if number in (errno.ENOENT, errno.ENOTDIR):
        return NotStarted(NOT_FOUND, _not_found(name, executable, message))
    reason = REASONS.get(number or 0) or f"can't be started: {_words(error)}"
    return NotStarted(NOT_EXECUTABLE, f"{name} {reason}", number in UNABLE)


def _not_found(name: str, executable: bytes, message: Message) -> str:
    if b"/" in executable:
        # It is relative to where the process would run.
        place = os.path.join(_bytes(message["folder"]), executable)  # noqa: PTH118 - bytes
        if os.path.exists(place):  # noqa: PTH110
            return f"{name} can't be started: the program named in its first line is not there"
        return f"{name} is not there"
    return f"{name} is not found on PATH ({message['environment'].get('PATH', '')})"


def _words(error: Exception) -> str:
    return error.strerror or "" if isinstance(error, OSError) else type(error).__name__
