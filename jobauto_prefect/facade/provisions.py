"""Whether a launch has the credentials and blocks it needs, at the claim."""

from datetime import timedelta

from jobauto_prefect.definitions import Definition
from jobauto_prefect.facade.claiming import ClaimContext, Refused
from jobauto_prefect.facade.requirements import unfilled, unmet
from jobauto_prefect.ledger.records import RunTemplate
from jobauto_prefect.runtime.protocol import PrefectState

SOON = timedelta(seconds=5)
"""When to ask again for what was not asked before the claim: somebody named it just now."""


def require_credentials(
    context: ClaimContext, template: RunTemplate, definition: Definition
) -> None:
    """A launch has a credential for each requirement, all their values, and its blocks.

    Raises:
        Refused: naming those that are missing.
    """
    name = f"{template.company.slug}/{template.name}"
    codes = unmet(context.session, template, definition)
    if codes:
        message = (
            f"the application requires credentials of {', '.join(codes)}, and {name} has none; "
            f"assign them: jobauto template set '{name}' credentials='[\"NAME\"]'"
        )
        raise Refused("unmet_requirement", message, PrefectState.FAILED)
    empty = unfilled(template)
    if empty:
        message = (
            f"credentials of {name} lack values: {', '.join(empty)}; "
            "give them: jobauto credential set COMPANY/NAME --secret KEYWORD"
        )
        raise Refused("missing_credential", message, PrefectState.FAILED)
    if context.outside.missing is not None:
        raise Refused("missing_block", context.outside.missing, PrefectState.FAILED)


def require_available(context: ClaimContext, template: RunTemplate) -> None:
    """What the credentials open is there, and the blocks could be read.

    Raises:
        Refused: not yet, with the time to try again.
    """
    outside = context.outside
    if outside.held_up is not None:
        raise Refused("not_available", outside.held_up, PrefectState.SCHEDULED, at=outside.again)
    unread = [one["block"] for one in template.blocks if one["block"] not in outside.blocks]
    if unread and outside.missing is None:
        again = context.session.clock() + SOON
        message = "its blocks in Prefect are not read yet"
        raise Refused("not_available", message, PrefectState.SCHEDULED, at=again)
