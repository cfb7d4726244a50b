"""Credentials, their types, and the ledger's side of their blocks: applied, compared, deleted."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import TypeVar
from uuid import UUID

from jobauto_prefect.compiler.blocks import (
    BlockPlan,
    BlockTypePlan,
    TypeFacts,
    block_plan,
    block_type_plan,
)
from jobauto_prefect.console_addresses import page_address
from jobauto_prefect.engine.context import EngineContext
from jobauto_prefect.engine.sync.blocks import (
    apply_block,
    apply_block_type,
    differing_type_fields,
    retire_block,
    retire_block_type,
)
from jobauto_prefect.engine.sync.deployment_comparison import PrefectObject
from jobauto_prefect.engine.sync.drift import Differences, ObjectComparison
from jobauto_prefect.engine.sync.record_locks import hold_record
from jobauto_prefect.errors import Conflict, NotFound
from jobauto_prefect.ledger.audit.trail import WritingSession
from jobauto_prefect.ledger.outbox import OutboxKind, enqueue
from jobauto_prefect.ledger.prefect_objects import enqueue_deletion
from jobauto_prefect.ledger.queries.credentials import (
    applied_credentials,
    applied_types,
    credentials_of_type,
)
from jobauto_prefect.ledger.records import Credential, CredentialType, OutboxMessage
from jobauto_prefect.ledger.store import ReadingSession
from jobauto_prefect.settings import Settings

T = TypeVar("T")

TRIES = 5
TRY_AGAIN_SECONDS = 0.1


async def apply_credential_type(context: EngineContext, message: OutboxMessage) -> None:
    """Apply the block type of a credential type.

    Raises:
        Locked: another process is doing it.
    """
    await _retry_conflicts(lambda: _apply_type(context, message.subject_id))


async def _retry_conflicts(work: Callable[[], Awaitable[T]]) -> T:
    """Retry on conflicts: a type and its credentials may be applied at the same time.

    Raises:
        Conflict, NotFound: it still fails after some tries.
    """
    for _ in range(TRIES):
        try:
            return await work()
        except (Conflict, NotFound):
            await asyncio.sleep(TRY_AGAIN_SECONDS)
    return await work()


async def _apply_type(context: EngineContext, type_id: int) -> tuple[UUID, UUID] | None:
    """Apply a block type; return its id and its schema's, or None if the type is gone."""
    async with hold_record(context, f"credential type {type_id}"):
        read = await context.read(_read_type, type_id, context.settings)
        if read is None:
            return None
        plan, remembered = read
        of_type = await apply_block_type(context.prefect, plan, remembered)
        if of_type[0] != remembered:
            await context.write(_remember_type, type_id, of_type[0])
        return of_type


def _read_type(
    session: ReadingSession, type_id: int, settings: Settings
) -> tuple[BlockTypePlan, UUID | None] | None:
    """Return the plan, and the block type as stored in the ledger."""
    kind = session.get(CredentialType, type_id)
    if kind is None or kind.retired_at is not None:
        return None
    return desired_block_type(kind, settings), kind.block_type_id


def desired_block_type(kind: CredentialType, settings: Settings) -> BlockTypePlan:
    """Compute what Prefect should hold for a credential type."""
    return block_type_plan(
        TypeFacts(
            type_id=kind.id,
            code=kind.code,
            name=kind.translations.get("name", kind.name),
            description=kind.translations.get("description", kind.description),
            logo=kind.logo,
            homepage=kind.homepage or kind.url,
            fields=kind.fields,
            language=settings.language,
        )
    )


def _remember_type(session: WritingSession, type_id: int, block_type_id: UUID) -> None:
    """Store the block type; under a new one the credentials have no block yet."""
    kind = session.get_one(CredentialType, type_id, with_for_update={"key_share": True})
    kind.block_type_id = block_type_id
    if kind.retired_at is not None:  # deleted meanwhile
        enqueue_deletion(session, kind)
        return
    for credential in credentials_of_type(session, type_id):
        enqueue(session, OutboxKind.APPLY_CREDENTIAL, credential.id)


async def apply_credential(context: EngineContext, message: OutboxMessage) -> None:
    """Apply the block of a credential, and the block type it needs.

    Raises:
        Locked: another process is doing it.
    """
    async with hold_record(context, f"credential {message.subject_id}"):
        read = await context.read(_read_credential, message.subject_id, context.settings)
        if read is None:
            return
        type_id, plan, remembered = read

        async def work() -> UUID | None:
            of_type = await _apply_type(context, type_id)
            return of_type and await apply_block(context.prefect, plan, of_type, remembered)

        document_id = await _retry_conflicts(work)
        if document_id is not None and document_id != remembered:
            await context.write(_remember, message.subject_id, document_id)


def _read_credential(
    session: ReadingSession, credential_id: int, settings: Settings
) -> tuple[int, BlockPlan, UUID | None] | None:
    credential = session.get(Credential, credential_id)
    if credential is None or credential.retired_at is not None:
        return None
    plan = desired_block(credential, settings)
    return credential.credential_type_id, plan, credential.block_document_id


def desired_block(credential: Credential, settings: Settings) -> BlockPlan:
    """Compute what Prefect should hold for a credential."""
    return block_plan(
        credential.id,
        credential.company.slug,
        credential.name,
        credential.credential_type.fields,
        credential.values,
        page_address(settings.url, "credential", credential.id),
    )


def _remember(session: WritingSession, credential_id: int, document_id: UUID) -> None:
    credential = session.get_one(Credential, credential_id, with_for_update={"key_share": True})
    credential.block_document_id = document_id
    if credential.retired_at is not None:  # deleted meanwhile
        enqueue_deletion(session, credential)


async def retire_type(context: EngineContext, message: OutboxMessage) -> None:
    """Delete the block type of a deleted credential type."""
    await retire_block_type(context.prefect, UUID(message.payload["id"]))


async def retire_credential(context: EngineContext, message: OutboxMessage) -> None:
    """Delete the block of a deleted credential."""
    await retire_block(context.prefect, UUID(message.payload["id"]))


class BlockComparison(ObjectComparison[Credential, BlockPlan]):
    """Credentials and their blocks."""

    record, entity, kind = Credential, "Credential", "credential"
    message = OutboxKind.APPLY_CREDENTIAL
    collection = "block_documents"
    applied = staticmethod(applied_credentials)
    pages_at_once = None

    def desired(self, _session: ReadingSession, record: Credential) -> BlockPlan:
        """Compute what Prefect should hold for a credential."""
        return desired_block(record, self.context.settings)

    def differences(self, plan: BlockPlan, found: PrefectObject | None) -> Differences:
        """Compare name and values; values may be secrets and are not reported."""
        if found is None:
            return {"block": (None, None)}
        names = ["name"] if found["name"] != plan.name else []
        there, here = found["data"], plan.data
        names += [key for key in sorted({*there, *here}) if there.get(key) != here.get(key)]
        return dict.fromkeys(names, (None, None))


class BlockTypeComparison(ObjectComparison[CredentialType, BlockTypePlan]):
    """Credential types and their block types."""

    record, entity, kind = CredentialType, "CredentialType", "credtype"
    message = OutboxKind.APPLY_CREDENTIAL_TYPE
    collection = "block_types"
    applied = staticmethod(applied_types)

    def desired(self, _session: ReadingSession, record: CredentialType) -> BlockTypePlan:
        """Compute what Prefect should hold for a credential type."""
        return desired_block_type(record, self.context.settings)

    def differences(self, plan: BlockTypePlan, found: PrefectObject | None) -> Differences:
        """Compare the names of a block type and what Prefect can change."""
        return differing_type_fields(plan, found)

    async def read_present(
        self, planned: Collection[tuple[UUID | None, BlockTypePlan]]
    ) -> tuple[dict[UUID | None, PrefectObject], set[UUID | None]]:
        """Read the block types by their slugs: Prefect can't query them by id."""
        ids = {plan.slug: object_id for object_id, plan in planned}
        objects, unreadable = await self.context.prefect.find(self.collection, ids, "slug")
        present: dict[UUID | None, PrefectObject] = {UUID(each["id"]): each for each in objects}
        return present, {ids[slug] for slug in unreadable}

    def company_of(self, _record: CredentialType) -> None:
        """Return None: types belong to all companies."""
