"""Real application definitions, where a collection of them lies beside the repository."""

import functools
import json
from typing import Any

import pytest

from jobauto_prefect.definitions import check, upgrade
from tests.support.paths import ROOT

CORPUS = ROOT.parent / "shared" / "corpus"

needs_corpus = pytest.mark.skipif(not CORPUS.is_dir(), reason="no corpus beside the repository")


def verdicts() -> list[dict[str, Any]]:
    """What each file is expected to be: `file`, `verdict`, `errors`."""
    expected = CORPUS / "expected.json"
    return json.loads(expected.read_text("utf-8")) if expected.exists() else []


def source(name: str) -> bytes:
    """The text of one definition of the collection."""
    return (CORPUS / "applications" / name).read_bytes()


def example(name: str) -> Any:
    """A published example; those that are part of a document are made one."""
    text = (CORPUS / "examples" / name).read_text("utf-8").strip()
    return json.loads(text if text.startswith(("{", "[")) else f"{{{text}}}")


def valid_documents() -> dict[str, dict[str, Any]]:
    """Every valid definition by file name."""
    return {
        entry["file"]: json.loads(source(entry["file"]))
        for entry in verdicts()
        if entry["verdict"] == "valid"
    }


def readable_names() -> list[str]:
    """The file names of all definitions that are JSON."""
    return [entry["file"] for entry in verdicts() if entry["verdict"] != "not-json"]


@functools.cache
def usable_documents() -> dict[str, dict[str, Any]]:
    """Every definition that is valid, or is after an upgrade, by file name; takes a second."""
    upgraded = {name: upgrade(json.loads(source(name))).document for name in readable_names()}
    return {name: document for name, document in upgraded.items() if check(document).valid}
