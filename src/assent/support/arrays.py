"""Types of the arrays that packages hand to each other, small operations on them, random numbers by key.

A random number here is a function of its key, without state. A draw keyed by (seed, user, item) depends
neither on other rows or their order, nor on the process or the machine. So each positive has its own
negatives, and a withheld row leaves no trace.
"""

from collections.abc import Iterable, Iterator
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
"""float64 array; the owner's docstring gives the shape."""
Ints = npt.NDArray[np.int64]
"""int64 array, usually indices."""
Bools = npt.NDArray[np.bool_]
"""bool array; a *selection* has length `len(problem.train)`."""
Signs = npt.NDArray[np.int8]
"""int8 array of −1, 0 and 1."""
Strings = npt.NDArray[np.str_]
"""Unicode array, usually sorted ids."""
Keys = npt.NDArray[np.uint64]
"""uint64 array of hash values."""
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def sum_by(index: npt.NDArray[np.integer], weights: Floats, length: int) -> Floats:
    """Sum `weights[n]` over equal values of `index[n]`: [length]."""
    return np.bincount(index, weights=weights, minlength=length).astype(np.float64, copy=False)


def slices(length: int, size: int) -> Iterator[slice]:
    """Cut `range(length)` into slices of `size`, to bound memory; the last may be shorter."""
    for start in range(0, length, size):
        yield slice(start, min(start + size, length))


def positions(known: Ints | Strings, values: Ints | Strings) -> Ints:
    """Position of each of `values` in the sorted `known`; `len(known)` for values that are not in it."""
    if not len(known):
        return np.zeros(values.shape, dtype=np.int64)
    places = np.minimum(np.searchsorted(known, values), len(known) - 1)
    return np.where(known[places] == values, places, len(known))


def string_keys(names: Iterable[str]) -> Keys:
    """Hash each name to 64 bits (BLAKE2b), the same on every machine: [len(names)]."""
    digests = b"".join(blake2b(str(name).encode(), digest_size=8).digest() for name in names)
    return np.frombuffer(digests, dtype="<u8").astype(np.uint64)


def hash_arrays(*parts: bytes | npt.NDArray[np.generic]) -> str:
    """Hash bytes and arrays, with their types and shapes, to a short name, the same on every machine."""
    digest = blake2b(digest_size=16)
    for part in parts:
        kind, content = ("bytes", part) if isinstance(part, bytes) else (part.dtype.str, part.tobytes())
        digest.update(f"{kind} {len(content)} {np.shape(part)} ".encode() + content)
    return digest.hexdigest()


def mix(*parts: int | np.integer | npt.NDArray[np.integer]) -> Keys:
    """Hash integers or integer arrays, broadcast together, to one key per element (chained SplitMix64)."""
    number = np.zeros(1, dtype=np.uint64)
    for part in parts:
        number = splitmix64(number + np.asarray(part).astype(np.uint64))
    return number


def mixed(*parts: int) -> int:
    """Hash integers to a seed from 0 to 2³¹ − 1."""
    return int(mix(*parts).item()) >> 33


def uniform(keys: Keys) -> Floats:
    """Map each key to a number strictly between 0 and 1, made of its upper 52 bits."""
    numbers: Floats = ((keys >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
    return numbers


def uniforms(keys: Keys, count: int) -> Floats:
    """Draw `count` numbers strictly between 0 and 1 per key: [len(keys), count]."""
    return uniform(splitmix64(keys[:, None] + np.arange(count, dtype=np.uint64) * _GOLDEN))


def below(keys: Keys, bound: int) -> Ints:
    """Map each key to an integer in [0, bound); to 0 if `bound` < 1."""
    return (keys % np.uint64(max(bound, 1))).astype(np.int64)


def splitmix64(state: Keys) -> Keys:
    """One output of the SplitMix64 generator (Steele et al., 2014) per state, modulo 2⁶⁴."""
    z = state + _GOLDEN
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
