"""The published dialect without a server: whatever a record holds, its clients can read it."""

from typing import Any

import multiflexi_client
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobauto_prefect.facade.compat.applications import from_flat_record, to_flat_record
from jobauto_prefect.facade.compat.fields import ELLIPSIS
from jobauto_prefect.facade.compat.records import SHAPES
from jobauto_prefect.facade.compat.translation import translate_input
from jobauto_prefect.facade.kinds.registry import RESOURCES
from tests.support.corpus import usable_documents
from tests.support.definitions import PROBE

MODELS: dict[str, Any] = {
    "company": multiflexi_client.Company,
    "runtemplate": multiflexi_client.RunTemplate,
    "user": multiflexi_client.User,
    "credential": multiflexi_client.Credential,
    "credential_type": multiflexi_client.CredentialType,
    "topic": multiflexi_client.Topic,
}
TIMES = ("created_at", "updated_at", "last_schedule", "next_schedule")
NOW = "2026-05-01T08:00:00+00:00"
OURS = {"id": 1, "enabled": True, "created_at": NOW, "updated_at": NOW, "prefect_url": None}

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=300),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=3,
)


FLAT, OURS_ALONE = {"app"}, {"calendar", "event"}
"""Applications have a form of their own; what the reference service lacks stays as it is."""


def test_every_other_kind_has_a_shape() -> None:
    kinds = {one.kind.item for one in RESOURCES} - FLAT - OURS_ALONE
    assert kinds == set(SHAPES), "in facade/compat/records.py, or in OURS_ALONE here"


@given(data=st.data())
@pytest.mark.parametrize("item", MODELS)
def test_whatever_a_record_holds_the_published_model_takes_it(item: str, data: Any) -> None:
    shape = SHAPES[item]
    ours = {source for source, _ in shape.members.values()}
    shown = {name: NOW if name in TIMES else data.draw(anything, name) for name in ours}
    record = shape.translate({**shown, "values": {}, "unheard_of": data.draw(anything)})
    MODELS[item].from_dict(record)
    assert record["unheard_of"] == {**shown, **record}["unheard_of"]


def test_fields_of_another_type_are_null_and_further_ones_stay() -> None:
    shown = {"id": 1, "exitcode": "0", "env": [], "launched_by": True, "new": [1]}
    job = SHAPES["job"].translate(shown)
    assert job == {"id": 1, "exitcode": None, "env": {}, "launched_by": None, "new": [1]}
    task = SHAPES["task"].translate({"id": 1, "state": "halted", "jobs": [{"id": 2, "env": None}]})
    assert (task["state"], task["jobs"]) == ("open", [{"id": 2, "env": {}}])
    rule = SHAPES["eventrule"].translate({"operation": "any", "env_mapping": {"A": "$.á"}})
    assert (rule["operation"], rule["env_mapping"]) == ("any", '{"A": "$.á"}')


def test_every_definition_has_a_flat_record() -> None:
    for document in (PROBE, *usable_documents().values()):
        record = to_flat_record({**document, **OURS}, "en")
        readable = {**record, "tags": None, "exitCodes": None}  # what 1.1.0 expects otherwise
        multiflexi_client.App.from_dict(readable)
        assert isinstance(record["tags"], str | None)
        assert all(isinstance(one["description"], dict) for one in record["exitCodes"].values())
        assert isinstance(record["produces"], dict)
        assert isinstance(record["consumes"], dict)


def test_a_flat_record_that_comes_back_takes_nothing_away() -> None:
    record = to_flat_record({**PROBE, **OURS, "tags": ["a", "b"]}, "en")
    heard = from_flat_record(dict(record))
    assert heard.fields["tags"] == ["a", "b"]
    assert "artifacts" not in heard.fields
    assert heard.fields["cmdparamsTemplate"] == PROBE["cmdparamsTemplate"]
    assert set(heard.ignored) <= {"id", "artifacts", "topics", "DatCreate", "DatUpdate"}
    assert from_flat_record(PROBE).fields == PROBE


def test_what_is_not_usable_is_ignored_by_name() -> None:
    known = ("slug", "name", "customer", "env", "scheduled")
    heard = translate_input(
        "company", {"code": "a", "name": f"long{ELLIPSIS}", "customer": "X", "limit": 1}, known
    )
    assert (heard.fields, heard.ignored) == ({"slug": "a"}, ["name", "customer"])
    both = translate_input("company", {"code": "a", "slug": "b"}, known)
    assert (both.fields, both.ignored) == ({"slug": "b"}, ["code"])
    text = translate_input("job", {"env": "no JSON", "schedule": "now"}, known)
    assert (text.fields, text.ignored) == ({"scheduled": "now"}, ["env"])
    read = translate_input("job", {"env": '{"A": 1}'}, known)
    assert read.fields == {"env": {"A": 1}}
