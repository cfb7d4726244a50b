"""The routes of Prefect's API: the permission each needs, and the rule that narrows it. Data only.

A route that is not listed is refused. `tests/unit/facade/gateway/test_gateway_table.py` compares
with the installed Prefect and names what is missing after an upgrade.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from enum import StrEnum


class ScopeRule(StrEnum):
    """How a request is narrowed to the companies of a member, or to the pools of a worker."""

    ANYONE = "anyone"  #: for everybody who has a role: it contains no company's data
    FILTER = "filter"  #: the body's filter of deployments is narrowed
    DEPLOYMENT = "deployment"  #: the path names one, as for the kinds below
    FLOW_RUN = "flow run"
    TASK_RUN = "task run"
    FLOW = "flow"
    FLOW_FILTER = "flow filter"  #: the body's filter of flows is narrowed
    ARTIFACT = "artifact"
    FLOW_RUN_STATE = "flow run state"
    TASK_RUN_STATE = "task run state"
    DEPLOYMENT_NAME = "deployment name"  #: the path has its flow's name and its own
    QUERY_FLOW_RUN = "flow run in the query"
    QUERY_TASK_RUN = "task run in the query"
    LOGS = "logs"  #: the filter names flow runs or task runs
    RUN_IDS = "flow run ids"  #: the body's `flow_run_ids`
    LISTED_RUNS = "listed runs"  #: the filter of the change names flow runs
    RUN_STATES = "run states"  #: one of two states for flow runs that the filter names
    LISTED_DEPLOYMENTS = "listed deployments"
    POOL = "pool"  #: the path names a work pool
    QUEUE = "work queue"  #: the path names a queue of a work pool
    POOL_FILTER = "pool filter"  #: the body's filter of work pools is narrowed
    POOL_BODY = "pool body"  #: the body names the work pool it creates
    POOL_TEMPLATE = "pool template"  #: the body has the template that the work pool lacks
    POOL_RUNS = "pool runs"  #: the body's filter of flow runs is narrowed to work pools
    LOG_LINES = "log lines"  #: each line names its flow run
    ARTIFACT_BODY = "artifact body"  #: the body names its flow run
    SYNTHETIC = "own answer"  #: the gateway answers itself, so that Prefect's pages work
    EVENT_FILTER = "event filter"  #: a subscription is narrowed to work pools
    EVENTS = "events"  #: each event is about a worker, or about a flow run of its pools
    SCHEMA = "schema"  #: the body's schema belongs to a deployment


class Action(StrEnum):
    """The action of a write in the audit trail."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"


class Content(StrEnum):
    """Content of a body that has special rules."""

    NEW_RUNS = "new runs"  #: one, or a list of them
    STATE = "state"
    EVENTS = "events"  #: one, or a list of them
    SHORT = "short"  #: data that lists repeat for each run or worker
    SCHEDULES = "schedules"  #: a deployment with them, one of them, or a list of new ones


_STORES = re.compile(r"/$|/(events|validate|heartbeat|set_state)$")


@dataclass(frozen=True, slots=True)
class Route:
    """One method of one route; `path` is as in Prefect's document.

    Administrators, who have `permission` everywhere, use the route without narrowing.
    `member_rule` narrows it for members, who have the permission in companies; None: they get 403.
    `worker_rule` does the same for worker tokens. `action` is None for what only reads, and for
    what is not an entity (log lines, heartbeats, slots). Members may send the `allowed_fields` of a
    body, and do not get the `hidden_fields` of responses. For a deployment or a schedule,
    `permission` is enough for the `operator_fields`, the other fields need `CONFIGURES`; None: it
    is enough for all. `content` is the content of the body that has special rules.
    """

    method: str
    path: str
    permission: str
    member_rule: ScopeRule | None = None
    worker_rule: ScopeRule | None = None
    action: Action | None = None
    allowed_fields: Collection[str] = field(default_factory=frozenset)
    hidden_fields: Collection[str] = field(default_factory=frozenset)
    operator_fields: Collection[str] | None = None
    content: Content | None = None

    @property
    def is_search(self) -> bool:
        """Whether the body is a filter, which Prefect does not store."""
        return self.action is None and not _STORES.search(self.path)

    @property
    def kind(self) -> str:
        """The kind of object the route is about: `deployment`, `work pool`."""
        words = [word for word in self.path.strip("/").split("/") if word not in ("ui", "v2")]
        one = re.sub(r"(?<=ch)es$|s$", "", re.sub(r"ies$", "y", words[0]))
        return one.replace("_", " ").replace("-", " ")


JOBS, RUNS, CHANGES, REMOVES = "jobs.read", "jobs.create", "jobs.update", "jobs.delete"
CONFIGURES = "companies.update"
APPLICATIONS, RECORDS, SYSTEM = "applications.read", "companies.read", "system.config"

RUN_FIELDS = frozenset(
    {
        "name",
        "parameters",
        "state",
        "tags",
        "idempotency_key",
        "enforce_parameter_schema",
        "empirical_policy",
    }
)
RUN_UPDATE_FIELDS = frozenset({"name", "tags", "empirical_policy"})
STATE_FIELDS = frozenset({"state", "force", "flow_runs", "limit"})
DEPLOYMENT_FIELDS = frozenset(
    {
        "description",
        "paused",
        "schedules",
        "parameters",
        "tags",
        "version",
        "version_info",
        "enforce_parameter_schema",
        "concurrency_limit",
        "concurrency_options",
    }
)
SCHEDULE_FIELDS = frozenset(
    {"active", "schedule", "max_scheduled_runs", "parameters", "slug", "replaces"}
)
INPUT_FIELDS = frozenset({"key", "value", "sender", "run_input"})
POOL_SECRETS = frozenset({"base_job_template", "storage_configuration"})
BULK_FIELDS = frozenset({"flow_runs", "deployments", "limit"})

R, A, C = ScopeRule, Action, Content

FLOWS = (
    Route("POST", "/flows/", SYSTEM, action=A.CREATE),
    Route("PATCH", "/flows/{id}", SYSTEM, action=A.UPDATE),
    Route("GET", "/flows/{id}", APPLICATIONS, R.FLOW, R.FLOW),
    Route("DELETE", "/flows/{id}", SYSTEM, action=A.DELETE),
    Route("POST", "/flows/count", APPLICATIONS, R.FLOW_FILTER),
    Route("GET", "/flows/name/{name}", APPLICATIONS),
    Route("POST", "/flows/filter", APPLICATIONS, R.FLOW_FILTER),
    Route("POST", "/flows/bulk_delete", SYSTEM, action=A.DELETE),
    Route("POST", "/flows/paginate", APPLICATIONS, R.FLOW_FILTER),
    Route("POST", "/ui/flows/count-deployments", APPLICATIONS, R.SYNTHETIC),
    Route("POST", "/ui/flows/next-runs", APPLICATIONS, R.SYNTHETIC),
)

FLOW_RUNS = (
    Route("POST", "/flow_runs/", SYSTEM, action=A.CREATE),
    Route(
        "PATCH", "/flow_runs/{id}", CHANGES, R.FLOW_RUN, R.FLOW_RUN, A.UPDATE, RUN_UPDATE_FIELDS,
        content=C.SHORT,
    ),
    Route("GET", "/flow_runs/{id}", JOBS, R.FLOW_RUN, R.FLOW_RUN),
    Route("DELETE", "/flow_runs/{id}", REMOVES, R.FLOW_RUN, action=A.DELETE),
    Route("POST", "/flow_runs/count", JOBS, R.FILTER),
    Route("POST", "/flow_runs/lateness", JOBS, R.FILTER),
    Route("POST", "/flow_runs/history", JOBS, R.FILTER),
    Route("GET", "/flow_runs/{id}/graph", JOBS, R.FLOW_RUN),
    Route("GET", "/flow_runs/{id}/graph-v2", JOBS, R.FLOW_RUN),
    Route("POST", "/flow_runs/{id}/resume", CHANGES, R.FLOW_RUN, None, A.UPDATE),
    Route("POST", "/flow_runs/filter", JOBS, R.FILTER, R.POOL_RUNS),
    Route(
        "POST", "/flow_runs/bulk_delete", REMOVES, R.LISTED_RUNS, action=A.DELETE,
        allowed_fields=BULK_FIELDS,
    ),
    Route(
        "POST", "/flow_runs/bulk_set_state", CHANGES, R.LISTED_RUNS, R.RUN_STATES, A.UPDATE,
        STATE_FIELDS, content=C.STATE,
    ),
    Route(
        "POST", "/flow_runs/{id}/set_state", CHANGES, R.FLOW_RUN, R.FLOW_RUN, A.UPDATE,
        STATE_FIELDS, content=C.STATE,
    ),
    Route("POST", "/flow_runs/{id}/input", CHANGES, R.FLOW_RUN, R.FLOW_RUN, A.UPDATE, INPUT_FIELDS),
    Route("POST", "/flow_runs/{id}/input/filter", JOBS, R.FLOW_RUN, R.FLOW_RUN),
    Route("GET", "/flow_runs/{id}/input/{key}", JOBS, R.FLOW_RUN, R.FLOW_RUN),
    Route("DELETE", "/flow_runs/{id}/input/{key}", CHANGES, R.FLOW_RUN, R.FLOW_RUN, A.DELETE),
    Route("POST", "/flow_runs/paginate", JOBS, R.FILTER),
    Route("GET", "/flow_runs/{id}/logs/download", JOBS, R.FLOW_RUN),
    Route("PATCH", "/flow_runs/{id}/labels", SYSTEM, None, R.FLOW_RUN, A.UPDATE, content=C.SHORT),
    Route("GET", "/flow_run_states/{id}", JOBS, R.FLOW_RUN_STATE),
    Route("GET", "/flow_run_states/", JOBS, R.QUERY_FLOW_RUN, R.QUERY_FLOW_RUN),
    Route("POST", "/ui/flow_runs/history", JOBS, R.FILTER),
    Route("POST", "/ui/flow_runs/count-task-runs", JOBS, R.RUN_IDS),
)  # fmt: skip

TASK_RUNS = (
    Route("POST", "/task_runs/", SYSTEM),
    Route("PATCH", "/task_runs/{id}", SYSTEM),
    Route("GET", "/task_runs/{id}", JOBS, R.TASK_RUN, R.TASK_RUN),
    Route("DELETE", "/task_runs/{id}", SYSTEM, action=A.DELETE),
    Route("POST", "/task_runs/count", JOBS, R.FILTER),
    Route("POST", "/task_runs/history", JOBS, R.FILTER),
    Route("POST", "/task_runs/filter", JOBS, R.FILTER),
    Route("POST", "/task_runs/paginate", JOBS, R.FILTER),
    Route("POST", "/task_runs/{id}/set_state", SYSTEM),
    Route("GET", "/task_run_states/{id}", JOBS, R.TASK_RUN_STATE),
    Route("GET", "/task_run_states/", JOBS, R.QUERY_TASK_RUN),
    Route("POST", "/ui/task_runs/dashboard/counts", JOBS, R.FILTER),
    Route("POST", "/ui/task_runs/count", JOBS, R.FILTER),
    Route("GET", "/ui/task_runs/{id}", JOBS, R.TASK_RUN),
)

_NEW_RUN = (RUNS, R.DEPLOYMENT, None, A.CREATE, RUN_FIELDS)
_SCHEDULES = (R.DEPLOYMENT, None, A.UPDATE, SCHEDULE_FIELDS)

DEPLOYMENTS = (
    Route("POST", "/deployments/", SYSTEM, action=A.CREATE),
    Route(
        "PATCH", "/deployments/{id}", CHANGES, R.DEPLOYMENT, None, A.UPDATE, DEPLOYMENT_FIELDS,
        operator_fields={"paused"}, content=C.SCHEDULES,
    ),
    Route("GET", "/deployments/{id}", JOBS, R.DEPLOYMENT, R.DEPLOYMENT),
    Route("DELETE", "/deployments/{id}", REMOVES, R.DEPLOYMENT, action=A.DELETE),
    Route("GET", "/deployments/name/{flow_name}/{deployment_name}", JOBS, R.DEPLOYMENT_NAME),
    Route("POST", "/deployments/filter", JOBS, R.FILTER),
    Route("POST", "/deployments/paginate", JOBS, R.FILTER),
    Route("POST", "/deployments/get_scheduled_flow_runs", SYSTEM),
    Route("POST", "/deployments/count", JOBS, R.FILTER),
    Route(
        "POST", "/deployments/bulk_delete", REMOVES, R.LISTED_DEPLOYMENTS, None, A.DELETE,
        BULK_FIELDS,
    ),
    Route("POST", "/deployments/{id}/schedule", SYSTEM, action=A.UPDATE),
    Route("POST", "/deployments/{id}/resume_deployment", CHANGES, R.DEPLOYMENT, action=A.UPDATE),
    Route("POST", "/deployments/{id}/pause_deployment", CHANGES, R.DEPLOYMENT, action=A.UPDATE),
    Route("POST", "/deployments/{id}/create_flow_run", *_NEW_RUN, content=C.NEW_RUNS),
    Route("POST", "/deployments/{id}/create_flow_run/bulk", *_NEW_RUN, content=C.NEW_RUNS),
    Route("GET", "/deployments/{id}/work_queue_check", SYSTEM),
    Route("GET", "/deployments/{id}/schedules", JOBS, R.DEPLOYMENT, R.DEPLOYMENT),
    Route(
        "POST", "/deployments/{id}/schedules", CONFIGURES, *_SCHEDULES, content=C.SCHEDULES
    ),
    Route(
        "PATCH", "/deployments/{id}/schedules/{schedule_id}", CHANGES, *_SCHEDULES,
        operator_fields={"active"}, content=C.SCHEDULES,
    ),
    Route(
        "DELETE", "/deployments/{id}/schedules/{schedule_id}", CONFIGURES, R.DEPLOYMENT,
        action=A.DELETE,
    ),
)  # fmt: skip

LOGS_AND_ARTIFACTS = (
    Route("POST", "/logs/", SYSTEM, None, R.LOG_LINES),
    Route("POST", "/logs/filter", JOBS, R.LOGS),
    Route("POST", "/artifacts/", SYSTEM, None, R.ARTIFACT_BODY),
    Route("GET", "/artifacts/{id}", JOBS, R.ARTIFACT, R.ARTIFACT),
    Route("PATCH", "/artifacts/{id}", SYSTEM, None, R.ARTIFACT, A.UPDATE),
    Route("DELETE", "/artifacts/{id}", REMOVES, R.ARTIFACT, action=A.DELETE),
    Route("GET", "/artifacts/{key}/latest", JOBS),
    Route("POST", "/artifacts/filter", JOBS, R.FILTER),
    Route("POST", "/artifacts/latest/filter", JOBS, R.FILTER),
    Route("POST", "/artifacts/count", JOBS, R.FILTER),
    Route("POST", "/artifacts/latest/count", JOBS, R.FILTER),
)

WORK_POOLS = (
    Route("POST", "/work_pools/", SYSTEM, None, R.POOL_BODY, A.CREATE),
    Route("GET", "/work_pools/{name}", JOBS, R.POOL, R.POOL, hidden_fields=POOL_SECRETS),
    Route("PATCH", "/work_pools/{name}", SYSTEM, None, R.POOL_TEMPLATE, A.UPDATE),
    Route("DELETE", "/work_pools/{name}", SYSTEM, action=A.DELETE),
    Route(
        "POST", "/work_pools/filter", JOBS, R.POOL_FILTER, R.POOL_FILTER, hidden_fields=POOL_SECRETS
    ),
    Route("POST", "/work_pools/count", JOBS, R.POOL_FILTER),
    Route("POST", "/work_pools/{name}/concurrency_status", SYSTEM),
    Route("POST", "/work_pools/{name}/get_scheduled_flow_runs", SYSTEM, None, R.POOL),
    Route("POST", "/work_pools/{work_pool_name}/queues", SYSTEM, action=A.CREATE),
    Route("GET", "/work_pools/{work_pool_name}/queues/{name}", JOBS, R.POOL, R.POOL),
    Route("PATCH", "/work_pools/{work_pool_name}/queues/{name}", SYSTEM, action=A.UPDATE),
    Route("DELETE", "/work_pools/{work_pool_name}/queues/{name}", SYSTEM, action=A.DELETE),
    Route("POST", "/work_pools/{work_pool_name}/queues/filter", JOBS, R.POOL, R.POOL),
    Route(
        "POST",
        "/work_pools/{work_pool_name}/workers/heartbeat",
        SYSTEM,
        None,
        R.POOL,
        content=C.SHORT,
    ),
    Route("POST", "/work_pools/{work_pool_name}/workers/filter", JOBS, R.POOL, R.POOL),
    Route("DELETE", "/work_pools/{work_pool_name}/workers/{name}", SYSTEM, action=A.DELETE),
    Route("POST", "/task_workers/filter", SYSTEM),
    Route("POST", "/work_queues/", SYSTEM, action=A.CREATE),
    Route("PATCH", "/work_queues/{id}", SYSTEM, action=A.UPDATE),
    Route("GET", "/work_queues/{id}", JOBS, R.QUEUE, R.QUEUE),
    Route("DELETE", "/work_queues/{id}", SYSTEM, action=A.DELETE),
    Route("GET", "/work_queues/name/{name}", SYSTEM),
    Route("POST", "/work_queues/{id}/get_runs", SYSTEM),
    Route("POST", "/work_queues/filter", SYSTEM),
    Route("POST", "/work_queues/{id}/concurrency_status", SYSTEM),
    Route("GET", "/work_queues/{id}/status", SYSTEM),
)

BLOCKS_AND_VARIABLES = (
    Route("POST", "/block_types/", SYSTEM, action=A.CREATE),
    Route("GET", "/block_types/{id}", RECORDS),
    Route("PATCH", "/block_types/{id}", SYSTEM, action=A.UPDATE),
    Route("DELETE", "/block_types/{id}", SYSTEM, action=A.DELETE),
    Route("GET", "/block_types/slug/{slug}", RECORDS),
    Route("POST", "/block_types/filter", RECORDS),
    Route("GET", "/block_types/slug/{slug}/block_documents", RECORDS),
    Route("GET", "/block_types/slug/{slug}/block_documents/name/{block_document_name}", RECORDS),
    Route("POST", "/block_types/install_system_block_types", SYSTEM, action=A.CREATE),
    Route("POST", "/block_documents/", SYSTEM, action=A.CREATE),
    Route("POST", "/block_documents/filter", RECORDS),
    Route("POST", "/block_documents/count", RECORDS),
    Route("GET", "/block_documents/{id}", RECORDS),
    Route("DELETE", "/block_documents/{id}", SYSTEM, action=A.DELETE),
    Route("PATCH", "/block_documents/{id}", SYSTEM, action=A.UPDATE),
    Route("POST", "/block_schemas/", SYSTEM, action=A.CREATE),
    Route("DELETE", "/block_schemas/{id}", SYSTEM, action=A.DELETE),
    Route("GET", "/block_schemas/{id}", RECORDS),
    Route("POST", "/block_schemas/filter", RECORDS),
    Route("GET", "/block_schemas/checksum/{checksum}", RECORDS),
    Route("GET", "/block_capabilities/", RECORDS),
    Route("POST", "/variables/", SYSTEM, action=A.CREATE),
    Route("GET", "/variables/{id}", RECORDS),
    Route("PATCH", "/variables/{id}", SYSTEM, action=A.UPDATE),
    Route("DELETE", "/variables/{id}", SYSTEM, action=A.DELETE),
    Route("GET", "/variables/name/{name}", RECORDS),
    Route("PATCH", "/variables/name/{name}", SYSTEM, action=A.UPDATE),
    Route("DELETE", "/variables/name/{name}", SYSTEM, action=A.DELETE),
    Route("POST", "/variables/filter", RECORDS),
    Route("POST", "/variables/count", RECORDS),
)

EVENTS_AND_AUTOMATIONS = (
    Route("POST", "/events", SYSTEM, content=C.EVENTS),
    Route("POST", "/events/filter", JOBS),
    Route("GET", "/events/filter/next", JOBS),
    Route("POST", "/events/count-by/{countable}", JOBS),
    Route("POST", "/automations/", SYSTEM, action=A.CREATE),
    Route("PUT", "/automations/{id}", SYSTEM, action=A.UPDATE),
    Route("PATCH", "/automations/{id}", SYSTEM, action=A.UPDATE),
    Route("DELETE", "/automations/{id}", SYSTEM, action=A.DELETE),
    Route("GET", "/automations/{id}", JOBS),
    Route("POST", "/automations/filter", JOBS),
    Route("POST", "/automations/count", JOBS),
    Route("GET", "/automations/related-to/{resource_id}", JOBS, R.SYNTHETIC),
    Route("DELETE", "/automations/owned-by/{resource_id}", SYSTEM, action=A.DELETE),
    Route("POST", "/templates/validate", JOBS),
    Route("POST", "/automations/templates/validate", JOBS),
)

_LIMITS, _LIMITS_2 = "/concurrency_limits", "/v2/concurrency_limits"

LIMITS = (
    Route("POST", f"{_LIMITS}/", SYSTEM, action=A.CREATE),
    Route("GET", f"{_LIMITS}/{{id}}", SYSTEM),
    Route("DELETE", f"{_LIMITS}/{{id}}", SYSTEM, action=A.DELETE),
    Route("GET", f"{_LIMITS}/tag/{{tag}}", SYSTEM),
    Route("DELETE", f"{_LIMITS}/tag/{{tag}}", SYSTEM, action=A.DELETE),
    Route("POST", f"{_LIMITS}/filter", SYSTEM),
    Route("POST", f"{_LIMITS}/tag/{{tag}}/reset", SYSTEM, action=A.UPDATE),
    Route("POST", f"{_LIMITS}/increment", SYSTEM),
    Route("POST", f"{_LIMITS}/decrement", SYSTEM),
    Route("POST", f"{_LIMITS_2}/", SYSTEM, action=A.CREATE),
    Route("GET", f"{_LIMITS_2}/{{id_or_name}}", SYSTEM),
    Route("PATCH", f"{_LIMITS_2}/{{id_or_name}}", SYSTEM, action=A.UPDATE),
    Route("DELETE", f"{_LIMITS_2}/{{id_or_name}}", SYSTEM, action=A.DELETE),
    Route("POST", f"{_LIMITS_2}/filter", SYSTEM),
    Route("POST", f"{_LIMITS_2}/increment", SYSTEM),
    Route("POST", f"{_LIMITS_2}/increment-with-lease", SYSTEM),
    Route("POST", f"{_LIMITS_2}/decrement", SYSTEM),
    Route("POST", f"{_LIMITS_2}/decrement-with-lease", SYSTEM),
    Route("POST", f"{_LIMITS_2}/leases/{{lease_id}}/renew", SYSTEM),
)

OTHERS = (
    Route("PUT", "/saved_searches/", SYSTEM, action=A.UPDATE),
    Route("GET", "/saved_searches/{id}", SYSTEM),
    Route("DELETE", "/saved_searches/{id}", SYSTEM, action=A.DELETE),
    Route("POST", "/saved_searches/filter", SYSTEM, R.SYNTHETIC),
    Route("GET", "/observed-states", JOBS, R.SYNTHETIC),  # since Prefect 3.9
    Route("GET", "/collections/views/{view}", APPLICATIONS, R.ANYONE),
    Route("POST", "/ui/schemas/validate", APPLICATIONS, R.SCHEMA),
    Route("GET", "/csrf-token", APPLICATIONS, R.ANYONE, R.ANYONE),
    Route("GET", "/version", APPLICATIONS, R.ANYONE, R.ANYONE),
    Route("GET", "/hello", APPLICATIONS, R.ANYONE, R.ANYONE),
    Route("GET", "/admin/version", APPLICATIONS, R.ANYONE, R.ANYONE),
    Route("GET", "/admin/settings", SYSTEM, R.SYNTHETIC),
    Route("GET", "/admin/storage", SYSTEM, None, R.ANYONE),
    Route("PUT", "/admin/storage", SYSTEM, action=A.UPDATE),
    Route("DELETE", "/admin/storage", SYSTEM, action=A.DELETE),
)

ROUTES: Sequence[Route] = (
    *FLOWS,
    *FLOW_RUNS,
    *TASK_RUNS,
    *DEPLOYMENTS,
    *LOGS_AND_ARTIFACTS,
    *WORK_POOLS,
    *BLOCKS_AND_VARIABLES,
    *EVENTS_AND_AUTOMATIONS,
    *LIMITS,
    *OTHERS,
)

AUDITED_KINDS = tuple(sorted({route.kind for route in ROUTES if route.action}))
"""The kinds of object that are changed in Prefect, by their names in the audit trail."""

OPEN_PATHS = frozenset({"/health", "/ready"})
"""Paths that need no credentials, for GET."""


@dataclass(frozen=True, slots=True)
class Socket:
    """A websocket of Prefect's; `worker_rule` narrows workers' messages to their pools.

    `content` is the content of an administrator's messages that has special rules.
    """

    path: str
    permission: str
    worker_rule: ScopeRule | None = None
    content: Content | None = None


SOCKETS: Sequence[Socket] = (
    Socket("/events/in", SYSTEM, ScopeRule.EVENTS, Content.EVENTS),
    Socket("/events/out", JOBS, ScopeRule.EVENT_FILTER),
    Socket("/logs/out", JOBS),
    Socket("/task_runs/subscriptions/scheduled", SYSTEM),
    Socket("/work_pools/{work_pool_name}/workers/connect", SYSTEM, ScopeRule.POOL),
)
