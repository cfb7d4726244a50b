"""The records of the published dialect."""

import json
from collections.abc import Mapping
from typing import Any

from jobauto_prefect.definitions.records.names import code_of
from jobauto_prefect.facade.compat.fields import (
    JsonObject,
    RecordShape,
    bool_or_none,
    cut_text,
    int_or_none,
    is_actions,
    is_number,
    is_object,
    is_uncut,
    nearest_of,
    object_or_empty,
    object_or_none,
    same_names,
    short_text,
    text_or_none,
    time_fields,
)

ACTIONS = ("create", "update", "delete")
"""For audit entries. Others are not shown in this dialect."""

INTERVALS = ("c", "n", "i", "h", "d", "w", "m", "y")
TASK_STATES = ("open", "running", "fulfilled", "fulfilled_late", "failed", "missed")


def _value_of(shown: JsonObject) -> JsonObject:
    """Return a credential's only value as `value`; with several, it would be ambiguous."""
    among = list(shown.get("values", {}).values())
    return {"type": "password", "value": short_text(255)(among[0]) if len(among) == 1 else None}


def _code(shown: JsonObject) -> JsonObject:
    slug, company_id = shown.get("slug"), int_or_none(shown.get("id"))
    if not isinstance(slug, str) or company_id is None:
        return {}
    return {"code": code_of(slug, company_id)}


def _as_json(value: Any) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False)


JOB = RecordShape(
    same_names(int_or_none, "id", "app_id", "company_id", "runtemplate_id", "task_id", "exitcode",
         "launched_by")
    | same_names(text_or_none, "begin", "end", "stdout", "stderr", "command", "schedule",
                 "executor", "app_version")
    | same_names(object_or_empty, "env"),
    usable={"env": is_object},
    written={"schedule": "scheduled"},
)  # fmt: skip


SHAPES: Mapping[str, RecordShape] = {
    "company": RecordShape(
        same_names(int_or_none, "id", "customer")
        | same_names(bool_or_none, "enabled")
        | same_names(text_or_none, "settings", "logo")
        | {"name": ("name", cut_text(32)), "code": ("slug", short_text(10))}
        | {"ic": ("ic", short_text(32)), "email": ("email", short_text(64))}
        | time_fields("DatCreate", "DatUpdate"),
        _code,
        {"customer": is_number, "name": is_uncut, "slug": bool},
        {"code": "slug"},
    ),
    "runtemplate": RecordShape(
        same_names(int_or_none, "id", "app_id", "company_id", "delay", "successfull_jobs_count",
             "failed_jobs_count")
        | same_names(bool_or_none, "active", "prepared")
        | same_names(object_or_none, "success", "fail")
        | same_names(text_or_none, "last_schedule", "next_schedule", "note")
        | {"interv": ("interv", nearest_of(*INTERVALS, nearest="c"))}
        | {"name": ("name", cut_text(250)), "executor": ("executor", short_text(255))}
        | {"cron": ("cron", short_text(64))}
        | time_fields("DatCreate", "DatSave"),
        usable={"name": is_uncut, "success": is_actions, "fail": is_actions},
    ),
    "job": JOB,
    "user": RecordShape(
        same_names(int_or_none, "id", "last_modifier_id")
        | same_names(bool_or_none, "enabled")
        | same_names(text_or_none, "settings", "email", "firstname", "lastname", "login")
        | time_fields("DatCreate", "DatSave")
    ),
    "credential": RecordShape(
        same_names(int_or_none, "id", "company_id") | {"name": ("name", cut_text(32))}
        | time_fields("DatCreate", "DatUpdate"),
        _value_of,
        {"name": is_uncut},
    ),
    "credential_type": RecordShape(
        same_names(int_or_none, "id")
        | {"name": ("name", cut_text(32)), "description": ("description", cut_text(255))}
        | same_names(short_text(255), "url", "logo")
        | time_fields("DatCreate", "DatUpdate"),
        usable={"name": is_uncut, "description": is_uncut},
    ),
    "topic": RecordShape(
        same_names(int_or_none, "id")
        | {"name": ("name", cut_text(32)), "description": ("description", cut_text(255))}
        | {"color": ("color", lambda value: None if value is None else short_text(7)(f"#{value}"))}
        | time_fields("DatCreate", "DatUpdate"),
        usable={"name": is_uncut, "description": is_uncut},
    ),
    "task": RecordShape(
        same_names(int_or_none, "id", "runtemplate_id", "fulfilled_by_job_id", "attempts")
        | same_names(text_or_none, "window_start", "window_end", "deadline", "fulfilled_at",
                     "created_at")
        | {"state": ("state", nearest_of(*TASK_STATES, nearest="open"))},
        lambda shown: (
            {"jobs": [JOB.translate(job) for job in shown["jobs"]]} if "jobs" in shown else {}
        ),
    ),
    "auditlog": RecordShape(
        same_names(int_or_none, "id", "user_id", "entity_id")
        | same_names(text_or_none, "entity_type", "created_at")
        | {"action": ("action", nearest_of(*ACTIONS, nearest=None))}
        | {"additional_data": ("changes", object_or_empty)},
        lambda shown: {
            "event_description": f"{shown['action']} {shown['entity_type']} {shown['entity_id']}",
            "severity": "low",
        },
    ),
    "eventrule": RecordShape(
        same_names(int_or_none, "id", "event_source_id", "runtemplate_id", "priority")
        | same_names(bool_or_none, "enabled")
        | same_names(short_text(60), "evidence")
        | {"operation": ("operation", nearest_of("any", *ACTIONS, nearest="any"))}
        | {"env_mapping": ("env_mapping", _as_json)}
        | time_fields("created", "modified")
    ),
    "eventsource": RecordShape(
        same_names(int_or_none, "id", "poll_interval", "last_processed_id")
        | same_names(bool_or_none, "enabled")
        | same_names(short_text(255), "name", "db_host", "db_password")
        | same_names(short_text(128), "adapter_type", "db_database", "db_username")
        | same_names(short_text(8), "db_port")
        | {"db_connection": ("db_connection", nearest_of("mysql", "pgsql", "sqlite", nearest=None))}
        | time_fields("created", "modified")
    ),
}  # fmt: skip
"""By record kind; applications are in `applications`."""
