"""Names of records for the shell's completion of commands."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from jobauto_prefect.cli.client import Client


def names_of(kind: str) -> Callable[[typer.Context, str], list[str]]:
    """What completes the name of a record of a kind; nothing where the facade can't be asked."""

    def complete(context: typer.Context, incomplete: str) -> list[str]:
        from jobauto_prefect.cli.client import speak
        from jobauto_prefect.cli.known import known_of
        from jobauto_prefect.errors import JobautoError

        async def titles(client: "Client") -> list[str]:
            return sorted((await known_of(client, kind)).titles(kind))

        try:
            known = speak(context.params.get("url"), titles)
        except JobautoError:  # a line that is being typed is no place for it
            return []
        return [title for title in known if title.startswith(incomplete)]

    return complete
