"""The topics that companies, applications and run templates bear."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from jobauto_prefect.errors import Fault, InvalidInput
from jobauto_prefect.facade.writes.base import Id, Name, WriteRequest
from jobauto_prefect.ledger.access.ownership import is_usable
from jobauto_prefect.ledger.queries.topics import Bearer, company_bearing, resolve_topic
from jobauto_prefect.ledger.records import Topic

TopicRef = Id | Name
"""The id of a topic, or its name: the company's own first, then the shared one."""

TopicRefs = Annotated[list[TopicRef], Field(max_length=50)]


def apply_topics(write: WriteRequest, record: Bearer, given: Sequence[int | str]) -> bool:
    """Replace the topics of a record; return whether they are others now.

    Raises:
        InvalidInput: naming each that is not there, or is another company's.
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
    """Apply those of the names that there are topics for; return a warning for each other."""
    unknown = [name for name in named if _find_topic(write, record, name) is None]
    _store(record, [name for name in named if name not in unknown])
    message = "there is no topic {}: make it and import the definition again, to attach it"
    return [Fault("/topics", "reference", message.format(repr(name))) for name in unknown]


def require_own_topics(write: WriteRequest, record: Bearer) -> None:
    """Refuse that a record takes topics along to another company, or to everybody.

    Raises:
        InvalidInput: it bears one that is not there for it.
    """
    gone = [name for name in record.topics or () if _find_topic(write, record, name) is None]
    message = "the topic {} is another company's; say topics without it"
    if gone:
        raise InvalidInput([Fault("/topics", "reference", message.format(name)) for name in gone])


def _find_topic(write: WriteRequest, record: Bearer, given: int | str) -> Topic | None:
    company_id = company_bearing(record)
    if isinstance(given, str):
        return resolve_topic(write.session, given, company_id)
    topic = write.session.get(Topic, given)
    there = topic is not None and topic.retired_at is None and is_usable(topic, company_id)
    return topic if there else None


def _store(record: Bearer, names: Sequence[str]) -> bool:
    wanted = list(dict.fromkeys(names))
    if wanted == (record.topics or []):
        return False
    record.topics = wanted
    return True
