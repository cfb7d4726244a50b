"""Values for one job, from the command line and from a file."""

from collections.abc import Iterable
from pathlib import Path

import typer


def read_job_values(assignments: Iterable[str] | None, file: Path | None) -> dict[str, str]:
    """Return the values of the file, overridden by those of the command line.

    Raises:
        BadParameter: one is not KEY=VALUE.
    """
    return (_read_file(file) if file else {}) | dict(map(parse_assignment, assignments or ()))


def parse_assignment(word: str, hint: str = "--env") -> tuple[str, str]:
    """Split KEY=VALUE; `hint` is where it was given.

    Raises:
        BadParameter: it is something else.
    """
    name, equals, value = word.partition("=")
    if not equals or not name:
        raise typer.BadParameter(f"{word!r} is not KEY=VALUE", param_hint=hint)
    return name, value


def _read_file(file: Path) -> dict[str, str]:
    """Read a file of variables in the usual format: comments, quotes, `export`.

    `${NAME}` is not substituted. Errors only name the line, because values may be secrets.
    """
    from dotenv.parser import parse_stream

    try:
        with file.open(encoding="utf-8-sig") as lines:
            bindings = list(parse_stream(lines))
    except (OSError, UnicodeDecodeError) as error:
        raise typer.BadParameter(
            f"{file} can't be read: {error}", param_hint="--env-file"
        ) from None
    wrong = [
        binding.original.line
        for binding in bindings
        if binding.error or (binding.key is not None and binding.value is None)
    ]
    if wrong:
        places = ", ".join(f"{file}:{line}" for line in wrong)
        raise typer.BadParameter(f"this is not KEY=VALUE: {places}", param_hint="--env-file")
    return {
        binding.key: binding.value
        for binding in bindings
        if binding.key and binding.value is not None
    }
