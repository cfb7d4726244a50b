"""What pages of records are made of: links, buttons, tables and strips of marks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from jobauto_prefect.definitions import pick_text
from jobauto_prefect.facade.console.moments import teller
from jobauto_prefect.facade.formats.html.cell_model import Cell, clip
from jobauto_prefect.facade.formats.html.page_language import Translator

NOTHING = Cell("none", "\N{EN DASH}")


@dataclass(frozen=True, slots=True)
class Mark:
    """One of a strip; `note` is what it tells."""

    href: str
    tone: str
    note: str


@dataclass(frozen=True, slots=True)
class Strip:
    """A cell of marks, the newest last."""

    marks: Sequence[Mark]
    empty: str
    kind: Literal["strip"] = "strip"


AnyCell = Cell | Strip


@dataclass(frozen=True, slots=True)
class Action:
    """A link, or with `posts` a button that sends a form."""

    label: str
    href: str
    posts: bool = False
    is_main: bool = False


@dataclass(frozen=True, slots=True)
class Section:
    """A table of a record's page; `empty` is said where there are no rows, `href` is all of it."""

    key: str
    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[AnyCell]]
    empty: str
    href: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class RecordPage:
    """A record as its page shows it; `badges` stand beside its name.

    `contract_href` is the contract's own page, `prefect_url` Prefect's (None: there is none).
    """

    title: str
    about: Sequence[AnyCell]
    badges: Sequence[AnyCell]
    actions: Sequence[Action]
    facts: Sequence[tuple[str, AnyCell]]
    sections: Sequence[Section]
    contract_href: str
    prefect_url: str | None = None


def name_of(record: Mapping[str, Any], languages: Sequence[str]) -> str:
    """Return what a record is called, in the first language its name has."""
    translated = (record.get("translations") or {}).get("name")
    return pick_text(translated or record["name"], *languages)


def link(text: str, href: str) -> Cell:
    """Return a link with the name of a record."""
    return Cell("link", clip(text), href=href, title=text if clip(text) != text else "")


def text_cell(text: str) -> Cell:
    """Return a text; the dash where there is none."""
    return Cell("text", text) if text else NOTHING


def moment_cell(moment: datetime | str | None, now: datetime, translate: Translator) -> Cell:
    """Return a time as it is told from now, with the exact one as its title; None: the dash."""
    text = moment.isoformat() if isinstance(moment, datetime) else moment
    shown = teller(now, translate)(text)
    return Cell("time", shown.text, title=shown.at.isoformat()) if shown else NOTHING


def state_badge(record: Mapping[str, Any], translate: Translator) -> Cell:
    """Return whether a run template is active."""
    if record["active"]:
        return Cell("badge", translate("active"), tone="good")
    return Cell("badge", translate("paused"), tone="warn")


def enabled_badge(record: Mapping[str, Any], translate: Translator) -> Cell:
    """Return whether a company or an application may be used."""
    if record["enabled"]:
        return Cell("badge", translate("enabled"), tone="good")
    return Cell("badge", translate("switched off"), tone="warn")
