"""docs/rest.md says of permissions, formats and errors what the code says."""

import re

from jobauto_prefect.facade.auth.permissions import MEMBERSHIPS, ROLES
from jobauto_prefect.facade.formats import FORMATS
from jobauto_prefect.facade.kinds.registry import RESOURCES
from jobauto_prefect.facade.openapi.document import ERRORS
from tests.support.paths import ROOT

PAGE = (ROOT / "docs" / "rest.md").read_text()


def table(first: str) -> list[list[str]]:
    """The rows of the table whose first head is this, heads first."""
    lines = PAGE[PAGE.index(f"| {first} |") :].split("\n\n")[0].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [rows[0], *rows[2:]]


def test_the_permission_table_is_that_of_the_code() -> None:
    heads, *rows = table("permission")
    members = [head.removeprefix("member: ") for head in heads[1 + len(ROLES) :]]
    assert heads[1 : 1 + len(ROLES)] == [*ROLES]
    assert members == [*MEMBERSHIPS]
    documented = {row[0].strip("`"): [cell == "yes" for cell in row[1:]] for row in rows}
    held = [*ROLES.values(), *MEMBERSHIPS.values()]
    every = sorted(frozenset().union(*held))
    assert documented == {name: [name in allowed for allowed in held] for name in every}


def test_each_kind_of_record_stands_in_the_row_of_its_permissions() -> None:
    rows = {
        item: permissions
        for _, paths, permissions in table("records")[1:]
        for item in re.findall(r"`(\w+)`", paths)
    }
    assert set(rows) == {resource.kind.item for resource in RESOURCES}, "in docs/rest.md"
    for resource in RESOURCES:
        assert f"`{resource.kind.permissions}." in rows[resource.kind.item], resource.kind.item


def test_formats_and_errors_are_those_there_are() -> None:
    assert [row[0].strip("`") for row in table("suffix")[1:]] == [*FORMATS]
    assert {int(row[0]): row[1] for row in table("status")[1:]} == ERRORS
