"""Bringing a definition's file up to this version of the format."""

import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from jobauto_prefect.cli.files import content_of, unreadable
from jobauto_prefect.cli.judging import lines_of, tell_faults
from jobauto_prefect.cli.rewriting import rewritten
from jobauto_prefect.cli.show import console, messages, print_json, printable
from jobauto_prefect.definitions import SAID_TWICE, Change, upgrade, validate
from jobauto_prefect.errors import Conflict, Fault, InvalidInput
from jobauto_prefect.facade.apply.documents import is_yaml, judge, take
from jobauto_prefect.wording import counted

UNREADABLE = frozenset({"syntax", "encoding", "size", "depth", "number", "text", "duplicate"})
"""Faults of the text itself: what an upgrade would make of it is a guess."""


@dataclass(frozen=True, slots=True)
class Upgraded:
    """What became of a definition. `undecided` have their places in `text`, in a file `name`."""

    name: str
    text: str = field(repr=False)
    document: Any = field(repr=False)
    changes: Sequence[Change] = ()
    undecided: Sequence[Fault] = ()

    @property
    def is_valid(self) -> bool:
        """Whether no fault is left; what is said twice is none."""
        return all(left.rule == SAID_TWICE for left in self.undecided)


def upgraded(source: Path, name: str) -> Upgraded:
    """Upgrade the definition in a file; `name` is where the outcome goes.

    Raises:
        InvalidInput: it is not the text of a JSON definition; with its faults.
    """
    text = _text(source)
    done = upgrade(json.loads(text.removeprefix("\ufeff")))
    new = rewritten(text, done.document)
    (written,), _ = take(name, new.encode())
    undecided = [written.placed(each) for each in done.undecided if each.rule == SAID_TWICE]
    undecided += judge(written, "app").faults  # the same as in `done`, each with its place
    return Upgraded(name, new, done.document, done.changes, undecided)


def _text(source: Path) -> str:
    try:
        raw = content_of(source)
    except OSError as error:
        fault = unreadable(source, error)
        raise InvalidInput([fault], f"{source} {fault.message}") from None
    faults = [fault for fault in validate(raw).faults if fault.rule in UNREADABLE]
    if faults and is_yaml(str(source), raw.decode("utf-8", "replace")):
        faults = [Fault("", "yaml", "is not JSON; older definitions all are")]
    if faults:
        placed = [replace(fault, file=str(source)) for fault in faults]
        raise InvalidInput(placed, f"{source} can't be upgraded")
    return raw.decode()


def report(done: Upgraded, target: Path | None, as_json: bool) -> None:
    """Tell what was changed and what was not. Without a target the new text comes first, and
    alone on standard output.
    """
    if as_json:
        print_json(
            {
                "output": str(target) if target else None,
                "changes": [change.as_dict() for change in done.changes],
                "undecided": [fault.as_dict() for fault in done.undecided],
                **({} if target else {"document": done.document}),
            }
        )
        return
    if target is None:
        sys.stdout.write(done.text)
        sys.stdout.flush()
    out = console() if target else messages()
    out.print(counted(len(done.changes), "change", zero="no"), markup=False)
    for change in done.changes:
        line = f"  {change.pointer or '/'}: {change.message}"
        out.print(printable(line), markup=False, soft_wrap=True)
    if done.undecided:
        out.print("left to you:", markup=False)
    tell_faults(done.undecided, "error", lines_of(done.text.encode()), out)


def write_new(path: Path, content: bytes) -> None:
    """Write a file that is not there yet.

    Raises:
        Conflict: it is there.
    """
    try:
        with path.open("xb") as file:
            file.write(content)
    except FileExistsError:
        raise Conflict(f"{path} is there already, and is not written over") from None


def replace_file(path: Path, content: bytes) -> None:
    """Change what is in a file, all of it or nothing; it keeps its permissions."""
    path = path.resolve()
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(name).chmod(path.stat().st_mode & 0o7777)
        Path(name).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise
