"""What `jobauto up` holds a minute after large requests, beside what it held idle.

    python -m benchmarks.memory --json [--quick]

200 bodies just below their limits: definitions that are kept, and plans of 400 companies, in turn.
Then a job prints 100 MB, of which the default limit is kept, and 100 sign-ins need a password.
"""

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

import httpx

from benchmarks.installation import Figures, Up, eventually, report, sized, total, up

BODIES = sized(200, 4)
DEFINITION_BYTES, BODY_BYTES = sized(950_000, 95_000), sized(4_000_000, 400_000)
RECORDS = 400
LINE = "x" * 999
LINES = sized(100_000, 1_000)
SIGN_INS = sized(100, 3)
SETTLED_SECONDS = sized(60, 1)
GOAL = 1.15


def _bodies() -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Paths and bodies: a definition, a plan, and so on."""
    for number in range(BODIES // 2):
        members = {
            f"KEY_{key}": {"type": "string", "description": "d" * 900}
            for key in range(DEFINITION_BYTES // 1000)
        }
        yield (
            "/app/",
            {
                "$schema": "https://example.com/application.schema.json",
                "name": f"Large {number}",
                "description": "Has many keys",
                "executable": "/bin/true",
                "environment": members,
            },
        )
        note = "d" * (BODY_BYTES // RECORDS - 100)
        records = [
            {"kind": "company", "slug": f"c{each}", "name": "Company", "env": {"NOTE": note}}
            for each in range(RECORDS)
        ]
        yield "/apply.json", {"files": [{"name": "all.json", "text": json.dumps(records)}]}


def _print_much(service: Up) -> None:
    script = f'yes "{LINE}" | head -n {LINES}'
    template = service.template(service.app(service.program_of_jobs("chatty", script)))
    before = service.ended()
    service.post("/job/", {"runtemplate_id": template})
    eventually(lambda: service.ended() > before, 120)


def _sign_in_often(service: Up) -> None:
    (admin,) = service.said("admin")
    for _ in range(SIGN_INS):
        body = {"login": admin["login"], "password": admin["password"]}
        answer = httpx.post(f"{service.url}/login.html", data=body, timeout=60)
        if not answer.is_redirect:
            raise RuntimeError(f"sign-in: {answer.status_code}")


def measure() -> Iterator[Figures]:
    """Memory before and after."""
    with up() as service:
        service.burst([service.true_template()], 16)
        time.sleep(SETTLED_SECONDS)
        idle = service.pss()
        statuses = [service.rest.post(path, json=body).status_code for path, body in _bodies()]
        most = service.pss()
        _print_much(service)
        _sign_in_often(service)
        time.sleep(SETTLED_SECONDS)
        after = service.pss()
    value, yardstick = sum(after.values()), sum(idle.values())
    yield {
        "name": "memory after the largest bodies",
        "value": round(value),
        "unit": "MB PSS, a minute later",
        "yardstick": "the same service idle, before",
        "yardstick_value": round(yardstick),
        "ratio": round(value / yardstick, 2),
        "goal": f"at most {GOAL:g} times",
        "met": value <= GOAL * yardstick,
        "statuses": {str(status): statuses.count(status) for status in sorted(set(statuses))},
        "idle_mb": total(idle, 0),
        "after_bodies_mb": total(most, 0),
        "after_mb": total(after, 0),
    }


if __name__ == "__main__":
    report(measure, __doc__)
