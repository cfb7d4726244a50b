"""Responses of the published dialect other than the records in the table."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from jobauto_prefect.facade.compat.fields import JsonObject
from jobauto_prefect.facade.formats import View

Asked = Mapping[str, Any]
COUNTED: Mapping[str, str] = {
    "app": "apps",
    "company": "companies",
    "runtemplate": "runtemplates",
    "topic": "topics",
    "credential": "credentials",
    "credential_type": "credentialtypes",
    "event_source": "eventsources",
    "event_rule": "eventrules",
    "job": "jobs",
    "user": "users",
}
EXPORT_FOR = timedelta(days=1)
"""Declared validity of an export's address. It is valid for longer: it is not secret, and users who
sign in there get their own data."""


def _each(view: View, more: Callable[[JsonObject], JsonObject]) -> View:
    data = {key: record | more(record) for key, record in view.data.items()}
    return replace(view, data=data, as_array=True)


def _export(view: View, asked: Asked) -> View:
    """Return the data's address for `export`; for `status`, that no exports are kept."""
    if asked.get("action") == "status":
        return replace(view, data={"success": True, "exports": []})
    generated_at = view.data["export_metadata"]["generated_at"]
    data = {
        "success": True,
        "download_url": f"{view.base}/data-export-download",
        "format": "json",
        "generated_at": generated_at,
        "expires_at": (datetime.fromisoformat(generated_at) + EXPORT_FOR).isoformat(),
        "notification_sent": False,
    }
    return replace(view, data=data)


def _download(view: View, _asked: Asked) -> View:
    """Return the data itself. Parts the service does not store are present but empty."""
    user = view.data["user_profile"]
    entries = view.data["audit_trails"]
    data = view.data | {
        "export_metadata": {
            "export_date": view.data["export_metadata"]["generated_at"],
            "user_id": user["id"],
            "gdpr_article": "Article 15",
            "data_controller": "the operator of this service",
        },
        "user_profile": {
            "user_id": user["id"],
            "username": user["login"],
            "email": user["email"],
            "first_name": user["firstname"],
            "last_name": user["lastname"],
            "account_enabled": user["enabled"],
            "account_created": user["created_at"],
            "last_updated": user["updated_at"],
        },
        "company_associations": [
            {
                "company_id": company["company_id"],
                "company_name": company["company"],
                "associated_since": company["created_at"],
                "relationship_type": company["role"],
            }
            for company in view.data["company_associations"]
        ],
        "credentials": [],
        "activity_logs": [
            {
                "log_id": entry["id"],
                "company_id": entry["company_id"],
                "severity": "low",
                "source": entry["door"],
                "message": f"{entry['action']} {entry['entity_type']} {entry['entity_id']}",
                "timestamp": entry["created_at"],
            }
            for entry in entries
        ],
        "job_history": [_job(job) for job in view.data["job_history"]],
        "consent_records": {"consent_records": [], "consent_audit_trail": []},
        "session_history": {"note": "tokens are listed, sessions are not kept"},
        "audit_trails": {"data_export_requests": []},
    }
    return replace(view, data=data)


def _job(job: JsonObject) -> JsonObject:
    return {
        "job_id": job["id"],
        "application_id": job["app_id"],
        "company_id": job["company_id"],
        "started_at": job["begin"],
        "completed_at": job["end"],
        "exit_code": job["exitcode"],
        "status": job["state"],
    }


TRANSLATIONS: Mapping[str, Callable[[View, Asked], View]] = {
    "status": lambda view, _: replace(
        view, data={COUNTED.get(name, name): count for name, count in view.data.items()}
    ),
    "jobs_status": lambda view, _: replace(view, data={"1": view.data}, as_array=True),
    "roles": lambda view, _: _each(view, lambda _one: {"is_active": True}),
    "members": lambda view, _: _each(
        view, lambda member: {"user": {"id": member["user_id"], "login": member["login"]}}
    ),
    "data_export": _export,
    "data_export_download": _download,
}
"""By the name of the route."""
