"""What operations on resources are called."""

from jobauto_prefect.facade.kinds.resource import Resource
from jobauto_prefect.facade.openapi.schemas import Json


def to_pascal_case(words: str) -> str:
    """Turn `run templates` into `RunTemplates`."""
    return words.title().replace(" ", "")


def schema_name(resource: Resource) -> str:
    """Return what the document calls a record of this kind."""
    return resource.answer.__name__


def describe(resource: Resource, verb: str, words: str, permission: str, text: str) -> Json:
    """Describe what is said of every operation on a resource."""
    needs = f"Needs `{permission}`." if permission else ""
    return {
        "operationId": f"{verb.split(maxsplit=1)[0].lower()}{to_pascal_case(words)}",
        "tags": [resource.kind.many],
        "summary": f"{verb} {words}",
        "description": f"{text} {needs}".strip(),
    }
