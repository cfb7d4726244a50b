"""Where values go by `consumes`, in which format, and one element for each job."""

from typing import Any

import pytest

from jobauto_prefect.compiler.events.event_inputs import (
    MOST_ELEMENTS,
    check_formats,
    element_of,
    fan_out_key,
    flow_values,
    inspected_entries,
)
from jobauto_prefect.compiler.events.job_outputs import required_entries
from jobauto_prefect.compiler.events.selectors import FoundFile, UnresolvedSelector, root_fields
from jobauto_prefect.definitions import Definition, parse
from jobauto_prefect.definitions.storable import read_exact
from tests.support.definitions import PROBE

PRODUCES = {
    "invoices": {"format": "json", "fields": {"total": {"type": "float"}}},
    "note": {"format": "text"},
    "scan": {"format": "file"},
    "other": {"format": "text"},
}
VALUES = {
    "invoices": {"total": 12.5, "customer": {"id": 7}, "open": "yes"},
    "note": "hello",
    "scan": "…",
}
TYPED = {
    "total": {"target": "TOTAL", "format": "float"},
    "open": {"target": "OPEN", "format": "boolean"},
}


def consumer(consumes: dict[str, Any], **types: str) -> Definition:
    environment = {
        name: {"type": types.get(name, "string")}
        for name in ("INPUT", "TOTAL", "OPEN", "NOTE", "SCAN", "CUSTOMER")
    }
    return parse(PROBE | {"environment": environment, "consumes": consumes})


def find(name: str) -> str | None:
    return {"invoices": "invoices-1.json", "scan": "scan.pdf"}.get(name)


def flows(definition: Definition) -> dict[str, Any]:
    return flow_values(definition, PRODUCES, VALUES, find)


def test_what_has_the_same_name_and_format_flows_to_its_targets() -> None:
    definition = consumer(
        {
            "invoices": {"format": "json", "target": "INPUT", "fields": TYPED},
            "note": {"format": "text", "target": "NOTE"},
            "scan": {"format": "file", "target": "SCAN"},
        }
    )
    assert flows(definition) == {
        "INPUT": VALUES["invoices"],
        "TOTAL": 12.5,
        "OPEN": "yes",
        "NOTE": "hello",
        "SCAN": FoundFile("scan.pdf"),
    }


def test_only_what_is_asked_for_is_read() -> None:
    mapping = {"A": "$.note", "B": "@file:scan", "C": "=x", "D": "total", "E": "lines[0].price"}
    assert root_fields(mapping) == {"note", "total", "lines"}
    assert root_fields(mapping | {"F": "$..id"}) is None
    assert required_entries(PRODUCES, None) == PRODUCES
    assert list(required_entries(PRODUCES, root_fields(mapping))) == ["invoices", "note"]
    whole = {"format": "json", "target": "INPUT"}
    assert inspected_entries(consumer({"invoices": whole}, INPUT="file-path")) == set()
    assert inspected_entries(consumer({"invoices": whole})) == {"invoices"}
    assert inspected_entries(
        consumer({"invoices": whole | {"fields": TYPED}}, INPUT="file-path")
    ) == {"invoices"}


def test_a_key_for_a_path_gets_a_file() -> None:
    definition = consumer({"invoices": {"format": "json", "target": "INPUT"}}, INPUT="file-path")
    assert flows(definition) == {"INPUT": FoundFile("invoices-1.json")}


def test_another_name_another_format_and_what_is_not_there_do_not_flow() -> None:
    definition = consumer(
        {
            "bills": {"format": "json", "target": "INPUT"},
            "note": {"format": "url", "target": "NOTE"},
            "other": {"format": "text", "target": "SCAN"},
            "invoices": {"format": "json", "fields": {"vat": {"target": "TOTAL"}}},
        }
    )
    assert flows(definition) == {}


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("float", "12.50"),
        ("float", 3),
        ("float", read_exact("0.1234567890123456789")),
        ("integer", 12.0),
        ("integer", "7"),
        ("integer", 2**70),
        ("boolean", "yes"),
        ("boolean", 0),
        ("string", {"a": 1}),
        ("string", 7),
    ],
)
def test_what_can_be_read_as_its_format_is_all_right(kind: str, value: Any) -> None:
    definition = consumer({"x": {"format": "json", "fields": {"a": field("TOTAL", kind)}}})
    check_formats(definition, {"TOTAL": value, "NOTE": value})


def field(target: str, kind: str) -> dict[str, str]:
    return {"target": target, "format": kind}


def test_all_values_of_another_format_are_named_and_not_shown() -> None:
    fields = {
        "a": field("TOTAL", "float"),
        "b": field("OPEN", "boolean"),
        "c": field("NOTE", "integer"),
    }
    definition = consumer({"x": {"format": "json", "fields": fields}})
    with pytest.raises(UnresolvedSelector) as raised:
        check_formats(definition, {"TOTAL": "s3cret", "OPEN": "perhaps", "NOTE": 1.5})
    assert str(raised.value) == (
        "the event has values of another format for TOTAL (no float), OPEN (no boolean), "
        "NOTE (no integer)"
    )


def test_a_file_is_handed_on_as_it_is() -> None:
    definition = consumer({"x": {"format": "json", "fields": {"a": field("TOTAL", "float")}}})
    check_formats(definition, {"TOTAL": FoundFile("a")})


def test_one_list_is_spread_and_two_are_not() -> None:
    values = {"INPUT": ["a", {"b": 1}], "NOTE": "x"}
    assert fan_out_key(values) == "INPUT"
    assert fan_out_key({"NOTE": "x"}) is None
    assert element_of(values, "INPUT", 1) == {"INPUT": {"b": 1}, "NOTE": "x"}
    with pytest.raises(UnresolvedSelector, match="INPUT has 2 elements, and no number 2"):
        element_of(values, "INPUT", 2)
    with pytest.raises(UnresolvedSelector, match="INPUT, NOTE are lists"):
        fan_out_key({"INPUT": [], "NOTE": []})
    with pytest.raises(UnresolvedSelector, match=f"{MOST_ELEMENTS} at most"):
        fan_out_key({"INPUT": [0] * (MOST_ELEMENTS + 1)})
