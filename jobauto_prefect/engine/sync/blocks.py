"""Block types and block documents: created, changed if they differ, deleted; reading blocks."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote
from uuid import UUID

from jobauto_prefect.compiler.blocks import BlockPlan, BlockTypePlan
from jobauto_prefect.engine.api import PrefectApi

VERSION = "1"  # of a schema, which is identified by its checksum

Found = Mapping[str, Any]


async def apply_block_type(
    api: PrefectApi, plan: BlockTypePlan, remembered: UUID | None
) -> tuple[UUID, UUID]:
    """Change a block type to match the plan; return its id and that of its schema.

    Prefect can't rename a block type: a new name makes a new one, and the old one is deleted with
    its documents.

    Raises:
        PrefectUnavailable: Prefect does not answer.
        Conflict: another process is creating it; try again later.
    """
    block_type = await api.get_or_none(f"/block_types/{remembered}") if remembered else None
    block_type = block_type or await api.get_or_none(f"/block_types/slug/{plan.slug}")
    if block_type is not None and (block_type["name"], block_type["slug"]) != (
        plan.name,
        plan.slug,
    ):
        await retire_block_type(api, UUID(block_type["id"]))
        block_type = None
    fields = _described(plan)
    if block_type is None:
        named = {"name": plan.name, "slug": plan.slug}
        block_type = await api.post("/block_types/", named | fields)
    elif any(block_type.get(name) != value for name, value in fields.items()):
        await api.patch(f"/block_types/{block_type['id']}", fields)
    schema = await api.post(
        "/block_schemas/",
        {
            "fields": dict(plan.schema),
            "block_type_id": block_type["id"],
            "capabilities": [],
            "version": VERSION,
        },
    )
    return UUID(block_type["id"]), UUID(schema["id"])


def _described(plan: BlockTypePlan) -> dict[str, Any]:
    """Return the fields of a block type that Prefect can change."""
    return {
        "description": plan.description,
        "logo_url": plan.logo_url,
        "documentation_url": plan.documentation_url,
    }


def differing_type_fields(plan: BlockTypePlan, present: Found | None) -> dict[str, tuple[Any, Any]]:
    """Return field -> (what Prefect has, what the plan says); `present` is None if it is gone."""
    if present is None:
        return {"block type": (None, plan.name)}
    wanted = {"name": plan.name, "slug": plan.slug} | _described(plan)
    return {
        name: (present.get(name), value)
        for name, value in wanted.items()
        if present.get(name) != value
    }


async def apply_block(
    api: PrefectApi, plan: BlockPlan, of_type: tuple[UUID, UUID], remembered: UUID | None
) -> UUID:
    """Change a block document to match the plan; return its id.

    `of_type` are the ids of its type and schema.

    Raises:
        PrefectUnavailable: Prefect does not answer.
        Conflict: another process is creating it; try again later.
    """
    block_type, schema = map(str, of_type)
    former = await api.get_or_none(f"/block_documents/{remembered}") if remembered else None
    present = former
    if present is None or (present["name"], present["block_type_id"]) != (plan.name, block_type):
        wanted = {"name": {"any_": [plan.name]}, "block_type_id": {"any_": [block_type]}}
        path, asked = "/block_documents/filter", {"block_documents": wanted}
        blocks: list[Found] = await api.post(path, asked)
        present = next(iter(blocks), None)
    data = dict(plan.data)
    if present is None:
        body = {"name": plan.name, "block_type_id": block_type, "block_schema_id": schema}
        present = await api.post("/block_documents/", body | {"data": data})
    elif present["data"] != data or present["block_schema_id"] != schema:
        change = {"block_schema_id": schema, "data": data, "merge_existing_data": False}
        await api.patch(f"/block_documents/{present['id']}", change)
    if former is not None and former["id"] != present["id"]:
        await retire_block(api, UUID(former["id"]))
    return UUID(present["id"])


async def retire_block_type(api: PrefectApi, block_type_id: UUID) -> None:
    """Delete a block type, if it exists, with its documents."""
    await api.delete(f"/block_types/{block_type_id}")


async def retire_block(api: PrefectApi, block_document_id: UUID) -> None:
    """Delete a block document, if it exists."""
    await api.delete(f"/block_documents/{block_document_id}")


async def read_block(api: PrefectApi, name: str) -> Mapping[str, Any]:
    """Return the data of a block (type slug/name), secrets included.

    Raises:
        NotFound: no such block exists.
        PrefectUnavailable: Prefect does not answer.
    """
    slug, _, own = name.partition("/")
    path = f"/block_types/slug/{quote(slug)}/block_documents/name/{quote(own)}"
    block: Found = await api.get(f"{path}?include_secrets=true")
    data: Mapping[str, Any] = block["data"]
    return data
