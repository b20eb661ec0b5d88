"""Checking a ledger and receipts without a database."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """Something that is not as it was written."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"
