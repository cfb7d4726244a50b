"""The result of a command, for people or programs."""

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from jobauto_prefect.cli.output.terminal import print_json, print_line, print_record

if TYPE_CHECKING:
    from jobauto_prefect.cli.connection.client import Client


def call_and_print(
    url: str | None,
    work: "Callable[[Client], Coroutine[Any, Any, Any]]",
    as_json: bool,
    show: Callable[[Any], str | None] = print_record,
    *,
    writes: bool = False,
    signed: tuple[str, str] | None = None,
) -> None:
    """Do some work with a client and print its result, as JSON or by `show`.

    `show` prints the result, or returns the line to print. `url`, `writes` and `signed` are
    those of `call_facade`.
    """
    from jobauto_prefect.cli.connection.client import call_facade

    result = call_facade(url, work, writes=writes, signed=signed)
    if as_json:
        print_json(result)
    elif (line := show(result)) is not None:
        print_line(line)
