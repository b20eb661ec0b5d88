"""What was done: settings, what the words mean, and what the report cannot tell."""

import json
from collections.abc import Iterator, Mapping

from assent.report.data import ReportData
from assent.report.html import Html, bullets, header, join, paragraph, tag
from assent.report.numbers import NONE, listed, plural

_RANKED = {
    "paper-tables": "each person’s last interaction was ranked among sampled other items",
    "paper-text": "the last fifth of each person’s interactions was ranked among all items",
    "full": "each person’s last interaction was ranked among all items",
}
_GLOSSARY = {
    "interaction": "one thing that one person did with one item, at one time.",
    "unwillingness": "how much she minds its use, from 0 (use it freely) to 1 (never use it).",
    "selection": "the decision for each interaction: disclosed, or withheld from the recommender altogether.",
    "price": "how much recommendation loss one unit of unwillingness is held to be worth. "
    "A high price withholds more.",
    "violation": "the unwillingness that a selection discloses, summed per person and averaged over people.",
    "reward": "what a person gets: minus her loss on the validation interactions, minus price times what is "
    "disclosed of her unwillingness.",
}
_SAMPLED = (
    "Ranking among sampled items is easier than among all, and may order methods differently; "
    "the protocol “full” ranks among all."
)


def background_section(data: ReportData) -> Html:
    """Settings and seeds, glossary, limits."""
    return tag(
        "section",
        tag("h2", "What was done"),
        paragraph(_done(data)),
        tag("div", *_setting_tables(data.settings), class_="settings"),
        tag("h3", "Six words"),
        tag("dl", *(join([tag("dt", word), tag("dd", text)]) for word, text in _GLOSSARY.items())),
        tag("h3", "What this cannot tell"),
        bullets(_limits(data)),
    )


def _done(data: ReportData) -> str:
    users, items = (data.selection[column].n_unique() for column in ("user", "item"))
    seeds = sorted({record["seed"] for record in (*data.records, *data.frontier)})
    ranked = f" ({_RANKED[data.protocol]})" if data.protocol in _RANKED else ""
    return (
        f"{data.dataset}: {plural(data.selection.height, 'training interaction')} of {plural(users, 'user')} "
        f"with {plural(items, 'item')}. Protocol {data.protocol}{ranked}. "
        f"Models were trained with {plural(len(seeds), 'seed')}: {listed([str(seed) for seed in seeds])}."
    )


def _setting_tables(settings: Mapping[str, object]) -> Iterator[Html]:
    """A small table for the single settings, then one for each group of them."""
    single = {key: value for key, value in settings.items() if not isinstance(value, Mapping)}
    if single:
        yield _setting_table("run", single)
    for key, value in settings.items():
        if isinstance(value, Mapping) and value:
            yield _setting_table(key, value)


def _setting_table(caption: str, settings: Mapping[str, object]) -> Html:
    rows = (
        tag("tr", header(_spaced(key), scope="row"), tag("td", _shown(value)))
        for key, value in _flat(settings)
    )
    return tag("table", tag("caption", _spaced(caption)), tag("tbody", *rows))


def _flat(settings: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from ((f"{key} › {inner}", leaf) for inner, leaf in _flat(value))
        else:
            yield key, value


def _shown(value: object) -> str:
    match value:
        case None | "":
            return NONE
        case bool():
            return "yes" if value else "no"
        case int() | str():
            return str(value)
        case float():
            return f"{value:g}"
        case list() | tuple():
            return ", ".join(map(_shown, value)) or NONE
        case _:
            return json.dumps(value, ensure_ascii=False, default=str)


def _spaced(key: str) -> str:
    return key.replace("_", " ")


def _limits(data: ReportData) -> list[str]:
    limits = [
        "Quality was measured on held-out interactions of a log. How people would react to the "
        "recommendations, or to being asked, is not in it.",
        "What people marked as “never” was left out from the start: it is in no figure, not even in All’s.",
        "A value is an estimate of what one interaction does to a loss. It can be wrong for "
        "single interactions, and does not add up exactly over many.",
    ]
    return [*limits, _SAMPLED] if "paper-tables" in data.protocol else limits
