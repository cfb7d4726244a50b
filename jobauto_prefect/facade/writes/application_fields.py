"""What of a request to write an application is its definition, and what is said beside it."""

from typing import Annotated, ClassVar

from pydantic import Field, WithJsonSchema
from pydantic.json_schema import JsonSchemaValue

from jobauto_prefect.definitions import schema, validate
from jobauto_prefect.errors import InvalidDefinition
from jobauto_prefect.facade.http.field_types import Boolean
from jobauto_prefect.facade.http.requests import Fields, parse, read_json_object
from jobauto_prefect.facade.models.applications import Application
from jobauto_prefect.facade.writes.base import LABEL, Labels, WriteRequest
from jobauto_prefect.facade.writes.ownership import OwnedBody
from jobauto_prefect.facade.writes.topics import TopicRefs
from jobauto_prefect.ledger.records import App

READ_ONLY = ("created_at", "updated_at", "prefect_url")
"""What every record that was read has: where one comes back these are no keys of a document."""

OURS = ("enabled", "company_id")

RECORD_FIELDS = frozenset(Application.model_fields)
"""What records have beside the definition, which may have keys of these names, too."""

UNREADABLE = frozenset({"duplicate", "number", "text", "key", "depth", "size", "syntax"})

REQUIRED = schema()["required"]
"""What a whole definition has."""

LABELS: JsonSchemaValue = {
    "anyOf": [
        {"type": "array", "items": {"type": "string", "pattern": f"^{LABEL}$"}, "maxItems": 20},
        {"type": "string", "pattern": f"^({LABEL}(,{LABEL}){{0,19}})?$"},
        {"type": "object"},
    ]
}
"""An object of that name is the definition's own."""

TOPICS: JsonSchemaValue = {
    "anyOf": [
        {"type": "array", "items": {"type": ["string", "integer"]}, "maxItems": 50},
        {"type": "string"},
    ]
}


class ApplicationBody(OwnedBody):
    """A whole definition, or a part of one, which is merged into the one there is. Fields of an
    answer that are not the definition's are read over.
    """

    record: ClassVar = Application

    enabled: Boolean = True
    labels: Annotated[Labels, WithJsonSchema(LABELS)] = Field(default_factory=list)
    topics: Annotated[TopicRefs, WithJsonSchema(TOPICS)] = Field(
        default_factory=list,
        description="The topics to attach, by name or id; in the query with commas. A whole "
        "definition's own `topics` are kept, and those there are topics for are attached.",
    )
    force: Boolean = Field(
        default=False, description="Take a definition although its version is older."
    )


def read_definition(raw: bytes) -> Fields:
    """Return the keys of a body that is a definition or a part of one.

    Raises:
        InvalidDefinition: it is not JSON that can be kept; every error is in it.
    """
    report = validate(raw)
    unreadable = not isinstance(report.document, dict)
    if unreadable or any(fault.rule in UNREADABLE for fault in report.faults):
        raise InvalidDefinition(report.faults)
    return dict(report.document)


def parse_application(write: WriteRequest) -> ApplicationBody:
    """Return what is said beside the definition; `force` and labels are taken from the fields.

    Raises:
        InvalidInput: with every error.
    """
    given = {name: write.fields[name] for name in OURS if name in write.fields}
    if "company_id" in given:
        given["company_id"] = given["company_id"] or None
    if "force" in write.fields:
        given["force"] = write.fields.pop("force")
    if isinstance(write.fields.get("labels"), str | list):
        labels = write.fields.pop("labels")
        is_text = isinstance(labels, str)
        given["labels"] = [word for word in labels.split(",") if word] if is_text else labels
    if _says_topics(write):
        topics = write.fields["topics"]
        is_text = isinstance(topics, str)
        given["topics"] = [word.strip() for word in topics.split(",")] if is_text else topics
    return parse(ApplicationBody, given)


def document_in(write: WriteRequest) -> Fields:
    """Return the keys of the definition, or of a part of one, among those of a request."""
    ours = (*OURS, *RECORD_FIELDS) if _is_record(write) else OURS
    ours = (*ours, "topics") if _says_topics(write) else ours
    return {name: value for name, value in write.fields.items() if name not in ours}


def complete_document(write: WriteRequest, app: App | None, given: Fields) -> Fields:
    """Return what is given, over what there is of it: a whole definition stands alone."""
    if app is None:
        return {**write.defaults, **given}
    whole = all(name in given for name in REQUIRED)
    if whole and _is_record(write):
        own = {name: app.document[name] for name in app.document if name in RECORD_FIELDS}
        return {
            name: given.get(name, own.get(name))
            for name in dict.fromkeys((*write.fields, *own))
            if name in given or name in own
        }
    return given if whole else {**app.document, **given}


def _says_topics(write: WriteRequest) -> bool:
    """Whether `topics` are those attached, and not the definition's own.

    They are attached in the query, in a part of a definition without its `executable`, and in a
    record that was read.
    """
    if "topics" not in write.fields:
        return False
    is_part = "executable" not in write.fields
    return is_part or _is_record(write) or "topics" not in read_json_object(write.raw)


def _is_record(write: WriteRequest) -> bool:
    return all(name in write.fields for name in READ_ONLY)
