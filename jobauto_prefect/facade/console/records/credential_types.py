"""Credential types: the list, the page of one with its fields, and its form."""

from collections.abc import Iterable

from jobauto_prefect.console_addresses import list_address
from jobauto_prefect.definitions import pick_text, to_text
from jobauto_prefect.definitions.records.credentials import is_secret
from jobauto_prefect.definitions.values import MASK
from jobauto_prefect.facade.console.records.cells import (
    COMPANY,
    NOTHING,
    OWNER,
    AnyCell,
    Column,
    Record,
    code,
    has,
    name,
    text,
    text_cell,
)
from jobauto_prefect.facade.console.records.fields import credential_fields
from jobauto_prefect.facade.console.records.forms import FieldGroup, FormField
from jobauto_prefect.facade.console.records.pages import (
    SHARED,
    Action,
    RecordPages,
    Table,
    related,
)
from jobauto_prefect.facade.console.visit import Visit
from jobauto_prefect.facade.formats.html.cells import Cell, clip, parse_web_address
from jobauto_prefect.facade.formats.html.page_language import Text
from jobauto_prefect.facade.kinds.credential_types import LOCALIZED
from jobauto_prefect.facade.kinds.registry import shown_fields
from jobauto_prefect.kinds import KINDS


def _described(kind: Record, visit: Visit) -> str:
    written = kind["translations"].get("description") or kind["description"] or ""
    return pick_text(written, *visit.languages)


def _fact(field: str) -> Column:
    """Return the fact of a field, as a link if it is a web address."""

    def draw(kind: Record, _visit: Visit) -> AnyCell:
        address = parse_web_address(kind[field])
        if not address:
            return text_cell(kind[field])
        return Cell("link", clip(kind[field], 80), href=address, tone="away")

    return Column(shown_fields("credential_type")[field].label, draw, when=has(field))


def _check(kind: Record, _visit: Visit) -> AnyCell:
    """Draw the address or command that checks availability."""
    check = kind["availability"]
    return Cell("code", check.get("url") or " ".join(check.get("command") or ()))


def _fields(kind: Record, visit: Visit) -> Iterable[tuple[Record, FormField]]:
    """Return the fields of the type's credentials, with their controls."""
    controls = credential_fields(kind["fields"], visit.languages, visit.translate)
    return zip(kind["fields"], controls, strict=True)


def _name(pair: tuple[Record, FormField], visit: Visit) -> AnyCell:
    field, control = pair
    if field.get("required"):
        return text_cell(visit.translate("{name} (required)", name=control.label))
    return text_cell(control.label)


def _default(pair: tuple[Record, FormField], _visit: Visit) -> AnyCell:
    default = to_text(pair[0].get("default_value"))
    return Cell("code", MASK if is_secret(pair[0]) else default) if default else NOTHING


class CredentialTypePages(RecordPages):
    """The pages of credential types."""

    kind, new = KINDS["credential_type"], Text("New credential type")
    columns = (
        name("credential_type"),
        "code",
        "version",
        Column(Text("Description"), lambda kind, visit: text_cell(clip(_described(kind, visit)))),
        OWNER,
    )
    empty = Text(
        "There are no credential types yet. A type defines the values needed to sign "
        "in to a system."
    )
    about = (code("code"), lambda kind, visit: text_cell(_described(kind, visit)))
    facts = (
        OWNER,
        *map(_fact, ("version", "url", "homepage", "uuid", "source")),
        Column(Text("Availability check"), _check, when=has("availability")),
    )
    tables = (
        Table(
            "fields",
            Text("Values"),
            _fields,
            (
                Column(Text("Name"), _name),
                Column(Text("Key"), lambda pair, _: Cell("code", pair[0]["keyword"])),
                Column(Text("Type"), lambda pair, visit: text("type")(pair[0], visit)),
                Column(Text("Default"), _default),
                Column(Text("Hint"), lambda pair, _: text_cell(pair[1].hint)),
            ),
            Text("The type has no fields."),
        ),
        related(
            "credentials",
            Text("Credentials"),
            "credential",
            lambda kind: {"credential_type_id": kind["id"]},
            (name("credential"), COMPANY),
            Text("There are no credentials of this type."),
        ),
    )
    identity = ("code", "name")
    fixed = SHARED
    note = Text(
        "To import a file, also one in an older format, use jobauto credential-type import FILE."
    )
    form = (
        FieldGroup(
            Text("Credential type"),
            ("code", "name", "description", "version", "url", "homepage", "tags"),
        ),
        FieldGroup(Text("Values"), ("fields", "source", "availability")),
    )

    def actions(self, visit: Visit, record: Record) -> list[Action]:
        """Return the actions of a type; the last one creates a credential of it."""
        actions = super().actions(visit, record)
        if visit.who.rights.anywhere("companies.create"):
            href = f"{list_address('credential')}/new?credential_type_id={record['id']}"
            actions.append(Action(Text("New credential"), href))
        return actions

    def values(self, record: Record) -> Record:
        """Return a type with its texts in all languages."""
        written = record["translations"]
        return {**record, **{name: written.get(name) or record[name] for name in LOCALIZED}}


router = CredentialTypePages().router()
