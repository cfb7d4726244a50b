"""Whether answers are what the OpenAPI document says, and nothing more."""

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any
from urllib.parse import urlsplit

import httpx
from jsonschema_rs import Draft202012Validator

from jobauto_prefect.facade.openapi import document

BASES = ("/api/v1", "/api")


def check(answer: httpx.Response) -> None:
    """Hook of an httpx client: every documented answer is as documented."""
    if "follow=true" in str(answer.request.url):
        return  # reading it here would wait for its end
    answer.read()
    problems = list(disagreements(answer))
    assert problems == [], f"{answer.request.method} {answer.request.url}: {problems}"


def disagreements(answer: httpx.Response) -> Iterator[str]:
    """What an answer has that the document does not say; of paths it does not name, nothing."""
    operation = _operation(answer.request.method, urlsplit(str(answer.request.url)).path)
    if operation is None:
        return
    response = operation["responses"].get(str(answer.status_code))
    if response is None:
        yield f"status {answer.status_code} is not documented"
        return
    response = _resolved(response)
    for name, header in response.get("headers", {}).items():
        if header.get("required") and name.lower() not in answer.headers:
            yield f"the header {name} is missing"
    media_type = answer.headers.get("content-type", "").partition(";")[0]
    if media_type not in response["content"]:
        yield f"{media_type} is not documented"
    elif "schema" in response["content"][media_type]:
        yield from _errors(answer.json(), response["content"][media_type]["schema"])


def _errors(value: Any, schema: dict[str, Any]) -> Iterator[str]:
    for fault in _validator(json.dumps(schema)).iter_errors(value):
        place = "/".join(map(str, fault.instance_path))
        yield f"/{place}: {fault.message[:300]}"


def _strict(schema: dict[str, Any]) -> dict[str, Any]:
    """As the document says it, and with no member that the document does not name."""
    if isinstance(schema.get("additionalProperties"), dict):
        return {**schema, "additionalProperties": _strict(schema["additionalProperties"])}
    if schema.get("$ref", "").endswith(("Application", "DefinitionMembers")):
        return schema  # definitions may have members of their own
    if any("Application" in part.get("$ref", "") for part in schema.get("allOf", ())):
        return schema
    return {**schema, "unevaluatedProperties": False}


@cache
def _validator(schema: str) -> Draft202012Validator:
    whole = {**_strict(json.loads(schema)), "components": document()["components"]}
    return Draft202012Validator(whole, validate_formats=True)


def _resolved(response: dict[str, Any]) -> dict[str, Any]:
    if "$ref" not in response:
        return response
    target: dict[str, Any] = document()["components"]["responses"][response["$ref"].split("/")[-1]]
    return target


def _operation(method: str, path: str) -> dict[str, Any] | None:
    base = next((prefix for prefix in BASES if path.startswith(f"{prefix}/")), None)
    if base is None:
        return None
    for pattern, methods in _patterns():
        if method.lower() in methods and pattern.fullmatch(path.removeprefix(base)):
            operation: dict[str, Any] = methods[method.lower()]
            return operation
    return None


@cache
def _patterns() -> list[tuple[re.Pattern[str], dict[str, Any]]]:
    """The paths of the document; those with fewer parameters first, for they are meant first."""
    paths = sorted(document()["paths"].items(), key=lambda pair: pair[0].count("{"))
    return [(re.compile(_pattern(path)), methods) for path, methods in paths]


def _pattern(path: str) -> str:
    return re.sub(r"\\\{\w+\\\}", "[^/.]+", re.escape(path))
