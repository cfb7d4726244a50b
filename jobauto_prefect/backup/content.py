"""A database in a backup, and its bytes in the file."""

import hashlib
import os
from dataclasses import dataclass
from typing import IO, Annotated

from pydantic import Field

from jobauto_prefect.errors import BackupDamaged

CHUNK = 2**20

Line = Annotated[str, Field(max_length=1000)]
Sum = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


@dataclass(frozen=True, slots=True)
class Member:
    """A database in a backup: its file in the archive, its size, and the program that wrote it."""

    name: Line
    kind: Annotated[str, Field(pattern="^(sqlite|postgresql)$")]
    size: Annotated[int, Field(ge=0, lt=2**63)]
    sha256: Sum
    tool: Annotated[str, Field(pattern=r"^(pg_dump [0-9]{1,3}|sqlite [0-9.]{1,20})$")]


class Content:
    """The bytes of a database in the file; the last ones require the right checksum."""

    def __init__(self, file: IO[bytes], at: int, member: Member) -> None:
        self._file, self._at, self._left, self._member = file, at, member.size, member
        self._digest = hashlib.sha256()

    def read(self, size: int = CHUNK) -> bytes:
        """Return the next bytes, empty at the end.

        Raises:
            BackupDamaged: it was altered.
        """
        chunk = os.pread(self._file.fileno(), min(size, self._left), self._at)
        self._at, self._left = self._at + len(chunk), self._left - len(chunk)
        self._digest.update(chunk)
        is_over = self._left == 0 or not chunk
        if is_over and (self._left or self._digest.hexdigest() != self._member.sha256):
            raise BackupDamaged(f"{self._member.name} was altered; take another copy of the file")
        return chunk
