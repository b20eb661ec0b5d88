"""Numbers, lists and names in words: percent, significant digits, narrow spaces, no control characters."""

import math
import unicodedata
from collections.abc import Iterable, Sequence

THIN = "\u202f"
"""Narrow space that does not break: between a number and its unit."""
MINUS = "\u2212"
NONE = "\u2013"
"""Stands where there is no number."""
_JOINERS = "\u200c\u200d"
"""Join letters of Persian and of Indian scripts, and parts of emoji; they move no text."""
_LONGEST = 15
"""Most digits before the point that are written out."""
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def fixed(value: float, decimals: int) -> str:
    """`value` with that many decimals, thousands separated; never a negative zero."""
    text = f"{abs(value):,.{decimals}f}"
    return f"{MINUS}{text}" if value < 0 and any(digit in text for digit in "123456789") else text


def number(value: float, digits: int = 3) -> str:
    """`value` with so many significant digits; ∞ for infinity, powers of ten for the very small and large."""
    if math.isinf(value):
        return "∞" if value > 0 else f"{MINUS}∞"
    if value == 0:
        return "0"
    exponent = math.floor(math.log10(abs(value)))
    if not -4 <= exponent < _LONGEST:
        mantissa, power = f"{value:.1e}".split("e")
        return f"{fixed(float(mantissa), 1)}·10{str(int(power)).translate(_SUPERSCRIPTS)}"
    return fixed(value, max(0, digits - 1 - exponent))


def share(fraction: float) -> str:
    """A share in whole percent; only nothing reads as 0 % and only everything as 100 %."""
    whole = round(100 * fraction)
    if whole == 0 and fraction > 1e-9:
        return f"<1{THIN}%"
    if whole == 100 and fraction < 1 - 1e-9:
        return f">99{THIN}%"
    return f"{whole}{THIN}%"


def percent(fraction: float, decimals: int = 0, error: float | None = None) -> str:
    """A fraction in percent, with its standard error if given."""
    mean = fixed(100 * fraction, decimals)
    return f"{mean}{THIN}%" if error is None else f"{mean}{THIN}±{THIN}{fixed(100 * error, decimals)}{THIN}%"


def decimals_for(values: Iterable[float]) -> int:
    """Decimals that give the largest of `values` three significant digits (at least 0, at most 3)."""
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    return min(3, max(0, 2 - math.floor(math.log10(largest)))) if largest else 1


def minded(unwillingness: float) -> str:
    """Unwillingness in two digits; a little never reads as 0, nor what is below 1 as 1 ("never")."""
    return ">0.99" if 0.995 <= unwillingness < 1 else number(unwillingness, 2)


def not_given(rest: object) -> str:
    """What follows an unwillingness that its owner did not give; `rest` is the rule that filled it in."""
    return f"(not given: {rest})" if rest else "(not given)"


def listed(words: Sequence[str]) -> str:
    """a; a and b; a, b and c."""
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1]))) if words else ""


def plural(n: int, singular: str, several: str = "") -> str:
    """A count with its noun: 1 seed, 4 seeds; `several` is a plural without an s: 4 people."""
    return f"{n:,} {singular}" if n == 1 else f"{n:,} {several or f'{singular}s'}"


def printable(text: str) -> str:
    """Return text as one line in which nothing acts: control characters are written as \\x1b or \\u202e.

    Ids, titles and file names come from outside. On a terminal an escape sequence among them could hide or
    change lines; an override of the direction could show a word as another.
    """
    if text.isprintable():
        return text
    return "".join(_escape(each) if _acts(each) else each for each in text)


def _acts(character: str) -> bool:
    """Whether a character is a control, a line break, a format character or half of a character."""
    return unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") and character not in _JOINERS


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
