"""The topics that companies, applications and run templates bear."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from jobauto_prefect.errors import Fault, InvalidInput
from jobauto_prefect.facade.writes.base import Id, Name, Write
from jobauto_prefect.ledger.ownership import is_usable
from jobauto_prefect.ledger.records import Topic
from jobauto_prefect.ledger.topics import Bearer, company_bearing, topic_meant

TopicRef = Id | Name
"""The id of a topic, or its name: the company's own first, then the shared one."""

TopicRefs = Annotated[list[TopicRef], Field(max_length=50)]


def take_topics(write: Write, record: Bearer, given: Sequence[int | str]) -> bool:
    """The topics of a record, instead of those it has; whether they are others now.

    Raises:
        InvalidInput: naming each that is not there, or is another company's.
    """
    found = [_found(write, record, each) for each in given]
    faults = [
        Fault(f"/topics/{place}", "reference", f"there is no topic {each!r}")
        for place, (topic, each) in enumerate(zip(found, given, strict=True))
        if topic is None
    ]
    if faults:
        raise InvalidInput(faults)
    return _store(record, [topic.name for topic in found if topic is not None])


def take_known_topics(write: Write, record: Bearer, named: Sequence[str]) -> list[Fault]:
    """As `take_topics`, with those of the names that there are topics for; a warning for others."""
    unknown = [name for name in named if _found(write, record, name) is None]
    _store(record, [name for name in named if name not in unknown])
    message = "there is no topic {}: make it and import the definition again, to attach it"
    return [Fault("/topics", "reference", message.format(repr(name))) for name in unknown]


def require_own_topics(write: Write, record: Bearer) -> None:
    """A record that moved to another company, or is everybody's now, takes no topics along.

    Raises:
        InvalidInput: it bears one that is not there for it.
    """
    gone = [name for name in record.topics or () if _found(write, record, name) is None]
    message = "the topic {} is another company's; say topics without it"
    if gone:
        raise InvalidInput([Fault("/topics", "reference", message.format(name)) for name in gone])


def _found(write: Write, record: Bearer, given: int | str) -> Topic | None:
    company_id = company_bearing(record)
    if isinstance(given, str):
        return topic_meant(write.session, given, company_id)
    found = write.session.get(Topic, given)
    there = found is not None and found.retired_at is None and is_usable(found, company_id)
    return found if there else None


def _store(record: Bearer, names: Sequence[str]) -> bool:
    wanted = list(dict.fromkeys(names))
    if wanted == (record.topics or []):
        return False
    record.topics = wanted
    return True
