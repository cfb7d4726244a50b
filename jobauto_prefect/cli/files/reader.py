"""Reads files of records."""

import errno
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from jobauto_prefect.errors import Fault
from jobauto_prefect.facade.apply.documents import STANDARD_INPUT, Document, read_documents

SUFFIXES = (".json", ".yaml", ".yml")

MOST_BYTES = 256 * 1024 * 1024
"""Limit for all files together: a device never ends, and the service accepts less per request."""


def find_files(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield the files, and for folders all JSON and YAML files in them, in order."""
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        for below in sorted(path.rglob("*")):
            hidden = any(part.startswith(".") for part in below.relative_to(path).parts)
            if below.suffix in SUFFIXES and below.is_file() and not hidden:
                yield below


def read_content(path: Path, room: int = MOST_BYTES) -> bytes:
    """Return the content of a file; `-` is standard input.

    Raises:
        OSError: it can't be read, or has more than `room` bytes.
    """
    if str(path) == STANDARD_INPUT:
        content = sys.stdin.buffer.read(room + 1)
    else:
        with path.open("rb") as file:
            content = file.read(room + 1)
    if len(content) > room:
        most = f"at most {MOST_BYTES // 1024**2} MiB are read from all files together"
        raise OSError(errno.EFBIG, f"{most}; split the files")
    return content


def unreadable_fault(path: Path, error: OSError) -> Fault:
    """Return the error of a file that `read_content` could not read."""
    return Fault("", "file", f"can't be read: {error.strerror}", file=str(path))


def load_documents(path: Path) -> tuple[list[Document], list[Fault]]:
    """Return the records of a file, or why it can't be read; `-` is standard input."""
    try:
        return read_documents(str(path), read_content(path))
    except OSError as error:
        return [], [unreadable_fault(path, error)]


def read_texts(paths: Iterable[Path]) -> tuple[list[dict[str, str]], list[Fault]]:
    """Return names and texts of all files, for `POST /apply`, and the errors of unreadable ones."""
    texts: list[dict[str, str]] = []
    faults: list[Fault] = []
    room = MOST_BYTES
    for path in find_files(paths):
        try:
            content = read_content(path, room)
            room -= len(content)
            texts.append({"name": str(path), "text": content.decode()})
        except OSError as error:
            faults.append(unreadable_fault(path, error))
        except UnicodeDecodeError as error:
            message = f"is not UTF-8 text (from byte {error.start} on); apply takes JSON and YAML"
            faults.append(Fault("", "encoding", message, file=str(path)))
    return texts, faults
