"""Consent records and receipts as JSON, after ISO/IEC TS 27560:2023, in terms of the W3C's DPV.

A record has the four sections of the specification: a header, the processing, the parties, and events. A
receipt is a copy of the record for the person it is about, with the proof that it stands in the ledger.
"""

from collections.abc import Mapping
from typing import Any, Final

from assent.service.settings import ServiceSettings

CONTEXT: Final = {
    "dpv": "https://w3id.org/dpv#",
    "dct": "http://purl.org/dc/terms/",
    "pd": "https://w3id.org/dpv/pd#",
}
RECORD: Final = "https://w3id.org/dpv/schema/dpv-27560#record"
RECEIPT: Final = "https://w3id.org/dpv/schema/dpv-27560#receipt"
SAID: Final = {
    "requested": "dpv:RequestAcknowledged",
    "decided": "dpv:RequestAccepted",
    "trained": "dpv:RequestRequiredActionPerformed",
    "served": "dpv:RequestFulfilled",
}
"""How far a request is, by the state of the wish."""


def consent_status(unwillingness: float | None, before: float | None) -> str:
    """Return the status of consent that follows from what a person says, and said before."""
    if unwillingness is None:
        return "dpv:ConsentUnknown"
    if unwillingness < 1:
        return "dpv:ConsentGiven"
    return "dpv:ConsentRefused" if before is None or before == 1 else "dpv:ConsentWithdrawn"


def record_of(
    settings: ServiceSettings,
    *,
    id: str,
    pseudonym: str,
    at: str,
    state: str,
    said: Mapping[str, Any],
    before: float | None,
    outcome: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the consent record of a wish that reached a state.

    `said` is what the person said: scope, target, unwillingness, withdrawal. `outcome` is what became of it.
    """
    who = settings.controller
    party = {
        "@type": "dpv:DataController",
        "dct:identifier": who.id or settings.public_url,
        "dpv:hasName": who.name,
        "dpv:hasAddress": who.address,
        "dpv:hasContact": who.contact,
    }
    return {
        "@type": "dpv:ConsentRecord",
        "dct:identifier": id,
        "dct:conformsTo": RECORD,
        "dpv:hasDataSubject": {"@type": "dpv:DataSubject", "dct:identifier": pseudonym},
        "dpv:hasDataController": party,
        "dpv:hasJurisdiction": who.jurisdiction,
        "dpv:hasLegalBasis": "dpv:Consent",
        "dpv:hasNotice": {"@type": "dpv:ConsentNotice", "@id": who.notice or settings.public_url},
        "dct:language": "en",
        "dpv:hasProcess": {
            "@type": "dpv:Process",
            "dpv:hasPurpose": "dpv:ProvidePersonalisedRecommendations",
            "dpv:hasProcessing": ["dpv:Store", "dpv:Use", "dpv:Profiling"],
            "dpv:hasPersonalData": {
                "@type": "pd:ServiceConsumptionBehavior",
                "dpv:hasDataSource": "dpv:DataSubject",
                "dpv:hasNecessity": "dpv:Optional",
            },
            "dpv:hasRecipient": [],
            "dpv:hasStorageCondition": {
                "@type": "dpv:StorageCondition",
                "dpv:hasLocation": who.storage,
                "dpv:hasDuration": who.retention,
            },
            "dpv:hasConsentControl": {"@type": "dpv:WithdrawConsent", "@id": settings.public_url},
        },
        "events": [
            {
                "@type": "dpv:Consent",
                "dpv:hasConsentStatus": consent_status(said["unwillingness"], before),
                "dpv:hasStatus": SAID[state],
                "dpv:isIndicatedBy": pseudonym,
                "dpv:hasDuration": "until changed",
                "dct:date": at,
                "state": state,
                "said": dict(said),
                "outcome": dict(outcome),
            }
        ],
    }


def receipt_of(id: str, record: Mapping[str, Any], proof: Mapping[str, Any]) -> dict[str, Any]:
    """Return the receipt of a record that is sealed in the ledger."""
    return {
        "@context": CONTEXT,
        "@id": f"urn:uuid:{id}",
        "@type": "dpv:ConsentReceipt",
        "dct:identifier": id,
        "dct:conformsTo": RECEIPT,
        "dct:created": proof["leaf"]["at"],
        "dct:publisher": record["dpv:hasDataController"]["dct:identifier"],
        "dpv:hasRecordOfActivity": dict(record),
        "proof": dict(proof),
    }
