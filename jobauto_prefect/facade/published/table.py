"""The records of the published dialect."""

import json
from collections.abc import Mapping
from typing import Any

from jobauto_prefect.definitions.slugs import code_of
from jobauto_prefect.facade.published.members import (
    Shape,
    Shown,
    integer,
    label,
    mapping,
    one_of,
    same,
    short,
    text,
    times,
    truth,
    values,
)

ACTIONS = ("create", "update", "delete")
"""Of audit entries. Others are not shown in this dialect."""

INTERVALS = ("c", "n", "i", "h", "d", "w", "m", "y")
TASK_STATES = ("open", "running", "fulfilled", "fulfilled_late", "failed", "missed")


def _value_of(shown: Shown) -> Shown:
    """A credential of one value has it as `value`; of several, nobody could say which."""
    among = list(shown.get("values", {}).values())
    return {"type": "password", "value": short(255)(among[0]) if len(among) == 1 else None}


def _code(shown: Shown) -> Shown:
    slug, company_id = shown.get("slug"), integer(shown.get("id"))
    if not isinstance(slug, str) or company_id is None:
        return {}
    return {"code": code_of(slug, company_id)}


def _described(shown: Shown) -> Shown:
    return {
        "event_description": f"{shown['action']} {shown['entity_type']} {shown['entity_id']}",
        "severity": "low",
    }


def _as_json(value: Any) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False)


def _with_hash(value: Any) -> str | None:
    return None if value is None else short(7)(f"#{value}")


JOB = Shape(
    same(integer, "id", "app_id", "company_id", "runtemplate_id", "task_id", "exitcode",
         "launched_by")
    | same(text, "begin", "end", "stdout", "stderr", "command", "schedule", "executor",
           "app_version")
    | same(values, "env")
)  # fmt: skip


def _attempts(shown: Shown) -> Shown:
    return {"jobs": [JOB.of(job) for job in shown["jobs"]]} if "jobs" in shown else {}


SHAPES: Mapping[str, Shape] = {
    "company": Shape(
        same(integer, "id", "customer")
        | same(truth, "enabled")
        | same(text, "settings", "logo")
        | {"name": ("name", label(32)), "code": ("slug", short(10))}
        | {"ic": ("ic", short(32)), "email": ("email", short(64))}
        | times("DatCreate", "DatUpdate"),
        _code,
    ),
    "runtemplate": Shape(
        same(integer, "id", "app_id", "company_id", "delay", "successfull_jobs_count",
             "failed_jobs_count")
        | same(truth, "active", "prepared")
        | same(mapping, "success", "fail")
        | same(text, "last_schedule", "next_schedule", "note")
        | {"interv": ("interv", one_of(*INTERVALS, nearest="c"))}
        | {"name": ("name", label(250)), "executor": ("executor", short(255))}
        | {"cron": ("cron", short(64))}
        | times("DatCreate", "DatSave")
    ),
    "job": JOB,
    "user": Shape(
        same(integer, "id", "last_modifier_id")
        | same(truth, "enabled")
        | same(text, "settings", "email", "firstname", "lastname", "login")
        | times("DatCreate", "DatSave")
    ),
    "credential": Shape(
        same(integer, "id", "company_id") | {"name": ("name", label(32))}
        | times("DatCreate", "DatUpdate"),
        _value_of,
    ),
    "credential_type": Shape(
        same(integer, "id")
        | {"name": ("name", label(32)), "description": ("description", label(255))}
        | same(short(255), "url", "logo")
        | times("DatCreate", "DatUpdate")
    ),
    "topic": Shape(
        same(integer, "id")
        | {"name": ("name", label(32)), "description": ("description", label(255))}
        | {"color": ("color", _with_hash)}
        | times("DatCreate", "DatUpdate")
    ),
    "task": Shape(
        same(integer, "id", "runtemplate_id", "fulfilled_by_job_id", "attempts")
        | same(text, "window_start", "window_end", "deadline", "fulfilled_at", "created_at")
        | {"state": ("state", one_of(*TASK_STATES, nearest="open"))},
        _attempts,
    ),
    "auditlog": Shape(
        same(integer, "id", "user_id", "entity_id")
        | same(text, "entity_type", "created_at")
        | {"action": ("action", one_of(*ACTIONS, nearest=None))}
        | {"additional_data": ("changes", values)},
        _described,
    ),
    "eventrule": Shape(
        same(integer, "id", "event_source_id", "runtemplate_id", "priority")
        | same(truth, "enabled")
        | same(short(60), "evidence")
        | {"operation": ("operation", one_of("any", *ACTIONS, nearest="any"))}
        | {"env_mapping": ("env_mapping", _as_json)}
        | times("created", "modified")
    ),
    "eventsource": Shape(
        same(integer, "id", "poll_interval", "last_processed_id")
        | same(truth, "enabled")
        | same(short(255), "name", "db_host", "db_password")
        | same(short(128), "adapter_type", "db_database", "db_username")
        | same(short(8), "db_port")
        | {"db_connection": ("db_connection", one_of("mysql", "pgsql", "sqlite", nearest=None))}
        | times("created", "modified")
    ),
}  # fmt: skip
"""By record kind; applications are in `applications`."""
