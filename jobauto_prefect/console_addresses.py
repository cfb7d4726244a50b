"""Addresses of the contract, and of console pages that Prefect's pages and mails link to."""

from jobauto_prefect.kinds import KINDS

CONTRACT = "/api/v1"
"""Path of the contract's routes."""

CONSOLE = "/console"
"""Path of all console pages except the first."""


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
