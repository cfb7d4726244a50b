"""The house keeps its order: names that a stranger knows, rooms of a size one can look over."""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

import jobauto_prefect
from tests.support.paths import ROOT

PACKAGE = Path(jobauto_prefect.__file__).parent
FOLDER_SIZES = range(5, 16)
REGISTRY_SIZES = range(5, 26)
REGISTRIES = {"facade/resources", "facade/writes", "cli/commands"}
"""Folders where each file is a row of one registry."""

MIGRATIONS = "ledger/migrations"
PUBLISHED = ("facade/models/", "facade/openapi/")
"""Here classes are called what the published document calls them."""

MOST_GERUNDS = 8
MOST_ONES = 50
PARALLEL = (
    {"ledger/records", "ledger/queries", "ledger/events", "ledger/jobs"},
    {f"facade/{name}" for name in ("compat", "models", "resources", "serializers", "writes")},
    {"runtime/executors/containers", "runtime/executors/kubernetes", "runtime"},
)
"""Folders that hold the same subjects: a base name may be in each."""

MOST_LINES = 300
"""Of a module that tests share."""

SHARED = ("tests.support", "tests.conformance")
IMPORT = re.compile(r"^\s*(?:from|import) (tests[.\w]*)", re.MULTILINE)
"""Of a test module; those in the texts of programs that a test starts count, too."""

PRIVATE_WORDS = {
    *("Wish", "WishKind", "Turn", "Fact", "KeptAnswer", "OwedAction", "Neighbours", "Story"),
    *("Shower", "Shift", "Station", "Flight", "Driver", "Carrier", "Keeper", "Lookout", "Hearer"),
    *("Fate", "Settlement", "JobPlace", "Workplace", "Equipment", "Why", "Traces", "Held", "Hold"),
    *("Ask", "Granted", "Holdings", "Domain", "Reach", "Door", "Trail", "Watched", "Faultless"),
    *("Write", "Written", "Heard", "Person", "Once", "Known", "Look", "Asked", "Standing"),
    *("Stretch", "Remains", "Offer", "Outside", "Terms"),
}


def modules() -> Iterator[tuple[str, Path]]:
    """Each module of the package, with its path from there; those of migrations are history."""
    for path in sorted(PACKAGE.rglob("*.py")):
        relative = path.relative_to(PACKAGE)
        if not str(relative).startswith(MIGRATIONS):
            yield str(relative), path


def folders() -> dict[str, list[str]]:
    """The modules of each folder, by its path from the package."""
    files: dict[str, list[str]] = defaultdict(list)
    for relative, _ in modules():
        folder, _, name = relative.rpartition("/")
        files[folder].append(name)
    return files


def test_modules_are_named_by_nouns() -> None:
    gerunds = [relative for relative, path in modules() if path.stem.endswith("ing")]

    assert len(gerunds) <= MOST_GERUNDS, gerunds


@pytest.mark.parametrize("folder", sorted(folders()))
def test_a_folder_can_be_looked_over(folder: str) -> None:
    files = folders()[folder]

    assert len(files) in (REGISTRY_SIZES if folder in REGISTRIES else FOLDER_SIZES), sorted(files)


def test_a_base_name_stands_once_in_its_layer() -> None:
    places: dict[tuple[str, str], set[str]] = defaultdict(set)
    for folder, files in folders().items():
        for name in files:
            if not name.startswith("__"):
                places[folder.partition("/")[0], name].add(folder)
    twice = {
        key: folders
        for key, folders in places.items()
        if len(folders) > 1 and not any(folders <= parallel for parallel in PARALLEL)
    }

    assert not twice


def test_things_have_their_own_names() -> None:
    ones = Counter(
        relative
        for relative, path in modules()
        for node in ast.walk(ast.parse(path.read_text()))
        if (isinstance(node, ast.Name) and node.id == "one")
        or (isinstance(node, ast.arg) and node.arg == "one")
    )

    assert ones.total() < MOST_ONES, ones


def test_classes_have_words_of_the_field() -> None:
    private = [
        f"{relative}: {node.name}"
        for relative, path in modules()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
        and node.name.lstrip("_") in PRIVATE_WORDS
        and not relative.startswith(PUBLISHED)
    ]

    assert not private


def test_tests_share_by_way_of_their_support() -> None:
    crossed = [
        f"{path.relative_to(ROOT)}: {module}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for module in IMPORT.findall(path.read_text())
        if not module.startswith(SHARED)
    ]

    assert not crossed


def test_what_tests_share_can_be_looked_over() -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for path in sorted((ROOT / "tests" / "support").rglob("*.py"))
        if (lines := len(path.read_text().splitlines())) > MOST_LINES
    }

    assert not long
