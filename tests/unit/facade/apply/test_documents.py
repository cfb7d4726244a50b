"""Reading files of records, and telling where what is wrong stands."""

import json
from pathlib import Path

import pytest

from jobauto_prefect.cli.files.reader import find_files, load_documents
from jobauto_prefect.definitions.validation.record_files import RECORD_KINDS
from jobauto_prefect.errors import Fault
from jobauto_prefect.facade.apply.documents import check_document, drop_twins
from tests.support.documents import smallest

TEMPLATE = """\
kind: runtemplate
company: acme
app: Probe
name: Nightly
"""
DEFINITION = smallest(name="Probe")


def errors_of(path: Path) -> list[Fault]:
    documents, faults = load_documents(path)
    return [
        *faults,
        *(fault for each in documents for fault in check_document(each, each.kind).faults),
    ]


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_plain_words_of_yaml_mean_what_they_mean_in_json(tmp_path: Path) -> None:
    text = "{a: no, b: on, c: 12:30, d: 2026-01-02, e: 0123, f: true, g: 1.5, h: ~, i: n, j: 1_0}"
    (document,), faults = load_documents(written(tmp_path, "x.yaml", text))

    assert faults == []
    assert document.content == {
        "a": "no",
        "b": "on",
        "c": "12:30",
        "d": "2026-01-02",
        "e": "0123",
        "f": True,
        "g": 1.5,
        "h": None,
        "i": "n",
        "j": "1_0",
    }


def test_an_error_in_the_second_document_of_a_yaml_file_has_its_own_line(tmp_path: Path) -> None:
    path = written(tmp_path, "x.yaml", f"{TEMPLATE}---\n{TEMPLATE}interv: fortnightly\n")

    (fault,) = errors_of(path)

    assert (fault.file, fault.line, fault.pointer) == (str(path), 10, "/interv")


def test_an_error_in_a_list_of_a_json_file_has_its_line(tmp_path: Path) -> None:
    records = [{"kind": "company", "slug": "acme", "name": "Acme"}, {"kind": "company", "slug": 3}]
    path = written(tmp_path, "x.json", json.dumps(records, indent=1))

    faults = errors_of(path)

    assert {(fault.line, fault.pointer, fault.rule) for fault in faults} == {
        (7, "", "required"),
        (9, "/slug", "type"),
    }


@pytest.mark.parametrize("name", ["records.txt", "63"])
def test_a_file_of_another_name_is_what_its_text_begins_like(tmp_path: Path, name: str) -> None:
    (yaml_record,), _ = load_documents(written(tmp_path, name, TEMPLATE))
    (json_record,), _ = load_documents(written(tmp_path, name, json.dumps(DEFINITION)))
    nothing = load_documents(written(tmp_path, name, ""))

    assert (yaml_record.kind, json_record.kind) == ("runtemplate", "app")
    assert json_record.raw is not None
    assert nothing == ([], [])


def test_a_definition_may_be_written_in_yaml(tmp_path: Path) -> None:
    (document,), _ = load_documents(written(tmp_path, "x.yaml", json.dumps(DEFINITION)))

    assert document.kind == "app"
    assert check_document(document, "app").faults == ()


def test_a_definition_alone_in_a_json_file_keeps_its_bytes(tmp_path: Path) -> None:
    path = written(tmp_path, "x.json", json.dumps(DEFINITION, indent=7))

    (document,), _ = load_documents(path)

    assert document.raw == path.read_bytes()


@pytest.mark.parametrize(
    "text", ["kind: runtemplate\nkind: company\n", '{"kind": "x", "kind": "y"}']
)
def test_a_key_that_is_there_twice_is_an_error(tmp_path: Path, text: str) -> None:
    name = "x.json" if text.startswith("{") else "x.yaml"

    faults = errors_of(written(tmp_path, name, text))

    assert any("twice" in fault.message for fault in faults)
    assert all(fault.line is not None for fault in faults)


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [("x.yaml", "a: [1\nb: 2\n", 2), ("x.json", '{\n"a": \n}', 3), ("x.yaml", "a: *b\n", 1)],
)
def test_what_can_not_be_read_is_an_error_with_its_line(
    tmp_path: Path, name: str, text: str, line: int
) -> None:
    (fault,) = errors_of(written(tmp_path, name, text))

    assert (fault.rule, fault.line) == ("syntax", line)


def test_bytes_that_are_no_text_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(b"name: \xff\n")

    (fault,) = errors_of(path)

    assert fault.rule == "encoding"


def test_yaml_that_contains_itself_is_an_error_and_not_an_endless_loop(tmp_path: Path) -> None:
    faults = errors_of(written(tmp_path, "x.yaml", "&a\nkind: company\nenv:\n  X: *a\n"))

    assert [(fault.rule, fault.line) for fault in faults] == [("syntax", 1)]


def test_a_document_that_says_nothing_of_its_kind_is_an_error_that_names_the_kinds(
    tmp_path: Path,
) -> None:
    (fault,) = errors_of(written(tmp_path, "x.yaml", "name: what\n"))

    assert all(kind in fault.message for kind in ("kind: ", *RECORD_KINDS))


def test_a_run_template_names_its_application_in_exactly_one_way(tmp_path: Path) -> None:
    neither = TEMPLATE.replace("app: Probe\n", "")
    both = TEMPLATE + "app_uuid: 0c7a1f5e-6d1b-4f0e-9a54-2f3f6a0f1d01\n"

    for text in (neither, both):
        (fault,) = errors_of(written(tmp_path, "x.yaml", text))
        assert fault.rule == "oneOf"
    assert errors_of(written(tmp_path, "x.yaml", TEMPLATE)) == []


def test_a_folder_stands_for_its_json_and_yaml_files_without_the_hidden_ones(
    tmp_path: Path,
) -> None:
    for name in ("b.yaml", "a.json", "sub/c.yml", ".git/d.json", "e.txt"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.touch()

    found = [str(path.relative_to(tmp_path)) for path in find_files([tmp_path])]

    assert found == ["a.json", "b.yaml", "sub/c.yml"]


def test_a_type_and_its_prototype_are_one(tmp_path: Path) -> None:
    described = {"uuid": "AAE4C666-eec7-4a48-bc47-0f62b96ea473", "code": "Shop", "name": "Shop"}
    described["fields"] = [{"keyword": "SHOP_KEY"}]
    prototype = {"$schema": "https://example.org/credential-prototype.json", **described}
    files = {
        "a.json": prototype,
        "b.json": described | {"uuid": described["uuid"].lower(), "code": "SHOP"},
        "c.json": described | {"uuid": "bbe4c666-eec7-4a48-bc47-0f62b96ea473", "code": "Other"},
        "d.json": {"kind": "credential_type", **described},
    }
    found = []
    for name, content in files.items():
        found += load_documents(written(tmp_path, name, json.dumps(content)))[0]

    kept = drop_twins(found)

    assert [Path(document.file).name for document in kept] == ["b.json", "c.json", "d.json"]
    (note,) = check_document(kept[0], "credential_type").warnings
    assert (note.pointer, note.message) == (
        "/uuid",
        f"{tmp_path / 'a.json'} describes the same type and is left out",
    )
