"""What administrators have approved: executors without isolation, and far-reaching settings.

Saving as an administrator approves the whole record, and the approval is stored beside it. Other
people may change the rest. Every claim checks again, because the approval depends on two records
and on settings, each of which may change independently. A queue's priority affects no
single job: it is sent to Prefect only while it is approved.
"""

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from jobauto_prefect.compiler.plan import DEFAULT_QUEUE
from jobauto_prefect.definitions import parse_kubernetes
from jobauto_prefect.ledger.records import App, RunTemplate
from jobauto_prefect.runtime.executors.registry import isolates, reserved_settings
from jobauto_prefect.settings import Settings


def approve_definition(app: App) -> None:
    """Record that an administrator saved an application in its current form."""
    app.approved = {
        "digest": _digest(app.document),
        "image": bool(app.document.get("ociimage")),
        "helm": _helm(app),
    }


def approve_template(template: RunTemplate) -> None:
    """Record that an administrator saved a run template in its current form."""
    template.approved = {
        **_scope(template),
        "executors": [name for name in template.executor_names if not isolates(name)],
        "settings": reserved_settings(template.executor_settings),
        "pool": template.pool,
        "priority": _priority(template),
    }


def unapproved(template: RunTemplate, settings: Settings, executor: str) -> list[str]:
    """Return why a job of a run template may not use an executor without approval."""
    lacking = unapproved_in_template(template, settings, executor)
    if executor == "Kubernetes":
        lacking += unapproved_in_definition(template.app, template.company.id, settings)
    return lacking


def unapproved_in_template(
    template: RunTemplate, settings: Settings, executor: str | None = None
) -> list[str]:
    """Return what in a run template needs an administrator's approval, and why.

    `executor` is that of a job; None: the executors that the template gives its jobs.
    """
    names = template.executor_names if executor is None else (executor,)
    reserved = reserved_settings(template.executor_settings, executor)
    return [
        *_pool(template, settings),
        *_unisolated(template, names),
        *_reserved(template, reserved, settings),
    ]


def unapproved_priority(template: RunTemplate, settings: Settings) -> list[str]:
    """Return why a run template may not give its work queue a priority without approval.

    The queue's order is that of its whole pool, so it is free only in a pool of this company alone.
    """
    pool, own = template.pool or settings.pool, f"{template.company.id}={template.pool}"
    naming = {entry for entry in settings.company_pools if pool in (entry, entry.partition("=")[2])}
    is_own = pool != settings.pool and naming == {own}
    is_approved = _priority(template) == _approved(template).get("priority")
    if template.queue_priority is None or is_own or is_approved:
        return []
    return [
        f"the priority {template.queue_priority} of the queue {template.queue or DEFAULT_QUEUE} "
        f"orders the jobs of all companies in the work pool {pool}; leave it out, or have an "
        "administrator save the run template"
    ]


def unapproved_in_definition(app: App, company_id: int | None, settings: Settings) -> list[str]:
    """Return what in a definition's `kubernetes` needs approval for a company's jobs."""
    if _helm(app) == app.approved.get("helm"):
        return []
    helm = parse_kubernetes(app.document.get("kubernetes", {})).helm
    wanted = (
        ("chart", helm.chart if helm.enabled else "", "HELM_CHARTS", settings.helm_charts),
        ("namespace", helm.namespace, "KUBERNETES_NAMESPACES", settings.kubernetes_namespaces),
    )
    return [
        f"the {what} {value} of {app.name} is not among JOBAUTO_{name}; an administrator can name "
        "it there, or save the definition"
        for what, value, name, listed in wanted
        if value and not _is_listed(value, company_id, listed)
    ]


def _helm(app: App) -> Any:
    return app.document.get("kubernetes", {}).get("helm")


def _pool(template: RunTemplate, settings: Settings) -> Iterator[str]:
    pool = template.pool or settings.pool
    is_free = pool == settings.pool or _is_listed(pool, template.company.id, settings.company_pools)
    if not is_free and pool != _approved(template).get("pool"):
        yield (
            f"the work pool {pool} is not among JOBAUTO_COMPANY_POOLS; "
            "an administrator can name it there, or save the run template"
        )


def _priority(template: RunTemplate) -> list[Any]:
    return [template.pool, template.queue, template.queue_priority]


def _unisolated(template: RunTemplate, executors: Collection[str]) -> Iterator[str]:
    app = template.app
    names = [name for name in executors if not isolates(name)]
    if not names or not (app.document.get("ociimage") or app.approved.get("image")):
        return
    chosen = _approved(template).get("executors", [])
    if any(name not in chosen for name in names):
        yield (
            f"{', '.join(names)} runs {app.name} outside its container image; "
            "choose an executor that isolates it, or have an administrator save the run template"
        )
    elif app.approved.get("digest") != _digest(app.document):
        yield (
            f"{', '.join(names)} runs {app.name} without isolation, and no administrator saved its "
            "current definition; have one save it, or choose an executor that isolates it"
        )


def _reserved(
    template: RunTemplate, reserved: Mapping[str, Any], settings: Settings
) -> Iterator[str]:
    approved = _approved(template).get("settings", {})
    accounts = settings.kubernetes_service_accounts
    for name, value in reserved.items():
        is_free = name == "service_account" and _is_listed(value, template.company.id, accounts)
        if not is_free and (name not in approved or approved[name] != value):
            yield (
                f"only an administrator can choose the executor setting {name}; leave it out, or "
                "have an administrator save the run template"
            )


def _approved(template: RunTemplate) -> Mapping[str, Any]:
    """Return what is approved for a run template, its application and its company."""
    scope = _scope(template)
    return template.approved if scope.items() <= template.approved.items() else {}


def _scope(template: RunTemplate) -> dict[str, int]:
    return {"app_id": template.app.id, "company_id": template.company.id}


def _is_listed(value: str, company_id: int | None, listed: Sequence[str]) -> bool:
    """Whether a value is listed, for everybody or for that company (`ID=VALUE`)."""
    return value in listed or f"{company_id}={value}" in listed


def _digest(document: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
