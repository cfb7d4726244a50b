"""Which message of the outbox comes next, on each kind of database."""

import threading
from datetime import timedelta

from jobauto_prefect.ledger import wishes
from jobauto_prefect.ledger.audit import SERVICE
from jobauto_prefect.ledger.records import Wish
from jobauto_prefect.ledger.store import Ledger
from jobauto_prefect.ledger.wishes import Priority, WishKind, wish


def put(ledger: Ledger, *kinds: WishKind) -> None:
    for number, kind in enumerate(kinds):
        with ledger.writing(SERVICE) as session:
            wish(session, kind, number)


def taken(ledger: Ledger, lowest: Priority = Priority.REGISTRATION) -> list[tuple[str, int]]:
    found = []
    while (message := wishes.take_next(ledger, lowest)) is not None:
        found.append((message.kind, message.subject_id))
    return found


def test_starts_and_ends_come_before_registrations_and_the_oldest_first(ledger: Ledger) -> None:
    put(
        ledger,
        WishKind.APPLY_TEMPLATE,
        WishKind.APPLY_CREDENTIAL,
        WishKind.CREATE_RUN,
        WishKind.RETIRE_BLOCK,
        WishKind.SHOW_JOB,
        WishKind.CANCEL_RUN,
        WishKind.RESCHEDULE_RUN,
        WishKind.DELETE_RUN,
        WishKind.TELL_TASK,
        WishKind.APPLY_RULE,
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
    put(ledger, WishKind.APPLY_TEMPLATE, WishKind.SHOW_JOB)
    assert taken(ledger, Priority.RUN) == [("show_job", 1)]
    assert taken(ledger) == [("apply_template", 0)]


def test_what_is_put_off_lets_younger_ones_pass_until_its_time(ledger: Ledger) -> None:
    put(ledger, WishKind.CREATE_RUN, WishKind.CREATE_RUN)
    first = wishes.take_next(ledger)
    assert first is not None
    wishes.put_off(ledger, first, "Prefect is away")
    assert taken(ledger) == [("create_run", 1)]
    clock, ledger.clock = ledger.clock, lambda: clock() + timedelta(seconds=1)
    assert taken(ledger) == [("create_run", 0)]


def test_several_that_take_at_once_never_take_the_same(ledger: Ledger) -> None:
    put(ledger, *[WishKind.CREATE_RUN] * 30)
    found: list[tuple[str, int]] = []
    threads = [threading.Thread(target=lambda: found.extend(taken(ledger))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(subject for _, subject in found) == list(range(30))


def test_every_kind_has_the_priority_it_is_kept_with(ledger: Ledger) -> None:
    put(ledger, *WishKind)
    with ledger.reading() as session:
        kept = {message.kind: message.priority for message in session.query(Wish)}
    assert kept == {kind: wishes.priority_of(kind) for kind in WishKind}
