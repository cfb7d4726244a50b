"""Writes parts of pages in docs/ (commands, alerts, permissions, names), and `man jobauto`.

    python -m scripts.made_parts

Each page has text by hand, and between two marks what is made here.
"""

import re
from collections.abc import Iterator
from itertools import chain
from typing import Any

import yaml
from typer.main import get_command

from jobauto_prefect import __version__
from jobauto_prefect.cli.app import app
from jobauto_prefect.cli.commands.record_groups import ALL
from jobauto_prefect.definitions.environment_names import GUARDED
from jobauto_prefect.facade.auth.permissions import MEMBERSHIPS, ROLES
from jobauto_prefect.kinds import KINDS
from scripts.key_pages import DOCS, rewrite

ALERTS = DOCS.parent / "deployments" / "monitoring" / "alerts.yaml"
EVERYWHERE = {"--json", "--url", "--columns", "--lang", "--help"}
"""Options that the page explains once; so is `--limit` of lists, which have columns."""

MANUAL = DOCS.parent / "deployments" / "man" / "jobauto.1"
MANUAL_TEXT = r""".TH JOBAUTO 1 "" "jobauto {version}" "User Commands"
.SH NAME
jobauto \- job automation on Prefect
.SH SYNOPSIS
.B jobauto
.I COMMAND
\&... [\fB\-\-json\fR] [\fB\-\-url\fR \fIADDRESS\fR]
.SH DESCRIPTION
Describe applications once, run them per company, know how each run ended.
.PP
Without
.B \-\-url
commands work on the installation of this machine.
.B jobauto
.I COMMAND
.B \-\-help
shows arguments, options and examples.
.SH COMMANDS
{commands}
.SH EXIT STATUS
0: done. 1: refused or failed. 2: wrong command line. 3, from
.BR "jobauto plan" :
something would change. 4, from
.B \-\-wait
with
.BR \-\-timeout :
the job has not ended yet. 130: interrupted.
.SH ENVIRONMENT
.TP
.B JOBAUTO_HOME
The directory with the database, the key and the logs.
.TP
.B JOBAUTO_TOKEN
The token for
.BR \-\-url .
.TP
.B NO_COLOR
Use no colours on the terminal.
"""


def commands(page: str) -> str:
    """Return the up-to-date page of the command line."""
    rows = ["| command | prints |", "|---|---|", *_printed_by_groups()]
    return rewrite(rewrite(page, "commands", "\n\n".join(_sections())), "groups", "\n".join(rows))


def _printed_by_groups() -> Iterator[str]:
    for kind in KINDS.values():
        if kind.command in ALL:
            record = f"record `{kind.one.title().replace(' ', '')}`"
            written = f"{record} and `created`"
            prints = {"list": record.replace("record", "records"), "show": record}
            prints |= {"create": written, "set": written, "delete": "keys `id`, `deleted`"}
            for word, what in prints.items():
                yield f"| `jobauto {kind.command} {word}` | {what} |"


def alerts(page: str) -> str:
    """Return the up-to-date page of operation."""
    [group] = yaml.safe_load(ALERTS.read_text())["groups"]
    made = [f"### {one['alert']}\n\n{one['annotations']['description']}" for one in group["rules"]]
    return rewrite(page, "alerts", "\n\n".join(made))


def permissions(page: str) -> str:
    """Return the up-to-date page of REST."""
    held = [*ROLES.values(), *MEMBERSHIPS.values()]
    first, *others = MEMBERSHIPS
    rows = [["permission", *ROLES, f"member: {first}", *others], ["---"] * (1 + len(held))]
    rows += [
        [f"`{name}`", *("yes" if name in allowed else "" for allowed in held)]
        for name in sorted(frozenset().union(*held))
    ]
    return rewrite(page, "permissions", "\n".join(f"| {' | '.join(row)} |" for row in rows))


def names(page: str) -> str:
    """Return the up-to-date page of security."""
    rows = [
        f"| {group} | {', '.join(f'`{name}`' for name in listed.split())} |"
        for group, listed in GUARDED.items()
    ]
    return rewrite(page, "names", "\n".join(["| | |", "|---|---|", *rows]))


def manual() -> str:
    """Return the manual page: all commands, each with the first line of its help."""
    panels: dict[str, list[str]] = {}
    for name, command in get_command(app).commands.items():  # type: ignore[attr-defined]
        lines = panels.setdefault(command.rich_help_panel, [f".SS {command.rich_help_panel}"])
        for each, below in _leaves(f"jobauto {name}", command):
            lines += [".TP", f".B {_roff(each)}", _roff(below.help.splitlines()[0])]
    return MANUAL_TEXT.format(version=__version__, commands="\n".join(chain(*panels.values())))


def _roff(text: str) -> str:
    return text.replace("\\", r"\e").replace("-", r"\-").replace("…", "...")


PARTS = {
    "cli.md": commands,
    "operation.md": alerts,
    "rest.md": permissions,
    "security.md": names,
}


def _sections() -> Iterator[str]:
    for name, command in get_command(app).commands.items():  # type: ignore[attr-defined]
        yield f"### jobauto {name}"
        if hasattr(command, "commands"):
            yield _text(command.help)
        leaves = _leaves(f"jobauto {name}", command)
        yield "\n".join(line for leaf in leaves for line in _lines(*leaf))


def _leaves(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    """Yield each command that is no group, with its full name."""
    if hasattr(command, "commands"):
        for word, each in command.commands.items():
            yield from _leaves(f"{name} {word}", each)
    else:
        yield name, command


def _lines(name: str, command: Any) -> Iterator[str]:
    named = {option for each in command.params for option in each.opts}
    known = EVERYWHERE | ({"--limit"} if "--columns" in named else set())
    shown = [each for each in command.params if not known & {*each.opts}]
    yield f"- `{' '.join([name, *map(_usage, shown)])}`: {_text(command.help)}"
    for each in shown:
        if each.param_type_name == "option" and each.help:
            yield f"  - `{each.opts[0]}`: {_text(each.help)}"


def _usage(parameter: Any) -> str:
    many = "…" if parameter.multiple or parameter.nargs == -1 else ""
    value = parameter.metavar or parameter.name.upper()
    if parameter.param_type_name == "argument":
        words = f"{value}{many}"
    elif getattr(parameter, "is_flag", False):
        words = parameter.opts[0]
    else:
        words = f"{parameter.opts[0]} {value}{many}"
    return words if parameter.required else f"[{words}]"


def _text(help_: str | None) -> str:
    """Return a help as one paragraph of Markdown, without its examples."""
    text = re.split(r"\bExamples?: ", help_ or "")[0]
    return re.sub(r"<([^>]+)>", r"\\<\1>", " ".join(text.split()))


if __name__ == "__main__":
    for file, made in PARTS.items():
        path = DOCS / file
        path.write_text(made(path.read_text()))
    MANUAL.write_text(manual())
