"""Flow, work pool and deployment follow the plan, with no more writes than needed."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from jobauto_prefect.compiler import TemplateFacts, deployment_plan
from jobauto_prefect.compiler.plan import (
    DeploymentPlan,
    FlowPlan,
    SchedulePlan,
    WorkQueuePlan,
    prefect_name,
)
from jobauto_prefect.definitions import parse
from jobauto_prefect.engine.api import PrefectApi
from jobauto_prefect.engine.flow_runs import NewRun, create_run
from jobauto_prefect.engine.sync.deployments import Applied, AppliedIds, apply
from jobauto_prefect.engine.worker.dispatcher import waiting_runs
from jobauto_prefect.errors import Conflict, PrefectUnavailable
from tests.support.corpus import needs_corpus, valid_documents
from tests.support.counting_proxy import CountingTransport
from tests.support.ports import free_port


@pytest.fixture
def transport() -> CountingTransport:
    return CountingTransport()


@pytest.fixture
async def api(prefect_server: str, transport: CountingTransport) -> AsyncIterator[PrefectApi]:
    async with PrefectApi(prefect_server, transport=transport) as api:
        yield api


@pytest.fixture
def plan() -> DeploymentPlan:
    unique = uuid4().hex[:8]
    flow = FlowPlan(
        app_id=7,
        name=f"Disk report {unique}",
        description="# Disk report",
        version="1.2",
        tags=("topic:disk", "category:Tools"),
        labels={"jobauto.app": 7},
    )
    return DeploymentPlan(
        template_id=12,
        flow=flow,
        name="acme - Nightly",
        entrypoint="jobauto_prefect.engine.applications.app_7",
        description="For ACME",
        version="1.2",
        tags=("company:acme", "topic:disk"),
        labels={"jobauto.template": 12},
        work_pool=f"pool-{unique}",
        work_queue=WorkQueuePlan(),
        parameters={"PATH_": "/srv", "LIMIT": 5},
        parameter_schema={
            "type": "object",
            "title": "Parameters",
            "properties": {
                "PATH_": {"type": "string", "title": "Path", "position": 0},
                "LIMIT": {"type": "integer", "title": "Limit", "position": 1, "default": 3},
            },
            "required": ["PATH_"],
        },
        schedule=SchedulePlan("0 3 * * *", "Europe/Prague", active=True),
        paused=False,
    )


def ids(applied: Applied) -> AppliedIds:
    return AppliedIds(applied.flow_id, applied.deployment_id)


async def deployment(api: PrefectApi, applied: Applied) -> dict[str, Any]:
    found: dict[str, Any] = await api.get(f"/deployments/{applied.deployment_id}")
    return found


async def test_a_plan_becomes_a_flow_a_work_pool_and_a_deployment(
    api: PrefectApi, plan: DeploymentPlan
) -> None:
    applied = await apply(api, plan, AppliedIds())
    found = await deployment(api, applied)
    assert found["name"] == "acme - Nightly"
    assert found["parameters"] == {"PATH_": "/srv", "LIMIT": 5}
    assert found["entrypoint"] == "jobauto_prefect.engine.applications.app_7"
    assert found["tags"] == ["company:acme", "topic:disk"]
    assert found["labels"]["jobauto.template"] == 12
    assert found["work_pool_name"] == plan.work_pool
    (schedule,) = found["schedules"]
    assert (schedule["slug"], schedule["active"]) == ("jobauto", True)
    assert schedule["schedule"]["cron"] == "0 3 * * *"
    flow = await api.get(f"/flows/{applied.flow_id}")
    assert flow["name"] == plan.flow.name
    assert (await api.get(f"/work_pools/{plan.work_pool}"))["type"] == "jobauto"
    assert len(applied.written) == 3


async def test_an_unchanged_plan_writes_nothing(
    api: PrefectApi, plan: DeploymentPlan, transport: CountingTransport
) -> None:
    first = await apply(api, plan, AppliedIds())
    transport.calls.clear()
    again = await apply(api, plan, ids(first))
    assert transport.writes == []
    assert (again.written, again.deployment_id) == ((), first.deployment_id)


async def test_who_was_killed_before_they_knew_the_id_has_the_same_deployment(
    api: PrefectApi, plan: DeploymentPlan, transport: CountingTransport
) -> None:
    """Prefect answers 201 to the first POST of a name, and 200 to the next ones."""
    first = await apply(api, plan, AppliedIds())
    assert first.is_new
    before = await deployment(api, first)
    waiting = await api.post(f"/deployments/{first.deployment_id}/create_flow_run", {})
    await api.patch(f"/deployments/{first.deployment_id}", {"description": "somebody's"})
    transport.calls.clear()
    again = await apply(api, plan, AppliedIds())
    assert transport.writes == ["POST /deployments/"]
    assert (again.is_new, again.retired, again.moved) == (False, None, {})
    assert again.written == ("deployment acme - Nightly taken over",)
    assert _lasting(await deployment(api, again)) == _lasting(before)
    assert (await api.get(f"/flow_runs/{waiting['id']}"))["state_type"] == "SCHEDULED"


async def test_a_deployment_that_is_taken_over_keeps_no_limit(
    api: PrefectApi, plan: DeploymentPlan
) -> None:
    first = await apply(api, plan, AppliedIds())
    await api.patch(f"/deployments/{first.deployment_id}", {"concurrency_limit": 2})
    assert (await deployment(api, first))["global_concurrency_limit"]["limit"] == 2
    again = await apply(api, plan, AppliedIds())
    assert (await deployment(api, again))["global_concurrency_limit"] is None


def _lasting(found: dict[str, Any]) -> dict[str, Any]:
    """All but when it was written."""
    (schedule,) = found["schedules"]
    written = ("created", "updated", "id")
    kept = {name: value for name, value in schedule.items() if name not in written}
    others = {name: value for name, value in found.items() if name != "updated"}
    return {**others, "schedules": [kept]}


@needs_corpus
async def test_real_definitions_applied_twice_are_written_once(
    api: PrefectApi, transport: CountingTransport
) -> None:
    pool = f"pool-{uuid4().hex[:8]}"
    plans = [
        deployment_plan(
            TemplateFacts(
                template_id=number,
                name=f"Template {number}",
                app_id=number,
                company_name="ACME",
                company_slug="acme",
                pool=pool,
                interval="d",
            ),
            parse(document),
        )
        for number, document in enumerate(list(valid_documents().values())[::6], start=1)
    ]
    known = [ids(await apply(api, plan, AppliedIds())) for plan in plans]
    transport.calls.clear()
    for plan, one in zip(plans, known, strict=True):
        assert (await apply(api, plan, one)).written == ()
    assert transport.writes == []


async def test_one_changed_field_is_one_patch_and_keeps_the_schedule(
    api: PrefectApi, plan: DeploymentPlan, transport: CountingTransport
) -> None:
    first = await apply(api, plan, AppliedIds())
    before = await deployment(api, first)
    transport.calls.clear()
    changed = replace(plan, parameters={"PATH_": "/home", "LIMIT": 5})
    applied = await apply(api, changed, ids(first))
    assert transport.writes == [f"PATCH /deployments/{first.deployment_id}"]
    assert applied.written == ("deployment acme - Nightly: parameters changed",)
    after = await deployment(api, applied)
    assert after["parameters"] == {"PATH_": "/home", "LIMIT": 5}
    assert after["schedules"][0]["id"] == before["schedules"][0]["id"]
    assert after["description"] == "For ACME"


async def test_a_changed_schedule_keeps_its_id_and_one_that_is_gone_is_deleted(
    api: PrefectApi, plan: DeploymentPlan, transport: CountingTransport
) -> None:
    first = await apply(api, plan, AppliedIds())
    before = await deployment(api, first)
    transport.calls.clear()
    hourly = replace(plan, schedule=SchedulePlan("0 * * * *", "UTC", active=False))
    after = await deployment(api, await apply(api, hourly, ids(first)))
    assert len(transport.writes) == 1
    assert after["schedules"][0]["id"] == before["schedules"][0]["id"]
    assert after["schedules"][0]["active"] is False
    assert after["schedules"][0]["schedule"]["cron"] == "0 * * * *"
    none = await apply(api, replace(plan, schedule=None), ids(first))
    assert (await deployment(api, none))["schedules"] == []
    back = await apply(api, plan, ids(first))
    assert (await deployment(api, back))["schedules"][0]["slug"] == "jobauto"


async def test_a_deployment_that_somebody_deleted_is_made_again(
    api: PrefectApi, plan: DeploymentPlan
) -> None:
    first = await apply(api, plan, AppliedIds())
    await api.delete(f"/deployments/{first.deployment_id}")
    await api.delete(f"/work_pools/{plan.work_pool}")
    again = await apply(api, plan, ids(first))
    assert again.deployment_id != first.deployment_id
    assert again.retired is None
    assert (await deployment(api, again))["parameters"] == {"PATH_": "/srv", "LIMIT": 5}


async def waiting_run(api: PrefectApi, applied: Applied, key: str | None = None) -> UUID:
    run = NewRun(
        "acme / Nightly #5",
        datetime.now(UTC) + timedelta(hours=1),
        {"LIMIT": 9},
        {"jobauto.job": 5},
        key or str(uuid4()),
    )
    return await create_run(api, applied.deployment_id, run)


async def test_prefect_says_when_a_waiting_run_was_last_changed(
    api: PrefectApi, plan: DeploymentPlan
) -> None:
    applied = await apply(api, plan, AppliedIds())
    before = datetime.now(UTC)
    made = await waiting_run(api, applied)
    tomorrow = before + timedelta(days=1)
    (run,) = await waiting_runs(api, plan.work_pool, (), tomorrow, 10)
    assert run.id == made
    assert run.changed_at is not None
    assert before <= run.changed_at <= datetime.now(UTC)


async def test_a_new_name_makes_a_new_deployment_and_moves_the_waiting_runs(
    api: PrefectApi, plan: DeploymentPlan
) -> None:
    first = await apply(api, plan, AppliedIds())
    waiting = await waiting_run(api, first)
    old = await api.get(f"/flow_runs/{waiting}")
    renamed = replace(plan, name="acme - Every night")
    applied = await apply(api, renamed, ids(first))
    assert applied.deployment_id != first.deployment_id
    assert applied.retired == first.deployment_id
    assert list(applied.moved) == [waiting]
    run = await api.get(f"/flow_runs/{applied.moved[waiting]}")
    assert run["deployment_id"] == str(applied.deployment_id)
    assert run["name"] == "acme / Nightly #5"
    assert run["parameters"] == {"PATH_": "/srv", "LIMIT": 9}
    assert run["next_scheduled_start_time"] == old["next_scheduled_start_time"]
    assert run["labels"]["jobauto.job"] == 5
    assert run["labels"]["prefect.deployment.id"] == str(applied.deployment_id)
    gone = {"flow_runs": {"id": {"any_": [str(waiting)]}}}
    assert await api.post("/flow_runs/filter", gone) == []
    of_flow = {"flows": {"id": {"any_": [str(first.flow_id)]}}}
    found = await api.post("/deployments/filter", of_flow)
    assert [one["name"] for one in found] == ["acme - Every night"]


async def test_a_new_name_of_the_application_makes_a_new_flow(
    api: PrefectApi, plan: DeploymentPlan
) -> None:
    first = await apply(api, plan, AppliedIds())
    flow = replace(plan.flow, name=f"{plan.flow.name} two")
    applied = await apply(api, replace(plan, flow=flow), ids(first))
    assert applied.flow_id != first.flow_id
    assert applied.retired == first.deployment_id
    assert (await deployment(api, applied))["flow_id"] == str(applied.flow_id)


async def test_another_work_pool_takes_the_waiting_runs_along(
    api: PrefectApi, plan: DeploymentPlan, transport: CountingTransport
) -> None:
    first = await apply(api, plan, AppliedIds())
    waiting = await waiting_run(api, first)
    other = replace(plan, work_pool=f"{plan.work_pool}-b")
    applied = await apply(api, other, ids(first))
    assert applied.deployment_id == first.deployment_id
    run = await api.get(f"/flow_runs/{applied.moved[waiting]}")
    assert run["work_pool_name"] == other.work_pool
    transport.calls.clear()
    assert (await apply(api, other, ids(first))).written == ()
    assert transport.writes == []


async def test_names_with_characters_that_prefect_refuses_are_applied(
    api: PrefectApi, plan: DeploymentPlan
) -> None:
    flow = replace(plan.flow, name=prefect_name(f"R&D / <{plan.flow.name}> 100%"))
    named = replace(plan, flow=flow, name=prefect_name("a/b - 50% & <c>?#"))
    first = await apply(api, named, AppliedIds())
    again = await apply(api, named, AppliedIds())
    assert again == replace(first, written=again.written, is_new=False)


async def test_a_plan_that_prefect_refuses_is_a_conflict_with_its_reason(
    api: PrefectApi, plan: DeploymentPlan
) -> None:
    with pytest.raises(Conflict, match="not of type 'integer'") as caught:
        await apply(api, replace(plan, parameters={"LIMIT": "many"}), AppliedIds())
    assert "request_body" not in str(caught.value)


async def test_without_a_server_prefect_is_unavailable(plan: DeploymentPlan) -> None:
    async with PrefectApi(f"http://127.0.0.1:{free_port()}/api") as nobody:
        with pytest.raises(PrefectUnavailable, match="does not answer"):
            await apply(nobody, plan, AppliedIds())


async def test_a_flow_run_with_the_same_key_is_made_once(
    api: PrefectApi, plan: DeploymentPlan
) -> None:
    applied = await apply(api, plan, AppliedIds())
    first = await waiting_run(api, applied, key="job 5")
    assert await waiting_run(api, applied, key="job 5") == first
