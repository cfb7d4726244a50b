"""Which names the values for a job may have."""

import pytest

from jobauto_prefect.definitions.environment_names import EnvironmentNames, unsafe_faults
from tests.support.corpus import needs_corpus, usable_documents

UNSAFE = [
    *("LD_PRELOAD", "LD_LIBRARY_PATH", "GLIBC_TUNABLES", "GCONV_PATH", "LOCPATH", "MALLOC_TRACE"),
    *("PATH", "HOME", "TMPDIR", "IFS", "ENV", "BASH_ENV", "BASH_FUNC_x%%", "SHELLOPTS", "PS4"),
    *("PYTHONPATH", "PYTHONSTARTUP", "PERL5OPT", "PERL5LIB", "NODE_OPTIONS", "RUBYOPT"),
    *("PHP_INI_SCAN_DIR", "JAVA_TOOL_OPTIONS", "GIT_SSH_COMMAND", "OPENSSL_CONF"),
    *("http_proxy", "HTTPS_PROXY", "No_Proxy", "socks_proxy"),
]
OURS = ["JOBAUTO_JOB_ID", "MULTIFLEXI_JOB_ID", "JOBAUTO_", "JOBAUTO_\nX"]
IMPOSSIBLE = ["", "A=B", "A\0B", "\ud800"]
ORDINARY = [
    "USER",
    "PATHS",
    "MY_PATH",
    "OLD_X",
    "LANG",
    "NODE_ENV",
    "DB_USER",
    "PROXY",
    "OFFICE365_PATH",
]


@pytest.mark.parametrize("name", UNSAFE)
def test_a_name_that_changes_how_programs_run_is_given_only_where_it_is_declared(name: str) -> None:
    assert not EnvironmentNames([], [name]).permits(name, granted=[name])
    assert EnvironmentNames([name]).permits(name)
    assert [fault.rule for fault in unsafe_faults([name], "/env")] == ["name"]


@pytest.mark.parametrize("name", OURS + IMPOSSIBLE)
def test_the_services_own_names_and_impossible_ones_are_never_given(name: str) -> None:
    assert not EnvironmentNames([name], [name]).permits(name, granted=[name])
    assert [fault.rule for fault in unsafe_faults([name], "/env")] == ["name"]


@pytest.mark.parametrize("name", ORDINARY)
def test_ordinary_names_are_given_where_they_are_declared_added_or_granted(name: str) -> None:
    assert not EnvironmentNames([]).permits(name)
    assert EnvironmentNames([name]).permits(name)
    assert EnvironmentNames([], [name]).permits(name)
    assert EnvironmentNames([]).permits(name, granted=[name])
    assert list(unsafe_faults([name], "/env")) == []


def test_each_name_that_is_not_permitted_is_an_error_that_says_what_was_meant() -> None:
    names = EnvironmentNames(["LOG_LEVEL", "TARGET"], ["TRACE_ID"])
    faults = list(names.faults(["LOGLEVEL", "TARGET", "TRACE_ID", "XYZ", "BASH_ENV", "a/b"]))
    assert [(fault.pointer, fault.rule) for fault in faults] == [
        ("/env/LOGLEVEL", "undeclared"),
        ("/env/XYZ", "undeclared"),
        ("/env/BASH_ENV", "name"),
        ("/env/a~1b", "undeclared"),
    ]
    assert "did you mean 'LOG_LEVEL'?" in faults[0].message
    assert "there are LOG_LEVEL, TARGET, TRACE_ID" in faults[1].message
    assert "only a definition may declare it" in faults[2].message


def test_an_application_without_variables_says_so() -> None:
    (fault,) = EnvironmentNames([]).faults(["X"])
    assert "it declares no variables" in fault.message


@needs_corpus
def test_every_real_definition_may_be_given_all_that_it_declares() -> None:
    for name, document in usable_documents().items():
        names = EnvironmentNames(document["environment"])
        assert not list(names.faults(document["environment"])), name
