"""Bodies that are no JSON, that never end, or that have more in them than any honest request."""

import httpx
import pytest

from tests.support.breakable import hang_up
from tests.support.gateway import OURS, PASSWORD, Gateway, basic


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_number_that_json_does_not_have_is_a_bad_request(gate: Gateway, number: str) -> None:
    body = f'{{"limit": {number}}}'
    for login in ("viewer", "root"):
        with gate.as_(login) as client:
            answer = client.post("/flow_runs/filter", content=body)
            assert answer.status_code == 400, answer.text
            assert answer.json()["details"][0]["rule"] == "number"
    worker = basic(f"worker:{gate.worker_token}")
    answer = httpx.post(f"{gate.url}/flow_runs/filter", content=body, headers=worker)
    assert answer.status_code == 400, answer.text


def test_who_hangs_up_leaves_no_run_and_no_traceback(gate: Gateway) -> None:
    log = gate.settings.home / "prefect.log"
    before = log.stat().st_size
    path = f"/deployments/{gate.deployment(OURS)}/create_flow_run"
    headers = basic(f"manager:{PASSWORD}") | {"X-Request-ID": "hung-up"}
    hang_up(f"{gate.url}{path}", headers, b"{}")
    with gate.as_("manager") as manager:
        for _ in range(10):  # its turn has come
            assert manager.get(f"/deployments/{gate.deployment(OURS)}").status_code == 200
    assert gate.trail(request_id="hung-up") == []
    tracebacks = log.read_bytes()[before:].decode().split("Traceback")[1:]
    assert [each for each in tracebacks if "jobauto_prefect/facade/" in each] == []
