"""Options and arguments that many commands have."""

from pathlib import Path
from typing import Annotated, Any

import typer


def number_argument(noun: str) -> Any:
    """Declare the argument of a command that takes the number of a record, and nothing else."""

    def parse(text: str) -> int:
        if not (text.isascii() and text.isdecimal() and int(text)):
            raise typer.BadParameter(f"{text!r} is no number; they are in: jobauto {noun} list")
        return int(text)

    return typer.Argument(metavar=noun.upper(), parser=parse, help=f"Number of the {noun}.")


def job_argument() -> Any:
    """Declare the argument of a command that takes a job, or a run template for its newest job."""

    def parse(text: str) -> str:
        number = text.isascii() and text.isdecimal() and int(text) > 0
        if not (number or "/" in text):
            raise typer.BadParameter(
                f"{text!r} is no number; they are in: jobauto job list; or name a run template,"
                " COMPANY/NAME, for its newest job"
            )
        return text

    return typer.Argument(
        metavar="JOB", parser=parse, help="Number of the job, or COMPANY/NAME: its newest one."
    )


def _require_existing(paths: list[Path]) -> list[Path]:
    for path in paths:
        if str(path) != "-" and not path.exists():
            raise typer.BadParameter(f"there is no file or folder {path}")
    return paths


Paths = Annotated[
    list[Path],
    typer.Argument(
        callback=_require_existing, metavar="PATH", help="Files, folders, or - for standard input."
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
