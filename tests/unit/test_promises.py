"""The repository keeps its own promises."""

import ast
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import get_args

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from jobauto_prefect.definitions import schema
from jobauto_prefect.definitions.validation.record_files import RECORD_KINDS, record_schema
from jobauto_prefect.facade.bounds import page
from jobauto_prefect.facade.kinds.audit_entries import ENTITIES, AuditAction
from jobauto_prefect.facade.kinds.registry import BY_ITEM
from jobauto_prefect.kinds import KINDS
from jobauto_prefect.settings import Settings
from scripts.key_pages import anchor
from scripts.made_parts import MANUAL, PARTS, manual
from tests.support.paths import ROOT

HEAVY = {"prefect", "sqlalchemy", "fastapi", "httpx"}


def test_the_layers_are_kept() -> None:
    linted = subprocess.run(
        [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert linted.returncode == 0, linted.stdout


@pytest.mark.parametrize("kind", ["application", *RECORD_KINDS])
def test_published_schemas_are_those_of_the_package(kind: str) -> None:
    published = json.loads((ROOT / "schemas" / f"{kind}.schema.json").read_text())

    assert published == (schema() if kind == "application" else record_schema(kind))


NOT_IN_FILES: Mapping[str, set[str]] = {
    "company": {"logo", "settings"},
    "credential": {"value"},
    "eventsource": {"db_password", "last_processed_id"},
}
"""Members that files say otherwise, or not at all, besides the ids for which they have names."""


ONLY_IN_FILES: Mapping[str, set[str]] = {
    "eventrule": {"event_source", "runtemplate_source", "runtemplate"},
}


@pytest.mark.parametrize("kind", RECORD_KINDS)
def test_files_of_records_have_the_fields_the_facade_takes(kind: str) -> None:
    body = BY_ITEM[kind].body
    assert body is not None
    in_files = set(record_schema(kind)["properties"]) - {"$schema", "kind"}
    ids = {each.field for each in KINDS[kind].named_in_files.values()}
    apart = ids | NOT_IN_FILES.get(kind, set())

    assert in_files - ONLY_IN_FILES.get(kind, set()) == set(body.model_fields) - apart


@pytest.mark.parametrize("folder", ["api", "flows"])
def test_entry_points_re_export_and_nothing_else(folder: str) -> None:
    assert not (ROOT / folder / "__init__.py").exists()
    for file in (ROOT / folder).glob("*.py"):
        statements = ast.parse(file.read_text()).body
        docstring, *rest = statements
        assert isinstance(docstring, ast.Expr)
        assert all(isinstance(each, ast.ImportFrom | ast.Assign) for each in rest), file


def test_links_between_documents_lead_to_a_file_and_a_heading() -> None:
    for pattern in ("*.md", "docs/**/*.md", "deployments/**/*.md"):
        for document in ROOT.glob(pattern):
            for link in re.findall(r"\]\((?![a-z]+:)([^)\s]+)\)", without_blocks(document)):
                file, _, heading = link.partition("#")
                target = document.parent / file if file else document
                assert target.exists(), f"{document}: {link}"
                assert not heading or heading in headings(target), f"{document}: {link}"


def without_blocks(document: Path) -> str:
    return re.sub(r"^```.*?^```$", "", document.read_text(), flags=re.DOTALL | re.MULTILINE)


def headings(document: Path) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", without_blocks(document), re.MULTILINE)
    return {anchor(re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title)) for title in titles}


def test_every_setting_is_documented() -> None:
    text = (ROOT / "docs" / "settings.md").read_text()
    names = [
        str(field.validation_alias or f"JOBAUTO_{name.upper()}")
        for name, field in Settings.model_fields.items()
    ]

    assert [name for name in names if f"`{name}`" not in text] == []


PYTHONS = ("3.11", "3.12", "3.13", "3.14")
"""Where the marker of a requirement may hold."""


def test_constraints_pin_every_package_and_name_no_addresses() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = {canonicalize_name(line.partition("==")[0]) for line in lines}

    assert [line for line in lines if line.count("==") != 1 or "@" in line or " " in line] == []
    assert needed() - pinned == set()


def needed() -> set[str]:
    """The packages that this one and its tests need, and what those bring along."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    lines = project["dependencies"] + [line for extra in extras for line in extra]
    seen: set[tuple[str, str]] = set()
    waiting = [each for line in lines for each in _wanted(line, "")]
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) not in seen:
            seen.add((name, extra))
            waiting += [each for line in _requirements(name) for each in _wanted(line, extra)]
    return {name for name, _ in seen} - {project["name"]}


def _wanted(line: str, extra: str) -> list[tuple[str, str]]:
    """The package a requirement names, with each of its extras, where its marker holds."""
    requirement = Requirement(line)
    marker = requirement.marker
    if marker is not None and not any(
        marker.evaluate({"extra": extra, "python_version": version, "python_full_version": version})
        for version in PYTHONS
    ):
        return []
    name = canonicalize_name(requirement.name)
    return [(name, each) for each in ("", *requirement.extras)]


def _requirements(package: str) -> list[str]:
    """None for what was added since this environment was made: it is missed by its own name."""
    try:
        return metadata.requires(package) or []
    except metadata.PackageNotFoundError:
        return []


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["app", "validate", str(ROOT / "deployments" / "examples" / "probe.app.json")],
    ],
    ids=["help", "app validate"],
)
def test_quick_commands_import_nothing_heavy(words: list[str]) -> None:
    program = f"""
import sys
sys.argv = ["jobauto", *{words!r}]
from jobauto_prefect.cli import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print("loaded:", *sorted({HEAVY!r} & set(sys.modules)))
"""
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )

    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1].strip() == "loaded:"


@pytest.mark.parametrize(
    ("module", "without"),
    [
        ("jobauto_prefect.cli.service.process", {*HEAVY, "pydantic", "typer", "rich"}),
        ("jobauto_prefect.engine.worker", {"sqlalchemy", "cryptography"}),
        ("jobauto_prefect.engine.worker.session", {"sqlalchemy", "cryptography"}),
        ("jobauto_prefect.runtime.worker_context", {"sqlalchemy", "cryptography"}),
        (
            "jobauto_prefect.facade.app",  # every command without a service loads it
            {"prefect", "prometheus_client", "jinja2", "yaml"},
        ),
    ],
)
def test_processes_hold_nothing_in_their_memory_that_they_do_not_use(
    module: str, without: set[str]
) -> None:
    program = f"import sys, {module}; print(*sorted({without!r} & set(sys.modules)))"
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )

    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() == ""


def test_every_command_explains_itself_and_is_documented() -> None:
    from typer.main import get_command

    from jobauto_prefect.cli.app import app

    documented = (ROOT / "docs" / "cli.md").read_text()
    waiting = [("jobauto", get_command(app))]
    unexplained = []
    while waiting:
        name, command = waiting.pop()
        below = getattr(command, "commands", {})
        waiting += [(f"{name} {word}", one) for word, one in below.items()]
        if not (command.help or "").strip() or (not below and f"`{name}" not in documented):
            unexplained.append(name)
        if any(each.param_type_name == "argument" for each in getattr(command, "params", ())):
            assert "Example" in str(command.help), f"{name} has no example"
    assert unexplained == []


def test_every_entry_of_the_trail_can_be_asked_for_by_its_kind_and_its_action() -> None:
    """What `write_entry` is given stands among the choices of the filters."""
    called = re.compile(r'\bwrite_entry\(\s*session,\s*"(\w+)",\s*"(\w+)"')
    files = (ROOT / "jobauto_prefect").rglob("*.py")
    found = {pair for file in files for pair in called.findall(file.read_text("utf-8"))}
    assert found
    assert {kind for kind, _ in found} <= {*ENTITIES}
    assert {action for _, action in found} <= {*get_args(AuditAction)}


def test_the_page_of_bounds_is_that_of_the_code() -> None:
    assert (ROOT / "docs/bounds.md").read_text() == page(), "make publish"


@pytest.mark.parametrize("file", PARTS)
def test_the_made_parts_of_a_page_are_those_of_the_code(file: str) -> None:
    page = (ROOT / "docs" / file).read_text()
    assert page == PARTS[file](page), "make publish"


def test_the_manual_page_is_that_of_the_commands() -> None:
    assert MANUAL.read_text() == manual(), "make publish"
