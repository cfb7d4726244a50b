"""Values held to the fields of a credential type, and types of older programs."""

from typing import Any

import pytest

from jobauto_prefect.definitions.legacy.credential_types import is_legacy_type, upgrade_type
from jobauto_prefect.definitions.records.credentials import (
    addresses,
    is_address,
    missing_fields,
    provided_variables,
    value_faults,
)
from jobauto_prefect.definitions.validation.record_files import check_record

FIELDS: list[dict[str, Any]] = [
    {"keyword": "HOST", "required": True},
    {"keyword": "PORT", "type": "integer", "required": True, "default_value": 80},
    {"keyword": "RATE", "type": "float"},
    {"keyword": "ON", "type": "bool"},
    {"keyword": "URL", "type": "url"},
    {"keyword": "MODE", "type": "set", "options": {"a": "One", "b": "Two"}},
    {"keyword": "PIN", "type": "secret", "options": ["hush", "hash"]},
]


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("PORT", "80", None), ("PORT", 80, None), ("PORT", "8o", "type"), ("RATE", "1.5", None),
        ("RATE", "fast", "type"), ("ON", "yes", None), ("ON", "perhaps", "type"),
        ("URL", "https://a.example", None), ("URL", "nowhere", "type"), ("MODE", "a", None),
        ("MODE", "One", "enum"), ("HOST", "a\0", "value"), ("PIN", "hush!", "enum"),
        ("PORT", None, None), ("PORT", "", None), ("NONE", 1, "unknown"),
    ],
)  # fmt: skip
def test_a_value_fits_its_field_or_is_an_error(name: str, value: Any, rule: str | None) -> None:
    found = list(value_faults(FIELDS, {name: value}))
    assert [one.rule for one in found] == ([rule] if rule else [])
    assert all("hush!" not in one.message for one in found)


def test_a_default_fills_a_required_field_and_is_given_to_jobs() -> None:
    assert [one["keyword"] for one in missing_fields(FIELDS, {"PIN"})] == ["HOST"]
    assert provided_variables(FIELDS, {"HOST", "GONE"}) == {"HOST", "PORT"}


@pytest.mark.parametrize(
    ("keyword", "kind", "expected"),
    [
        ("ABRAFLEXI_URL", "string", True), ("DB_HOST", "string", True), ("DBHOST", "string", True),
        ("SMTP2_PORT", "integer", True), ("OFFICE365_TENANT", "string", True),
        ("MAILER_DSN", "string", True), ("PLACE", "url", True), ("PLACE", "string", False),
        ("REPORT", "string", False), ("DB_USERNAME", "string", False), ("CURL", "bool", True),
        ("POHODA_TIMEOUT", "integer", False), ("ACCOUNT_NUMBER", "string", False),
    ],
)  # fmt: skip
def test_fields_that_say_where_secrets_go(keyword: str, kind: str, expected: bool) -> None:
    assert is_address({"keyword": keyword, "type": kind}) is expected


def test_an_address_is_the_value_or_else_the_default() -> None:
    fields = [{"keyword": "A_URL"}, {"keyword": "PORT", "default_value": 443}, {"keyword": "USER"}]
    assert addresses(fields, {"USER": "anna"}) == {"PORT": "443"}
    assert addresses(fields, {"A_URL": "x", "PORT": "1"}) == {"A_URL": "x", "PORT": "1"}


def test_older_spellings_become_those_of_today() -> None:
    older = {
        "$schema": "x",
        "id": "bank",
        "type": "credential",
        "name": "Bank",
        "version": 1.0,
        "tags": "money, bank",
        "class": "Bank",
        "fields": [
            {"id": "A", "title": "Title", "type": "boolean", "default": False, "required": "1"},
            {"keyword": "B", "type": "number", "defval": "1.5", "example": "2", "hint": "3"},
            {"keyword": "C", "type": "select", "options": "x, y", "name": "", "odd": 1},
        ],
    }
    assert is_legacy_type(older)
    record, warnings = upgrade_type(older)
    assert check_record("credential_type", record) == ()
    assert record == {
        "kind": "credential_type",
        "code": "bank",
        "name": "Bank",
        "version": "1",
        "tags": ["money", "bank"],
        "fields": [
            {"keyword": "A", "type": "bool", "name": "Title", "default_value": False,
             "required": True},
            {"keyword": "B", "type": "float", "hint": "3", "default_value": "1.5"},
            {"keyword": "C", "type": "set", "options": ["x", "y"]},
        ],
    }  # fmt: skip
    assert [one.pointer for one in warnings] == ["/class", "/fields/2/odd"]


@pytest.mark.parametrize(
    "document", [{"kind": "credential_type", "fields": []}, {"executable": "x", "fields": []},
                 {"fields": {}}, [], None],
)  # fmt: skip
def test_other_documents_are_no_older_types(document: Any) -> None:
    assert not is_legacy_type(document)
