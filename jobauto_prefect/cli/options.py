"""Options and arguments of many commands."""

from pathlib import Path
from typing import Annotated, Any

import typer

LONGEST_NUMBER = 18
"""Digits of the largest number of a record."""


def _is_number(text: str) -> bool:
    """Whether a text is the number of a record."""
    digits = text.isascii() and text.isdecimal() and len(text) <= LONGEST_NUMBER
    return digits and int(text) > 0


def number_argument(noun: str) -> Any:
    """Declare an argument for the number of a record."""

    def parse(text: str) -> int:
        if not _is_number(text):
            raise typer.BadParameter(f"{text!r} is not a number; find it with: jobauto {noun} list")
        return int(text)

    return typer.Argument(metavar=noun.upper(), parser=parse, help=f"Number of the {noun}.")


def job_argument() -> Any:
    """Declare an argument for a job, or for a run template, meaning its newest job."""

    def parse(text: str) -> str:
        if not (_is_number(text) or "/" in text):
            raise typer.BadParameter(
                f"{text!r} is not a number; find it with: jobauto job list; or name a run template,"
                " COMPANY/NAME, for its newest job"
            )
        return text

    return typer.Argument(
        metavar="JOB",
        parser=parse,
        help="Number of the job, or COMPANY/NAME of a run template for its newest job.",
    )


def _parse_existing(text: str) -> Path:
    if not text:  # for example from an unset variable; a Path would be the current folder
        raise typer.BadParameter("an empty text is not a file or folder; for this folder write .")
    if text != "-" and not Path(text).exists():
        raise typer.BadParameter(f"there is no file or folder {text}")
    return Path(text)


Paths = Annotated[
    list[Path],
    typer.Argument(
        parser=_parse_existing, metavar="PATH", help="Files, folders, or - for standard input."
    ),
]

Json = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
Url = Annotated[
    str | None,
    typer.Option(
        "--url",
        metavar="ADDRESS",
        help="Address of a remote facade; the token is read from JOBAUTO_TOKEN. "
        "Default: this machine's own ledger.",
    ),
]
Columns = Annotated[
    str | None,
    typer.Option("--columns", metavar="NAMES", help="Columns of the table, separated by commas."),
]
Lang = Annotated[
    str | None,
    typer.Option(
        "--lang",
        metavar="CODE",
        help="Language of texts, such as cs; default: JOBAUTO_LANGUAGE. A text without it is "
        "shown in English, or else in its first language.",
    ),
]
Limit = Annotated[
    int | None, typer.Option("--limit", min=1, help="Show at most this many, the newest ones.")
]
Members = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="FIELD=VALUE",
        help="Fields as in files; FIELD=null removes a value.",
    ),
]
Env = Annotated[
    list[str] | None,
    typer.Option("--env", "-e", metavar="KEY=VALUE", help="A value; may be repeated."),
]
Secret = Annotated[
    list[str] | None,
    typer.Option(
        "--secret",
        metavar="KEY",
        help="Name of a secret value; the value is asked for, or is a line of standard input.",
    ),
]
Unset = Annotated[list[str] | None, typer.Option("--unset", metavar="KEY", help="Remove a value.")]
