"""Topics: a list, a page with the run templates that bear one, and a form."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from fastapi import Request, Response

from jobauto_prefect.console_addresses import CONSOLE
from jobauto_prefect.facade.console.contract import Contract, CurrentContract
from jobauto_prefect.facade.console.definitions.definition_owners import (
    SHARED,
    may_create,
    may_rename,
    may_update,
    owner_cell,
    owner_field,
    require_creator,
    require_editor,
)
from jobauto_prefect.facade.console.records.form_fields import (
    FieldGroup,
    FormField,
    fields_of,
    values_of,
)
from jobauto_prefect.facade.console.records.page_parts import (
    Action,
    RecordPage,
    Section,
    link,
    state_badge,
    text_cell,
)
from jobauto_prefect.facade.console.records.record_views import (
    ListFilter,
    ListPage,
    RecordForm,
    add_form_routes,
    language_parts,
    list_query,
    read_choices,
    read_list,
    respond_with_list,
    respond_with_record,
)
from jobauto_prefect.facade.formats.html.cell_model import Cell, clip
from jobauto_prefect.facade.formats.html.page_language import Translator
from jobauto_prefect.facade.http import late_routes
from jobauto_prefect.facade.http.addresses import CONTRACT

ADDRESS = f"{CONSOLE}/topics"
HERE = "Run templates"
COLOUR = "C0C0C0"
"""Of a new topic, unless somebody says otherwise."""

Topic = Mapping[str, Any]

router = late_routes.router(include_in_schema=False)


@router.get(ADDRESS)
async def list_topics(request: Request, contract: CurrentContract) -> Response:
    """List topics."""
    translate, languages = language_parts(request)
    view = await read_list(contract, "topics", list_query(request, ("company_id",)))
    new = Action(translate("New topic"), f"{ADDRESS}/new", is_main=True)
    page = ListPage(
        collection="topics",
        title="Topics",
        here=HERE,
        heads=[
            translate("Name"),
            translate("Colour"),
            translate("Description"),
            translate("Company"),
        ],
        rows=[
            [
                link(topic["name"], f"{ADDRESS}/{topic['id']}"),
                Cell("colour", f"#{topic['color']}"),
                text_cell(clip(topic["description"] or "")),
                owner_cell(topic, view, translate),
            ]
            for topic in view.data.values()
        ],
        filters=[
            ListFilter(
                "company_id",
                translate("Company"),
                await read_choices(contract, "companies", languages),
            )
        ],
        empty=translate("There is no topic yet. Run templates are found by the topics they bear."),
        actions=[new] if may_create(contract.who) else [],
    )
    return respond_with_list(request, contract.who, page, view)


@router.get(f"{ADDRESS}/{{topic:int}}")
async def show_topic(topic: int, request: Request, contract: CurrentContract) -> Response:
    """Show a topic, and the run templates that bear it."""
    translate, _ = language_parts(request)
    view = await contract.read(f"/topic/{topic}")
    shown = view.data
    bearers = {"topic": shown["name"]}
    if shown["company_id"] is not None:
        bearers["company_id"] = str(shown["company_id"])
    templates = await read_list(contract, "runtemplates", bearers)
    edit = Action(translate("Edit"), f"{ADDRESS}/{topic}/edit", is_main=True)
    page = RecordPage(
        title=shown["name"],
        about=[Cell("colour", f"#{shown['color']}")],
        badges=[],
        actions=[edit] if may_update(contract.who, shown) else [],
        facts=[
            (translate("Company"), owner_cell(shown, view, translate)),
            (translate("What it is for"), text_cell(shown["description"] or "")),
        ],
        sections=[
            Section(
                "templates",
                translate("Run templates"),
                [translate("Name"), translate("Company"), translate("State")],
                [
                    [
                        link(template["name"], f"{CONSOLE}/runtemplates/{template['id']}"),
                        text_cell(
                            templates.names.get("company", {}).get(str(template["company_id"]), "")
                        ),
                        state_badge(template, translate),
                    ]
                    for template in templates.data.values()
                ],
                translate("No run template bears it."),
                f"{CONSOLE}/runtemplates?{urlencode(bearers)}",
            )
        ],
        contract_href=f"{CONTRACT}/topic/{topic}.html",
        prefect_url=shown["prefect_url"],
    )
    return respond_with_record(request, contract.who, page, here=HERE)


async def _new_form(request: Request, contract: Contract) -> RecordForm:
    translate, languages = language_parts(request)
    require_creator(contract.who)
    owner = await owner_field(contract, languages, translate)
    groups = [FieldGroup(translate("Topic"), [owner, *_fields(translate, has_name=True)])]
    return RecordForm(
        title=translate("New topic"),
        here=HERE,
        action=f"{ADDRESS}/new",
        target="/topic/",
        collection="topics",
        groups=groups,
        values=values_of(fields_of(groups), None),
        fixed=SHARED,
        back=ADDRESS,
        submit=translate("Save"),
    )


async def _edit_form(request: Request, contract: Contract, topic_id: int) -> RecordForm:
    translate, _ = language_parts(request)
    topic = (await contract.read(f"/topic/{topic_id}")).data
    require_editor(contract.who, topic)
    fields = _fields(translate, has_name=may_rename(contract.who))
    groups = [FieldGroup(translate("Topic"), fields)]
    address = f"{ADDRESS}/{topic_id}"
    return RecordForm(
        title=translate("Edit {name}", name=topic["name"]),
        here=HERE,
        action=f"{address}/edit",
        target=f"/topic/{topic_id}.json",
        collection="topics",
        groups=groups,
        values=values_of(fields_of(groups), topic),
        back=address,
        submit=translate("Save"),
    )


def _fields(translate: Translator, *, has_name: bool) -> list[FormField]:
    name = FormField("/name", translate("Name"), is_required=True)
    return [
        *([name] if has_name else []),
        FormField("/description", translate("What it is for"), "long"),
        FormField(
            "/color",
            translate("Colour"),
            hint=translate("Six hexadecimal digits, such as {example}.", example=COLOUR),
            default=COLOUR,
            blank=COLOUR,
        ),
    ]


add_form_routes(router, ADDRESS, "topic", _edit_form, _new_form)
