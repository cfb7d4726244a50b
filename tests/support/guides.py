"""Documents as a reader follows them: files are written, commands are typed, answers compared."""

import re
import subprocess
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Self

from tests.support.paths import ROOT
from tests.support.service import Service

FENCE = re.compile(r"^```(?P<kind>\w*)\n(?P<body>.*?)^```$", re.DOTALL | re.MULTILINE)
FILE_NAME = re.compile(r"\(?`(?P<name>[\w./-]+\.\w+|bin/[\w-]+)`[^`\n]*:\s*\Z")
"""A block is the file that the line before it names last."""

ELLIPSIS = "…"  # in an answer: any text; on a line of its own: any lines
END = "--- the command has ended with"
PATIENCE = 180.0  # seconds for one command

HOW_TO = ROOT / "docs" / "how-to"
PAGES = {page.stem: page.read_text() for page in HOW_TO.glob("*.md") if page.stem != "README"}
"""The how-to pages, by name."""

IN_DOCUMENTS = ("http://127.0.0.1:8000", "http://127.0.0.1:4200")
NUMBERED = re.compile(r"\b(job |#)\d+")
"""The second document begins with another number than it says."""


@dataclass(frozen=True, slots=True)
class File:
    """A file the reader is told to write."""

    name: str
    content: str


@dataclass(frozen=True, slots=True)
class Command:
    """A command and what the document says it answers."""

    words: str
    answer: str


def steps(document: str) -> Iterator[File | Command]:
    """What a reader does, in order: blocks of `console` are typed, blocks with a name written."""
    for block in FENCE.finditer(document):
        if block["kind"] == "console":
            yield from _commands(block["body"])
        elif named := FILE_NAME.search(document[: block.start()]):
            yield File(named["name"], block["body"])


def unused_blocks(document: str) -> list[str]:
    """The other blocks, by their first lines."""
    return [
        block["body"].partition("\n")[0]
        for block in FENCE.finditer(document)
        if block["kind"] != "console" and not FILE_NAME.search(document[: block.start()])
    ]


def prose(document: str) -> str:
    """A document without its blocks."""
    return FENCE.sub("", document)


def _commands(body: str) -> Iterator[Command]:
    for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
        words, *answer = re.split(r"(?<!\\)\n", part, maxsplit=1)
        yield Command(words, "".join(answer))


def is_answer(expected: str, answer: str) -> bool:
    """Whether a program said what a document says it does."""
    return re.fullmatch(_pattern(_tidy(expected)), _tidy(answer), re.DOTALL) is not None


def _tidy(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def _pattern(expected: str) -> str:
    lines = []
    for line in expected.splitlines():
        if line.strip() == ELLIPSIS:
            lines.append(r"(?:[^\n]*(?:\n|\Z))*")
        else:
            lines.append(r"[^\n]*".join(map(re.escape, line.split(ELLIPSIS))) + r"(?:\n|\Z)")
    return "".join(lines)


class Shell:
    """One shell in which a whole document is typed, so that it keeps what was set."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._folder = folder
        self._bash = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=folder,
            env=environment | {"COLUMNS": "120"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._bash.kill()
        self._bash.communicate()

    def write(self, file: File) -> None:
        """Write a file."""
        path = self._folder / file.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file.content)

    def type(self, words: str) -> str:
        """What a command says, on both its outputs."""
        bash = self._bash
        assert bash.stdin is not None
        assert bash.stdout is not None
        alarm = threading.Timer(PATIENCE, bash.kill)
        alarm.start()
        try:
            bash.stdin.write(f"{words}\necho; echo '{END}' $?\n")
            bash.stdin.flush()
            return "".join(_until_end(bash.stdout))
        finally:
            alarm.cancel()


def _until_end(output: IO[str]) -> Iterator[str]:
    for line in output:
        if line.startswith(END):
            return
        yield line
    raise AssertionError(f"the shell has ended, or a command took {PATIENCE:.0f} s")


def environment_of(service: Service) -> dict[str, str]:
    addresses = {"JOBAUTO_URL": service.url, "PREFECT_API_URL": f"{service.prefect}/api"}
    return service.environment | addresses


def real_addresses(service: Service) -> dict[str, str]:
    return dict(zip(IN_DOCUMENTS, (service.url, service.prefect), strict=True))


def follow(name: str, step: File | Command, shell: Shell, real: Mapping[str, str]) -> None:
    """Do a step; `real` is what this test has in place of what the document says."""
    if isinstance(step, File):
        shell.write(File(replace(step.name, real), replace(step.content, real)))
        return
    expected, answer = (
        NUMBERED.sub(r"\1N", text) for text in (step.answer, shell.type(replace(step.words, real)))
    )
    assert is_answer(expected, answer), (
        f"{name}: $ {step.words}\n{answer}\n-- instead of\n{expected}"
    )


def replace(text: str, real: Mapping[str, str]) -> str:
    for written, actual in real.items():
        text = text.replace(written, actual)
    return text


def make_acme(service: Service) -> None:
    """Apply the company and the run template of README, with which how-to pages begin."""
    folder = service.home.parent
    files = [step for step in steps((ROOT / "README.md").read_text()) if isinstance(step, File)]
    for file in files:
        (folder / file.name).write_text(file.content)
    applied = service.jobauto("apply", *(str(folder / file.name) for file in files), "--yes")
    assert applied.returncode == 0, applied.stderr
