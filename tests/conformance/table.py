"""The statements of the specification, the tests marked with them, and the page of both.

A test says which statements it proves: `@pytest.mark.spec("5.3", "5.4")`. The marks are read from
the source of the tests, so that nothing has to be run. `python -m tests.conformance.table` prints
the page.
"""

import ast
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

TESTS = Path(__file__).parent.parent
PAGE = TESTS / "conformance" / "README.md"
HEAD = """# Conformance

What the interface specification says, and the tests that fail where it is not so. Statements are
numbered within its sections; their words here are ours and short. This page is made of the tests'
marks `@pytest.mark.spec("5.3")` and of `tests/conformance/statements.yaml` by `make publish`.
"""


@dataclass(frozen=True, slots=True)
class Proof:
    """A test, by its file and name, and the numbers of the statements it proves."""

    file: str
    name: str
    numbers: tuple[str, ...]


def statements() -> dict[str, str]:
    """Number -> statement, in the specification's order."""
    return {
        f"{section}.{place}": text
        for section, content in _sections().items()
        for place, text in enumerate(content["statements"], 1)
    }


def _sections() -> Mapping[str, Mapping[str, list[str]]]:
    text = (Path(__file__).parent / "statements.yaml").read_text()
    found: Mapping[str, Mapping[str, list[str]]] = yaml.safe_load(text)
    return found


def proofs() -> list[Proof]:
    """The marked tests, by file and place."""
    files = sorted(TESTS.rglob("test_*.py"))
    return [proof for file in files for proof in _proofs_in(file)]


def _proofs_in(file: Path) -> Iterator[Proof]:
    tree = ast.parse(file.read_text())
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            numbers = [number for mark in node.decorator_list for number in _numbers_in(mark)]
            if numbers and node.name.startswith("test_"):
                yield Proof(str(file.relative_to(TESTS)), node.name, tuple(dict.fromkeys(numbers)))


def _numbers_in(mark: ast.expr) -> Iterator[str]:
    """Of a decorator, and of the marks of its parameters."""
    for call in ast.walk(mark):
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "pytest.mark.spec":
            yield from (str(ast.literal_eval(argument)) for argument in call.args)


def page() -> str:
    """The page as it is to be."""
    found = proofs()
    parts = [HEAD]
    for section, content in _sections().items():
        rows = ["| | statement | tests |", "|---|---|---|"]
        for place, text in enumerate(content["statements"], 1):
            number = f"{section}.{place}"
            tests = [_link(proof) for proof in found if number in proof.numbers]
            rows.append(f"| {number} | {text} | {'<br>'.join(tests)} |")
        parts.append(f"## {section} {content['title']}\n\n" + "\n".join(rows) + "\n")
    return "\n".join(parts)


def _link(proof: Proof) -> str:
    words = proof.name.removeprefix("test_").replace("_", " ")
    return f"[{words}](../{proof.file})"


if __name__ == "__main__":
    sys.stdout.write(page())
