"""All kinds of records, in the order of the contract's routes."""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

from jobauto_prefect.facade.formats.html.labels import field_label
from jobauto_prefect.facade.formats.html.page_language import Shown
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
    """Return the titles of a kind's fields, by field; the kind "" has none."""
    if item not in BY_ITEM:
        return {}
    return (BY_ITEM[item].detail or BY_ITEM[item].answer).field_titles()


def shown_fields(item: str) -> Mapping[str, Shown]:
    """Return the page labels of a kind's fields, from its body or its answer.

    What is not a kind, such as a worker, has none.
    """
    if item not in BY_ITEM:
        return {}
    resource = BY_ITEM[item]
    models = [each for each in (resource.detail or resource.answer, resource.body) if each]
    shown: dict[str, Shown] = {}
    for name, declared in chain.from_iterable(each.model_fields.items() for each in models):
        told = next((each for each in declared.metadata if isinstance(each, Shown)), None)
        shown[name] = told or shown.get(name) or Shown(field_label(name, field_titles(item)))
    return shown
