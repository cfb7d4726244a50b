"""The words of the frame around every page, in the languages it has."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class LayoutTexts:
    """`names` are those of collections, by their paths; where one is left out it has its own."""

    skip: str
    signed_in_as: str
    sign_out: str
    start: str
    collections: str
    formats: str
    names: Mapping[str, str] = field(default_factory=dict)


LAYOUT_TEXTS: Mapping[str, LayoutTexts] = {
    "en": LayoutTexts(
        skip="Skip to the content",
        signed_in_as="signed in as",
        sign_out="Sign out",
        start="Start",
        collections="Collections",
        formats="This page as",
    ),
    "cs": LayoutTexts(
        skip="Přejít k obsahu",
        signed_in_as="přihlášen:",
        sign_out="Odhlásit",
        start="Přehled",
        collections="Seznamy",
        formats="Tato stránka jako",
        names={
            "apps": "Aplikace",
            "companies": "Společnosti",
            "runtemplates": "Šablony spuštění",
            "jobs": "Úlohy",
            "tasks": "Úkoly",
            "credentials": "Přístupové údaje",
            "credential_types": "Typy přístupových údajů",
            "topics": "Témata",
            "calendars": "Kalendáře",
            "eventrules": "Pravidla událostí",
            "eventsources": "Zdroje událostí",
            "users": "Uživatelé",
            "events": "Události",
            "auditlog": "Auditní záznam",
            "status": "Stav",
            "index": "Rozcestník",
        },
    ),
}
"""By the code of the language."""
