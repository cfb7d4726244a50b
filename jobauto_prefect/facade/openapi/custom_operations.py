"""The operations that are not made from the table of resources."""

from collections.abc import Sequence
from typing import Any

from jobauto_prefect.facade.openapi import components
from jobauto_prefect.facade.openapi.components import (
    COMMON_ERRORS,
    FOR_RECORDS,
    SIGN_IN_ERRORS,
    WRITE_ERRORS,
)
from jobauto_prefect.facade.openapi.resource_operations import Operations
from jobauto_prefect.facade.openapi.schemas import Json, reference
from jobauto_prefect.facade.resources.job_output import FALLBACK_TYPE, SERVED_TYPES

SERVICE = "Service"
SIGNING_IN = "Signing in"
OPEN: list[Json] = []
"""`security` of an operation that anybody may use."""
PASSWORD_TOO: list[Json] = [{}, {"basic": []}]

APP = components.path_key("appId", "application")
COMPANY = components.path_key("companyId", "company")
CREDENTIAL = components.path_key("credentialId", "credential")
JOB = components.path_key("jobId", "job")
EVENT = components.path_key("eventId", "event")
SOURCE = components.path_key("eventSourceId", "event source")
TASK = components.path_key("taskId", "task")
TEMPLATE = components.path_key("runTemplateId", "run template")
USER = components.path_key("userId", "user")
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


def custom_operations() -> Operations:
    """Describe them, each with its path and method."""
    yield from _service_operations()
    yield from _worker_operations()
    yield from _session_operations()
    yield from _member_operations()
    yield from _detail_operations()
    yield from _task_operations()
    yield from _event_operations()


def _operation(tag: str, name: str, summary: str, text: str, answers: Json, **more: Any) -> Json:
    """Describe an operation; `more` are its other keys. Without `security` it takes credentials."""
    anybody = more.get("security") == OPEN
    statuses = COMMON_ERRORS if anybody else (*COMMON_ERRORS, *SIGN_IN_ERRORS)
    return {
        "operationId": name,
        "tags": [tag],
        "summary": summary,
        "description": text,
        **more,
        "responses": answers | components.error_references(*statuses),
    }


def _ok(
    text: str, shape: str, formats: Sequence[str] = FOR_RECORDS, status: str = "200"
) -> dict[str, Json]:
    return {
        status: {"description": text, "content": components.media_types(reference(shape), formats)}
    }


def _service_operations() -> Operations:
    yield "/ping.{suffix}", "get", _operation(
        SERVICE, "ping", "Ask for a sign of life",
        "Open to all, for probes. 503 while the database is away.",
        _ok("The service and its database answer.", "Ping"), parameters=[SUFFIX], security=OPEN,
    )  # fmt: skip
    for path, name, parameters in (
        ("/status", "status", []),
        ("/status.{suffix}", "statusAs", [SUFFIX]),
    ):
        yield path, "get", _operation(
            SERVICE, name, "Ask how the service is",
            "Its version, its neighbours, and for those with `system.logs` how much it holds.",
            _ok("What the service is.", "Status"), parameters=parameters,
        )  # fmt: skip
    yield "/index.{suffix}", "get", _operation(
        SERVICE, "index", "List all endpoints", "Every path and its methods.",
        _ok("All endpoints.", "Index"), parameters=[SUFFIX],
    )  # fmt: skip

    yield "/forecast.{suffix}", "get", _operation(
        SERVICE, "forecast", "Ask what will run when",
        "The windows whose jobs start within so many days, in the order of their starts, of the "
        "active run templates one may see.",
        _ok("The windows.", "Forecast"), parameters=[SUFFIX, *FORECAST],
    )  # fmt: skip
    yield "/maintenance.{suffix}", "get", _operation(
        SERVICE, "getMaintenance", "Ask for the freeze for maintenance",
        "Whether nothing starts just now, why, and until when.",
        _ok("The freeze, or that there is none.", "Maintenance"), parameters=[SUFFIX],
    )  # fmt: skip
    yield "/maintenance.{suffix}", "put", _operation(
        SERVICE, "beginMaintenance", "Freeze",
        "No job starts until the freeze ends; running jobs run to their end. Windows that fall "
        "into it do what `on_closed` of their run template says. Reason and end of a freeze that "
        "lasts are replaced. Needs `system.config`.",
        _ok("The freeze.", "Maintenance") | components.error_references(*WRITE_ERRORS),
        parameters=[SUFFIX],
        requestBody=components.json_body(reference("MaintenanceBody"), required=False),
    )  # fmt: skip
    yield "/maintenance.{suffix}", "delete", _operation(
        SERVICE, "endMaintenance", "End the freeze",
        "What waits may start. Where nothing is frozen nothing changes. Needs `system.config`.",
        _ok("That there is none.", "Maintenance"), parameters=[SUFFIX],
    )  # fmt: skip
    yield "/drift.{suffix}", "get", _operation(
        SERVICE, "listDrift", "Compare Prefect with the records",
        "The run templates whose flow, work pool or deployment in Prefect is not what the records "
        "say, an object by id; of the companies one may see. Writing the run template puts it "
        "right. 503 while Prefect is away.",
        _keyed("Those that differ.", "Drift"), parameters=[SUFFIX],
    )  # fmt: skip
    yield "/reconcile.{suffix}", "post", _operation(
        SERVICE, "reconcile", "Settle now what somebody changed in Prefect",
        "Whether a deployment is paused, its cron expression and its time zone are taken over into "
        "the record; all else is restored. The services do the same by themselves, bit by bit. "
        "Needs `system.config`. 503 while Prefect is away.",
        _ok("What was done.", "Reconciled") | components.error_references(413), parameters=[SUFFIX],
    )  # fmt: skip
    tried = components.query_parameter("dry_run", "Only say what would go.", {"type": "boolean"})
    yield "/prune.{suffix}", "post", _operation(
        SERVICE, "prune", "Delete what is kept no longer",
        "Jobs, their output and their flow runs in Prefect, tasks and events that are older, or "
        "more, than settings, companies and run templates say (field `retention`). The services "
        "do the same by themselves once an hour. After a few seconds it is left at that: repeat "
        "it while `complete` is false. Needs `system.config`. 503 while Prefect is away.",
        _ok("What went.", "Pruned") | components.error_references(413), parameters=[tried, SUFFIX],
    )  # fmt: skip
    stale = {
        "409": {
            "description": "The plan is another one by now; nothing was changed.",
            "content": components.media_types(reference("StalePlan"), FOR_RECORDS),
        }
    }
    yield "/apply.{suffix}", "post", _operation(
        SERVICE, "applyFiles", "Plan and apply files of records",
        "Without `digest` the plan: what applying the files would change, tried and taken back. "
        "With the digest of a plan it is carried out, all of it or nothing, unless the records are "
        "others by now. Errors are answered all at once, with file, line and pointer. The rights "
        "are those of the single writes, and each record has its entry in the audit log.",
        _ok("The plan, or what was carried out.", "ApplyPlan") | stale
        | components.error_references(413),
        parameters=[SUFFIX], requestBody=components.json_body(reference("ApplyBody")),
    )  # fmt: skip
    yield "/pools.{suffix}", "get", _operation(
        SERVICE, "listPools", "List work pools and their workers",
        "The work pools of the active run templates one may see, an object by name, as Prefect "
        "knows them. 503 while Prefect is away.",
        _keyed("The work pools.", "WorkPool"), parameters=[SUFFIX],
    )  # fmt: skip


def _worker_operations() -> Operations:
    yield "/workers.{suffix}", "get", _operation(
        SERVICE, "listWorkers", "List workers",
        "The workers of the work pools one may see, an object by name: where they are, their last "
        "sign of life, their jobs, and what keeps them from working.",
        _keyed("The workers.", "WorkerState"), parameters=[SUFFIX],
    )  # fmt: skip
    yield "/worker/{workerName}/lost.{suffix}", "post", _operation(
        SERVICE, "loseWorker", "Say that a worker is gone for good",
        "For a machine that will not come back: the jobs of its worker are lost, and tried again "
        "where their run templates say so. Should the worker live after all, it is told to end "
        "what it runs. 409 where it gave a sign of life within the last lease. Needs "
        "`system.config`.",
        _ok("The jobs that are lost.", "WorkerLost") | components.error_references(409, 413),
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
    signed_in = _ok("The token.", "SignedIn")
    refused = components.error_references(*SIGN_IN_ERRORS)
    for method in ("get", "post"):
        name = "signIn" if method == "post" else "signInByGet"
        body = components.json_body(SIGN_IN_FORM, required=False)
        body["content"]["application/x-www-form-urlencoded"] = {"schema": SIGN_IN_FORM}
        more = {"requestBody": body} if method == "post" else {}
        yield "/login.{suffix}", method, _operation(
            SIGNING_IN, name, "Sign in", text, signed_in | refused,
            parameters=[SUFFIX, *fields], security=PASSWORD_TOO, **more,
        )  # fmt: skip
    yield "/logout", "post", _operation(
        SIGNING_IN, "signOut", "Sign out",
        "Revokes the token of the body, one's own, else the bearer token of the request.",
        _ok("It is revoked.", "SignedOut") | components.error_references(413),
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
        yield "/data-export", method, _operation(
            SIGNING_IN, name, "Export one's data",
            "What this service holds about the user who asks: profile, memberships, tokens, and "
            "the newest jobs and audit entries.",
            _ok("All of it.", "DataExport")
            | (components.error_references(413) if method == "post" else {}),
        )  # fmt: skip


def _member_operations() -> Operations:
    yield "/user/{userId}/roles.{suffix}", "get", _operation(
        "Users", "listRoles", "List the roles of a user",
        "An object by the id of the role. Needs `users.read`, except for oneself.",
        _keyed("The roles.", "AssignedRole"), parameters=[USER, SUFFIX],
    )  # fmt: skip
    yield "/user/{userId}/roles/", "post", _operation(
        "Users", "setRoles", "Set the roles of a user",
        "Instead of the roles there are, or with `replace` false beside them. Nobody gives a role "
        "above their own, and the last super_admin stays. Needs `roles.assign`.",
        _ok("The roles the user has now.", "RolesSet") | components.error_references(*WRITE_ERRORS),
        parameters=[
            USER,
            components.query_parameter(
                "replace", "Instead of the roles there are.", {"type": "boolean"}
            ),
        ],
        requestBody=components.json_body(reference("RolesBody")),
    )  # fmt: skip
    yield "/company/{companyId}/users.{suffix}", "get", _operation(
        "Companies", "listMembers", "List the members of a company",
        "An object by the id of the user. Needs `companies.read`.",
        _keyed("The members.", "Member"), parameters=[COMPANY, SUFFIX],
    )  # fmt: skip
    yield "/company/{companyId}/user/", "post", _operation(
        "Companies", "assignMember", "Assign a user to a company",
        "Makes a user a member, or changes the member's role. Needs `members.update`.",
        _ok("The membership.", "Member", status="201") | components.error_references(*WRITE_ERRORS),
        parameters=[COMPANY], requestBody=components.json_body(reference("MemberBody")),
    )  # fmt: skip
    yield "/company/{companyId}/user/{userId}", "delete", _operation(
        "Companies", "removeMember", "Remove a user from a company",
        "The user is no member any more. Needs `members.update`.",
        _ok("It is done.", "MembershipEnded") | components.error_references(409),
        parameters=[COMPANY, USER],
    )  # fmt: skip


def _keyed(text: str, shape: str) -> dict[str, Json]:
    schema = {"type": "object", "additionalProperties": reference(shape)}
    return {"200": {"description": text, "content": components.media_types(schema, FOR_RECORDS)}}


def _detail_operations() -> Operations:
    yield "/jobs/status.{suffix}", "get", _operation(
        "Jobs", "countJobs", "Count jobs by state", "Of the companies one may see.",
        _ok("The numbers.", "JobsByState"), parameters=[SUFFIX],
    )  # fmt: skip
    yield "/job/{jobId}/output.{suffix}", "get", _operation(
        "Jobs", "getOutput", "Get the output of a job",
        "All lines with a number above `after`; with `follow` also those still to come, until the "
        "job is over. Needs `jobs.read`.",
        _output(),
        parameters=[
            JOB,
            components.suffix_parameter(("json", "txt")),
            components.query_parameter(
                "after", "Only lines with a higher number.",
                {"type": "integer", "minimum": 0, "maximum": 2**31 - 1, "default": 0},
            ),
            components.query_parameter(
                "follow", "Stay until the job is over.", {"type": "boolean", "default": False}
            ),
        ],
    )  # fmt: skip
    yield "/artifact/{artifactId}", "get", _operation(
        "Jobs", "getArtifact", "Download an artifact",
        "The file, to be saved. Needs `jobs.read`.", _file(),
        parameters=[components.path_key("artifactId", "artifact")],
    )  # fmt: skip
    yield "/app/{appId}/definition.json", "get", _operation(
        "Applications", "getDefinition", "Get a definition as it came in", "Byte for byte.",
        {"200": {"description": "The definition.",
                 "content": components.media_types(reference("DefinitionMembers"), ("json",))}},
        parameters=[APP],
    )  # fmt: skip
    yield "/app/{appId}/versions.{suffix}", "get", _operation(
        "Applications", "listVersions", "List former definitions",
        "The definitions that later ones replaced, an object by number.",
        _keyed("The former definitions.", "ApplicationVersion"), parameters=[APP, SUFFIX],
    )  # fmt: skip


def _event_operations() -> Operations:
    yield "/app/{appId}/mapping.{suffix}", "get", _operation(
        "Applications", "suggestMapping", "Suggest a mapping",
        "How values of the jobs of another application could get to this one: a mapping by names "
        "and inputs, what flows by `consumes` without one, and the selectors that fit each key.",
        _ok("The suggestion.", "SuggestedMapping"),
        parameters=[
            APP,
            SUFFIX,
            components.query_parameter(
                "source_app_id", "The application whose jobs end.",
                components.number_or_name("application"),
            )
            | {"required": True},
        ],
    )  # fmt: skip
    yield "/runtemplate/{runTemplateId}/suggestions.{suffix}", "get", _operation(
        "Run templates", "suggestRules", "Suggest rules",
        "Rules that would start the run template for the events its application consumes: after "
        "run templates of its company that emit them, or for changes of event sources. Those that "
        "are there are left out. Needs `jobs.read`.",
        _ok("The rules.", "Suggestions"), parameters=[TEMPLATE, SUFFIX],
    )  # fmt: skip
    yield "/eventsource/{eventSourceId}/test.{suffix}", "post", _operation(
        "Event sources", "testSource", "Test an event source",
        "Whether its adapter database answers and `changes_cache` can be read and, where changes "
        "are deleted, written. Takes at most five seconds. Needs `companies.update`.",
        _ok("What was found.", "SourceTested") | components.error_references(413),
        parameters=[SOURCE, SUFFIX],
    )  # fmt: skip
    yield "/credential/{credentialId}/reveal.{suffix}", "post", _operation(
        "Credentials", "revealCredential", "Reveal a credential",
        "All its values in clear. Each time there is an entry in the audit log, before the answer. "
        "Needs `credentials.reveal`.",
        _ok("The values.", "CredentialRevealed") | components.error_references(413),
        parameters=[CREDENTIAL, SUFFIX],
    )  # fmt: skip
    yield "/event/{eventId}/replay.{suffix}", "post", _operation(
        "Events", "replayEvent", "Replay an event",
        "Starts the rules whose delivery is a dead letter, or the one rule that is named. A rule "
        "that was started by an event never is twice. Needs `jobs.execute`.",
        _ok("The event, and what it owes now.", "EventWithDeliveries")
        | components.error_references(*WRITE_ERRORS),
        parameters=[EVENT, SUFFIX],
        requestBody=components.json_body(reference("ReplayBody"), required=False),
    )  # fmt: skip


def _task_operations() -> Operations:
    yield "/task/{taskId}/retry.{suffix}", "post", _operation(
        "Tasks", "retryTask", "Try a task once more",
        "A failed or missed task is open again, and one more attempt at it starts now; its "
        "deadline is one window length later. Needs `jobs.execute`.",
        _ok("The job of that attempt.", "Job") | components.error_references(409, 413),
        parameters=[TASK, SUFFIX],
    )  # fmt: skip
    yield "/task/{taskId}/excuse.{suffix}", "post", _operation(
        "Tasks", "excuseTask", "Excuse a task",
        "Keeps with a failed or missed task why that is all right; its state stays. Needs "
        "`jobs.update`.",
        _ok("The task.", "Task") | components.error_references(*WRITE_ERRORS),
        parameters=[TASK, SUFFIX],
        requestBody=components.json_body(reference("ExcuseBody")),
    )  # fmt: skip


def _output() -> dict[str, Json]:
    types = {"application/json": {"schema": reference("Output")}, "text/plain": {}}
    return {"200": {"description": "The lines.", "content": types}}


def _file() -> dict[str, Json]:
    disposition = {
        "description": "The name of the file.",
        "required": True,
        "schema": {"type": "string", "pattern": "^attachment; filename\\*=UTF-8''"},
    }
    return {
        "200": {
            "description": "The file. Types that a browser would run come as octet-stream.",
            "headers": {"Content-Disposition": disposition},
            "content": {media_type: {} for media_type in sorted({FALLBACK_TYPE, *SERVED_TYPES})},
        }
    }
