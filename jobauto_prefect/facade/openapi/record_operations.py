"""The operations on records that not every kind has."""

from jobauto_prefect.facade.openapi import components
from jobauto_prefect.facade.openapi.components import (
    FOR_RECORDS,
    WRITE_ERRORS,
    answer,
    keyed_answer,
    operation,
)
from jobauto_prefect.facade.openapi.resource_operations import Operations
from jobauto_prefect.facade.openapi.schemas import Json, reference
from jobauto_prefect.facade.resources.job_output import (
    BATCH_LINES,
    FALLBACK_TYPE,
    SERVED_TYPES,
)

APP = components.path_key("appId", "application")
COMPANY = components.path_key("companyId", "company")
CREDENTIAL = components.path_key("credentialId", "credential")
JOB = components.path_key("jobId", "job")
EVENT = components.path_key("eventId", "event")
SOURCE = components.path_key("eventSourceId", "event source")
TASK = components.path_key("taskId", "task")
TEMPLATE = components.path_key("runTemplateId", "run template")
USER = components.path_key("userId", "user")
TOKEN = components.path_key("tokenId", "token")
SUFFIX = components.suffix_parameter(FOR_RECORDS)


def record_operations() -> Operations:
    """Describe them, each with its path and method."""
    yield from _member_operations()
    yield from _detail_operations()
    yield from _task_operations()
    yield from _event_operations()


def _member_operations() -> Operations:
    yield "/user/{userId}/roles.{suffix}", "get", operation(
        "Users", "listRoles", "List the roles of a user",
        "An object by the id of the role. Needs `users.read`, except for oneself.",
        keyed_answer("The roles.", "AssignedRole"), parameters=[USER, SUFFIX],
    )  # fmt: skip
    yield "/user/{userId}/roles/", "post", operation(
        "Users", "setRoles", "Set the roles of a user",
        "Instead of the roles there are, or with `replace` false beside them. Nobody gives a role "
        "above their own, and the last super_admin stays. Needs `roles.assign`.",
        answer("The roles the user has now.", "RolesSet")
        | components.error_references(*WRITE_ERRORS),
        parameters=[
            USER,
            components.query_parameter(
                "replace", "Instead of the roles there are.", {"type": "boolean"}
            ),
        ],
        requestBody=components.json_body(reference("RolesBody")),
    )  # fmt: skip
    yield "/user/{userId}/tokens.{suffix}", "get", operation(
        "Users", "listTokens", "List the tokens of a user",
        "An object by the id of the token; revoked and expired ones too. Needs `users.read`, "
        "except for oneself.",
        keyed_answer("The tokens.", "Token"), parameters=[USER, SUFFIX],
    )  # fmt: skip
    yield "/user/{userId}/tokens/", "post", operation(
        "Users", "issueToken", "Issue a token",
        "The answer has its text, and no other ever will: sent twice, this makes two. For oneself "
        "it needs `profile.update`, for others `users.impersonate`.",
        answer("The token.", "IssuedToken", status="201")
        | components.error_references(*WRITE_ERRORS),
        parameters=[USER], requestBody=components.json_body(reference("TokenBody")),
    )  # fmt: skip
    yield "/user/{userId}/token/{tokenId}", "delete", operation(
        "Users", "revokeToken", "Revoke a token",
        "It counts no more, from the next request on. For oneself it needs `profile.update`, for "
        "others `users.update`, and nobody revokes one of somebody with a higher role.",
        answer("The token.", "Token") | components.error_references(409),
        parameters=[USER, TOKEN],
    )  # fmt: skip
    yield "/company/{companyId}/users.{suffix}", "get", operation(
        "Companies", "listMembers", "List the members of a company",
        "An object by the id of the user. Needs `companies.read`.",
        keyed_answer("The members.", "Member"), parameters=[COMPANY, SUFFIX],
    )  # fmt: skip
    yield "/company/{companyId}/user/", "post", operation(
        "Companies", "assignMember", "Assign a user to a company",
        "Makes a user a member, or changes the member's role. Needs `members.update`.",
        answer("The membership.", "Member", status="201")
        | components.error_references(*WRITE_ERRORS),
        parameters=[COMPANY], requestBody=components.json_body(reference("MemberBody")),
    )  # fmt: skip
    yield "/company/{companyId}/user/{userId}", "delete", operation(
        "Companies", "removeMember", "Remove a user from a company",
        "The user is no member any more. Needs `members.update`.",
        answer("It is done.", "MembershipEnded") | components.error_references(409),
        parameters=[COMPANY, USER],
    )  # fmt: skip


def _detail_operations() -> Operations:
    yield "/jobs/status.{suffix}", "get", operation(
        "Jobs", "countJobs", "Count jobs by state", "Of the companies one may see.",
        answer("The numbers.", "JobsByState"), parameters=[SUFFIX],
    )  # fmt: skip
    yield "/job/{jobId}/output.{suffix}", "get", operation(
        "Jobs", "getOutput", "Get the output of a job",
        "All lines with a number above `after`; with `follow` also those still to come, until the "
        "job is over. With `tail` the last of them alone. Needs `jobs.read`.",
        _output(),
        parameters=[
            JOB,
            components.suffix_parameter(("json", "txt")),
            components.query_parameter(
                "after", "Only lines with a higher number.",
                {"type": "integer", "minimum": 0, "maximum": 2**31 - 1, "default": 0},
            ),
            components.query_parameter(
                "before", "Only lines with a lower number.",
                {"type": "integer", "minimum": 1, "maximum": 2**31 - 1},
            ),
            components.query_parameter(
                "find", "Only lines that have this text in them, in any case.",
                {"type": "string", "maxLength": 255, "pattern": "^[^\\x00]*$"},
            ),
            components.query_parameter(
                "tail", "Only so many lines, the last ones.",
                {"type": "integer", "minimum": 1, "maximum": BATCH_LINES},
            ),
            components.query_parameter(
                "follow", "Stay until the job is over.", {"type": "boolean", "default": False}
            ),
        ],
    )  # fmt: skip
    yield "/artifact/{artifactId}", "get", operation(
        "Jobs", "getArtifact", "Download an artifact",
        "The file, to be saved. Needs `jobs.read`.", _file(),
        parameters=[components.path_key("artifactId", "artifact")],
    )  # fmt: skip
    yield "/app/{appId}/definition.json", "get", operation(
        "Applications", "getDefinition", "Get a definition as it came in", "Byte for byte.",
        {"200": {"description": "The definition.",
                 "content": components.media_types(reference("DefinitionMembers"), ("json",))}},
        parameters=[APP],
    )  # fmt: skip
    yield "/app/{appId}/versions.{suffix}", "get", operation(
        "Applications", "listVersions", "List former definitions",
        "The definitions that later ones replaced, an object by number.",
        keyed_answer("The former definitions.", "ApplicationVersion"), parameters=[APP, SUFFIX],
    )  # fmt: skip


def _event_operations() -> Operations:
    yield "/app/{appId}/mapping.{suffix}", "get", operation(
        "Applications", "suggestMapping", "Suggest a mapping",
        "How values of the jobs of another application could get to this one: a mapping by names "
        "and inputs, what flows by `consumes` without one, and the selectors that fit each key.",
        answer("The suggestion.", "SuggestedMapping"),
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
    yield "/runtemplate/{runTemplateId}/suggestions.{suffix}", "get", operation(
        "Run templates", "suggestRules", "Suggest rules",
        "Rules that would start the run template for the events its application consumes: after "
        "run templates of its company that emit them, or for changes of event sources. Those that "
        "are there are left out. Needs `jobs.read`.",
        answer("The rules.", "Suggestions"), parameters=[TEMPLATE, SUFFIX],
    )  # fmt: skip
    yield "/eventsource/{eventSourceId}/test.{suffix}", "post", operation(
        "Event sources", "testSource", "Test an event source",
        "Whether its adapter database answers and `changes_cache` can be read and, where changes "
        "are deleted, written. Takes at most five seconds. Needs `companies.update`.",
        answer("What was found.", "SourceTested") | components.error_references(*WRITE_ERRORS),
        parameters=[SOURCE, SUFFIX],
    )  # fmt: skip
    yield "/credential/{credentialId}/reveal.{suffix}", "post", operation(
        "Credentials", "revealCredential", "Reveal a credential",
        "All its values in clear. Each time there is an entry in the audit log, before the answer. "
        "Needs `credentials.reveal`.",
        answer("The values.", "CredentialRevealed") | components.error_references(413, 415),
        parameters=[CREDENTIAL, SUFFIX],
    )  # fmt: skip
    yield "/event/{eventId}/replay.{suffix}", "post", operation(
        "Events", "replayEvent", "Replay an event",
        "Starts the rules whose delivery is a dead letter, or the one rule that is named. A rule "
        "that was started by an event never is twice. Needs `jobs.execute`.",
        answer("The event, and what it owes now.", "EventWithDeliveries")
        | components.error_references(*WRITE_ERRORS),
        parameters=[EVENT, SUFFIX],
        requestBody=components.json_body(reference("ReplayBody"), required=False),
    )  # fmt: skip


def _task_operations() -> Operations:
    yield "/task/{taskId}/retry.{suffix}", "post", operation(
        "Tasks", "retryTask", "Try a task once more",
        "A failed or missed task is open again, and one more attempt at it starts now; its "
        "deadline is one window length later. Needs `jobs.execute`.",
        answer("The job of that attempt.", "Job") | components.error_references(409, 413, 415),
        parameters=[TASK, SUFFIX],
    )  # fmt: skip
    yield "/task/{taskId}/excuse.{suffix}", "post", operation(
        "Tasks", "excuseTask", "Excuse a task",
        "Keeps with a failed or missed task why that is all right; its state stays. Needs "
        "`jobs.update`.",
        answer("The task.", "Task") | components.error_references(*WRITE_ERRORS),
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
