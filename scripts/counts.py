"""Counts what tells how far the code fits in one head.

    python -m scripts.counts

Each figure is counted from the syntax tree; what is generic names no kind of record, so a test of
a kind's name or class outside its own modules is counted.
"""

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "jobauto_prefect"
ITEMS = {
    *("app", "company", "runtemplate", "job", "task", "credential", "credential_type", "topic"),
    *("calendar", "eventrule", "eventsource", "user", "event", "auditlog"),
}
CLASSES = {
    *("App", "Company", "RunTemplate", "Job", "Task", "Credential", "CredentialType", "Topic"),
    *("Calendar", "EventRule", "EventSource", "User", "Event", "AuditEntry"),
}
FIELDS = {"content", "fields", "references", "by", "how", "owner"}
"""What has fields, or says how; `company` among them is a field, not a kind."""

OWN = "facade/kinds/"
"""The modules of the kinds themselves."""

Trees = dict[str, ast.Module]


def main() -> None:
    """Print the figures, a line each."""
    sources = {
        str(path.relative_to(PACKAGE)): path.read_text() for path in sorted(PACKAGE.rglob("*.py"))
    }
    trees = {name: ast.parse(text) for name, text in sources.items()}
    lines = sum(text.count("\n") for text in sources.values())
    comments = sum(len(re.findall(r"^\s*#", text, re.MULTILINE)) for text in sources.values())
    imported = sum(import_lines(tree) for tree in trees.values())
    functions = [node for tree in trees.values() for node in functions_of(tree)]
    once = used_once(trees)
    tests = [path.read_text().count("\n") for path in (ROOT / "tests").rglob("*.py")]
    asked = kind_tests(trees)
    rooms, files = circles(trees)
    figures = {
        "lines, files of the package": f"{lines:,}, {len(sources)}",
        "lines, files of the tests": f"{sum(tests):,}, {len(tests)}",
        "modules with the literal runtemplate": sum(
            '"runtemplate"' in text for text in sources.values()
        ),
        "tests of a kind's name or class in generic code": asked.total(),
        "documented parameters, declared at the route": declared(),
        "private functions called from one place": (
            f"{len(once)} of {len(functions):,} functions, {len(once) / len(functions):.0%}"
        ),
        "import lines": f"{imported / lines:.1%}",
        "comment lines per 1,000": f"{1000 * comments / lines:.1f}",
        "pairs of folders of a layer that import each other": len(rooms),
        "circles of files": len(files),
    }
    for name, figure in figures.items():
        print(f"{name:52} {figure}")
    for name, number in asked.most_common(12):
        print(f"  tests of a kind: {number:3} {name}")
    for pair in rooms:
        print(f"  pair: {' <-> '.join(pair)}")
    for circle in files:
        print(f"  circle: {' '.join(sorted(circle))}")


def functions_of(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield all functions, those within others too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def used_once(trees: Trees) -> list[str]:
    """Return the private functions whose name stands once in their module, but for its place."""
    found = []
    for name, tree in trees.items():
        uses = Counter(
            node.id if isinstance(node, ast.Name) else node.attr
            for node in ast.walk(tree)
            if isinstance(node, ast.Name | ast.Attribute)
        )
        found += [
            f"{name}:{node.name}"
            for node in functions_of(tree)
            if re.match(r"_[^_]", node.name) and uses[node.name] == 1
        ]
    return found


def import_lines(tree: ast.Module) -> int:
    """Return how many lines imports take."""
    return sum(
        (node.end_lineno or node.lineno) - node.lineno + 1
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
    )


def kind_tests(trees: Trees) -> Counter[str]:
    """Count comparisons with the name or class of a kind, by module."""
    counted: Counter[str] = Counter()
    for name, tree in trees.items():
        if not name.startswith(OWN):
            counted[name] = sum(is_kind_test(node) for node in ast.walk(tree))
    return counted


def is_kind_test(node: ast.AST) -> bool:
    """Whether this compares with one kind's name or class."""
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        if any(isinstance(op, ast.Is | ast.IsNot) for op in node.ops):
            return any(isinstance(side, ast.Name) and side.id in CLASSES for side in sides)
        names = {getattr(side, "id", getattr(side, "attr", "")) for side in sides}
        return not names & FIELDS and any(
            isinstance(side, ast.Constant) and side.value in ITEMS for side in sides
        )
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "isinstance"
        and any(
            isinstance(part, ast.Name) and part.id in CLASSES for part in ast.walk(node.args[1])
        )
    )


def circles(trees: Trees) -> tuple[list[tuple[str, str]], list[set[str]]]:
    """Return the pairs of folders of one layer that import each other, and circles of files."""
    files: dict[str, set[str]] = defaultdict(set)
    for name, tree in trees.items():
        files[name].update(module for module in imports_of(tree, trees) if module != name)
    folders: dict[str, set[str]] = defaultdict(set)
    for name, needed in files.items():
        for other in needed:
            here, there = name.rpartition("/")[0], other.rpartition("/")[0]
            apart = here != there and not (here + "/").startswith(there + "/")
            if apart and not (there + "/").startswith(here + "/"):
                folders[here].add(there)
    pairs = sorted(
        (here, there)
        for here, others in folders.items()
        for there in others
        if here < there and here in folders[there] and here.split("/")[0] == there.split("/")[0]
    )
    return pairs, strongly_connected(files)


def imports_of(tree: ast.Module, trees: Trees) -> Iterator[str]:
    """Yield the modules of the package that are imported, but for those only types need."""
    typed = {
        id(each)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for each in ast.walk(node)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or id(node) in typed:
            continue
        base = (node.module or "").removeprefix("jobauto_prefect").strip(".").replace(".", "/")
        if not (node.module or "").startswith("jobauto_prefect"):
            continue
        for alias in node.names:
            places = (f"{base}/{alias.name}.py", f"{base}.py", f"{base}/__init__.py")
            yield from [place.lstrip("/") for place in places if place.lstrip("/") in trees][:1]


def strongly_connected(graph: dict[str, set[str]]) -> list[set[str]]:
    """Return the circles: the sets of files of which each reaches each."""
    reached = {name: reachable(graph, name) for name in graph}
    found: list[set[str]] = []
    for name in graph:
        circle = {other for other in reached[name] if name in reached.get(other, set())}
        if name in reached[name] and circle not in found:
            found.append(circle)
    return found


def reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    """Return what can be reached from a file."""
    seen: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += graph.get(name, ())
    return seen


def declared() -> str:
    """Return how many of the document's parameters the signatures of the routes have."""
    from jobauto_prefect.facade.openapi.document import document
    from jobauto_prefect.facade.resources.crud import build_contract_router

    shared = document()["components"]["parameters"]
    documented = {
        (plain(path), method, parameter["in"], parameter["name"])
        for path, methods in document()["paths"].items()
        for method, operation in methods.items()
        for parameter in resolved(operation.get("parameters", ()), shared)
    }
    at_routes = set()
    for each in build_contract_router().routes:
        route = each.described()  # type: ignore[attr-defined]
        path = plain(route.path_format.removeprefix("/api/v1"))
        for method in route.methods:
            for place, name in parameters_of(route.dependant):
                at_routes.add((path, method.lower(), place, name))
    there = {(path, method, place) for path, method, place, _ in at_routes if place == "path"}
    count = sum(
        entry in at_routes or (entry[2] == "path" and entry[:3] in there and entry[3] != "suffix")
        for entry in documented
    )
    return f"{count} of {len(documented)}"


def plain(path: str) -> str:
    """Return a path without the names of its parts."""
    return re.sub(r"\{[^}]*\}", "*", path)


def resolved(
    parameters: Iterable[dict[str, str]], shared: dict[str, dict[str, str]]
) -> Iterator[dict[str, str]]:
    """Yield parameters, those that are referred to as they are."""
    for parameter in parameters:
        yield shared[parameter["$ref"].rpartition("/")[2]] if "$ref" in parameter else parameter


def parameters_of(dependant: Any) -> Iterator[tuple[str, str]]:
    """Yield place and name of what a route declares, its dependencies included."""
    for place in ("path", "query", "header", "cookie"):
        for field in getattr(dependant, f"{place}_params"):
            yield place, field.alias
    for below in dependant.dependencies:
        yield from parameters_of(below)


if __name__ == "__main__":
    main()
