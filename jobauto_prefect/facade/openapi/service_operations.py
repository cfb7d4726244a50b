"""The operations of the service itself: its state, its workers, signing in."""

from jobauto_prefect.facade.openapi import components
from jobauto_prefect.facade.openapi.components import (
    FOR_RECORDS,
    OPEN,
    SIGN_IN_ERRORS,
    WRITE_ERRORS,
    answer,
    keyed_answer,
    operation,
)
from jobauto_prefect.facade.openapi.resource_operations import Operations
from jobauto_prefect.facade.openapi.schemas import Json, reference

SERVICE = "Service"
SIGNING_IN = "Signing in"
PASSWORD_TOO: list[Json] = [{}, {"basic": []}]

WORKER: Json = {
    "name": "workerName",
    "in": "path",
    "required": True,
    "description": "The name of the worker.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[^/]+$"},
}
SUFFIX = components.suffix_parameter(FOR_RECORDS)
FORECAST = [
    components.query_parameter(
        "days", "How far to look.",
        {"type": "integer", "minimum": 1, "maximum": 3660, "default": 7},
    ),
    components.query_parameter(
        "runtemplate_id", "Only these run templates: ids or `company/name`, with commas.",
        {"type": "string", "pattern": "^[^,]{1,320}(,[^,]{1,320})*$"},
    ),
    components.query_parameter(
        "limit", "Only so many, the first ones.",
        {"type": "integer", "minimum": 1, "maximum": 10000, "default": 1000},
    ),
]  # fmt: skip
SIGN_IN_FORM: Json = {
    "type": "object",
    "properties": {
        "username": {"type": "string", "description": "The login; `login` is the same."},
        "login": {"type": "string", "description": "The login; `username` is the same."},
        "password": {"type": "string", "description": "The password."},
    },
}


def service_operations() -> Operations:
    """Describe them, each with its path and method."""
    yield from _service_operations()
    yield from _worker_operations()
    yield from _session_operations()


def _service_operations() -> Operations:
    yield "/ping.{suffix}", "get", operation(
        SERVICE, "ping", "Ask for a sign of life",
        "Open to all, for probes. 503 while the database is away.",
        answer("The service and its database answer.", "Ping"), parameters=[SUFFIX], security=OPEN,
    )  # fmt: skip
    for path, name, parameters in (
        ("/status", "status", []),
        ("/status.{suffix}", "statusAs", [SUFFIX]),
    ):
        yield path, "get", operation(
            SERVICE, name, "Ask how the service is",
            "Its version, its neighbours, and for those with `system.logs` how much it holds.",
            answer("What the service is.", "Status"), parameters=parameters,
        )  # fmt: skip
    yield "/index.{suffix}", "get", operation(
        SERVICE, "index", "List all endpoints", "Every path and its methods.",
        answer("All endpoints.", "Index"), parameters=[SUFFIX],
    )  # fmt: skip

    yield "/forecast.{suffix}", "get", operation(
        SERVICE, "forecast", "Ask what will run when",
        "The windows whose jobs start within so many days, in the order of their starts, of the "
        "active run templates one may see.",
        answer("The windows.", "Forecast"), parameters=[SUFFIX, *FORECAST],
    )  # fmt: skip
    yield "/maintenance.{suffix}", "get", operation(
        SERVICE, "getMaintenance", "Ask for the freeze for maintenance",
        "Whether nothing starts just now, why, and until when.",
        answer("The freeze, or that there is none.", "Maintenance"), parameters=[SUFFIX],
    )  # fmt: skip
    yield "/maintenance.{suffix}", "put", operation(
        SERVICE, "beginMaintenance", "Freeze",
        "No job starts until the freeze ends; running jobs run to their end. Windows that fall "
        "into it do what `on_closed` of their run template says. Reason and end of a freeze that "
        "lasts are replaced. Needs `system.config`.",
        answer("The freeze.", "Maintenance") | components.error_references(*WRITE_ERRORS),
        parameters=[SUFFIX],
        requestBody=components.json_body(reference("MaintenanceBody"), required=False),
    )  # fmt: skip
    yield "/maintenance.{suffix}", "delete", operation(
        SERVICE, "endMaintenance", "End the freeze",
        "What waits may start. Where nothing is frozen nothing changes. Needs `system.config`.",
        answer("That there is none.", "Maintenance"), parameters=[SUFFIX],
    )  # fmt: skip
    yield "/drift.{suffix}", "get", operation(
        SERVICE, "listDrift", "Compare Prefect with the records",
        "The run templates whose flow, work pool or deployment in Prefect is not what the records "
        "say, an object by id; of the companies one may see. Writing the run template puts it "
        "right. 503 while Prefect is away.",
        keyed_answer("Those that differ.", "Drift"), parameters=[SUFFIX],
    )  # fmt: skip
    yield "/reconcile.{suffix}", "post", operation(
        SERVICE, "reconcile", "Settle now what somebody changed in Prefect",
        "Whether a deployment is paused, its cron expression and its time zone are taken over into "
        "the record; all else is restored. The services do the same by themselves, bit by bit. "
        "Needs `system.config`. 503 while Prefect is away.",
        answer("What was done.", "Reconciled") | components.error_references(413, 415),
        parameters=[SUFFIX],
    )  # fmt: skip
    tried = components.query_parameter("dry_run", "Only say what would go.", {"type": "boolean"})
    yield "/prune.{suffix}", "post", operation(
        SERVICE, "prune", "Delete what is kept no longer",
        "Jobs, their output and their flow runs in Prefect, tasks and events that are older, or "
        "more, than settings, companies and run templates say (field `retention`). The services "
        "do the same by themselves once an hour. After a few seconds it is left at that: repeat "
        "it while `complete` is false. Needs `system.config`. 503 while Prefect is away.",
        answer("What went.", "Pruned") | components.error_references(413, 415),
        parameters=[tried, SUFFIX],
    )  # fmt: skip
    stale = {
        "409": {
            "description": "The plan is another one by now; nothing was changed.",
            "content": components.media_types(reference("StalePlan"), FOR_RECORDS),
        }
    }
    yield "/apply.{suffix}", "post", operation(
        SERVICE, "applyFiles", "Plan and apply files of records",
        "Without `digest` the plan: what applying the files would change, tried and taken back. "
        "With the digest of a plan it is carried out, all of it or nothing, unless the records are "
        "others by now. Errors are answered all at once, with file, line and pointer. The rights "
        "are those of the single writes, and each record has its entry in the audit log.",
        answer("The plan, or what was carried out.", "ApplyPlan") | stale
        | components.error_references(413, 415),
        parameters=[SUFFIX], requestBody=components.json_body(reference("ApplyBody")),
    )  # fmt: skip
    yield "/pools.{suffix}", "get", operation(
        SERVICE, "listPools", "List work pools and their workers",
        "The work pools of the active run templates one may see, an object by name, as Prefect "
        "knows them. 503 while Prefect is away.",
        keyed_answer("The work pools.", "WorkPool"), parameters=[SUFFIX],
    )  # fmt: skip


def _worker_operations() -> Operations:
    yield "/workers.{suffix}", "get", operation(
        SERVICE, "listWorkers", "List workers",
        "The workers of the work pools one may see, an object by name: where they are, their last "
        "sign of life, their jobs, and what keeps them from working.",
        keyed_answer("The workers.", "WorkerState"), parameters=[SUFFIX],
    )  # fmt: skip
    yield "/worker/{workerName}/lost.{suffix}", "post", operation(
        SERVICE, "loseWorker", "Say that a worker is gone for good",
        "For a machine that will not come back: the jobs of its worker are lost, and tried again "
        "where their run templates say so. Should the worker live after all, it is told to end "
        "what it runs. 409 where it gave a sign of life within the last lease. Needs "
        "`system.config`.",
        answer("The jobs that are lost.", "WorkerLost")
        | components.error_references(409, 413, 415),
        parameters=[WORKER, SUFFIX],
    )  # fmt: skip


def _session_operations() -> Operations:
    text = (
        "A token for a login and a password, which come in the query, as JSON, as a form, or as a "
        "Basic header. The token counts for 12 hours. Whatever is wrong, the answer is the same."
    )
    fields = [
        components.query_parameter(name, field["description"], {"type": "string"})
        for name, field in SIGN_IN_FORM["properties"].items()
    ]
    signed_in = answer("The token.", "SignedIn")
    refused = components.error_references(*SIGN_IN_ERRORS)
    for method in ("get", "post"):
        name = "signIn" if method == "post" else "signInByGet"
        body = components.json_body(SIGN_IN_FORM, required=False)
        body["content"]["application/x-www-form-urlencoded"] = {"schema": SIGN_IN_FORM}
        more = {"requestBody": body} if method == "post" else {}
        yield "/login.{suffix}", method, operation(
            SIGNING_IN, name, "Sign in", text, signed_in | refused,
            parameters=[SUFFIX, *fields], security=PASSWORD_TOO, **more,
        )  # fmt: skip
    yield "/logout", "post", operation(
        SIGNING_IN, "signOut", "Sign out",
        "Revokes the token of the body, one's own, else the bearer token of the request.",
        answer("It is revoked.", "SignedOut") | components.error_references(413, 415),
        requestBody=components.json_body(
            {
                "type": "object",
                "properties": {"token": {"type": "string", "description": "A token of one's own."}},
            },
            required=False,
        ),
    )  # fmt: skip
    for method in ("get", "post"):
        name = "exportData" if method == "get" else "exportDataByPost"
        yield "/data-export", method, operation(
            SIGNING_IN, name, "Export one's data",
            "What this service holds about the user who asks: profile, memberships, tokens, and "
            "the newest jobs and audit entries.",
            answer("All of it.", "DataExport")
            | (components.error_references(413, 415) if method == "post" else {}),
        )  # fmt: skip
