"""Older definitions become valid ones of this version."""

import copy
from typing import Any

import pytest

from jobauto_prefect.definitions import Upgrade, check, schema, upgrade
from tests.support.documents import RICHEST, smallest, with_variable


def valid(document: dict[str, Any]) -> tuple[dict[str, Any], Upgrade]:
    """The upgraded document, which must be valid; the one given must not have changed."""
    before = copy.deepcopy(document)
    done = upgrade(document)
    assert document == before
    assert done.undecided == ()
    assert check(done.document).valid
    return done.document, done


def test_a_valid_document_of_this_version_stays_as_it_is() -> None:
    document, done = valid(RICHEST)
    assert document == RICHEST
    assert done.changes == ()


def test_a_missing_schema_is_added_first() -> None:
    document = smallest()
    del document["$schema"]
    upgraded, done = valid(document)
    assert next(iter(upgraded)) == "$schema"
    assert upgraded["$schema"] == schema()["properties"]["$schema"]["default"]
    assert upgraded["schemaVersion"] == "3.4.0"
    assert [change.pointer for change in done.changes] == ["/$schema", "/schemaVersion"]
    assert done.changes[0].as_dict() == {
        "pointer": "/$schema",
        "message": "added the location of the schema",
    }


def test_joined_lists_are_split() -> None:
    upgraded, _ = valid(smallest(requirements="A, B,,C ", tags="", topics=""))
    assert (upgraded["requirements"], upgraded["tags"]) == (["A", "B", "C"], [])
    assert "topics" not in upgraded


def test_fields_get_their_new_names_in_their_old_places() -> None:
    old = smallest(cmdparams="-v", topics="x", exitcodes={"0": {"en": "Fine"}, "1": "Not"})
    upgraded, done = valid(old)
    assert list(upgraded)[-4:] == ["cmdparamsTemplate", "tags", "exitCodes", "schemaVersion"]
    assert upgraded["exitCodes"] == {
        "0": {"description": {"en": "Fine"}, "severity": "success"},
        "1": {"description": "Not"},
    }
    assert ("/cmdparamsTemplate", "was called cmdparams") in [
        (change.pointer, change.message) for change in done.changes
    ]


def test_return_codes_become_exit_codes_and_full_entries_stay() -> None:
    codes = {"0": {"description": "Fine", "severity": "info"}}
    assert valid(smallest(returnCodes=codes))[0]["exitCodes"] == codes


def test_a_field_said_twice_is_left_to_a_person() -> None:
    done = upgrade(smallest(topics="a", tags=["b"]))
    assert [(each.pointer, each.rule) for each in done.undecided] == [("/topics", "said-twice")]
    assert (done.document["topics"], done.document["tags"]) == ("a", ["b"])
    upgraded, _ = valid(smallest(cmdparams="", cmdparamsTemplate="-v"))
    assert upgraded["cmdparamsTemplate"] == "-v"
    assert "cmdparams" not in upgraded


@pytest.mark.parametrize(
    ("old", "default", "new"),
    [
        ("number", 60, "integer"),
        ("number", "100", "integer"),
        ("number", 1.5, "float"),
        ("number", "", "float"),
        ("number", None, "float"),
        ("boolean", False, "bool"),
        ("checkbox", "False", "bool"),
        ("select", "a", "set"),
        ("directory", "/tmp", "file-path"),
        ("file", "", "file-path"),
        ("Integer", 1, "integer"),
        ("int", 1, "integer"),
        ("Textarea", "", "text"),
    ],
)
def test_old_type_names_are_replaced(old: str, default: Any, new: str) -> None:
    upgraded, done = valid(with_variable(type=old, defval=default))
    assert upgraded["environment"]["KEY"] == {"type": new, "defval": default}
    assert done.changes[0].pointer == "/environment/KEY/type"
    assert done.changes[0].message == f"was {old}, is {new}"


def test_other_spellings_in_a_variable_are_replaced() -> None:
    old = with_variable(
        category="database", required=1, options="a, b", hint=None, description=None, defval=None
    )
    assert valid(old)[0]["environment"]["KEY"] == {
        "category": "Database",
        "required": True,
        "options": ["a", "b"],
        "defval": None,
    }
    assert valid(with_variable(required="no"))[0]["environment"]["KEY"] == {"required": False}


def test_a_category_that_is_no_longer_there_becomes_other() -> None:
    upgraded, done = valid(with_variable(category="Filtering"))
    (variable,) = upgraded["environment"].values()
    assert variable["category"] == "Other"
    assert "was Filtering, which is no longer a category; is Other" in {
        change.message for change in done.changes
    }


def test_a_field_that_has_another_name_now_is_left_with_that_name() -> None:
    done = upgrade(smallest() | {"events": {"listens": {"paid": {}}}})
    (fault,) = done.undecided
    assert (fault.pointer, fault.message) == (
        "/events",
        "the key 'listens' is not allowed here; it is called 'consumes' now",
    )


def test_empty_texts_that_have_a_form_and_nulls_are_left_out() -> None:
    old = smallest(ociimage="", homepage="", uuid="", version="", title=None, tags=None, author="")
    upgraded, done = valid(old)
    assert upgraded == smallest(author="", schemaVersion="3.4.0")
    assert "left out ociimage, which was empty" in [change.message for change in done.changes]


def test_empty_arrays_become_empty_objects_and_numbers_become_versions() -> None:
    upgraded, _ = valid(smallest(environment=[], exitCodes=[], events=[], version=2))
    assert upgraded == smallest(
        environment={}, exitCodes={}, events={}, version="2", schemaVersion="3.4.0"
    )


def test_the_older_placeholders_of_known_names_are_rewritten() -> None:
    old = with_variable() | {
        "cmdparamsTemplate": "{KEY} ${KEY} {OTHER} {JOBAUTO_JOB_ID} {2} {'a': 1}",
        "artifacts": [{"name": "a", "path": r"{KEY}_\d{4}.json", "type": "file"}],
    }
    upgraded, _ = valid(old)
    expected = "${KEY} ${KEY} {OTHER} ${JOBAUTO_JOB_ID} {2} {'a': 1}"
    assert upgraded["cmdparamsTemplate"] == expected
    assert upgraded["artifacts"][0]["path"] == r"${KEY}_\d{4}.json"


def test_an_output_that_called_its_format_type_gets_a_format() -> None:
    upgraded, _ = valid(smallest(produces={"a": {"type": "json"}}))
    assert upgraded["produces"]["a"] == {"format": "json"}


def test_what_only_a_person_knows_is_left_with_its_errors() -> None:
    old = with_variable("lower", type="colour", category="Mine") | {"homepage": "our page"}
    done = upgrade(old)
    assert [(each.pointer, each.rule) for each in done.undecided] == [
        ("/environment", "pattern"),
        ("/environment/lower/type", "enum"),
        ("/homepage", "format"),
    ]
    assert "schemaVersion" not in done.document


def test_an_older_schema_version_is_raised_and_a_newer_one_stays() -> None:
    assert valid(smallest(schemaVersion="3.2.1"))[0]["schemaVersion"] == "3.4.0"
    assert valid(smallest(schemaVersion="4.0"))[0]["schemaVersion"] == "4.0"


@pytest.mark.parametrize("document", [None, [], "text", 5, {"a": float("nan")}])
def test_what_is_no_definition_at_all_comes_back_with_its_errors(document: Any) -> None:
    done = upgrade(document)
    assert done.document is document
    assert done.undecided == check(document).faults
    assert done.changes == ()


@pytest.mark.parametrize("junk", [None, True, 5, "x", [], ["x"], {}, {"a": None}], ids=repr)
@pytest.mark.parametrize("member", [*RICHEST, "topics", "cmdparams", "exitcodes", "returnCodes"])
def test_no_value_in_any_field_stops_an_upgrade(member: str, junk: Any) -> None:
    done = upgrade({**RICHEST, member: junk})
    faults = check(done.document).faults
    assert faults == tuple(each for each in done.undecided if each.rule != "said-twice")
