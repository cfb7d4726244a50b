"""Argument vectors from templates."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobauto_prefect.definitions import parse
from jobauto_prefect.runtime.launch import command
from jobauto_prefect.runtime.launch.environment import Environment, Layer, resolve_environment


def environment(
    *declared: str, undeclared: dict[str, str] | None = None, **values: str
) -> Environment:
    return resolve_environment(
        parse(
            {
                "name": "probe",
                "description": "",
                "executable": "probe",
                "environment": {
                    **{key: {} for key in (*declared, *values)},
                    "PASSWORD": {"type": "password"},
                },
            }
        ),
        company=Layer(),
        template=Layer(undeclared or {}),
        overrides=Layer(values),
        injected={"JOBAUTO_JOB_ID": "7"},
    )


def words(template: str, of: Environment) -> list[str]:
    assert command.faults("run", template, of) == []
    return command.build("run", template, of)[1:]


@pytest.mark.spec("2.1.21")
@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("", []),
        ("${A}", ["x y"]),
        ("{A}", ["x y"]),
        ("--name=${A} -v", ["--name=x y", "-v"]),
        ("'${A} and ${A}'", ["x y and x y"]),
        ('"a  b" c\\ d', ["a  b", "c d"]),
        ("${EMPTY} next", ["", "next"]),
        ("--flag ${EMPTY} next", ["--flag", "", "next"]),
        ("a${EMPTY}b", ["ab"]),
        ("'' x", ["", "x"]),
        ("{A}{EMPTY}${A}", ["x yx y"]),
        ("${JOBAUTO_JOB_ID}", ["7"]),
        (
            '{} {B C} {nobody} {"a":1} ${A:-x} $A $$',
            ["{}", "{B", "C}", "{nobody}", "{a:1}", "${A:-x}", "$A", "$$"],
        ),
        (
            "a | b > c ; d && e `f` $(g) # h",
            ["a", "|", "b", ">", "c", ";", "d", "&&", "e", "`f`", "$(g)", "#", "h"],
        ),
    ],
)
def test_a_template_is_split_first_and_substituted_after(
    template: str, expected: list[str]
) -> None:
    assert words(template, environment("EMPTY", A="x y")) == expected


def test_values_are_not_substituted_again() -> None:
    assert words("${A} {A}", environment(A="${B} {B}", B="b")) == ["${B} {B}", "${B} {B}"]


def test_all_unknown_placeholders_are_named() -> None:
    faults = command.faults("run", "${NO} {NO2} ${A} x${NEITHER} ${NO}", environment(A="a"))
    assert [fault.message for fault in faults] == ["unknown placeholders: ${NO}, ${NEITHER}"]


def test_an_undeclared_name_is_no_placeholder() -> None:
    of = environment(undeclared={"MADE_UP": "x"})
    assert command.faults("run", "${MADE_UP}", of)
    assert words("{MADE_UP}", of) == ["{MADE_UP}"]


@pytest.mark.parametrize("template", ["'open", 'open"', "end\\"])
def test_a_template_that_cannot_be_split_is_an_error(template: str) -> None:
    (fault,) = command.faults("run", template, environment())
    assert (fault.pointer, fault.rule) == ("/cmdparamsTemplate", "quoting")


@pytest.mark.parametrize("executable", ["", "a\0b"])
def test_an_executable_no_system_can_start_is_an_error(executable: str) -> None:
    assert command.faults(executable, "", environment())


HOSTILE = st.text(
    alphabet=st.one_of(st.sampled_from("'\"\\ \n\t${}A;|&<>()`*?~#-=é\u202e"), st.characters()),
).filter(lambda text: "\0" not in text)


@given(HOSTILE, HOSTILE)
def test_a_value_stays_inside_its_one_argument(first: str, second: str) -> None:
    built = words("-a ${A} --b={B} 'c ${A}' ${B}", environment(A=first, B=second))
    assert built == ["-a", first, f"--b={second}", f"c {first}", second]


@given(st.lists(HOSTILE))
def test_quoting_a_word_keeps_it_one_word(arguments: list[str]) -> None:
    assert command.split(shlex.join(arguments)) == arguments


def test_the_shown_command_masks_secrets_and_quotes_for_a_shell() -> None:
    of = environment("A", PASSWORD="hunter2", URL="db://hunter2@h")
    text = command.shown("run", "${A} -p ${PASSWORD} ${URL} 'a b'", of)
    assert text == "run '' -p '********' 'db://********@h' 'a b'"


@given(HOSTILE)
def test_the_shown_command_reads_back_as_the_command(value: str) -> None:
    of = environment(A=value)
    assert shlex.split(command.shown("run", "x ${A}", of)) == command.build("run", "x ${A}", of)
