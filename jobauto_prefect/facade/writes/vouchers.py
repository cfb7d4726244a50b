"""Who vouches for rules and chains between companies once one end of them moves.

`ledger/access/vouchers.py` checks on every use that they still belong to both companies.
"""

from jobauto_prefect.definitions.records.actions import Action, ActionMode
from jobauto_prefect.facade.writes.base import WriteRequest
from jobauto_prefect.ledger.events.trigger_graph import templates_starting
from jobauto_prefect.ledger.outbox import OutboxKind, enqueue
from jobauto_prefect.ledger.queries.events import rules_at
from jobauto_prefect.ledger.records import EventSource, RunTemplate


def vouch_for_moved(write: WriteRequest, moved: RunTemplate | EventSource) -> None:
    """Make the writer vouch for what uses another company's events, now that one end has moved.

    Its author vouched only for the companies it connected before.
    """
    write.session.flush()
    for rule in rules_at(write.session, moved):
        if rule.source_company_id not in (None, rule.runtemplate.company_id):
            rule.written_by = write.who.user_id
        enqueue(write.session, OutboxKind.APPLY_RULE, rule.id)
    if isinstance(moved, RunTemplate):
        for number in {moved.id, *templates_starting(write.session, moved.id)}:
            _vouch_for_chains(write, write.session.get_one(RunTemplate, number))


def _vouch_for_chains(write: WriteRequest, ended: RunTemplate) -> None:
    writers = dict(ended.action_writers or {})
    for mode in ActionMode:
        chain = getattr(ended, mode).get(Action.CHAIN)
        target = write.session.get(RunTemplate, chain["runtemplate_id"]) if chain else None
        if target is not None and target.company_id != ended.company_id:
            writers.pop(mode, None)
            writers |= {} if write.who.user_id is None else {mode: write.who.user_id}
    ended.action_writers = writers
