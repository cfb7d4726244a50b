"""What the gateway of `jobauto up` adds to a request at Prefect, beside a bare Prefect.

    python -m benchmarks.gateway --json [--quick]

On PostgreSQL, one request after the other. What a member of a company with a hundred run templates
asks is compared with the same question of an administrator, narrowed by hand.
"""

import json
from collections.abc import Callable
from typing import Any

import httpx

from benchmarks.grown import median_ms
from benchmarks.installation import Figures, Up, bare, report, sized, up

TEMPLATES = sized(100, 5)
GOAL_MS = 2.0
PATH = "/flow_runs/filter"
BODY: dict[str, Any] = {"limit": 5}


def _member(service: Up) -> dict[str, str]:
    """The headers of a member of the company."""
    service.post("/user/", {"login": "member"})
    service.jobauto("company", "member", "set", "bench", "member", "--role", "viewer")
    issued = json.loads(service.jobauto("token", "issue", "--user", "member", "--json"))
    return {"Authorization": f"Bearer {issued['token']}"}


def _asked(service: Up) -> dict[str, float]:
    """Milliseconds by who asks."""
    app = service.app("/bin/true")
    made = [service.template(app, str(number)) for number in range(TEMPLATES)]
    ids = [service.deployment(template) for template in made]
    narrowed = BODY | {"deployments": {"id": {"any_": ids}}}
    member = _member(service)

    def post(body: dict[str, Any], **options: Any) -> Callable[[], httpx.Response]:
        return lambda: service.prefect.post(PATH, json=body, **options)

    return {
        "administrator": median_ms(post(BODY)),
        "narrowed": median_ms(post(narrowed)),
        "member": median_ms(post(BODY, headers=member)),
    }


def measure() -> Figures:
    """What the slowest of them waits longer for than without the gateway."""
    with bare() as prefect:
        alone = median_ms(lambda: prefect.prefect.post(PATH, json=BODY))
    with up() as service:
        asked = _asked(service)
    added = {
        "administrator": round(asked["administrator"] - alone, 2),
        "member": round(asked["member"] - asked["narrowed"], 2),
    }
    worst = max(added.values())
    return {
        "name": "gateway",
        "value": worst,
        "unit": "ms added to a request, median",
        "yardstick": "a bare Prefect",
        "yardstick_value": alone,
        "ratio": round((alone + worst) / alone, 2),
        "goal": f"under {GOAL_MS:g} ms",
        "met": worst < GOAL_MS,
        "added_ms": added,
    }


if __name__ == "__main__":
    report(measure, __doc__)
