"""Each line of the table in tests/security.md names a test that is there."""

import ast

from tests.support.paths import ROOT

TESTS = ROOT / "tests"
DOCUMENT = TESTS / "security.md"


def lines() -> list[list[str]]:
    rows = [line for line in DOCUMENT.read_text().splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[1:]]


def test_each_line_says_who_what_and_by_which_test() -> None:
    assert len(lines()) > 20
    for line in lines():
        assert len(line) == 5, line
        who, whom, can, not_can, test = line
        assert who, line
        assert whom, line
        assert can or not_can, line
        path, _, name = test.strip("`").partition("::")
        module = ast.parse((TESTS / path).read_text())
        functions = (ast.FunctionDef, ast.AsyncFunctionDef)
        assert name in {one.name for one in module.body if isinstance(one, functions)}, test
