"""Writes the keys of definitions and run templates into their pages in docs/, from the schemas.

    python -m scripts.key_pages

Each page has text by hand, and between two marks what is made here.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from jobauto_prefect.definitions import schema
from jobauto_prefect.definitions.validation.record_files import record_schema
from jobauto_prefect.runtime.executors.registry import BUILT_IN

DOCS = Path(__file__).parents[1] / "docs"
Json = Mapping[str, Any]

TYPES = {
    "string": "text",
    "object": "object",
    "array": "array",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "null": "null",
}
TEXTS = "text, or an object of [texts by language](#texts-in-several-languages)"
BECOMES = {"x-prefect": "In Prefect", "x-job": "In the job"}


@dataclass(frozen=True, slots=True)
class Key:
    """One key: its path, such as `environment.*.type`, and what its schema says."""

    path: tuple[str, ...]
    rules: Json = field(repr=False)
    required: bool
    same_as: str | None
    """The path of the key whose keys it has, if these are listed there."""

    @property
    def name(self) -> str:
        return ".".join(self.path).replace(".[]", "[]")


def keys(document: Json) -> Iterator[Key]:
    """Yield all keys of a schema, each before those below it; shared parts only once."""
    seen: dict[str, str] = {}

    def below(rules: Json, path: tuple[str, ...]) -> Iterator[Key]:
        for name, raw in rules.get("properties", {}).items():
            yield from one(raw, (*path, name), required=name in rules.get("required", ()))
        if isinstance(rules.get("items"), dict):
            yield from below(resolved(document, rules["items"]), (*path, "[]"))
        if isinstance(rules.get("additionalProperties"), dict):
            yield from below(resolved(document, rules["additionalProperties"]), (*path, "*"))

    def one(raw: Json, path: tuple[str, ...], *, required: bool) -> Iterator[Key]:
        part, rules = reference(raw), resolved(document, raw)
        is_text = rules.get("title") == "Text" or part in TEXT_PARTS
        key = Key(path, rules, required, seen.get(part or ""))
        yield key
        if key.same_as is None and not is_text:
            yield from below(rules, path)
            if part is not None and "properties" in rules:
                seen[part] = key.name

    yield from below(document, ())


TEXT_PARTS = ("localized",)


def reference(raw: Json) -> str | None:
    """Return the name of the part of the schema that a key refers to."""
    (target,) = [raw.get("$ref"), *(each.get("$ref") for each in raw.get("allOf", ()))][-1:]
    return target.rpartition("/")[2] if target else None


def resolved(document: Json, raw: Json) -> Json:
    """Return a key's rules with those of the part it refers to; its own words win."""
    part = reference(raw)
    return {**document["definitions"][part], **raw} if part else raw


def example_of(document: Json) -> dict[str, Any]:
    """Return a document that has all keys, by their first examples."""
    return {key.path[0]: key.rules["examples"][0] for key in keys(document) if len(key.path) == 1}


def _type(key: Key) -> str:
    rules = key.rules
    if reference(rules) in TEXT_PARTS:
        return TEXTS
    if "enum" in rules:
        return " | ".join(f"`{each}`" for each in rules["enum"])
    names = rules.get("type", [])
    named = [TYPES[name] for name in ([names] if isinstance(names, str) else names)]
    items = rules.get("items", {})
    if named == ["array"] and items:
        kind = items.get("type")
        choices = " | ".join(f"`{each}`" for each in items.get("enum", ()))
        named = [f"array of {choices or (TYPES[kind] + 's' if kind == 'string' else 'objects')}"]
    span = [f"{words} {rules[word]:,}" for word, words in SPAN.items() if word in rules]
    most = [f"at most {rules[word]:,} {unit}" for word, unit in MOST.items() if word in rules]
    return ", ".join([" ".join([" or ".join(named) or "any value", *span]), *most])


SPAN = {"minimum": "from", "exclusiveMinimum": "above", "maximum": "to"}
MOST = {"maxItems": "items", "maxLength": "characters"}


def _facts(key: Key) -> str:
    facts = [_type(key)]
    facts += ["**required**"] if key.required else []
    facts += [f"default `{json.dumps(key.rules['default'])}`"] if "default" in key.rules else []
    return ", ".join(facts)


LINE = 96  # characters


def _spread(value: Any, depth: int = 0) -> str:
    """Return JSON with one line for what fits in one."""
    line = json.dumps(value, ensure_ascii=False)
    if not value or not isinstance(value, dict | list) or len(line) + 2 * depth <= LINE - 20:
        return line
    pad = "  " * (depth + 1)
    if isinstance(value, list):
        inner = [f"{pad}{_spread(each, depth + 1)}" for each in value]
        return "[\n" + ",\n".join(inner) + f"\n{pad[2:]}]"
    inner = [f'{pad}"{name}": {_spread(each, depth + 1)}' for name, each in value.items()]
    return "{\n" + ",\n".join(inner) + f"\n{pad[2:]}}}"


def _json_example(name: str, value: Any) -> str:
    line = f'"{name}": {json.dumps(value, ensure_ascii=False)}'
    return line if len(line) <= LINE or isinstance(value, str) else f'"{name}": {_spread(value)}'


def _yaml_example(name: str, value: Any) -> str:
    if isinstance(value, str) and ":" in value:  # such as 06:30, which some readers take for 390
        return f"{name}: {json.dumps(value)}"
    text: str = yaml.safe_dump(
        {name: value}, default_flow_style=True, sort_keys=False, allow_unicode=True, width=math.inf
    )
    return text.strip()[1:-1]


WRITERS = {"json": _json_example, "yaml": _yaml_example}


def _section(key: Key, language: str) -> str:
    level = "###" if len(key.path) == 1 else "####"
    name, rules = key.path[-1], key.rules
    examples = [WRITERS[language](name, example) for example in rules["examples"]]
    lines = [f"- {words}: {rules[word]}" for word, words in BECOMES.items() if word in rules]
    if key.path[0] == "executor_settings" and key.path != ("executor_settings",):
        takers = [taker for taker, kind in BUILT_IN.items() if name in kind.settings.model_fields]
        lines.append(f"- Executors: {', '.join(takers)}")
    if key.same_as:
        lines.append(f"- Keys: as in [`{key.same_as}`](#{anchor(key.same_as)})")
    blocks = [f"```{language}\n{example}\n```" for example in examples if "\n" in example]
    if not blocks:
        lines.insert(0, f"- Example: {' or '.join(f'`{example}`' for example in examples)}")
    parts = [f"{level} `{key.name}`", f"*{_facts(key)}.* {rules['description']}", *blocks]
    return "\n\n".join([*parts, *(["\n".join(lines)] if lines else [])])


def anchor(heading: str) -> str:
    """Return the address of a heading, as GitHub makes it."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def rewrite(page: str, mark: str, content: str) -> str:
    """Return a page with new content between the marks of this name."""
    begin, end = f"<!-- {mark}: by make publish -->", f"<!-- end of {mark} -->"
    before, _, rest = page.partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise ValueError(f"there are no marks {begin} and {end}")
    return f"{before}{begin}\n\n{content}\n\n{end}{after}"


def definition_page(page: str) -> str:
    """Return the up-to-date page of the definition format."""
    lead = "This definition (`statements.app.json`) has every key there is:"
    example = f"{lead}\n\n```json\n{_spread(example_of(schema()))}\n```"
    return _with_keys(rewrite(page, "example", example), schema(), "json")


def run_template_page(page: str) -> str:
    """Return the up-to-date page of run templates."""
    return _with_keys(page, record_schema("runtemplate"), "yaml")


def _with_keys(page: str, document: Json, language: str) -> str:
    return rewrite(page, "keys", "\n\n".join(_section(key, language) for key in keys(document)))


PAGES = {"definition-format.md": definition_page, "run-templates.md": run_template_page}

if __name__ == "__main__":
    for file, made in PAGES.items():
        path = DOCS / file
        path.write_text(made(path.read_text()))
