"""Credential types: a list, a page with the fields of one, and a form."""

from collections.abc import Iterable
from typing import get_args

from jobauto_prefect.console_addresses import CONSOLE
from jobauto_prefect.definitions import pick_text, to_text
from jobauto_prefect.definitions.records.credentials import is_secret
from jobauto_prefect.definitions.values import MASK
from jobauto_prefect.facade.console.records.declared import (
    COMPANY,
    OWNER,
    SHARED,
    Column,
    Part,
    Record,
    RecordPages,
    Related,
    code,
    has,
    record_link,
    text,
)
from jobauto_prefect.facade.console.records.fields import credential_fields
from jobauto_prefect.facade.console.records.forms import (
    JSON,
    LOCALIZED,
    WORDS,
    FieldGroup,
    FormField,
)
from jobauto_prefect.facade.console.records.pages import NOTHING, Action, AnyCell, text_cell
from jobauto_prefect.facade.console.visit import Visit
from jobauto_prefect.facade.formats import View
from jobauto_prefect.facade.formats.html.cell_model import Cell, clip
from jobauto_prefect.facade.formats.html.page_language import Text
from jobauto_prefect.facade.formats.html.scalars import parse_web_address
from jobauto_prefect.facade.kinds.credential_types import CredentialTypeBody
from jobauto_prefect.kinds import KINDS

IN_LANGUAGES = ("name", "description")
EXAMPLE = '[{"keyword": "BANK_PIN", "type": "password", "name": "PIN", "required": true}]'
SOURCES = get_args(get_args(CredentialTypeBody.model_fields["source"].annotation)[0])


def _described(kind: Record, visit: Visit) -> str:
    written = kind["translations"].get("description") or kind["description"] or ""
    return pick_text(written, *visit.languages)


def _told(label: Text, field: str) -> Column:
    """Return the fact that a field says, as a link where it is a web address."""

    def draw(kind: Record, _view: View, _visit: Visit) -> AnyCell:
        address = parse_web_address(kind[field])
        if not address:
            return text_cell(kind[field])
        return Cell("link", clip(kind[field], 80), href=address, tone="away")

    return Column(label, draw, when=has(field))


def _check(kind: Record, _view: View, _visit: Visit) -> AnyCell:
    """Draw what is asked whether it is there."""
    check = kind["availability"]
    return Cell("code", check.get("url") or " ".join(check.get("command") or ()))


def _fields(kind: Record, visit: Visit) -> Iterable[tuple[Record, FormField]]:
    """Return the fields that credentials of the type have, with their controls."""
    controls = credential_fields(kind["fields"], visit.languages, visit.translate)
    return zip(kind["fields"], controls, strict=True)


def _name(pair: tuple[Record, FormField], _view: View, visit: Visit) -> AnyCell:
    field, control = pair
    if field.get("required"):
        return text_cell(visit.translate("{name} (required)", name=control.label))
    return text_cell(control.label)


def _default(pair: tuple[Record, FormField], _view: View, _visit: Visit) -> AnyCell:
    default = to_text(pair[0].get("default_value"))
    return Cell("code", MASK if is_secret(pair[0]) else default) if default else NOTHING


class CredentialTypePages(RecordPages):
    """The pages of credential types."""

    kind, folder, here = KINDS["credential_type"], "credentialtypes", "Credentials"
    new = Text("New credential type")
    columns = (
        Column(Text("Name"), record_link("credentialtypes")),
        Column(Text("Code"), code("code")),
        Column(Text("Version"), text("version")),
        Column(
            Text("Description"),
            lambda kind, _, visit: text_cell(clip(_described(kind, visit))),
        ),
        OWNER,
    )
    empty = Text("There is no credential type yet. One says which values sign in somewhere.")
    about = (code("code"), lambda kind, _, visit: text_cell(_described(kind, visit)))
    facts = (
        OWNER,
        _told(Text("Version"), "version"),
        _told(Text("What it signs in to"), "url"),
        _told(Text("Where it is at home"), "homepage"),
        _told(Text("UUID"), "uuid"),
        _told(Text("Further values come from"), "source"),
        Column(Text("It is there when this answers"), _check, when=has("availability")),
    )
    tables = (
        Part(
            "fields",
            Text("Values"),
            _fields,
            (
                Column(Text("Name"), _name),
                Column(Text("Key"), lambda pair, *_: Cell("code", pair[0]["keyword"])),
                Column(Text("Type"), lambda pair, *_: text_cell(str(pair[0].get("type", "")))),
                Column(Text("Default"), _default),
                Column(Text("Hint"), lambda pair, *_: text_cell(pair[1].hint)),
            ),
            Text("It has no fields."),
        ),
        Related(
            "credentials",
            Text("Credentials"),
            "credentials",
            lambda kind: {"credential_type_id": kind["id"]},
            (Column(Text("Name"), record_link("credentials")), COMPANY),
            Text("There is none of this type."),
        ),
    )
    identity = ("/code", "/name")
    fixed = SHARED
    note = Text("Files, older ones too, are taken by jobauto credential-type import FILE.")
    form = (
        FieldGroup(
            Text("Credential type"),
            [
                FormField("/code", Text("Code"), is_required=True),
                FormField(
                    "/name",
                    Text("Name"),
                    "long",
                    Text("In several languages: each on its line, such as en: Bank"),
                    is_required=True,
                    form=LOCALIZED,
                ),
                FormField(
                    "/description",
                    Text("Description"),
                    "long",
                    Text("In several languages: each on its line, such as en: Bank"),
                    form=LOCALIZED,
                ),
                FormField("/version", Text("Version")),
                FormField("/url", Text("What it signs in to")),
                FormField("/homepage", Text("Where it is at home")),
                FormField(
                    "/tags",
                    Text("Keywords"),
                    hint=Text("Commas between them."),
                    blank=[],
                    form=WORDS,
                ),
            ],
        ),
        FieldGroup(
            Text("Values"),
            [
                FormField(
                    "/fields",
                    Text("Fields"),
                    "long",
                    Text("JSON, such as: {example}", example=EXAMPLE),
                    blank=[],
                    form=JSON,
                ),
                FormField(
                    "/source",
                    Text("Further values come from"),
                    "choice",
                    choices=[("", Text("nowhere")), *((source, source) for source in SOURCES)],
                ),
                FormField(
                    "/availability",
                    Text("Whether it is there"),
                    "long",
                    Text(
                        "JSON, such as: {example}", example='{"url": "https://{BANK_HOST}/status"}'
                    ),
                    form=JSON,
                ),
            ],
        ),
    )

    def actions(self, visit: Visit, record: Record) -> list[Action]:
        """Return what the visitor may do with a type: with it, make a credential."""
        actions = super().actions(visit, record)
        if visit.who.rights.anywhere("companies.create"):
            href = f"{CONSOLE}/credentials/new?credential_type_id={record['id']}"
            actions.append(Action(visit.translate("New credential"), href))
        return actions

    def values(self, record: Record) -> Record:
        """Return a type with its texts in all languages."""
        written = record["translations"]
        return {**record, **{name: written.get(name) or record[name] for name in IN_LANGUAGES}}


router = CredentialTypePages().router()
