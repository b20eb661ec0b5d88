"""Words of the report, each explained in the section that uses it first."""

import re
from html import unescape

from assent.results.words import percent
from assent.results.writers import Html, join, tag

_SOFT_HYPHEN = "\u00ad"
_NO_TEXT = re.compile(r"<(style|title)\b.*?</\1>|<[^>]*>", re.DOTALL)


_WORDS = {
    "interaction": ("interactions?", "one thing that one person did with one item, at one time."),
    "unwillingness": (
        "[Uu]nwillingness|what people mind|would rather not share",
        "how much a person minds that an interaction is used: 0 is “use it freely”, 1 is “never use it”. "
        "What people mind is the sum of it.",
    ),
    "disclosed": (
        "disclos(?:e|ed|es|ing)|[Ww]ithh(?:old|eld)",
        "used: the recommender learns from it. The opposite is withheld: it stays out of the model.",
    ),
    "quality": (
        "[Qq]uality|NDCG@.*",
        "how far up the right item stands among the first {k} suggestions (NDCG@{k}): {whole} is always "
        "first, {none} never among them.",
    ),
    "between … and …": (
        "between [0-9.]+\u202f%|interval",
        "what the figure is, but for chance: with other people or other random numbers it would lie "
        "between such limits in 95 of 100 cases.",
    ),
    "All": (
        "All|[Ww]ith everything|[Uu]sing everything",
        "a model that uses everything. What people marked “never” is not in it.",
    ),
    "Nothing": (
        "Nothing|[Ww]ith nothing|[Uu]sing nothing",
        "a model that has learnt from no interaction at all.",
    ),
    "violation": (
        "[Vv]iolation",
        "the unwillingness of what is disclosed, summed for each person and averaged over people.",
    ),
    "price": (
        "[Pp]rices?",
        "how much loss one unit of unwillingness is held to be worth. A high price withholds more.",
    ),
    "seed": (
        "seeds?",
        "what a training’s random numbers begin with. Several seeds show how much is chance.",
    ),
    "standard error": ("standard errors?", "how far off a mean typically is, by chance."),
    "worth": (
        "worth|Worth to|[Vv]alues?",
        "an estimate of how much loss disclosing one interaction takes away. It is rough for one alone, and "
        "does not add up exactly over many.",
    ),
    "reward": (
        "[Rr]ewards?",
        "what a person gets: minus their loss, minus price times the unwillingness that is disclosed of "
        "them.",
    ),
    "loss": (
        "loss(?:es)?(?: units?)?",
        "what training makes small: how badly a model foresees what a person does next. Losses compare with "
        "each other, and mean nothing alone.",
    ),
}
"""For each word, how it is found in a text, and its meaning."""


class Glossary:
    """The words that no section has explained yet."""

    def __init__(self, k: int) -> None:
        """Explain quality as that of lists of `k` items."""
        figures = {"k": k, "whole": percent(1), "none": percent(0)}
        self._left = {word: (said, text.format(**figures)) for word, (said, text) in _WORDS.items()}

    def of(self, *parts: str) -> Html:
        """Explain the words of these parts of a page, and of the explanations, that stand in none before."""
        text, found = unescape(_NO_TEXT.sub(" ", join(parts))).replace(_SOFT_HYPHEN, ""), dict[str, str]()
        while new := {
            word: meaning
            for word, (said, meaning) in self._left.items()
            if word not in found and re.search(rf"(?<![\w@])(?:{said})(?!\w)", text)
        }:
            found |= new
            text = " ".join(new.values())
        self._left = {word: each for word, each in self._left.items() if word not in found}
        if not found:
            return Html("")
        entries = (
            tag("div", tag("dt", tag("dfn", word)), tag("dd", found[word]))
            for word in _WORDS
            if word in found
        )
        return tag("aside", tag("dl", *entries), class_="words", aria_label="What words mean")
