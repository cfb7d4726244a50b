"""Reading files of records."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from jobauto_prefect.errors import Fault
from jobauto_prefect.facade.apply.documents import STANDARD_INPUT, Document, read_documents

SUFFIXES = (".json", ".yaml", ".yml")


def find_files(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield the files themselves, and of folders all JSON and YAML files in them, in order."""
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        for below in sorted(path.rglob("*")):
            hidden = any(part.startswith(".") for part in below.relative_to(path).parts)
            if below.suffix in SUFFIXES and below.is_file() and not hidden:
                yield below


def read_content(path: Path) -> bytes:
    """Return what is in a file; `-` is standard input. Raises OSError."""
    return sys.stdin.buffer.read() if str(path) == STANDARD_INPUT else path.read_bytes()


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
    """Return names and texts of all files, as `POST /apply` takes them; and what is no text."""
    texts: list[dict[str, str]] = []
    faults: list[Fault] = []
    for path in find_files(paths):
        try:
            texts.append({"name": str(path), "text": read_content(path).decode()})
        except OSError as error:
            faults.append(unreadable_fault(path, error))
        except UnicodeDecodeError as error:
            message = f"is no text in UTF-8 (from byte {error.start} on); apply takes JSON and YAML"
            faults.append(Fault("", "encoding", message, file=str(path)))
    return texts, faults
