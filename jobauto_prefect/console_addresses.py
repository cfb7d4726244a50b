"""Where the contract is, and the console's pages that Prefect's pages and mails lead to."""

from jobauto_prefect.kinds import KINDS

CONTRACT = "/api/v1"
"""Where the routes of the contract are."""

CONSOLE = "/console"
"""Where all pages of the console are but the first."""


def list_address(kind: str) -> str:
    """Return where the console lists the records of a kind, or an application's files are."""
    if kind not in KINDS:
        return f"{CONSOLE}/{kind}s"
    return f"{CONSOLE}/{KINDS[kind].folder or KINDS[kind].collection}"


def page_of(kind: str, number: object) -> str:
    """Return the address of a record's page, within the service."""
    return f"{list_address(kind)}/{number}"


def page_address(url: str, kind: str, number: int) -> str:
    """Return the address of a record's page; `url` is the facade's."""
    return f"{url}{page_of(kind, number)}"
