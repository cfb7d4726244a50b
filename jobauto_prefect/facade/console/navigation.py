"""The console's main menu, limited to what a visitor may open."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from jobauto_prefect.console_addresses import CONSOLE, CONTRACT, list_address
from jobauto_prefect.facade.auth.identity import Identity
from jobauto_prefect.facade.auth.visitor_sessions import START
from jobauto_prefect.facade.formats.view import PageLink
from jobauto_prefect.kinds import KINDS


@dataclass(frozen=True, slots=True)
class MenuEntry:
    """A page of the menu; visitors with its permission in any company see it."""

    label: str
    href: str
    permission: str
    pages: Sequence["MenuEntry"] = ()


@dataclass(frozen=True, slots=True)
class Subpage:
    """A page below the current entry; `is_current`: it, or one of its records, is open."""

    label: str
    href: str
    is_current: bool


def _entry(item: str, permission: str = "applications.read", *pages: MenuEntry) -> MenuEntry:
    """Return the entry that leads to the list of a kind."""
    return MenuEntry(KINDS[item].many, list_address(item), permission, pages)


MENU = (
    MenuEntry("Start", START, "applications.read"),
    _entry("job", "jobs.read"),
    _entry("runtemplate", "applications.read", _entry("topic"), _entry("calendar")),
    _entry("task", "jobs.read"),
    _entry(
        "event", "applications.read", _entry("eventrule"), _entry("eventsource", "companies.read")
    ),
    MenuEntry(
        "Workers",
        f"{CONSOLE}/workers",
        "jobs.read",
        (MenuEntry("Parts", f"{CONSOLE}/parts", "system.config"),),
    ),
    _entry("app"),
    _entry("company", "companies.read"),
    _entry("credential", "applications.read", _entry("credential_type")),
    _entry("user", "profile.read"),
    _entry("auditlog", "security.audit"),
    MenuEntry("All records", f"{CONTRACT}/index.html", "applications.read"),
)
"""In the order of display."""


def entry_of(path: str) -> str:
    """Return the label of the entry that a page belongs to; "" if there is none."""
    below = {page.href: entry.label for entry in MENU for page in (entry, *entry.pages)}
    return below.get("/".join(path.split("/")[:3]), "")


def navigation_of(who: Identity) -> list[PageLink]:
    """Return the entries of the menu that this visitor may open."""
    return [PageLink(entry.label, entry.href) for entry in _open_to(who, MENU)]


def subpages_of(who: Identity, here: str, path: str) -> list[Subpage]:
    """Return the pages below the current entry that this visitor may open; `path` is the page's."""
    return [
        Subpage(page.label, page.href, path == page.href or path.startswith(f"{page.href}/"))
        for entry in MENU
        if entry.label == here
        for page in _open_to(who, entry.pages)
    ]


def _open_to(who: Identity, entries: Sequence[MenuEntry]) -> Iterator[MenuEntry]:
    return (entry for entry in entries if who.rights.anywhere(entry.permission))
