"""Who is let in, and what those see who belong to one company."""

from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.support.console import cookie_name, submit, visitor
from tests.support.gateway import OURS, PASSWORD, THEIRS, Gateway, basic

ANY = {"limit": 200}


def names(answer: httpx.Response) -> list[str]:
    return sorted(one["name"] for one in answer.raise_for_status().json())


def test_without_credentials_nothing_is_answered_but_files_and_health(gate: Gateway) -> None:
    with gate.anonymous() as nobody:
        for path in ("/health", "/ready"):
            assert nobody.get(path).status_code == 200
        for path in ("/version", "/hello", "/admin/version", "/flows/filter", "/nothing", "/"):
            answer = nobody.get(path)
            assert answer.status_code == 401, path
            assert answer.headers.get_list("www-authenticate")
        assert nobody.post("/flow_runs/filter", json={}).status_code == 401
        page = nobody.get(f"{gate.pages}/dashboard", headers={"Accept": "text/html"})
        assert page.status_code == 200
        assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
        assert page.headers["x-content-type-options"] == "nosniff"
        settings = nobody.get(f"{gate.pages}/ui-settings").json()
        assert settings["auth"] == "BASIC"
        assert settings["api_url"] == "/api"
        for path in ("/docs", "/openapi.json"):
            assert nobody.get(f"{gate.pages}{path}").status_code == 401
        assert nobody.post(f"{gate.pages}/dashboard").status_code == 401
    with gate.as_("root") as root:
        assert root.post(f"{gate.pages}/dashboard").status_code == 403


def test_the_consoles_cookie_opens_nothing_of_prefect(gate: Gateway) -> None:
    with visitor(gate.settings.url) as browser:
        (text,) = submit(browser, "root", PASSWORD).cookies.values()
        cookie = {"Cookie": f"{cookie_name(gate.settings.url)}={text}"}
        assert browser.get("/", headers=cookie).status_code == 200
    ways = [cookie, {"Authorization": f"Bearer {text}"}, basic(f"root:{text}"), basic(text)]
    with gate.anonymous() as nobody:
        for headers in [*ways, basic(f"worker:{text}")]:
            assert nobody.get("/version", headers=headers).status_code == 401
            assert nobody.post("/flow_runs/filter", json={}, headers=headers).status_code == 401


def test_a_page_is_not_answered_with_a_challenge(gate: Gateway) -> None:
    with gate.anonymous() as nobody:
        for header in ({"X-PREFECT-UI": "true"}, {"Sec-Fetch-Mode": "cors"}):
            answer = nobody.get("/admin/version", headers=header)
            assert answer.status_code == 401
            assert "www-authenticate" not in answer.headers
            assert isinstance(answer.json()["detail"], str)


@pytest.mark.parametrize("inner", ["door:x", "admin:", ":", "jobauto service:x"])
def test_neither_a_guess_at_the_inner_password_nor_a_wrong_one_opens(
    gate: Gateway, inner: str
) -> None:
    with gate.anonymous() as nobody:
        assert nobody.get("/version", headers=basic(inner)).status_code == 401


def test_every_way_to_sign_in_opens_and_an_invalid_bearer_never_falls_back(gate: Gateway) -> None:
    token = gate.rest.headers["authorization"].removeprefix("Bearer ")
    with gate.anonymous() as client:

        def status(**headers: str) -> int:
            return client.get("/version", headers=headers).status_code

        assert status(**basic(f"root:{PASSWORD}")) == 200
        assert status(**basic(f"root:{token}")) == 200
        assert status(Authorization=f"Bearer {token}") == 200
        assert status(**basic(f"viewer:{token}")) == 401
        assert status(Authorization="Bearer nonsense") == 401
        assert status(**basic(f"worker:{gate.worker_token}")) == 200
        assert status(**basic(f"root:{gate.worker_token}")) == 401
        both = [("Authorization", "Bearer nonsense"), *basic(f"root:{PASSWORD}").items()]
        assert client.get("/version", headers=both).status_code == 401


def test_the_rules_of_transport_hold_here_too(gate: Gateway) -> None:
    with gate.as_("root") as root:
        forged = root.get("/version", headers={"X-Forwarded-For": "192.0.2.1"})
        assert forged.status_code == 403
        other = root.post("/flows/filter", json={}, headers={"Origin": "https://evil.example"})
        assert other.status_code == 403
        same = root.get("/version", headers={"Origin": "https://evil.example"})
        assert not [name for name in same.headers if name.startswith("access-control-")]


def test_what_the_table_does_not_know_is_refused(gate: Gateway) -> None:
    with gate.as_("root") as root:
        for method, path in (("GET", "/nothing"), ("PUT", "/flows/filter"), ("GET", "/flows")):
            answer = root.request(method, path)
            assert answer.status_code == 403
            assert "allows" in answer.json()["message"]


def test_an_administrator_sees_prefect_as_it_is(gate: Gateway) -> None:
    with gate.as_("root") as root:
        seen = " ".join(names(root.post("/deployments/filter", json=ANY)))
        assert "Ours" in seen
        assert "Planted" in seen
        assert root.post("/automations/filter", json={}).status_code == 200
        assert root.post("/block_documents/filter", json={}).status_code == 200


@pytest.mark.parametrize("login", ["viewer", "manager"])
def test_a_member_sees_what_is_of_their_company(gate: Gateway, login: str) -> None:
    ours, theirs = gate.run(OURS), gate.run(THEIRS)
    with gate.as_(login) as member:
        (name,) = names(member.post("/deployments/filter", json={}))
        assert "Ours" in name
        assert member.post("/deployments/count", json={}).json() == 1
        found = member.post("/flow_runs/filter", json=ANY).json()
        assert ours in [one["id"] for one in found]
        assert {one["deployment_id"] for one in found} == {gate.deployment(OURS)}
        paged = member.post("/flow_runs/paginate", json={}).json()
        assert paged["count"] == len(found)
        assert member.get(f"/flow_runs/{ours}").status_code == 200
        assert member.get(f"/flow_runs/{theirs}").status_code == 404
        assert member.get(f"/flow_runs/{uuid4()}").status_code == 404
        assert member.get(f"/deployments/{gate.deployment(THEIRS)}").status_code == 404
        assert member.get(f"/flow_runs/{theirs}/graph-v2").status_code == 404
        states = {"flow_run_id": theirs}
        assert member.get("/flow_run_states/", params=states).status_code == 404
        assert member.get("/flow_run_states/", params={"flow_run_id": ours}).status_code == 200
        (flow,) = member.post("/flows/filter", json={}).json()
        assert member.get(f"/flows/{flow['id']}").status_code == 200
        (pool,) = member.post("/work_pools/filter", json={}).json()
        assert pool["base_job_template"] == {}


@pytest.mark.parametrize(
    "deployments",
    [
        {"operator": "or_", "name": {"like_": "Planted"}},
        {"id": {"any_": "nonsense"}},
        "nonsense",
    ],
)
def test_no_filter_widens_what_a_member_sees(gate: Gateway, deployments: Any) -> None:
    with gate.as_("viewer") as viewer:
        answer = viewer.post("/flow_runs/filter", json={"deployments": deployments})
        assert answer.status_code in (400, 403)
    with gate.as_("viewer") as viewer:
        theirs = {"deployments": {"id": {"any_": [gate.deployment(THEIRS)]}}}
        assert viewer.post("/deployments/filter", json=theirs).json() == []
        names_of = {"deployments": {"name": {"like_": "Planted"}}}
        assert viewer.post("/deployments/count", json=names_of).json() == 0


def test_log_lines_are_read_by_the_runs_they_are_of(gate: Gateway) -> None:
    ours, theirs = gate.run(OURS), gate.run(THEIRS)
    line = {"name": "x", "level": 20, "message": "m", "timestamp": "2026-01-01T00:00:00Z"}
    with gate.as_("root") as root:
        lines = [line | {"flow_run_id": one} for one in (ours, theirs)]
        root.post("/logs/", json=lines).raise_for_status()
    with gate.as_("viewer") as viewer:
        assert viewer.post("/logs/filter", json={}).status_code == 403
        asked = {"logs": {"flow_run_id": {"any_": [ours, theirs]}}}
        found = viewer.post("/logs/filter", json=asked).json()
        assert {one["flow_run_id"] for one in found} == {ours}
        asked = {"logs": {"operator": "or_", "flow_run_id": {"any_": [ours]}}}
        assert viewer.post("/logs/filter", json=asked).status_code == 403
        assert viewer.get(f"/flow_runs/{theirs}/logs/download").status_code == 404


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/automations/filter"),
        ("POST", "/block_documents/filter"),
        ("POST", "/variables/filter"),
        ("POST", "/events/filter"),
        ("GET", "/flows/name/Greeter"),
        ("POST", "/concurrency_limits/filter"),
    ],
)
def test_what_can_not_be_narrowed_is_refused_to_members(
    gate: Gateway, method: str, path: str
) -> None:
    with gate.as_("viewer") as viewer:
        answer = viewer.request(method, path, json={} if method == "POST" else None)
        assert answer.status_code == 403
        assert "administrators" in answer.json()["message"]
    with gate.as_("outsider") as outsider:
        assert outsider.post("/deployments/filter", json={}).json() == []


def test_what_prefects_pages_need_is_answered_without_others(gate: Gateway) -> None:
    with gate.as_("viewer") as viewer:
        (flow,) = viewer.post("/flows/filter", json={}).json()
        asked = {"flow_ids": [flow["id"]]}
        counted = viewer.post("/ui/flows/count-deployments", json=asked).json()
        assert counted == {flow["id"]: 1}
        assert viewer.post("/ui/flows/next-runs", json=asked).json() == {flow["id"]: None}
        assert set(viewer.get("/admin/settings").json()) == {"server"}
        about = f"prefect.deployment.{gate.deployment(OURS)}"
        assert viewer.get(f"/automations/related-to/{about}").json() == []
        assert viewer.post("/saved_searches/filter", json={}).json() == []
        assert viewer.get("/observed-states").json() == []


def test_secrets_of_blocks_need_a_permission_and_leave_an_entry(gate: Gateway) -> None:
    path = "/block_types/slug/secret/block_documents"
    with gate.as_("root") as root:
        assert root.get(path, params={"include_secrets": "true"}).status_code == 200
    assert gate.trail(action="reveal", actor="root")
    with gate.as_("viewer") as viewer:
        refused = viewer.get(path, params={"include_secrets": "true"})
        assert refused.status_code == 403
        body = {"include_secrets": True}
        assert viewer.post("/block_documents/filter", json=body).status_code == 403
    assert gate.trail(action="refuse", actor="viewer")


def test_an_error_of_prefects_own_is_told_as_such(gate: Gateway) -> None:
    """Prefect's query for this filter names a table that it did not join."""
    since = {"task_runs": {"start_time": {"after_": "2026-11-22T00:00:00Z"}}}
    with gate.as_("root") as root:
        path = "/ui/task_runs/dashboard/counts"
        answer = root.post(path, json=since | {"work_pools": {"name": {"any_": ["default"]}}})
        assert answer.status_code == 502
        assert "log" in answer.json()["message"]
        assert root.post(path, json=since).status_code == 200


def test_a_body_that_does_not_say_its_length_is_counted(gate: Gateway) -> None:
    pieces = (b" " * 2**20 for _ in range(gate.settings.body_limit_bytes // 2**20 + 1))
    viewer = ("viewer", PASSWORD)
    answer = httpx.post(f"{gate.url}/flow_runs/filter", content=pieces, auth=viewer, timeout=30)
    assert answer.status_code == 413
    assert "larger than" in answer.json()["message"]
