"""Events in Prefect about missed and failed windows, for people's automations."""

from datetime import datetime
from typing import Any
from uuid import UUID, uuid5

from jobauto_prefect.ledger.records import RunTemplate, Task
from jobauto_prefect.ledger.states import TaskState

EVENTS = UUID("6c0d2b0e-7d6f-4d39-9a43-5b1f0a3c8f61")
"""The namespace of our events' ids: an event that is told twice is one."""


def task_event(task: Task, occurred: datetime) -> dict[str, Any] | None:
    """Return `jobauto.task.missed` or `jobauto.task.failed`; None: the task has not ended so."""
    if task.state not in (TaskState.MISSED, TaskState.FAILED):
        return None
    template = task.runtemplate
    title = f"{template.company.name} / {template.name}"
    began = task.window_start.isoformat()
    return {
        "id": str(uuid5(EVENTS, f"{task.id} {task.created_at.isoformat()} {task.attempts}")),
        "occurred": occurred.isoformat(),
        "event": f"jobauto.task.{task.state}",
        "resource": {
            "prefect.resource.id": f"jobauto.task.{task.id}",
            "prefect.resource.name": f"{title}, window from {began}",
            "jobauto.template": str(template.id),
            "jobauto.company": template.company.slug,
        },
        "related": _related(template),
        "payload": {
            "task": task.id,
            "template": template.id,
            "template_name": template.name,
            "company": template.company.slug,
            "window_start": began,
            "window_end": task.window_end.isoformat(),
            "deadline": task.deadline.isoformat(),
            "attempts": task.attempts,
            "reason": task.reason,
            "message": task.message,
        },
    }


def _related(template: RunTemplate) -> list[dict[str, str]]:
    if template.deployment_id is None:
        return []
    resource = f"prefect.deployment.{template.deployment_id}"
    return [{"prefect.resource.id": resource, "prefect.resource.role": "deployment"}]
