"""Everything a launch needs, from a definition and its values."""

import os
from typing import Any

import pytest

from jobauto_prefect.definitions import parse
from jobauto_prefect.errors import InvalidInput
from jobauto_prefect.runtime.launch.environment import Layer
from jobauto_prefect.runtime.launch.preparation import Prepared, prepare
from jobauto_prefect.runtime.protocol import ArtifactPattern

PROBE: dict[str, Any] = {
    "name": {"en": "Probe", "cs": "Sonda"},
    "description": "",
    "executable": "multiflexi-probe",
    "cmdparamsTemplate": "${FILE_UPLOAD} -p ${PASSWORD}",
    "environment": {
        "FILE_UPLOAD": {"type": "file-path", "defval": "/etc/fstab", "required": True},
        "PASSWORD": {"type": "password", "defval": "donotcare"},
        "RESULT_FILE": {"defval": "report_{ACCOUNT}.json"},
        "ACCOUNT": {"required": True},
    },
    "artifacts": [
        {"name": {"cs": "zpráva"}, "path": "${RESULT_FILE}", "type": "file"},
        {"name": "logs", "path": "log_{ACCOUNT}_{\\d+}.txt", "type": "text/plain"},
    ],
}


def prepared(document: dict[str, object] | None = None, **layers: Layer) -> Prepared:
    return prepare(
        parse(document or PROBE),
        directory="/work/job-7-1",
        company=layers.get("company", Layer()),
        template=layers.get("template", Layer({"ACCOUNT": "a+b"}, {"PASSWORD": "hunter2"})),
        overrides=layers.get("overrides", Layer()),
        values={"JOB_ID": "7", "COMPANY_NAME": "Ours"},
    )


def test_a_launch_is_prepared_completely() -> None:
    result = prepared()
    assert result.argv == ["multiflexi-probe", "/etc/fstab", "-p", "hunter2"]
    assert result.command_shown == "multiflexi-probe /etc/fstab -p '********'"
    assert result.environment == {
        "FILE_UPLOAD": "/etc/fstab",
        "PASSWORD": "hunter2",
        "RESULT_FILE": "report_a+b.json",
        "ACCOUNT": "a+b",
        "JOBAUTO_JOB_ID": "7",
        "MULTIFLEXI_JOB_ID": "7",
        "JOBAUTO_COMPANY_NAME": "Ours",
        "MULTIFLEXI_COMPANY_NAME": "Ours",
        "JOBAUTO_JOB_DIR": "/work/job-7-1",
        "MULTIFLEXI_TMP": "/work/job-7-1",
        "TMPDIR": "/work/job-7-1/tmp",
    }
    assert result.environment_shown == result.environment | {"PASSWORD": "********"}
    assert result.secrets == ["hunter2"]
    assert result.result_file == "report_a+b.json"


def test_values_in_artifact_patterns_are_literal_text() -> None:
    assert prepared().artifacts == [
        ArtifactPattern(
            name="zpráva", path="report_a+b.json", pattern=r"report_a\+b\.json", type="file"
        ),
        ArtifactPattern(
            name="logs",
            path="log_a+b_{\\d+}.txt",
            pattern=r"log_a\+b_{\d+}.txt",
            type="text/plain",
        ),
    ]


def test_nothing_secret_is_in_the_repr() -> None:
    assert "hunter2" not in repr(prepared())


def test_the_services_own_environment_is_not_passed_on() -> None:
    assert set(os.environ) & set(prepared().environment) <= {"TMPDIR"}


def test_everything_that_is_missing_is_said_at_once() -> None:
    document = PROBE | {"cmdparamsTemplate": "${NO} ${PASSWORD}"}
    with pytest.raises(InvalidInput) as refused:
        prepared(document, template=Layer({"FILE_UPLOAD": ""}, {"PASSWORD": "hunter2\0"}))
    assert str(refused.value) == (
        "missing required values: FILE_UPLOAD, ACCOUNT; "
        "PASSWORD has a value that can't be passed to a process; unknown placeholders: ${NO}"
    )
    assert [fault.pointer for fault in refused.value.faults] == [
        "/environment/FILE_UPLOAD",
        "/environment/ACCOUNT",
        "/environment/PASSWORD",
        "/cmdparamsTemplate",
    ]


def test_a_temporary_directory_is_chosen_where_the_definition_declares_it() -> None:
    chosen = Layer({"TMPDIR": "/big"})
    result = prepared(overrides=chosen)
    assert result.environment["TMPDIR"] == "/work/job-7-1/tmp"
    assert result.left_out == ["TMPDIR"]
    declaring = PROBE | {"environment": {**PROBE["environment"], "TMPDIR": {}}}
    result = prepared(declaring, overrides=chosen)
    assert result.environment["TMPDIR"] == "/big"
    assert result.left_out == []
