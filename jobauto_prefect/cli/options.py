"""Options and arguments that many commands have."""

from pathlib import Path
from typing import Annotated, Any

import typer

LONGEST_NUMBER = 18
"""Digits of the largest number that a record can have."""


def _is_number(text: str) -> bool:
    """Whether a text is the number of a record."""
    digits = text.isascii() and text.isdecimal() and len(text) <= LONGEST_NUMBER
    return digits and int(text) > 0


def number_argument(noun: str) -> Any:
    """Declare the argument of a command that takes the number of a record, and nothing else."""

    def parse(text: str) -> int:
        if not _is_number(text):
            raise typer.BadParameter(f"{text!r} is no number; they are in: jobauto {noun} list")
        return int(text)

    return typer.Argument(metavar=noun.upper(), parser=parse, help=f"Number of the {noun}.")


def job_argument() -> Any:
    """Declare the argument of a command that takes a job, or a run template for its newest job."""

    def parse(text: str) -> str:
        if not (_is_number(text) or "/" in text):
            raise typer.BadParameter(
                f"{text!r} is no number; they are in: jobauto job list; or name a run template,"
                " COMPANY/NAME, for its newest job"
            )
        return text

    return typer.Argument(
        metavar="JOB", parser=parse, help="Number of the job, or COMPANY/NAME: its newest one."
    )


def _parse_existing(text: str) -> Path:
    if not text:  # of a variable that is not set; as a Path it is the folder one is in
        raise typer.BadParameter("an empty text names no file or folder; for this folder write .")
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
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Url = Annotated[
    str | None,
    typer.Option(
        "--url",
        metavar="ADDRESS",
        help="Address of the facade to speak to, with the token in JOBAUTO_TOKEN. "
        "Without it: this machine's own ledger.",
    ),
]
Columns = Annotated[
    str | None,
    typer.Option("--columns", metavar="NAMES", help="Columns of the table, with commas."),
]
Lang = Annotated[
    str | None,
    typer.Option(
        "--lang",
        metavar="CODE",
        help="Language of texts, such as cs; default: JOBAUTO_LANGUAGE. Where a text lacks it: "
        "English, else its first language.",
    ),
]
Limit = Annotated[
    int | None, typer.Option("--limit", min=1, help="Show only so many, the newest ones.")
]
Members = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="FIELD=VALUE",
        help="Fields as files have them; FIELD=null removes a value.",
    ),
]
Env = Annotated[
    list[str] | None,
    typer.Option("--env", "-e", metavar="KEY=VALUE", help="A value; may be given repeatedly."),
]
Secret = Annotated[
    list[str] | None,
    typer.Option(
        "--secret",
        metavar="KEY",
        help="A secret value, asked for, or a line of standard input for each.",
    ),
]
Unset = Annotated[list[str] | None, typer.Option("--unset", metavar="KEY", help="Remove a value.")]
