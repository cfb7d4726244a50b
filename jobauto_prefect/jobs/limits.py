"""Limits across run templates: how many jobs may use a credential at a time."""

from collections.abc import Sequence
from datetime import timedelta

from jobauto_prefect.jobs.claim_context import ClaimContext, Refused
from jobauto_prefect.ledger import attempts
from jobauto_prefect.ledger.audit import WritingSession
from jobauto_prefect.ledger.records import Credential, Job, RunTemplate
from jobauto_prefect.ledger.wishes import WishKind, wish
from jobauto_prefect.runtime.protocol import PrefectState

LOOK = timedelta(seconds=10)
"""So often a job that waits for others looks whether they have ended, where nobody tells it."""

SHOWN = 5
"""Of so many jobs the numbers are told."""

KEPT = "limits"
"""In what is kept of a job's rules: the ids of the limited credentials that it uses."""


def limited_credentials(template: RunTemplate) -> list[Credential]:
    """The credentials of a run template that have a limit, by ascending id."""
    used = (assigned.credential for assigned in template.assignments)
    limited = {credential.id: credential for credential in used if credential.max_jobs is not None}
    return [limited[number] for number in sorted(limited)]


def require_room(context: ClaimContext, template: RunTemplate, job: Job) -> None:
    """No credential of the run template is used by as many jobs as may; locked until the commit.

    Raises:
        Refused: one is; the job is to come again.
    """
    credentials = limited_credentials(template)
    if not credentials:
        return
    session = context.session
    attempts.lock_credentials(session, [credential.id for credential in credentials])
    for credential in credentials:
        users = attempts.users_of(session, credential.id, besides=job.id)
        if credential.max_jobs is not None and len(users) >= credential.max_jobs:
            again = session.clock() + LOOK
            raise Refused("limit", _story(credential, users), PrefectState.SCHEDULED, at=again)


def _story(credential: Credential, users: Sequence[int]) -> str:
    jobs = (
        "1 job at a time" if credential.max_jobs == 1 else f"{credential.max_jobs} jobs at a time"
    )
    named = ", ".join(map(str, users[:SHOWN])) + (" …" if len(users) > SHOWN else "")
    return f"{credential.name} is for {jobs}; it waits for the end of one of {named}"


def release_room(session: WritingSession, job: Job) -> None:
    """A job has ended: one that waited for its room need not wait for its next look."""
    credential_ids = job.policy.get(KEPT)
    if not credential_ids:
        return
    first = attempts.next_waiting_for(session, credential_ids)
    if first is not None:
        wish(session, WishKind.RESCHEDULE_RUN, first)
