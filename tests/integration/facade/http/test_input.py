"""What clients may not send: refused with its place, and never an error of ours."""

import base64
import gzip
import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from jobauto_prefect.console_addresses import CONTRACT
from jobauto_prefect.facade.http.field_types import (
    parse_bool,
    parse_datetime,
    parse_int,
    parse_text,
)
from jobauto_prefect.facade.http.operations import Operation
from jobauto_prefect.facade.http.requests import IGNORED_PARAMETERS
from jobauto_prefect.facade.kinds.registry import RESOURCES
from jobauto_prefect.facade.resources.crud import build_contract_router
from tests.support.permission_table import TABLE, Row, fill_in
from tests.support.records import ok, pointers
from tests.support.secrets import secret

VALUES = {parse_int: "1", parse_bool: "true", parse_datetime: "2026-05-01", parse_text: "x"}
HUGE = "9" * 5000


def test_an_id_that_no_record_has_is_not_found(rest: httpx.Client) -> None:
    for number in (0, 2**31, 2**63 - 1, 2**63):
        for path in (
            "company/{}.json", "job/{}.json", "auditlog/{}.json", "artifact/{}",
            "app/{}/definition.json", "user/{}/roles.json", "company/{}/users.json",
        ):  # fmt: skip
            assert rest.get(path.format(number)).status_code == 404, (path, number)
        for path in (f"/company/{number}.json", f"/company/1/user/{number}"):
            assert rest.delete(path).status_code == 404, path
        for query in (f"runtemplate_id={number}", f"company_id={number}"):
            answer = rest.get(f"/jobs.json?{query}")
            assert (answer.status_code, answer.json()) == (200, {}) or number == 2**63
            assert answer.status_code in (200, 400)
        assert rest.post(f"/company/{number}.json", json={}).status_code in (400, 404)
        assert rest.post("/company/", json={"id": number}).status_code in (400, 404)


def test_what_is_no_id_is_refused(rest: httpx.Client) -> None:
    names = ("x", "-1x", "1.0", "1e3", "%2B1", "1_0", "%D9%A5")
    for text in (*names, "%20", HUGE):
        unknown = 404 if "." in text else 400  # a suffix there is none of
        assert rest.get(f"/artifact/{text}").status_code == unknown, text
        status = 404 if text in names else 400
        assert rest.get(f"/company/{text}.json").status_code == status, text
        answer = rest.post(f"/company/?companyId={text}", json={})
        assert answer.status_code == status, text
        assert status == 404 or set(pointers(answer)) == {"/companyId"}


BODIES: list[tuple[str | bytes, str]] = [
    ('{"slug": "a", "slug": "b"}', "/slug"),
    ('{"env": {"A": 1, "A": 2}}', "/A"),
    ('{"env": {"A": NaN}}', ""),
    ('{"env": {"A": -Infinity}}', ""),
    ('{"env": {"A": 1e999}}', "/env/A"),
    (f'{{"env": {{"A": {HUGE}}}}}', "/env/A"),
    ('{"env": {"A": "a\\u0000b"}}', "/env/A"),
    ('{"env": {"A": "\\ud800"}}', "/env/A"),
    ('{"env": {"\\udc00": 1}}', "/env"),
    ('{"env":' * 200 + "1" + "}" * 200, "/env" * 64),
    ("[" * 100_000, ""),
    ("[]", ""),
    ("{", ""),
    ("slug=acme", ""),
    (b'{"slug": "\xff"}', ""),
    ('{"slug": "a"}'.encode("utf-16"), ""),
    ('{"customer": true, "enabled": "yes"}', "/customer"),
    ('{"customer": 2147483648}', "/customer"),
    ('{"name": null}', "/name"),
    ('{"colour": "red"}', "/colour"),
    ('{"id": true}', "/id"),
    ('{"id": "1 "}', "/id"),
]


def test_a_body_that_can_not_be_kept_is_refused_with_its_place(rest: httpx.Client) -> None:
    made = rest.post("/company/", json={"slug": "acme", "name": "Acme"}).json()
    for raw, pointer in BODIES:
        path = "/company/" if '"id"' in str(raw) else f"/company/{made['id']}.json"
        assert pointer in pointers(rest.post(path, content=raw)), raw[:40]


def test_definitions_and_texts_of_json_are_as_strict(rest: httpx.Client) -> None:
    for text in ('{"A": 1e999}', '{"A": "\\u0000"}', '{"A": 1, "A": 2}', f'{{"A": {HUGE}}}'):
        assert pointers(rest.post("/app/", content=text)), text[:40]
        assert "/env_mapping" in pointers(rest.post("/eventrule/", json={"env_mapping": text}))


def test_what_is_said_beside_a_definition_is_refused_with_every_error(rest: httpx.Client) -> None:
    beside = {"force": "maybe", "enabled": "no", "labels": "-", "company_id": -1, "topics": [""]}
    answer = rest.post("/app/", json={"name": "Probe", **beside})
    assert {pointer.split("/")[1] for pointer in pointers(answer)} == beside.keys()


def test_a_query_field_that_comes_twice_or_with_nul_is_refused(rest: httpx.Client) -> None:
    assert set(pointers(rest.get("/jobs.json?limit=1&limit=2"))) == {"/limit"}
    assert set(pointers(rest.get("/users.json?login=%00"))) == {"/login"}
    assert set(pointers(rest.post("/app/?name=a%00"))) == {"/name"}
    assert set(pointers(rest.post("/company/?slug=a&slug=b"))) == {"/slug"}


def test_secrets_are_not_taken_from_addresses(rest: httpx.Client) -> None:
    user = rest.post("/user/?login=eva&password=dlouhe-heslo-1")
    assert set(pointers(user)) == {"/password"}
    source = rest.post("/eventsource/?name=s&db_database=d&db_password=hid-den")
    assert set(pointers(source)) == {"/db_password"}
    assert "hid-den" not in source.text
    assert rest.post("/company/?slug=acme&name=Acme&enabled=false").json()["enabled"] is False


def cursor(*key: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(key).encode()).decode().rstrip("=")


def test_a_cursor_somebody_made_up_is_refused(rest: httpx.Client) -> None:
    instant = {"t": "2026-01-01T00:00:00+00:00"}
    for text in (
        cursor("schedule", {"t": "2026-01-01T00:00:00"}, 1),
        cursor("schedule", "x", 1),
        cursor("schedule", 1, 1),
        cursor("schedule", instant, 2**70),
        cursor("schedule", instant, True),
        cursor("schedule", {"t": 1}, 1),
        cursor("schedule", None, 1),
        cursor("-id", 1, 1),
        cursor("schedule"),
        "é",
        "====",
        "A" * 5000,
    ):
        answer = rest.get("/jobs.json", params={"order": "schedule", "cursor": text})
        assert set(pointers(answer)) == {"/cursor"}, text
    for text in (cursor("name", "a\0", 1), cursor("name", "\ud800", 1)):
        answer = rest.get("/companies.json", params={"order": "name", "cursor": text})
        assert set(pointers(answer)) == {"/cursor"}, text


def test_a_form_signs_in(rest: httpx.Client) -> None:
    body = {"login": "eva", "password": secret("dlouhé heslo:1"), "roles": ["viewer"]}
    assert rest.post("/user/", json=body).status_code == 201
    form = {"username": "eva", "password": secret("dlouhé heslo:1")}
    assert "token" in rest.post("/login.json", data=form).json()
    header = {"Content-Type": "application/x-www-form-urlencoded"}
    assert "token" in rest.post("/login.json", content=json.dumps(form), headers=header).json()
    assert rest.post("/login.json", data={"username": "e\0"}).status_code == 400


def test_an_odd_accept_header_is_answered(rest: httpx.Client) -> None:
    odd = (
        "*",
        "*/*;q=",
        "text/html;q=2",
        "a/b/c",
        ";;,,",
        "text/*;q=0",
        "\xff",
        "x" * 5000,
        "json",
    )
    for accept in odd:
        answer = rest.get("/companies", headers=[(b"Accept", accept.encode("latin-1"))])
        assert answer.status_code in (200, 406), answer.text


def test_every_filter_is_answered_also_where_nothing_was_filled_in(rest: httpx.Client) -> None:
    rest.post("/company/", json={"slug": "acme", "name": "Acme", "enabled": False})
    for resource in RESOURCES:
        path = f"/{resource.kind.collection}.json"
        assert rest.get(
            path,
            params=dict.fromkeys((*resource.filters, "limit", "offset", "order", "cursor"), ""),
        ).is_success
        for name, one in resource.filters.items():
            value = one.choices[0] if one.choices else VALUES[one.convert]
            assert rest.get(path, params={name: value}).status_code == 200, (path, name)
    assert len(rest.get("/companies.json?enabled=false").json()) == 1
    assert rest.get("/companies.json?enabled=true").json() == {}


def test_what_is_said_twice_must_not_differ(rest: httpx.Client) -> None:
    ids = [
        rest.post("/company/", json={"slug": slug, "name": slug}).json()["id"]
        for slug in ("one", "two")
    ]
    path = f"/company/?companyId={ids[0]}"
    assert rest.post(path, json={"id": ids[0], "company_id": str(ids[0])}).status_code == 201
    assert set(pointers(rest.post(path, json={"id": ids[1]}))) == {"/companyId", "/id"}
    assert set(pointers(rest.post(path, json={"id": "x"}))) == {"/companyId", "/id"}
    assert set(pointers(rest.post(f"{path}&name=a", json={"name": "b"}))) == {"/name"}
    assert set(pointers(rest.post("/app/?name=a", json={"name": "b"}))) == {"/name"}


BEYOND = (2**63, "zzzzzzzzzz")
"""Numbers that a column or a database can't hold, some of them to the base 36."""


def plain(path: str) -> str:
    """A path without the names of its parts."""
    return re.sub(r"\{[^}]*\}", "*", path).rstrip("/")


def names_of(method: str, path: str) -> frozenset[str]:
    """What may be in the query of an operation."""
    return frozenset().union(
        *(
            route.query_names({})
            for route in build_contract_router().routes
            if isinstance(route, Operation) and method in route.methods
            if plain(route.path) == plain(path)
        )
    )


def requests_with_numbers(
    row: Row, ids: dict[str, int]
) -> Iterator[tuple[str, dict[str, Any], dict[str, Any] | None]]:
    """Each request of an operation with such a number in one place: path, query and body."""
    body = {name: fill_in(value, ids) for name, value in row.body.items()} if row.body else None
    route = CONTRACT + row.path.replace(".json", ".{suffix}")
    for number in BEYOND:
        for name in re.findall(r"\{(\w+)\}", row.path):
            yield row.path.format(**ids | {name: number}), row.query, body
        for name in sorted(names_of(row.method, route)):
            if row.method == "POST" and name not in ("id", *IGNORED_PARAMETERS):
                yield row.path.format(**ids), row.query, {**(body or {}), name: number}
            elif row.method != "DELETE":
                yield row.path.format(**ids), row.query | {name: str(number)}, body


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
def test_no_number_that_comes_in_is_an_error_of_ours(
    method: str, rest: httpx.Client, record_ids: dict[str, int]
) -> None:
    operations = {(row.method, row.path): row for row in TABLE if not row.of_prefect}
    for row in (row for row in operations.values() if row.method == method):
        for path, query, body in requests_with_numbers(row, record_ids):
            answer = rest.request(method, path, params=query, json=body)
            assert answer.status_code < 500, (method, path, query, body, answer.text)


def test_a_company_may_have_any_slug_of_ten_letters(rest: httpx.Client) -> None:
    for slug in ("accounting", "production", "newsletter"):
        assert rest.get(f"/company/{slug}.json").status_code == 404
        made = ok(rest.post("/company/", json={"slug": slug, "name": slug}), 201)["id"]
        assert ok(rest.get(f"/company/{slug}.json"))["id"] == made
        for listed in ("jobs", "tasks", "runtemplates", "apps", "credentials", "events"):
            assert ok(rest.get(f"/{listed}.json", params={"company_id": slug})) == {}


@pytest.mark.parametrize(
    ("item", "body"),
    [
        ("runtemplate", {"name": "t", "app_id": 999, "company_id": 998}),
        ("runtemplate", {"name": "t", "app_id": 2**31 - 1, "company_id": "nobody"}),
        ("runtemplate", {"name": "t", "app_id": "nothing", "company": "nobody"}),
        ("eventrule", {"runtemplate_id": 999, "event_source_id": 998}),
        ("eventrule", {"runtemplate_id": "a/b", "runtemplate_source_id": 998}),
        ("credential", {"name": "c", "company_id": 999, "credential_type_id": 998}),
        ("runtemplate", {"id": 1, "credentials": [999], "topics": [998]}),
        (
            "runtemplate",
            {"id": 1, "app_id": 9, "success": {"RunTemplate": {"runtemplate_id": 9}}},
        ),
    ],
)
def test_each_of_two_wrong_references_is_named(
    rest: httpx.Client, record_ids: dict[str, int], item: str, body: dict[str, Any]
) -> None:
    if "id" in body:
        body = {**body, "id": record_ids["runtemplate"]}
    named = {pointer.split("/")[1] for pointer in pointers(rest.post(f"/{item}/", json=body))}
    assert named == body.keys() - {"name", "id"}


@pytest.mark.parametrize("number", [10**19, 10**30, "9" * 25, -(10**25)])
def test_a_number_too_large_is_refused_as_such(rest: httpx.Client, number: Any) -> None:
    for answer in (
        rest.get("/jobs.json", params={"company_id": number}),
        rest.get(f"/job/{number}.json"),
        rest.post("/company/", json={"slug": "a", "name": "A", "customer": number}),
        rest.get("/jobs.json", params={"limit": number}),
    ):
        if answer.status_code != 404:
            assert pointers(answer)
            assert "whole number" not in answer.text, answer.text


def test_a_packed_body_is_read_within_the_limits_of_its_contents(rest: httpx.Client) -> None:
    def post(content: bytes, encoding: str) -> httpx.Response:
        headers = {"Content-Encoding": encoding}
        return rest.post("/company/", content=content, headers=headers)

    raw = json.dumps({"slug": "acme", "name": "Acme"}).encode()
    packed = gzip.compress(raw)
    for content in (packed, gzip.compress(raw[:9]) + gzip.compress(raw[9:])):
        assert ok(post(content, "gzip"), 201)["name"] == "Acme"
    assert ok(post(raw, "identity"), 201)["created"] is False
    assert post(gzip.compress(b" " * 50_000_000), "gzip").status_code == 413
    for broken in (packed[:-9], packed[:20], raw, packed + b"x"):
        assert post(broken, "gzip").status_code == 400, broken
    for encoding in ("deflate", "br", "gzip, gzip", "zstd", "x"):
        refused = post(raw, encoding)
        assert (refused.status_code, refused.headers["accept-encoding"]) == (415, "gzip")


@pytest.mark.parametrize("header", ["If-Match", "If-Unmodified-Since"])
def test_a_condition_that_is_not_judged_is_refused(rest: httpx.Client, header: str) -> None:
    made = ok(rest.post("/company/", json={"slug": "acme", "name": "Acme"}), 201)["id"]
    path, headers = f"/company/{made}.json", {header: '"x"'}
    changed = rest.post(path, json={"name": "Other"}, headers=headers)
    deleted = rest.delete(path, headers=headers)
    assert pointers(changed) == pointers(deleted) == [f"/{header}"]
    assert ok(rest.get(path))["name"] == "Acme"
