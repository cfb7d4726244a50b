"""A Prefect database that was made before, with a key of its own."""

import subprocess
import sys
from pathlib import Path

from cryptography.fernet import Fernet

from tests.support.prefect_database import provide_prefect_database
from tests.support.processes import clean_environment

WORK = """
import asyncio, json, os, sys
from prefect.server.database import provide_database_interface
from prefect.server.models import block_documents, block_schemas, block_types, configuration
from prefect.server.schemas import actions
from jobauto_prefect.engine.prefect_server.block_encryption import reencrypt_blocks

async def make():
    database = provide_database_interface()
    async with database.session_context(begin_transaction=True) as session:
        kind = await block_types.create_block_type(
            session, actions.BlockTypeCreate(name="Own", slug="own")
        )
        schema = await block_schemas.create_block_schema(
            session, actions.BlockSchemaCreate(fields={}, block_type_id=kind.id)
        )
        await block_documents.create_block_document(
            session,
            actions.BlockDocumentCreate(
                name="old", data={"x": "hush"}, block_schema_id=schema.id, block_type_id=kind.id
            ),
        )

async def read():
    database = provide_database_interface()
    async with database.session_context() as session:
        found = await block_documents.read_block_documents(session, include_secrets=True)
        own = await configuration.read_configuration(session=session, key="ENCRYPTION_KEY")
        print(json.dumps([[one.data for one in found], own is not None]))

async def take():
    print(await reencrypt_blocks(os.environ["PREFECT_SERVER_ENCRYPTION_KEY"]))

async def work(steps):
    for step in steps:
        await {"make": make, "read": read, "take": take}[step]()

asyncio.run(work(sys.argv[1:]))
"""


def test_its_blocks_are_taken_over_once_and_its_key_goes(tmp_path: Path) -> None:
    environment = clean_environment() | {
        "PREFECT_HOME": str(tmp_path / "prefect"),
        "PREFECT_LOGGING_LEVEL": "ERROR",
        "PREFECT_SERVER_LOGGING_LEVEL": "ERROR",
    }

    def run(*steps: str, key: str | None = None) -> list[str]:
        """What each step says; all in one process, which takes seconds to load Prefect."""
        given = environment | ({"PREFECT_SERVER_ENCRYPTION_KEY": key} if key else {})
        command = [sys.executable, "-W", "ignore", "-c", WORK, *steps]
        done = subprocess.run(command, env=given, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    key = Fernet.generate_key().decode()
    assert run("take", key=key) == ["0"]  # there are no tables yet
    (tmp_path / "prefect" / "prefect.db").unlink()  # it is empty
    provide_prefect_database(tmp_path)
    assert run("make", "read") == ['[[{"x": "hush"}], true]']
    assert run("take", "take", "read", key=key) == ["1", "0", '[[{"x": "hush"}], false]']
