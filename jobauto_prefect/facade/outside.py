"""What has to be asked outside of the ledger before a launch: foreign blocks, availability.

All of it happens before the claim's transaction: nothing may wait while that holds its locks.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from anyio import from_thread

from jobauto_prefect.engine.blocks import read_block
from jobauto_prefect.errors import JobautoError, NotFound
from jobauto_prefect.facade.claiming import NOTHING_OUTSIDE, Outside
from jobauto_prefect.facade.provided import member_of
from jobauto_prefect.facade.service import Service
from jobauto_prefect.ledger.credentials import template_that_asks
from jobauto_prefect.ledger.records import RunTemplate
from jobauto_prefect.runtime.protocol import Claim

PREFECT_AGAIN = timedelta(seconds=15)
"""When a launch tries again whose blocks Prefect could not be asked for."""


def ask_outside(service: Service, claim: Claim) -> Outside:
    """Everything a claim needs from outside; nothing for most. Called in a worker thread."""
    with service.ledger.reading() as session:
        template = template_that_asks(session, claim.flow_run_id, claim.deployment_id)
        if template is None:
            return NOTHING_OUTSIDE
        credentials = [one.credential for one in template.assignments]
        checked = [one for one in credentials if one.credential_type.availability]
    now = service.ledger.clock()
    for credential in checked:
        found = service.availability.of(credential, service.settings, service.ledger.box, now)
        if not found.is_there:
            check = credential.credential_type.availability or {}
            again = now + timedelta(seconds=float(check.get("retry_seconds", 60)))
            message = f"{credential.name} is not available yet: {found.reason}"
            return Outside(held_up=message, again=again)
    return _with_blocks(service, template, now)


def _with_blocks(service: Service, template: RunTemplate, now: datetime) -> Outside:
    blocks = dict[str, Mapping[str, Any]]()
    prefect = service.carrier.near.prefect
    for one in template.blocks:
        name = one["block"]
        try:
            blocks[name] = from_thread.run(read_block, prefect, name)
        except NotFound:
            return Outside(missing=f"Prefect has no block {name}")
        except JobautoError as error:
            message = f"the block {name} can't be read: {error}"
            return Outside(held_up=message, again=now + PREFECT_AGAIN)
        lacking = [path for path in one["env"].values() if member_of(blocks[name], path) is None]
        if lacking:
            return Outside(missing=f"the block {name} has no {', '.join(lacking)}")
    return Outside(blocks)
