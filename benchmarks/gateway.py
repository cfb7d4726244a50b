"""What the door before Prefect adds to a request, beside the same application without it.

    python -m benchmarks.gateway --json

Both are asked in one process, in turn, without a network: what remains is the door. What a member
asks is compared with the same question, narrowed by hand.
"""

import asyncio
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx

from benchmarks.stack import prepare_ledger, report

TIMES = 300
WARM = 30
GOAL_MS = 2.0
PATH = "/api/flow_runs/filter"
BODY: dict[str, Any] = {"limit": 5}
PASSWORD = "four unlikely winter words"


def measure() -> dict[str, Any]:
    """Measure in a home of its own."""
    with tempfile.TemporaryDirectory() as home:
        return asyncio.run(_measure(Path(home)))


async def _measure(home: Path) -> dict[str, Any]:
    import os

    os.environ |= {
        "PREFECT_HOME": str(home / "prefect"),
        "PREFECT_LOGGING_LEVEL": "ERROR",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "JOBAUTO_HOME": str(home),
    }
    from jobauto_prefect.engine.api import authorization, service_authorization
    from jobauto_prefect.engine.prefect_server.app import create_closed_app
    from jobauto_prefect.facade.gateway.asgi import create_middleware
    from jobauto_prefect.facade.middleware.transport import TransportMiddleware
    from jobauto_prefect.ledger.access import access_scope
    from jobauto_prefect.ledger.access.access_scope import AccessScope
    from jobauto_prefect.ledger.opening import open_ledger
    from jobauto_prefect.settings import Settings

    settings = Settings(home=home)
    tokens = _populate(settings)
    ledger = open_ledger(settings)
    inner = "door:measured"
    app: Any = create_closed_app(inner)
    gate = TransportMiddleware(create_middleware(settings, ledger, app, inner), settings)
    with ledger.reading() as session:
        seen = sorted(access_scope.deployments(session, AccessScope(None, None, settings.pool)))
    narrowed = BODY | {"deployments": {"id": {"any_": seen}}}
    async with app.router.lifespan_context(app):
        callers = {
            "bare": (app, authorization(inner), BODY),
            "bare, narrowed": (app, authorization(inner), narrowed),
            "service": (gate, service_authorization(ledger.box), BODY),
            "administrator": (gate, f"Bearer {tokens['root']}", BODY),
            "member": (gate, f"Bearer {tokens['member']}", BODY),
            "member by password": (gate, authorization(f"member:{PASSWORD}"), BODY),
        }
        found = await _in_turn(callers)
    bare, of_members = found.pop("bare"), found.pop("bare, narrowed")
    added = {
        name: round(value - (of_members if name.startswith("member") else bare), 3)
        for name, value in found.items()
    }
    worst = max(added.values())
    return {
        "name": "gateway",
        "value": worst,
        "unit": "ms added to a request, median",
        "yardstick": "Prefect's application without the door",
        "yardstick_value": round(bare, 3),
        "ratio": round((bare + worst) / bare, 2),
        "goal": GOAL_MS,
        "met": worst < GOAL_MS,
        "added_ms": added,
    }


async def _in_turn(callers: dict[str, tuple[Any, str | None, Any]]) -> dict[str, float]:
    """The median of each, in milliseconds."""
    times: dict[str, list[float]] = {name: [] for name in callers}
    clients = {
        name: httpx.AsyncClient(
            transport=httpx.ASGITransport(app, client=("127.0.0.1", 1)),
            base_url="http://localhost",
            headers={"Authorization": str(authorization)},
        )
        for name, (app, authorization, _) in callers.items()
    }
    for turn in range(WARM + TIMES):
        for name, client in clients.items():
            began = time.perf_counter()
            (await client.post(PATH, json=callers[name][2])).raise_for_status()
            if turn >= WARM:
                times[name].append((time.perf_counter() - began) * 1000)
    return {name: statistics.median(each) for name, each in times.items()}


def _populate(settings: Any) -> dict[str, str]:
    """An administrator and a member of a company with a hundred run templates; their tokens."""
    from uuid import uuid4

    from jobauto_prefect.facade.auth.passwords import hash_password
    from jobauto_prefect.ledger.access.tokens import issue_user_token
    from jobauto_prefect.ledger.audit.trail import SERVICE
    from jobauto_prefect.ledger.opening import open_ledger
    from jobauto_prefect.ledger.records import (
        App,
        Company,
        CompanyUser,
        RunTemplate,
        User,
        UserRole,
    )

    prepare_ledger(settings)
    ledger = open_ledger(settings)
    with ledger.writing(SERVICE) as session:
        now = session.clock()
        document = {"name": "Measured", "executable": "true", "environment": {}}
        app = App(
            name="Measured", uuid=str(uuid4()), document=document, source=json.dumps(document)
        )
        company = Company(slug="measured", name="Measured")
        root, member = (
            User(login="root"),
            User(login="member", password_hash=hash_password(PASSWORD)),
        )
        root.role_assignments.append(UserRole(role="super_admin", assigned_at=now))
        session.add_all([app, company, root, member])
        session.flush()
        member.memberships.append(CompanyUser(company_id=company.id, role="viewer"))
        session.add_all(
            RunTemplate(app_id=app.id, company_id=company.id, name=f"t{n}", deployment_id=uuid4())
            for n in range(100)
        )
        tokens = {
            "root": issue_user_token(session, root, None)[0],
            "member": issue_user_token(session, member, None)[0],
        }
    ledger.close()
    return tokens


if __name__ == "__main__":
    report(measure, __doc__)
