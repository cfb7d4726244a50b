"""Where stored secrets are sent. Changing the destination requires sending them again.

Otherwise a user who may change an address, but not read the secret, could have it sent to a server
of their own.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from jobauto_prefect.definitions.records.credentials import addresses, is_address
from jobauto_prefect.errors import Fault
from jobauto_prefect.ledger.records import CredentialType
from jobauto_prefect.ledger.secrets import SecretBox


@dataclass(frozen=True, slots=True)
class Destination:
    """Where the secrets of a credential are sent: by jobs to the addresses among its values, and by
    the service to the `command` of its type's availability check.
    """

    addresses: Mapping[str, str]
    command: Any

    def differences(self, other: "Destination") -> Iterator[str]:
        """Yield the keywords whose values differ; `availability` for the command."""
        if self.command != other.command:
            yield "availability"
        for name in sorted({*self.addresses, *other.addresses}):
            if self.addresses.get(name) != other.addresses.get(name):
                yield name


def destination_of(
    kind: CredentialType, values: Mapping[str, str], secrets: Mapping[str, str], box: SecretBox
) -> Destination:
    """Return where a credential of this type with these values sends its secrets.

    Raises:
        KeyMissing: an address is itself a secret, and was stored with another key.
    """
    hidden = {field["keyword"] for field in kind.fields if is_address(field)} & secrets.keys()
    opened = box.open({name: secrets[name] for name in hidden})
    command = (kind.availability or {}).get("command")
    return Destination(addresses(kind.fields, {**values, **opened}), command)


def resubmission_fault(pointer: str, name: str, changed: Collection[str]) -> Fault:
    """Return the error for a secret that was given for another address."""
    message = (
        f"{name} was set for another address ({', '.join(changed)} changed): "
        f"send {name} again, or null to remove it"
    )
    return Fault(pointer, "secret", message)
