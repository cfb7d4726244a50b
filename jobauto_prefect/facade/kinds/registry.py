"""All kinds of records, in the order of the contract's routes."""

from collections.abc import Mapping, Sequence
from typing import Any

from jobauto_prefect.facade.kinds import (
    applications,
    audit_entries,
    calendars,
    companies,
    credential_types,
    credentials,
    event_rules,
    event_sources,
    events,
    jobs,
    run_templates,
    tasks,
    topics,
    users,
)
from jobauto_prefect.facade.kinds.resource import Resource

RESOURCES: Sequence[Resource] = tuple(
    module.RESOURCE
    for module in (
        applications,
        companies,
        run_templates,
        jobs,
        users,
        credentials,
        credential_types,
        topics,
        calendars,
        tasks,
        audit_entries,
        event_rules,
        event_sources,
        events,
    )
)
BY_ITEM: Mapping[str, Resource] = {resource.kind.item: resource for resource in RESOURCES}
BY_RECORD: Mapping[type[Any], Resource] = {resource.record: resource for resource in RESOURCES}


def field_titles(item: str) -> Mapping[str, str]:
    """Return the titles of the fields of a kind of record, by field; "" has none."""
    if item not in BY_ITEM:
        return {}
    return (BY_ITEM[item].detail or BY_ITEM[item].answer).field_titles()
