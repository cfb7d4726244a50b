"""Which message of the outbox comes next, on each kind of database."""

import threading
from datetime import timedelta

from jobauto_prefect.ledger import outbox
from jobauto_prefect.ledger.audit.trail import SERVICE
from jobauto_prefect.ledger.outbox import OutboxKind, Priority, enqueue
from jobauto_prefect.ledger.records import OutboxMessage
from jobauto_prefect.ledger.store import Ledger
from tests.support.databases import both_databases
from tests.support.ledger_rows import claim_next, fetch_all

pytestmark = both_databases


def put(ledger: Ledger, *kinds: OutboxKind) -> None:
    for number, kind in enumerate(kinds):
        with ledger.writing(SERVICE) as session:
            enqueue(session, kind, number)


def taken(ledger: Ledger, lowest: Priority = Priority.REGISTRATION) -> list[tuple[str, int]]:
    found = []
    while (message := claim_next(ledger, lowest)) is not None:
        found.append((message.kind, message.subject_id))
    return found


def test_starts_and_ends_come_before_registrations_and_the_oldest_first(ledger: Ledger) -> None:
    put(
        ledger,
        OutboxKind.APPLY_TEMPLATE,
        OutboxKind.APPLY_CREDENTIAL,
        OutboxKind.CREATE_RUN,
        OutboxKind.RETIRE_BLOCK,
        OutboxKind.SHOW_JOB,
        OutboxKind.CANCEL_RUN,
        OutboxKind.RESCHEDULE_RUN,
        OutboxKind.DELETE_RUN,
        OutboxKind.TELL_TASK,
        OutboxKind.APPLY_RULE,
    )
    assert taken(ledger) == [
        ("create_run", 2),
        ("show_job", 4),
        ("cancel_run", 5),
        ("reschedule_run", 6),
        ("delete_run", 7),
        ("tell_task", 8),
        ("apply_template", 0),
        ("apply_credential", 1),
        ("retire_block", 3),
        ("apply_rule", 9),
    ]


def test_a_hand_for_starts_and_ends_takes_no_registration(ledger: Ledger) -> None:
    put(ledger, OutboxKind.APPLY_TEMPLATE, OutboxKind.SHOW_JOB)
    assert taken(ledger, Priority.RUN) == [("show_job", 1)]
    assert taken(ledger) == [("apply_template", 0)]


def test_what_is_put_off_lets_younger_ones_pass_until_its_time(ledger: Ledger) -> None:
    now = ledger.clock()
    ledger.clock = lambda: now
    put(ledger, OutboxKind.CREATE_RUN, OutboxKind.CREATE_RUN)
    first = claim_next(ledger)
    assert first is not None
    outbox.retry_later(ledger, first, "Prefect is away")
    assert taken(ledger) == [("create_run", 1)]
    ledger.clock = lambda: now + timedelta(seconds=1)
    assert taken(ledger) == [("create_run", 0)]


def test_several_that_take_at_once_never_take_the_same(ledger: Ledger) -> None:
    put(ledger, *[OutboxKind.CREATE_RUN] * 30)
    found: list[tuple[str, int]] = []
    threads = [threading.Thread(target=lambda: found.extend(taken(ledger))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(subject for _, subject in found) == list(range(30))


def test_every_kind_has_the_priority_it_is_kept_with(ledger: Ledger) -> None:
    put(ledger, *OutboxKind)
    kept = {message.kind: message.priority for message in fetch_all(ledger, OutboxMessage)}
    assert kept == {kind: outbox.priority_of(kind) for kind in OutboxKind}
