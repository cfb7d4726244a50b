"""Loops over items are found by themselves: each keeps what goes wrong with one from the others."""

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import jobauto_prefect
from tests.support.paths import ROOT

PACKAGE = Path(jobauto_prefect.__file__).parent
INTEGRATION = ROOT / "tests" / "integration"
PLACES = (
    "engine/services",
    "engine/outbox_worker.py",
    "engine/flow_runs.py",
    "engine/sync",
    "engine/worker",
    "jobs/actions.py",
    "jobs/overruns.py",
    "jobs/windows",
    "ledger/audit/seals.py",
    "ledger/tallies.py",
    "sources",
)
"""Where services and workers take items in turn."""

BY_MESSAGE = "part of one outbox message, which is put off alone"
BY_TEMPLATE = "part of one run template, whose loop is in the table"
ONE_TRANSACTION = "one transaction, which `WindowScheduler._together` repeats for each alone"
PAGES = "pages of one question to Prefect, not items"
TURNS = "turns of one thing, not items"

WHOLE: dict[str, str] = {
    "engine/sync/deployments.py move_waiting_runs": BY_MESSAGE,
    "engine/sync/upcoming_runs.py UpcomingRuns.look": PAGES,
    "engine/sync/upcoming_runs.py sync_upcoming_runs": BY_TEMPLATE,
    "engine/outbox_worker.py OutboxWorker._claim": "given back at the end of the process",
    "engine/outbox_worker.py OutboxWorker._handle": "what fails is left to be taken again",
    "engine/outbox_worker.py OutboxWorker._deliveries": "given back at the end of the process",
    "engine/services/background.py _seal": TURNS,
    "engine/services/event_dispatch.py _ended_runs": PAGES,
    "engine/services/event_emitter.py EventEmitter._record_answers": "a statement for each answer",
    "engine/services/retention.py Pruner._remove": PAGES,
    "engine/services/retention.py Pruner._take": "batches, in which each record is put aside alone",
    "engine/services/retention.py Pruner.preview": "counts for a person, who is told what failed",
    "engine/services/window_scheduler.py WindowScheduler._catch_up.work": ONE_TRANSACTION,
    "engine/sync/credentials.py _remember_type": BY_MESSAGE,
    "engine/sync/credentials.py _retry_conflicts": TURNS,
    "engine/sync/deployment_drift.py stray_deployments": PAGES,
    "engine/sync/deployments.py _change_schedule": BY_MESSAGE,
    "engine/sync/deployments.py retire_flow": BY_MESSAGE,
    "engine/sync/drift_monitor.py correct_all": "a command, whose caller is told what failed",
    "engine/sync/template_deployments.py _apply_plans": BY_MESSAGE,
    "engine/sync/template_deployments.py _note": BY_MESSAGE,
    "engine/sync/template_deployments.py look_ahead": (
        "batches, in which each run template is put aside alone"
    ),
    "engine/sync/template_deployments.py _read_plans": BY_MESSAGE,
    "engine/sync/template_deployments.py _remember": BY_MESSAGE,
    "engine/sync/template_deployments.py apply_templates": BY_MESSAGE,
    "engine/worker/run_driver.py _ask_claim": TURNS,
    "jobs/windows/due_windows.py open_windows": ONE_TRANSACTION,
    "jobs/windows/freezes.py end_freeze": "one act of a person",
    "jobs/windows/tasks.py close_each_without_attempt": ONE_TRANSACTION,
    "jobs/windows/tasks.py close_lapsed": ONE_TRANSACTION,
    "jobs/windows/tasks.py deactivate": "one act of a person",
    "ledger/tallies.py fold_tallies": "sums of the ledger's own counts",
}
"""Loops whose items are none that anybody sends, or stand or fall together; and why."""

POISONED: dict[str, str] = {
    "engine/services/reconciler.py RunningRuns.look": (
        "engine/test_poison.py test_runs_without_a_job_end_beside_some_that_prefect_does_not_end"
    ),
    "engine/services/background.py Reaper.reap": (
        "jobs/test_isolation.py test_lost_jobs_are_found_beside_one_that_can_not_be_written"
    ),
    "engine/services/event_dispatch.py dispatch_batch": (
        "jobs/test_isolation.py test_rules_start_beside_a_delivery_of_an_unknown_kind"
    ),
    "engine/services/event_emitter.py EventEmitter._next_batch": (
        "jobs/test_isolation.py test_prefect_is_told_of_events_beside_one_of_a_source_that_is_gone"
    ),
    "engine/services/reconciler.py confirm_ends": (
        "engine/test_reconciler.py "
        "test_a_job_that_nothing_can_be_done_with_is_named_and_the_others_are_settled"
    ),
    "engine/services/reconciler.py settle_waiting": (
        "engine/test_reconciler.py "
        "test_a_job_that_nothing_can_be_done_with_is_named_and_the_others_are_settled"
    ),
    "engine/services/retention.py Pruner._prune_runs": (
        "engine/test_poison.py test_runs_go_beside_some_that_prefect_does_not_delete"
    ),
    "engine/services/retention.py Pruner.prune": (
        "engine/test_pruning.py test_a_record_that_can_not_be_deleted_is_named_and_the_others_go"
    ),
    "engine/services/window_scheduler.py MissingRunMonitor._bind": (
        "engine/test_poison.py test_windows_get_their_runs_beside_one_that_can_not_be_written"
    ),
    "engine/services/window_scheduler.py WindowScheduler._give_up": (
        "engine/test_poison.py test_silent_jobs_are_given_up_beside_one_that_can_not_be_written"
    ),
    "engine/services/window_scheduler.py WindowScheduler._together": (
        "jobs/test_isolation.py test_windows_open_beside_a_run_template_that_waits_for_ever"
    ),
    "engine/sync/application_flows.py delete_unused_flows": (
        "engine/test_poison.py test_flows_of_deleted_applications_go_beside_one_that_prefect_keeps"
    ),
    "engine/sync/drift.py Comparison.correct": (
        "engine/test_poison.py test_drift_is_corrected_beside_what_can_not_be_written"
    ),
    "engine/worker/dispatcher.py waiting_runs": (
        "engine/test_engine_api.py test_a_run_that_can_not_be_read_keeps_no_other_waiting"
    ),
    "engine/sync/deployment_drift.py _planned": (
        "engine/test_poison.py test_drift_is_corrected_beside_run_templates_that_can_not_be_read"
    ),
    "engine/sync/deployment_drift.py find_drift": (
        "engine/test_poison.py test_drift_is_corrected_beside_run_templates_that_can_not_be_read"
    ),
    "engine/sync/drift.py ObjectComparison._read_plans": (
        "engine/test_poison.py "
        "test_drift_is_corrected_beside_records_and_objects_that_can_not_be_read"
    ),
    "engine/sync/drift.py ObjectComparison.find": (
        "engine/test_poison.py "
        "test_drift_is_corrected_beside_records_and_objects_that_can_not_be_read"
    ),
    "engine/sync/drift_monitor.py DriftMonitor.check_next": (
        "engine/test_poison.py test_kinds_are_compared_beside_one_that_fails_as_a_whole"
    ),
    "engine/sync/upcoming_runs.py UpcomingRuns._name": (
        "engine/test_poison.py test_runs_are_named_beside_one_that_prefect_does_not_name"
    ),
    "engine/sync/upcoming_runs.py read_outlooks": (
        "engine/test_poison.py "
        "test_what_is_to_come_is_shown_beside_templates_that_nothing_can_be_done_with"
    ),
    "jobs/actions.py run_due_actions": (
        "jobs/test_isolation.py test_actions_are_done_beside_one_that_says_nothing"
    ),
    "jobs/overruns.py OverrunMonitor._late": (
        "jobs/test_watch.py test_what_is_slow_or_late_is_told_beside_what_nothing_can_be_done_with"
    ),
    "jobs/overruns.py OverrunMonitor._slow": (
        "jobs/test_watch.py test_what_is_slow_or_late_is_told_beside_what_nothing_can_be_done_with"
    ),
    "jobs/overruns.py OverrunMonitor.look": (
        "jobs/test_watch.py test_what_is_slow_or_late_is_told_beside_what_nothing_can_be_done_with"
    ),
    "jobs/windows/due_windows.py follow_zone": (
        "jobs/test_isolation.py test_services_start_beside_a_run_template_that_waits_for_ever"
    ),
    "sources/sender.py Sender._claim": (
        "jobs/test_isolation.py test_webhooks_are_read_beside_one_whose_secret_cannot_be"
    ),
}
"""Loops that keep each item apart, and the test in `tests/integration` that poisons one."""

LEDGER_NAMES = {"session", "ledger", "context"}
LEDGER_CALLS = {"writing", "reading", "to_thread"}


def acts(body: ast.AST) -> bool:
    """Whether something is awaited, or done with the ledger."""
    for node in ast.walk(body):
        if isinstance(node, ast.Await | ast.AsyncWith):
            return True
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute) and node.func.attr in LEDGER_CALLS:
                return True
            names = [*(arg.id for arg in node.args if isinstance(arg, ast.Name))]
            names += [arg.attr.strip("_") for arg in node.args if isinstance(arg, ast.Attribute)]
            if LEDGER_NAMES & {*names}:
                return True
    return False


def is_apart(loop: ast.For | ast.AsyncFor) -> bool:
    """Whether each item is kept apart from the others."""
    return any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "apart"
        for statement in loop.body
        for node in ast.walk(statement)
    )


def loops(path: Path) -> Iterator[tuple[str, ast.For | ast.AsyncFor]]:
    """The loops of a module that act, with the name of their function."""
    waiting: list[tuple[ast.AST, tuple[str, ...]]] = [(ast.parse(path.read_text()), ())]
    while waiting:
        node, names = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names = (*names, node.name)
        if isinstance(node, ast.For | ast.AsyncFor) and (
            is_apart(node) or any(map(acts, node.body))
        ):
            yield ".".join(names), node
        waiting.extend((child, names) for child in ast.iter_child_nodes(node))


@functools.cache
def found() -> dict[str, list[ast.For | ast.AsyncFor]]:
    """The loops of all places, by file and function."""
    there: dict[str, list[ast.For | ast.AsyncFor]] = {}
    for place in PLACES:
        path = PACKAGE / place
        for module in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            for name, loop in loops(module):
                there.setdefault(f"{module.relative_to(PACKAGE)} {name}", []).append(loop)
    return there


def test_a_loop_over_items_keeps_each_apart_or_says_why_not() -> None:
    acting = {name: there for name, there in found().items() if name not in WHOLE}
    together = [name for name, there in acting.items() if not all(map(is_apart, there))]
    assert not together, (
        "wrap what is done for each item in `apart`, or say here why one may stop all"
    )
    missing = acting.keys() - POISONED.keys()
    assert not missing, "write a test that poisons an item, and name it here"


def test_the_table_names_what_is_there() -> None:
    apart = {name for name, there in found().items() if all(map(is_apart, there))}
    assert not WHOLE.keys() - found().keys() | WHOLE.keys() & apart
    assert apart == POISONED.keys()
    for path, name in (test.split() for test in set(POISONED.values())):
        assert f"def {name}(" in (INTEGRATION / path).read_text(), f"{path} has no {name}"


def test_a_new_loop_would_be_found(tmp_path: Path) -> None:
    module = tmp_path / "new.py"
    module.write_text(
        "def new(ledger):\n"
        "    for item in ledger.items():\n"
        "        with ledger.writing() as session:\n"
        "            session.add(item)\n"
    )
    ((name, loop),) = loops(module)
    assert (name, is_apart(loop)) == ("new", False)
