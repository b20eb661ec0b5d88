"""How the ledger is hashed, and checking it offline: no database is needed.

A leaf is the SHA-256 of one event. A batch of leaves is sealed by the root of their Merkle tree (built as in
RFC 9162: leaves are prefixed by 0, nodes by 1). A seal's head is the SHA-256 of its root, its place and the
head before it, so that every head depends on all events before it. The first is chained to the ledger's own
id.

An event that concerns a person has the hash of their consent record with a random salt. Only their receipt
has the salt and the record: with it they can prove what was promised, and once it is deleted nobody can link
the event to them.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from assent.service.receipts import receipt_of
from assent.support.errors import AssentError
from assent.support.files import parse_json

FORMAT: Final = 1
"""Raised whenever a ledger exported before could not be checked any more."""
_LEAF, _NODE, _HEAD = b"\0", b"\1", b"\2"
_LEAF_KEYS: Final = ("leaf", "at", "event", "digest", "facts")
_SEAL_KEYS: Final = ("seal", "first", "count", "at", "root", "head")
_HEADER_KEYS: Final = ("assent_ledger", "ledger", "leaves", "seals", "head")
_PROOF_KEYS: Final = {"ledger", "salt", "leaf", "path", "previous", "seal"}
_HEX: Final = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True)
class Finding:
    """Something that is not as it was written."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


_ENCODER: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def canonical(value: Any) -> str:
    """Return JSON that is the same for the same value: sorted keys, no spaces."""
    return _ENCODER.encode(value)


def digest_of(record: Mapping[str, Any], salt: str) -> str:
    """Return the salted hash of a consent record; `salt` is 32 bytes as hexadecimal digits."""
    return digest_of_text(canonical(record), salt)


def digest_of_text(content: str, salt: str) -> str:
    """Return the same of a record as canonical JSON."""
    return sha256(bytes.fromhex(salt) + content.encode()).hexdigest()


def leaf_hash(leaf: Mapping[str, Any]) -> bytes:
    """Return the hash of an event, given with the keys of a line of the export."""
    return sha256(_LEAF + canonical({key: leaf[key] for key in _LEAF_KEYS}).encode()).digest()


def levels_of(hashes: Sequence[bytes]) -> list[list[bytes]]:
    """Return the Merkle tree of at least one hash, leaves first, the root last."""
    levels = [list(hashes)]
    while len(levels[-1]) > 1:
        below = levels[-1]
        nodes = [sha256(_NODE + a + b).digest() for a, b in zip(below[::2], below[1::2], strict=False)]
        levels.append(nodes + below[len(nodes) * 2 :])
    return levels


def path_in(levels: Sequence[Sequence[bytes]], place: int) -> list[str]:
    """Return the hashes that lead from a leaf to the root, as hexadecimal digits."""
    path = []
    for level in levels[:-1]:
        if place ^ 1 < len(level):
            path.append(level[place ^ 1].hex())
        place //= 2
    return path


def root_by_path(leaf: bytes, place: int, count: int, path: Sequence[str]) -> str | None:
    """Return the root that a path leads to; None if the path cannot belong to that place."""
    found, last, left = leaf, count - 1, list(path)
    while last:
        if place ^ 1 <= last:
            if not left:
                return None
            other = bytes.fromhex(left.pop(0))
            found = sha256(_NODE + (other + found if place % 2 else found + other)).digest()
        place, last = place // 2, last // 2
    return None if left else found.hex()


def first_head(ledger: str) -> str:
    """Return what the first seal is chained to."""
    return sha256(_HEAD + canonical({"ledger": ledger}).encode()).hexdigest()


def head_of(previous: str, seal: Mapping[str, Any]) -> str:
    """Return the head of a seal, given with the keys of a line of the export."""
    about = {key: seal[key] for key in _SEAL_KEYS if key != "head"}
    return sha256(_HEAD + canonical({"previous": previous, **about}).encode()).hexdigest()


@dataclass
class Summary:
    """What a ledger held that was checked."""

    ledger: str = ""
    leaves: int = 0
    seals: int = 0
    head: str = ""


class _DamageError(Exception):
    """A line after which nothing can be followed."""


def check_ledger(
    lines: Iterable[str],
    origin: str,
    receipts: Mapping[str, Any] | None = None,
    heads: Collection[str] = (),
) -> tuple[Summary, list[Finding]]:
    """Check the lines of an exported ledger, and `receipts` by name and `heads` that were kept against it.

    Every altered, missing, added or reordered line is found. Whoever can forge all hashes from some line on
    is found by a receipt or a head that somebody kept.
    """
    summary, findings = Summary(), []
    proofs = {}
    for name, each in (receipts or {}).items():
        wrong = check_receipt(each, name)
        findings += wrong
        if not wrong:
            proofs[name] = each["proof"]
    unseen, lost = dict(proofs), dict.fromkeys(heads)
    try:
        for seal, previous in _sealed(lines, origin, summary):
            lost.pop(seal["head"], None)
            for name, proof in proofs.items():
                if proof["seal"]["seal"] == seal["seal"]:
                    del unseen[name]
                    if proof["ledger"] != summary.ledger:
                        findings.append(Finding(name, "is of another ledger"))
                    elif proof["seal"] != seal or proof["previous"] != previous:
                        findings.append(Finding(name, f"its seal {seal['seal']} is another one in {origin}"))
    except _DamageError as damage:
        findings.append(Finding(origin, str(damage)))
    else:
        for name, proof in unseen.items():
            findings.append(Finding(name, f"its seal {proof['seal']['seal']} is missing in {origin}"))
        for head in lost.keys() - {first_head(summary.ledger)}:  # that of a ledger without events
            findings.append(Finding(f"head {head[:100]}", f"is missing in {origin}"))
    return summary, findings


def _sealed(lines: Iterable[str], origin: str, summary: Summary) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield each seal that holds, with the head before it; raise at the first line that does not."""
    numbered = ((number, line.rstrip("\n")) for number, line in enumerate(lines, 1))
    number, line = next(numbered, (1, ""))
    header = _parsed(line, number)
    if set(header) != set(_HEADER_KEYS) or header["assent_ledger"] != FORMAT:
        raise _DamageError(f"line {number} is no header of a ledger of format {FORMAT}")
    summary.ledger = str(header["ledger"])
    previous, hashes = first_head(summary.ledger), []
    for number, line in numbered:
        each = _parsed(line, number)
        if set(each) == set(_LEAF_KEYS):
            if each["leaf"] != summary.leaves:
                raise _DamageError(
                    f"line {number} is event {each['leaf']}; event {summary.leaves} is missing"
                )
            hashes.append(leaf_hash(each))
            summary.leaves += 1
        elif set(each) == set(_SEAL_KEYS):
            _check_seal(each, previous, hashes, summary, number)
            yield each, previous
            previous, hashes = each["head"], []
            summary.seals += 1
            summary.head = previous
        else:
            raise _DamageError(f"line {number} is neither an event nor a seal")
    if hashes:
        raise _DamageError(f"the last {len(hashes)} events have no seal")
    told = {"leaves": summary.leaves, "seals": summary.seals, "head": previous}
    for key, value in told.items():
        if header[key] != value:
            raise _DamageError(f"the header says {key} {header[key]!r}; there is {value!r}")


def _check_seal(
    seal: Mapping[str, Any], previous: str, hashes: Sequence[bytes], summary: Summary, number: int
) -> None:
    here = {"seal": summary.seals, "first": summary.leaves - len(hashes), "count": len(hashes)}
    if not hashes or any(seal[key] != value for key, value in here.items()):
        raise _DamageError(
            f"line {number}: seal {seal['seal']} is not about the {len(hashes)} events before it"
        )
    if levels_of(hashes)[-1][0].hex() != seal["root"]:
        raise _DamageError(f"line {number}: the events of seal {seal['seal']} are not those that it sealed")
    if head_of(previous, seal) != seal["head"]:
        raise _DamageError(f"line {number}: seal {seal['seal']} does not follow from the seal before it")


def _parsed(line: str, number: int) -> dict[str, Any]:
    try:
        found = parse_json(f"line {number}", line.encode())
    except AssentError as error:
        raise _DamageError(str(error)) from None
    except UnicodeEncodeError:
        raise _DamageError(f"line {number} is no text") from None
    if not isinstance(found, dict) or canonical(found) != line:
        raise _DamageError(f"line {number} is not as the ledger writes it")
    return found


def check_receipt(receipt: Any, name: str = "receipt") -> list[Finding]:
    """Return what is wrong with a receipt by itself: its record, its leaf, the path to its seal, the seal.

    Everything in it is checked: a receipt with a word more or another date is none.
    """
    try:
        canonical(receipt).encode()
    except (TypeError, ValueError, RecursionError):
        return [Finding(name, "is no JSON")]
    match receipt:
        case {
            "dpv:hasRecordOfActivity": {
                "dct:identifier": str(id), "dpv:hasDataController": {"dct:identifier": str()}
            } as record,
            "proof": {
                "ledger": str(),
                "salt": str(salt),
                "leaf": {"at": str(), "event": str(), "digest": str(), "facts": dict()} as leaf,
                "path": list(path),
                "previous": str(previous),
                "seal": {"at": str(), "root": str(), "head": str()} as seal,
            } as proof,
        } if (
            all(isinstance(each, str) and _HEX.fullmatch(each) for each in (salt, *path))
            and set(proof) == _PROOF_KEYS
            and set(leaf) == set(_LEAF_KEYS)
            and set(seal) == set(_SEAL_KEYS)
            and all(map(_is_number, (leaf["leaf"], seal["seal"], seal["first"], seal["count"])))
        ):  # fmt: skip
            pass
        case _:
            return [Finding(name, "is no receipt of assent's")]
    found = []
    if canonical(receipt) != canonical(receipt_of(id, record, proof)):
        found.append(Finding(name, "what is around its record is not as it was written"))
    if digest_of(record, salt) != leaf["digest"]:
        found.append(Finding(name, "its record is not the one that was sealed"))
    place = leaf["leaf"] - seal["first"]
    if (
        not 0 <= place < seal["count"]
        or root_by_path(leaf_hash(leaf), place, seal["count"], path) != seal["root"]
    ):
        found.append(Finding(name, "its event is not among those that were sealed"))
    if head_of(previous, seal) != seal["head"]:
        found.append(Finding(name, "its seal does not follow from the seal before it"))
    return found


def _is_number(value: Any) -> bool:
    """Whether a value counts events or seals; true and false do not."""
    return type(value) is int and 0 <= value < 2**63


def is_ledger(file: Path) -> bool:
    """Return whether a file begins like an exported ledger."""
    try:
        with file.open("rb") as opened:
            return b'"assent_ledger"' in opened.read(4096).split(b"\n", 1)[0]
    except OSError:
        return False


def check_files(
    ledger: Path, receipts: Sequence[Path] = (), heads: Collection[str] = ()
) -> tuple[Summary, list[Finding]]:
    """Check an exported ledger, and receipts and heads that were kept against it."""
    named = {str(each): parse_json(each, _content(each)) for each in receipts}
    try:
        with ledger.open(encoding="utf-8", newline="\n", errors="surrogateescape") as lines:
            return check_ledger(lines, str(ledger), named, heads)
    except OSError as error:
        raise AssentError(f"{ledger}: {error.strerror}") from None


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise AssentError(f"{file}: {error.strerror}") from None
