"""Credential types: a list, a page with the fields of one, and a form."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

from fastapi import Request, Response

from jobauto_prefect.console_addresses import CONSOLE
from jobauto_prefect.definitions import pick_text, to_text
from jobauto_prefect.definitions.mask import MASK
from jobauto_prefect.definitions.records.credentials import is_secret
from jobauto_prefect.facade.console.contract import Contract, CurrentContract
from jobauto_prefect.facade.console.definitions.definition_owners import (
    CREATE,
    SHARED,
    may_create,
    may_rename,
    may_update,
    owner_cell,
    require_creator,
    require_editor,
)
from jobauto_prefect.facade.console.definitions.value_texts import (
    JSON,
    LOCALIZED,
    WORDS,
)
from jobauto_prefect.facade.console.records.choices import owner_field
from jobauto_prefect.facade.console.records.form_fields import (
    FieldGroup,
    FormField,
    fields_of,
    values_of,
)
from jobauto_prefect.facade.console.records.page_parts import (
    NOTHING,
    Action,
    AnyCell,
    RecordPage,
    Section,
    link,
    name_of,
    text_cell,
)
from jobauto_prefect.facade.console.records.record_views import (
    ListPage,
    RecordForm,
    add_form_routes,
    company_filter,
    language_parts,
    list_query,
    read_list,
    respond_with_list,
    respond_with_record,
)
from jobauto_prefect.facade.console.records.variable_fields import credential_fields
from jobauto_prefect.facade.formats.html.cell_model import Cell, clip
from jobauto_prefect.facade.formats.html.page_language import Translator
from jobauto_prefect.facade.formats.html.scalars import parse_web_address
from jobauto_prefect.facade.http import late_routes
from jobauto_prefect.facade.http.addresses import CONTRACT
from jobauto_prefect.facade.kinds.credential_types import CredentialTypeBody

ADDRESS = f"{CONSOLE}/credentialtypes"
HERE = "Credentials"
IN_LANGUAGES = ("name", "description")
EXAMPLE = '[{"keyword": "BANK_PIN", "type": "password", "name": "PIN", "required": true}]'

Type = Mapping[str, Any]

router = late_routes.router(include_in_schema=False)


@router.get(ADDRESS)
async def list_types(request: Request, contract: CurrentContract) -> Response:
    """List credential types."""
    translate, languages = language_parts(request)
    view = await read_list(contract, "credential_types", list_query(request, ("company_id",)))
    new = Action(translate("New credential type"), f"{ADDRESS}/new", is_main=True)
    page = ListPage(
        collection="credentialtypes",
        title="Credential types",
        here=HERE,
        heads=[
            translate("Name"),
            translate("Code"),
            translate("Version"),
            translate("Description"),
            translate("Company"),
        ],
        rows=[
            [
                link(name_of(kind, languages), f"{ADDRESS}/{kind['id']}"),
                Cell("code", kind["code"]),
                text_cell(kind["version"] or ""),
                text_cell(clip(_described(kind, languages))),
                owner_cell(kind, view, translate),
            ]
            for kind in view.data.values()
        ],
        filters=[await company_filter(contract, languages, translate)],
        empty=translate(
            "There is no credential type yet. One says which values sign in somewhere."
        ),
        actions=[new] if may_create(contract.who) else [],
    )
    return respond_with_list(request, contract.who, page, view)


@router.get(f"{ADDRESS}/{{credential_type:int}}")
async def show_type(credential_type: int, request: Request, contract: CurrentContract) -> Response:
    """Show which values a credential of this type has, and the credentials there are."""
    translate, languages = language_parts(request)
    view = await contract.read(f"/credential_type/{credential_type}")
    kind = view.data
    of_type = {"credential_type_id": credential_type}
    credentials = await read_list(contract, "credentials", of_type)
    page = RecordPage(
        title=name_of(kind, languages),
        about=[Cell("code", kind["code"]), text_cell(_described(kind, languages))],
        badges=[],
        actions=list(_actions(contract, kind, translate)),
        facts=[
            (translate("Company"), owner_cell(kind, view, translate)),
            *_facts(kind, translate),
        ],
        sections=[
            _fields(kind, languages, translate),
            Section(
                "credentials",
                translate("Credentials"),
                [translate("Name"), translate("Company")],
                [
                    [
                        link(credential["name"], f"{CONSOLE}/credentials/{credential['id']}"),
                        text_cell(
                            credentials.names.get("company", {}).get(
                                str(credential["company_id"]), ""
                            )
                        ),
                    ]
                    for credential in credentials.data.values()
                ],
                translate("There is none of this type."),
                f"{CONSOLE}/credentials?credential_type_id={credential_type}",
            ),
        ],
        contract_href=f"{CONTRACT}/credential_type/{credential_type}.html",
        prefect_url=kind["prefect_url"],
    )
    return respond_with_record(request, contract.who, page, here=HERE)


def _described(kind: Type, languages: Sequence[str]) -> str:
    written = kind["translations"].get("description") or kind["description"] or ""
    return pick_text(written, *languages)


def _actions(contract: Contract, kind: Type, translate: Translator) -> Iterator[Action]:
    if may_update(contract.who, kind):
        yield Action(translate("Edit"), f"{ADDRESS}/{kind['id']}/edit", is_main=True)
    if contract.who.rights.anywhere("companies.create"):
        query = f"credential_type_id={kind['id']}"
        yield Action(translate("New credential"), f"{CONSOLE}/credentials/new?{query}")


def _facts(kind: Type, translate: Translator) -> Iterator[tuple[str, AnyCell]]:
    for label, name in (
        (translate("Version"), "version"),
        (translate("What it signs in to"), "url"),
        (translate("Where it is at home"), "homepage"),
        (translate("UUID"), "uuid"),
        (translate("Further values come from"), "source"),
    ):
        if kind[name]:
            address = parse_web_address(kind[name])
            text = Cell("link", clip(kind[name], 80), href=address or "", tone="away")
            yield label, text if address else text_cell(kind[name])
    check = kind["availability"]
    if check:
        asked = check.get("url") or " ".join(check.get("command") or ())
        yield translate("It is there when this answers"), Cell("code", asked)


def _fields(kind: Type, languages: Sequence[str], translate: Translator) -> Section:
    drawn = credential_fields(kind["fields"], languages, translate)
    rows: list[Sequence[AnyCell]] = []
    for field, control in zip(kind["fields"], drawn, strict=True):
        default = to_text(field.get("default_value"))
        named = control.label
        if field.get("required"):
            named = translate("{name} (required)", name=named)
        rows.append(
            [
                text_cell(named),
                Cell("code", field["keyword"]),
                text_cell(str(field.get("type", ""))),
                Cell("code", MASK if is_secret(field) else default) if default else NOTHING,
                text_cell(control.hint),
            ]
        )
    heads = [translate("Name"), translate("Key"), translate("Type"), translate("Default"),
             translate("Hint")]  # fmt: skip
    return Section("fields", translate("Values"), heads, rows, translate("It has no fields."))


async def _new_form(request: Request, contract: Contract) -> RecordForm:
    translate, languages = language_parts(request)
    require_creator(contract.who)
    owner = await owner_field(contract, CREATE, languages, translate)
    groups = _groups(translate, owner, has_name=True)
    return RecordForm(
        title=translate("New credential type"),
        here=HERE,
        action=f"{ADDRESS}/new",
        target="/credential_type/",
        collection="credentialtypes",
        groups=groups,
        values=values_of(fields_of(groups), None),
        fixed=SHARED,
        back=ADDRESS,
        submit=translate("Save"),
        note=translate("Files, older ones too, are taken by jobauto credential-type import FILE."),
    )


async def _edit_form(request: Request, contract: Contract, type_id: int) -> RecordForm:
    translate, _ = language_parts(request)
    kind = (await contract.read(f"/credential_type/{type_id}")).data
    require_editor(contract.who, kind)
    groups = _groups(translate, has_name=may_rename(contract.who))
    shown = kind | {name: kind["translations"].get(name) or kind[name] for name in IN_LANGUAGES}
    address = f"{ADDRESS}/{type_id}"
    return RecordForm(
        title=translate("Edit {name}", name=kind["name"]),
        here=HERE,
        action=f"{address}/edit",
        target=f"/credential_type/{type_id}.json",
        collection="credentialtypes",
        groups=groups,
        values=values_of(fields_of(groups), shown),
        back=address,
        submit=translate("Save"),
    )


def _groups(translate: Translator, *first: FormField, has_name: bool) -> list[FieldGroup]:
    """Return the fields of a credential type; `first` are those of a new one alone."""
    languages = translate("In several languages: each on its line, such as en: Bank")
    named = [
        FormField("/code", translate("Code"), is_required=True),
        FormField("/name", translate("Name"), "long", languages, is_required=True, form=LOCALIZED),
    ]
    sources = get_args(get_args(CredentialTypeBody.model_fields["source"].annotation)[0])
    nowhere = ("", translate("nowhere"))
    return [
        FieldGroup(
            translate("Credential type"),
            [
                *first,
                *(named if has_name else []),
                FormField(
                    "/description", translate("Description"), "long", languages, form=LOCALIZED
                ),
                FormField("/version", translate("Version")),
                FormField("/url", translate("What it signs in to")),
                FormField("/homepage", translate("Where it is at home")),
                FormField(
                    "/tags",
                    translate("Keywords"),
                    hint=translate("Commas between them."),
                    blank=[],
                    form=WORDS,
                ),
            ],
        ),
        FieldGroup(
            translate("Values"),
            [
                FormField(
                    "/fields",
                    translate("Fields"),
                    "long",
                    translate("JSON, such as: {example}", example=EXAMPLE),
                    blank=[],
                    form=JSON,
                ),
                FormField(
                    "/source",
                    translate("Further values come from"),
                    "choice",
                    choices=[nowhere, *((source, source) for source in sources)],
                ),
                FormField(
                    "/availability",
                    translate("Whether it is there"),
                    "long",
                    translate(
                        "JSON, such as: {example}", example='{"url": "https://{BANK_HOST}/status"}'
                    ),
                    form=JSON,
                ),
            ],
        ),
    ]


add_form_routes(router, ADDRESS, "credential_type", _edit_form, _new_form)
