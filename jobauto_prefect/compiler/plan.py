"""Prefect's objects for an application and a run template, as values.

Nothing here knows Prefect's client: `engine/sync/deployments.py` creates the objects.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

REFUSED = str.maketrans(dict.fromkeys("/%&<>", "-"))
"""Prefect answers 422 or 500 to names with these characters."""

TEMPLATE_LABEL = "jobauto.template"
"""The label of a deployment, and so of its flow runs, that names its run template."""


@dataclass(frozen=True, slots=True)
class FlowPlan:
    """One application as a Prefect flow; `tags` are ordered, labels are for programs."""

    app_id: int
    name: str
    description: str
    version: str | None
    tags: tuple[str, ...]
    labels: Mapping[str, str | int]


@dataclass(frozen=True, slots=True)
class SchedulePlan:
    """The only schedule of a deployment: five cron fields in an IANA time zone."""

    cron: str
    timezone: str
    active: bool


DEFAULT_QUEUE = "default"
"""Prefect's name of the queue that each work pool has."""


@dataclass(frozen=True, slots=True)
class WorkQueuePlan:
    """A work queue of the deployment's pool. `priority`: lowest comes first; None: unchanged."""

    name: str = DEFAULT_QUEUE
    priority: int | None = None


USUAL_QUEUE = WorkQueuePlan()
"""The queue of run templates that name none."""


@dataclass(frozen=True, slots=True)
class DeploymentPlan:
    """One run template as a Prefect deployment of its application's flow."""

    template_id: int
    flow: FlowPlan
    name: str
    entrypoint: str
    description: str
    version: str | None
    tags: tuple[str, ...]
    labels: Mapping[str, str | int]
    work_pool: str
    work_queue: WorkQueuePlan
    parameters: Mapping[str, Any]
    parameter_schema: Mapping[str, Any]
    schedule: SchedulePlan | None
    paused: bool


def template_in(labels: Mapping[str, Any]) -> int | None:
    """Return the run template that a flow run's labels name; None if none."""
    named = labels.get(TEMPLATE_LABEL)
    return named if type(named) is int and 0 < named < 2**31 else None


def prefect_name(text: str) -> str:
    """Return a name Prefect accepts: one line, without the characters it refuses, never empty."""
    return " ".join(text.translate(REFUSED).split()) or "-"


COMPANY, TOPIC = "company:", "topic:"

MOST_TOPICS = 3
"""Limit of topics shown as tags: lists of runs show their tags on one line."""


def is_given(tag: str) -> bool:
    """Whether a run gets this tag from its deployment."""
    return tag.startswith((COMPANY, TOPIC))


def topic_tags(topics: Iterable[str]) -> tuple[str, ...]:
    """Return the first topics as tags."""
    return tuple(f"{TOPIC}{topic}" for topic in topics)[:MOST_TOPICS]


def template_tags(company_slug: str, topics: Iterable[str]) -> tuple[str, ...]:
    """Return the tags of a run template's deployment; Prefect gives them to each run of it."""
    return (f"{COMPANY}{company_slug}", *topic_tags(topics))
