"""All checks of `jobauto doctor`, in order, and those of what the service's parts do."""

import asyncio
import shlex
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import partial
from urllib.parse import urlsplit

import httpx

from jobauto_prefect.cli.checks.prefect_version import prefect_version_finding
from jobauto_prefect.cli.checks.setting_names import setting_findings
from jobauto_prefect.cli.checks.storage import (
    audit_finding,
    database_findings,
    home_findings,
    key_findings,
    open_or_report,
)
from jobauto_prefect.cli.checks.work_pools import (
    count_sharing,
    pool_findings,
    trust_findings,
    users_by_pool,
)
from jobauto_prefect.cli.service.addresses import read_addresses
from jobauto_prefect.definitions.environment_names import unsafe_reason
from jobauto_prefect.definitions.records.logins import login_faults
from jobauto_prefect.definitions.records.notices import Channel
from jobauto_prefect.engine.api import PrefectApi, own_authorization
from jobauto_prefect.engine.context import EngineContext
from jobauto_prefect.engine.prefect_server.database import prefect_database_url
from jobauto_prefect.engine.prefect_server.redis import eviction_policy
from jobauto_prefect.engine.sync.deployment_drift import find_drift, stray_deployments
from jobauto_prefect.engine.topology import topology_findings
from jobauto_prefect.engine.work_pools import pools
from jobauto_prefect.errors import NotReady, PrefectUnavailable
from jobauto_prefect.jobs.claims.approval import unapproved
from jobauto_prefect.jobs.stored_names import IdleNames, idle_names
from jobauto_prefect.jobs.windows.closed_time import freeze_message
from jobauto_prefect.ledger import notices
from jobauto_prefect.ledger.jobs.freezes import present_freeze
from jobauto_prefect.ledger.outbox import messages_older_than
from jobauto_prefect.ledger.queries.run_templates import templates_with_context
from jobauto_prefect.ledger.queries.users import enabled_logins
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.monitoring.finding import SET_CLOCKS, Finding
from jobauto_prefect.settings import Settings
from jobauto_prefect.sources.mail import MailFailed, try_server
from jobauto_prefect.wording import pluralize

CLOCK_TOLERANCE = timedelta(seconds=5)
"""How far two machines' clocks may differ; headers have whole seconds."""

OUTBOX_PATIENCE = timedelta(minutes=2)

TIMEOUT_SECONDS = 5


async def examine(settings: Settings) -> list[Finding]:
    """Run all checks, in the order of their dependencies."""
    settings = settings.model_copy(update=read_addresses(settings.home))
    findings = [
        *setting_findings(),
        prefect_version_finding(),
        *database_findings(settings),
        *key_findings(settings),
        *home_findings(settings),
    ]
    is_broken = any(finding.status == "wrong" for finding in findings)
    ledger = None if is_broken else open_or_report(settings, findings)
    try:
        findings += [finding async for finding in _server_findings(settings)]
        # Without the password.
        url = urlsplit(prefect_database_url(settings))
        where = (
            url.path.removeprefix("/")
            if url.hostname is None
            else f"{url.netloc.rpartition('@')[2]}{url.path}"
        )
        findings.append(Finding("Prefect database", "ok", f"{url.scheme}, {where}"))
        findings += await redis_findings(settings)
        if ledger is None:
            message = "can't be checked without the ledger"
            findings += [Finding(name, "unknown", message) for name in ("work pools", "outbox")]
        else:
            findings += [finding async for finding in _ledger_findings(settings, ledger)]
    finally:
        if ledger is not None:
            ledger.close()
    return findings


async def _server_findings(settings: Settings) -> AsyncIterator[Finding]:
    async with httpx.AsyncClient(timeout=TIMEOUT_SECONDS) as http:
        for name, url, command in (
            ("facade", f"{settings.facade}/api/v1/ping.json", "jobauto api start"),
            ("Prefect", f"{settings.prefect_api_url.rstrip('/')}/health", "jobauto prefect start"),
        ):
            try:
                answer = await http.get(url)
                answer.raise_for_status()
            except httpx.HTTPError as error:
                reason = str(error) or type(error).__name__
                help_ = f"{command}, or everything: jobauto up"
                yield Finding(name, "wrong", f"{url} does not answer ({reason})", help_)
                continue
            yield Finding(name, "ok", f"answers at {url}")
            yield _clock_finding(name, answer.headers.get("date"))


async def redis_findings(settings: Settings) -> list[Finding]:
    """Check that the Redis of several Prefect servers answers and keeps what it holds."""
    if settings.redis_url is None:
        return []
    try:
        policy = await eviction_policy(settings)
    except NotReady as error:
        return [Finding("Redis", "wrong", str(error))]
    if policy == "noeviction":
        return [Finding("Redis", "ok", "answers, and keeps its keys when its memory is full")]
    message = f"it deletes keys when its memory is full (maxmemory-policy {policy}): Prefect loses"
    help_ = "set maxmemory-policy noeviction in redis.conf"
    return [Finding("Redis", "warning", f"{message} events and leases", help_)]


def _clock_finding(name: str, date: str | None) -> Finding:
    if date is None:
        return Finding("clock", "unknown", f"{name} does not report its time")
    difference = abs(datetime.now(UTC) - parsedate_to_datetime(date))
    if difference <= CLOCK_TOLERANCE:
        return Finding("clock", "ok", f"the clocks of this machine and {name} agree")
    message = f"the clocks of this machine and {name} differ by {difference.total_seconds():.0f} s"
    return Finding("clock", "wrong", message, SET_CLOCKS)


async def _ledger_findings(settings: Settings, ledger: Ledger) -> AsyncIterator[Finding]:
    names, shared, waiting = await asyncio.to_thread(_read_pools, settings, ledger)
    for check in (
        partial(topology_findings, settings),
        partial(approval_findings, settings),
        partial(environment_findings, settings),
        partial(notice_findings, settings),
        login_findings,
    ):
        for finding in await asyncio.to_thread(check, ledger):
            yield finding
    yield await asyncio.to_thread(audit_finding, ledger)
    yield await asyncio.to_thread(_maintenance_finding, ledger)
    authorization = own_authorization(ledger.box)
    async with PrefectApi(settings.prefect_api_url, authorization=authorization) as prefect:
        try:
            for pool in await pools(prefect, sorted(names)):
                for finding in pool_findings(pool):
                    yield finding
            context = EngineContext(ledger, prefect, settings)
            differing = await find_drift(context, None)
            for deployment in await stray_deployments(context):
                message = (
                    f"deployment {deployment['name']} ({deployment['id']}) in work pool "
                    f"{deployment['work_pool_name']} belongs to no run template: its runs fail"
                )
                help_ = (
                    f"prefect deployment delete {deployment['id']}, or give it another work pool"
                )
                yield Finding("drift", "warning", message, help_)
        except PrefectUnavailable:
            yield Finding("work pools", "unknown", "can't be checked without Prefect")
        else:
            yield _drift_finding(len(differing))
    yield _outbox_finding(waiting)
    for finding in trust_findings(shared):
        yield finding


def _read_pools(settings: Settings, ledger: Ledger) -> tuple[set[str], dict[str, int], int]:
    """Read the work pools in use, how many companies share a user in each, and overdue messages.

    The last item is the number of overdue outbox messages.
    """
    with ledger.reading() as session:
        templates = templates_with_context(session, None)
        companies: dict[str, set[str]] = {settings.pool: set()}
        for template in templates:
            if not template.active:
                continue
            ids = companies.setdefault(template.pool or settings.pool, set())
            if template.executor == "Native":
                ids.add(str(template.company_id))
        users = users_by_pool(session, ledger.clock())
        overdue = messages_older_than(session, ledger.clock() - OUTBOX_PATIENCE)
    shared = {pool: count_sharing(ids, users.get(pool, [])) for pool, ids in companies.items()}
    return set(companies), shared, overdue


def _maintenance_finding(ledger: Ledger) -> Finding:
    with ledger.reading() as session:
        freeze = present_freeze(session, ledger.clock())
    if freeze is None:
        return Finding("maintenance", "ok", "nothing is frozen")
    message = f"{freeze_message(freeze)} (since {freeze.since.isoformat()}, by {freeze.begun_by})"
    return Finding("maintenance", "warning", message, "to end it: jobauto resume")


def _drift_finding(differing: int) -> Finding:
    if not differing:
        return Finding("drift", "ok", "Prefect matches the records")
    message = f"Prefect differs from the records of {pluralize(differing, 'run template')}"
    help_ = "show it: jobauto plan PATH; correct it: jobauto reconcile"
    return Finding("drift", "warning", message, help_)


def _outbox_finding(overdue: int) -> Finding:
    """Report changes that have waited for Prefect for a while."""
    if not overdue:
        return Finding("outbox", "ok", "no changes wait for Prefect")
    message = f"Prefect still lacks {pluralize(overdue, 'change')}"
    return Finding("outbox", "wrong", message, "jobauto services start, or everything: jobauto up")


def login_findings(ledger: Ledger) -> list[Finding]:
    """Report users with logins that new users may no longer have."""
    with ledger.reading() as session:
        logins = [login for login in enabled_logins(session) if any(login_faults(login))]
    help_ = "create a user with another login, and disable this one: jobauto user disable LOGIN"
    return [
        Finding("logins", "warning", f"{login!a}: {'; '.join(login_faults(login))}", help_)
        for login in logins
    ]


ENVIRONMENT = "environment"
DECLARE = "declare them in the definition"
NOUNS = {"company": "company", "credential-type": "credential type", "rule": "event rule",
         "template": "run template"}  # fmt: skip
"""By the command name of a record kind."""


def environment_findings(settings: Settings, ledger: Ledger) -> list[Finding]:
    """Report values of records and settings whose names jobs can't get."""
    with ledger.reading() as session:
        findings = [_record_finding(record) for record in idle_names(session, settings.extra_env)]
    findings += [
        Finding(
            ENVIRONMENT,
            "warning",
            f"JOBAUTO_EXTRA_ENV has {name}, which {reason}: no job gets it",
            "remove it from JOBAUTO_EXTRA_ENV",
        )
        for name in settings.extra_env
        if (reason := unsafe_reason(name))
    ]
    return findings or [Finding(ENVIRONMENT, "ok", "all values have names that jobs can get")]


def _record_finding(record: IdleNames) -> Finding:
    names = ", ".join(record.names)
    message = f"{NOUNS[record.group]} {record.title} has values that no job gets: {names}"
    command = f"jobauto {record.group} set {shlex.quote(record.title)}"
    if record.group in ("company", "template"):
        unset = " ".join(f"--unset {shlex.quote(name)}" for name in record.names)
        return Finding(ENVIRONMENT, "warning", message, f"{command} {unset}; or {DECLARE}")
    member = "fields" if record.group == "credential-type" else "env_mapping"
    return Finding(
        ENVIRONMENT, "warning", message, f"{command} {member}=JSON without them; or {DECLARE}"
    )


def approval_findings(settings: Settings, ledger: Ledger) -> list[Finding]:
    """Report run templates whose jobs are refused until an administrator checks them."""
    with ledger.reading() as session:
        return [
            Finding(
                "trust",
                "warning",
                f"jobs of {template.company.slug}/{template.name} don't start: {reason}",
            )
            for template in templates_with_context(session, None)
            for reason in unapproved(template, settings, template.executor)
        ]


NOTICES = "notices"


def notice_findings(settings: Settings, ledger: Ledger) -> list[Finding]:
    """Check the mail server, if one is set, and report notices that could not be sent."""
    with ledger.reading() as session:
        failing = notices.failing_notices(session)
    return [
        *_mail_findings(settings, failing),
        *(
            Finding(
                NOTICES,
                "warning",
                f"{notice.number} notices to Slack were rejected: {notice.error}",
                "correct the address: notices.slack.uri of the company or run template",
            )
            for notice in failing
            if notice.channel == Channel.SLACK
        ),
    ]


def _mail_findings(settings: Settings, failing_notices: list[notices.Failing]) -> Iterator[Finding]:
    if settings.smtp_host is None:
        if any(notice.channel == Channel.MAIL for notice in failing_notices):
            message = "mails are waiting, but no mail server is set"
            yield Finding(NOTICES, "warning", message, "set JOBAUTO_SMTP_HOST (docs/notices.md)")
        return
    server = f"{settings.smtp_host}:{settings.smtp_port_used}"
    try:
        try_server(settings)
    except MailFailed as error:
        help_ = "check the server, or correct JOBAUTO_SMTP_… (docs/notices.md)"
        yield Finding(NOTICES, "warning", f"mails can't be sent over {server}: {error}", help_)
    else:
        yield Finding(NOTICES, "ok", f"the mail server {server} answers")
