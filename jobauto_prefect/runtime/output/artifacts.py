"""The files a job leaves, taken only from its own directory.

Every folder on the path to a file is opened from its parent and never through a link, so nothing a
job puts there, even while it is being read, can lead elsewhere.
"""

import contextlib
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from jobauto_prefect.definitions import PatternMatcher
from jobauto_prefect.definitions.storable import read_exact, storable_text, write_exact
from jobauto_prefect.runtime.output.masking import Masker
from jobauto_prefect.runtime.protocol import LONGEST_PATH, TEMPORARY, ArtifactPattern
from jobauto_prefect.wording import pluralize

RESULT_NAME = "RESULT_FILE"
MOST_FILES = 10_000  # that regular expressions are matched against
MOST_ARTIFACTS = 1000
DEEPEST = 32  # folders
MOST_NAMED = 5  # of the files left out together
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a FIFO must not block us


@dataclass(frozen=True, slots=True)
class Artifact:
    """A file to keep. `path` is relative to the job's directory, `type` is what was declared."""

    path: str
    name: str
    type: str
    content: bytes = field(repr=False)


class Collector:
    """Finds and reads the artifacts of one job.

    `owner` is the uid the job ran as: another owner's file is a hard link from elsewhere.
    `limit_bytes` is for all artifacts together. `notices` says what was left out and why; it grows
    while artifacts are read.
    """

    def __init__(self, directory: str, owner: int, limit_bytes: int) -> None:
        self._directory = directory
        self._owner = owner
        self._limit = self._left = limit_bytes
        self._files: list[str] | None = None
        self._names = [directory]
        self._matcher = PatternMatcher()
        self.notices: list[str] = []

    def known_as(self, directory: str) -> None:
        """Add another path by which the job knew its directory."""
        self._names.append(directory)

    def artifacts(
        self, result_file: str | None, patterns: Sequence[ArtifactPattern]
    ) -> Iterator[Artifact]:
        """Yield RESULT_FILE first if no pattern names it, then files in the order of the patterns.

        Each file is yielded once. Unreadable files raise nothing.
        """
        wanted = [pattern for pattern in patterns if pattern.path]
        if result_file and result_file not in {pattern.path for pattern in patterns}:
            of_result = re.escape(result_file)
            wanted.insert(
                0,
                ArtifactPattern(name=RESULT_NAME, path=result_file, pattern=of_result, type="file"),
            )
        seen: dict[str, None] = {}
        for pattern in wanted:
            for path in self._matching(pattern):
                if path in seen:
                    continue
                seen[path] = None
                content = self._content(path) if len(seen) <= MOST_ARTIFACTS else None
                if content is not None:
                    shown = _printable(path)
                    yield Artifact(shown, pattern.name or shown, pattern.type, content)
        if beyond := list(seen)[MOST_ARTIFACTS:]:
            named = ", ".join([_printable(path) for path in beyond[:MOST_NAMED]])
            more = ", …" if len(beyond) > MOST_NAMED else ""
            self.notices.append(
                f"not kept: {pluralize(len(beyond), 'file')} beyond the {MOST_ARTIFACTS} artifacts"
                f" that a job may have: {named}{more}"
            )

    # which files

    def _matching(self, pattern: ArtifactPattern) -> list[str]:
        path = self._relative(pattern.path)
        if path is None:
            self._leave_out(pattern.path, "is outside of the job's directory")
            return []
        kind = self._kind(path)
        if kind == stat.S_IFREG:
            return [path]
        if kind == stat.S_IFDIR:
            return sorted(self._below(path))
        if kind is not None:
            self._leave_out(path, "is not a regular file")
            return []
        try:
            if self._files is None:
                self._files = sorted(self._below("."))
            return list(self._matcher.matching(pattern.pattern or pattern.path, self._files))
        except TimeoutError:
            self._leave_out(pattern.path, "takes too long as a regular expression")
            return []

    def _relative(self, path: str) -> str | None:
        """Return the path relative to the directory, or None if it leads out of it."""
        pure = PurePosixPath(path)
        if pure.is_absolute():
            above = next((name for name in self._names if pure.is_relative_to(name)), None)
            if above is None:
                return None
            pure = pure.relative_to(above)
        return None if ".." in pure.parts else str(pure)

    def _kind(self, path: str) -> int | None:
        """Return the file type (`stat.S_IFMT`), or None if there is no file."""
        if path == ".":
            return stat.S_IFDIR
        try:
            with self._folder(path) as (folder, name):
                status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except (OSError, ValueError):
            return None
        return stat.S_IFMT(status.st_mode)

    def _below(self, top: str) -> Iterator[str]:
        """Yield the regular files in a folder and its subfolders, without temporary ones."""
        count = 0
        waiting = [(top, 0)]
        while waiting:
            folder, depth = waiting.pop()
            if count >= MOST_FILES:
                self._leave_out(folder, f"comes after {MOST_FILES} files, and was not searched")
                return
            for path, is_folder in self._entries(folder):
                if not is_folder:
                    count += 1
                    yield path
                elif path == TEMPORARY:
                    continue
                elif depth < DEEPEST:
                    waiting.append((path, depth + 1))
                else:
                    self._leave_out(path, f"is more than {DEEPEST} folders deep")

    def _entries(self, folder: str) -> list[tuple[str, bool]]:
        """Return the regular files and folders in a folder by path; True means a folder."""
        prefix = "" if folder == "." else f"{folder}/"
        try:
            with self._folder(f"{prefix}.") as (descriptor, _), os.scandir(descriptor) as entries:
                return [
                    (prefix + entry.name, entry.is_dir(follow_symlinks=False))
                    for entry in entries
                    if entry.is_dir(follow_symlinks=False) or entry.is_file(follow_symlinks=False)
                ]
        except OSError as error:
            self._leave_out(folder, f"can't be read ({error.strerror})")
            return []

    # what is in them

    def _content(self, path: str) -> bytes | None:
        if len(_printable(path).encode()) > LONGEST_PATH:
            self._leave_out(f"{path[:100]}…", f"has a path of more than {LONGEST_PATH} bytes")
            return None
        try:
            with (
                self._folder(path) as (folder, name),
                open(os.open(name, FILE, dir_fd=folder), "rb") as file,  # noqa: PTH123
            ):
                status = os.fstat(file.fileno())
                reason = self._reason_against(status)
                content = b"" if reason else file.read(self._left + 1)
        except OSError as error:
            self._leave_out(path, f"can't be read ({error.strerror})")
            return None
        if not reason and len(content) > self._left:  # it grew meanwhile
            reason = self._too_large()
        if reason:
            self._leave_out(path, reason)
            return None
        self._left -= len(content)
        return content

    def _reason_against(self, status: os.stat_result) -> str | None:
        if not stat.S_ISREG(status.st_mode):
            return "is not a regular file"
        if status.st_uid != self._owner:
            return "belongs to another user"
        if status.st_nlink != 1:
            return "has another name (a hard link) and may come from elsewhere"
        return self._too_large() if status.st_size > self._left else None

    def _too_large(self) -> str:
        return f"is too large: the artifacts of a job may have {self._limit} bytes in total"

    @contextlib.contextmanager
    def _folder(self, path: str) -> Iterator[tuple[int, str]]:
        """Open a path's parent folder without following links; yield descriptor and last name."""
        *folders, name = path.split("/")
        descriptor = os.open(self._directory, FOLDER)
        try:
            for folder in folders:
                below = os.open(folder, FOLDER, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = below
            yield descriptor, name
        finally:
            os.close(descriptor)

    def _leave_out(self, path: str, reason: str) -> None:
        self.notices.append(f"not kept: {_printable(path)} {reason}")


def _printable(path: str) -> str:
    """Return a path as readable text: file names may be any bytes."""
    text = path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return "".join(character if character.isprintable() else "\ufffd" for character in text)


LARGEST_FILE = 64 * 1024  # bytes
MOST_VALUES = 50  # of one file
LONGEST_VALUE = 200  # characters


def plain_values(artifact: Artifact, masker: Masker) -> Mapping[str, str]:
    """Return the scalar values of a file's JSON object, as text.

    Known secret values are masked. Empty for any other file.
    """
    members = _object_in(artifact.content)
    shown = [
        (masker.mask(name), masker.mask(value if isinstance(value, str) else write_exact(value)))
        for name, value in members.items()
        if not isinstance(value, dict | list)
    ]
    return {_shortened(name): _shortened(value) for name, value in shown[:MOST_VALUES]}


def _object_in(content: bytes) -> Mapping[str, object]:
    if len(content) > LARGEST_FILE:
        return {}
    try:
        document = read_exact(content)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _shortened(text: str) -> str:
    text = storable_text(text)
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 1] + "…"
