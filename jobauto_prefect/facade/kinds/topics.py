"""Topics: shown, written, and attached to other records."""

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

from pydantic import Field, WithJsonSchema, field_validator

from jobauto_prefect.errors import Fault, InvalidInput
from jobauto_prefect.facade.answers import (
    JsonObject,
    Owned,
    serialize_fields,
    tag_link,
)
from jobauto_prefect.facade.formats.html.page_language import Shown
from jobauto_prefect.facade.http.requests import parse as parse_body
from jobauto_prefect.facade.kinds.resource import Resource, reference
from jobauto_prefect.facade.writes.base import (
    Id,
    Name,
    Note,
    RecordName,
    WriteRequest,
    WriteResult,
    apply_fields,
    require_fields,
)
from jobauto_prefect.facade.writes.ownership import (
    OWNER,
    OwnedBody,
    Owner,
    apply_owner,
    authorize_definition,
    namesake_warnings,
    require_administrator,
    resolve_owner,
    select_named,
)
from jobauto_prefect.kinds import KINDS
from jobauto_prefect.ledger import records
from jobauto_prefect.ledger.access.ownership import is_usable
from jobauto_prefect.ledger.base import noun_of
from jobauto_prefect.ledger.queries.topics import (
    Bearer,
    bearers_of,
    company_bearing,
    rename_in,
    resolve_topic,
    topics_named,
)
from jobauto_prefect.settings import Settings
from jobauto_prefect.text_patterns import matching


class Topic(Owned):
    """A tag with a colour."""

    name: str = Field(description="Its name.")
    description: str | None = Field(description="What it is for.")
    color: str = Field(title="Colour", description="Six hexadecimal digits.")
    prefect_url: str = Field(description="Address of its deployments in Prefect's UI.")


TopicRef = Id | Name
"""A topic's id or name: the company's own topic first, then the shared one."""


TopicRefs = Annotated[list[TopicRef], Field(max_length=50)]


def apply_topics(write: WriteRequest, record: Bearer, given: Sequence[int | str]) -> bool:
    """Replace the topics of a record; return whether they changed.

    Raises:
        InvalidInput: naming each that does not exist or belongs to another company.
    """
    topics = [_find_topic(write, record, each) for each in given]
    faults = [
        Fault(f"/topics/{place}", "reference", f"there is no topic {each!r}")
        for place, (topic, each) in enumerate(zip(topics, given, strict=True))
        if topic is None
    ]
    if faults:
        raise InvalidInput(faults)
    return _store(record, [topic.name for topic in topics if topic is not None])


def apply_existing_topics(write: WriteRequest, record: Bearer, named: Sequence[str]) -> list[Fault]:
    """Attach the topics that exist; return a warning for each other name."""
    unknown = [name for name in named if _find_topic(write, record, name) is None]
    _store(record, [name for name in named if name not in unknown])
    message = "there is no topic {}; to attach it, create it and import the definition again"
    return [Fault("/topics", "reference", message.format(repr(name))) for name in unknown]


def require_own_topics(write: WriteRequest, record: Bearer) -> None:
    """Refuse to move a record with topics that its new company, or all companies, can't use.

    Raises:
        InvalidInput: it has a topic that does not exist there.
    """
    gone = [name for name in record.topics or () if _find_topic(write, record, name) is None]
    message = "the topic {} belongs to another company; send topics without it"
    if gone:
        raise InvalidInput([Fault("/topics", "reference", message.format(name)) for name in gone])


def _find_topic(write: WriteRequest, record: Bearer, given: int | str) -> records.Topic | None:
    company_id = company_bearing(record)
    if isinstance(given, str):
        return resolve_topic(write.session, given, company_id)
    topic = write.session.get(records.Topic, given)
    there = topic is not None and topic.retired_at is None and is_usable(topic, company_id)
    return topic if there else None


def _store(record: Bearer, names: Sequence[str]) -> bool:
    wanted = list(dict.fromkeys(names))
    if wanted == (record.topics or []):
        return False
    record.topics = wanted
    return True


class TopicBody(OwnedBody):
    """A topic, identified by its name; `color` is six hexadecimal digits."""

    record: ClassVar = Topic

    name: Annotated[RecordName | None, Shown("Name")] = None
    description: Annotated[Note | None, Shown("Purpose")] = None
    color: Annotated[
        Annotated[
            str,
            matching(r"^[0-9A-Fa-f]{6}$", "must be six hexadecimal digits, such as C0C0C0"),
            WithJsonSchema({"type": "string", "pattern": "^#?[0-9A-Fa-f]{6}$"}),
        ],
        Shown("Colour", "Six hexadecimal digits, for example {example}.", example="C0C0C0"),
    ] = "C0C0C0"

    @field_validator("color", mode="before")
    @classmethod
    def _without_hash(cls, value: Any) -> Any:
        return value.removeprefix("#") if isinstance(value, str) else value


def _other_bearers(write: WriteRequest, topic: records.Topic, owner: Owner) -> list[str]:
    return [
        f"{noun_of(bearer)} {bearer.id}"
        for bearer in bearers_of(write.session, topic)
        if company_bearing(bearer) != owner.company_id
    ]


def write_topic(write: WriteRequest) -> WriteResult:
    """Write a topic."""
    body = parse_body(TopicBody, write.fields)
    owner = resolve_owner(write, body)
    named = topics_named(write.session, body.name) if body.name else ()
    topic = write.get_for_update(records.Topic, "applications") or (
        select_named(write, owner, named) if write.record_id is None else None
    )
    created, warnings = topic is None, list[Fault]()
    if topic is None:
        authorize_definition(write, owner)
        require_fields(body, "name")
        topic = records.Topic(company_id=owner.company_id)
        warnings += [] if owner.is_said else namesake_warnings(write, topic, named)
        write.session.add(topic)
    elif body.name is not None:
        require_administrator(write, topic, {"name"} if body.name != topic.name else ())
    is_renamed = not created and body.name not in (None, topic.name)
    before, bearers = topic.name, bearers_of(write.session, topic) if is_renamed else []
    apply_fields(topic, body, except_for=OWNER)
    rename_in(write.session, bearers, before, topic.name)
    apply_owner(write, topic, owner, _other_bearers)
    write.session.flush()
    return WriteResult(topic, created, warnings)


def serialize_topic(topic: records.Topic, settings: Settings) -> JsonObject:
    """Return a topic as answers show it."""
    link = tag_link(settings, f"topic:{topic.name}")
    return serialize_fields(Topic, topic, prefect_url=link)


RESOURCE = Resource(
    KINDS["topic"], records.Topic, Topic, serialize_topic, write_topic,
    filters={"company_id": reference("company")},
    body=TopicBody,
)  # fmt: skip
