"""Messages between worker and watchdog: length-prefixed JSON over a Unix socket."""

import json
import struct
from typing import Any

Message = dict[str, Any]
LENGTH = struct.Struct("!I")


def pack(message: Message) -> bytes:
    body = json.dumps(message).encode()
    return LENGTH.pack(len(body)) + body


class Inbox:
    """Assembles messages from incoming bytes."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[Message]:
        """Return the messages that this chunk completes, in order."""
        self._buffer += data
        messages = []
        while (end := self._end()) <= len(self._buffer):
            messages.append(json.loads(self._buffer[LENGTH.size : end]))
            del self._buffer[:end]
        return messages

    def _end(self) -> int:
        """Return where the first message ends; if unknown, a place beyond what has arrived."""
        if len(self._buffer) < LENGTH.size:
            return LENGTH.size
        length: int = LENGTH.unpack_from(self._buffer)[0]
        return LENGTH.size + length
