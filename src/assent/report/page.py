"""The page of a run: the headline, then a section per question, in one file that loads nothing."""

import json
from collections.abc import Iterator, Mapping
from importlib import resources

from assent.report.data import ReportData, check
from assent.report.facts import (
    between,
    certificate_facts,
    headline,
    in_figures,
    relative,
)
from assent.report.sections import examples_section, frontier_section, methods_section, withheld_section
from assent.results.records import NOTHING, name
from assent.results.words import NONE, decimals_for, fixed, listed, number, percent, plural, share
from assent.results.writers import Html, bullets, header, join, section, tag, void

_RANKED = {
    "paper-tables": "each person’s last interaction was ranked among sampled other items",
    "paper-text": "the last fifth of each person’s interactions was ranked among all items",
    "full": "each person’s last interaction was ranked among all items",
}
_GLOSSARY = {
    "interaction": "one thing that one person did with one item, at one time.",
    "unwillingness": "how much its owner minds its use, from 0 (use it freely) to 1 (never use it).",
    "selection": "the decision for each interaction: disclosed, or withheld from the recommender altogether.",
    "price": "how much recommendation loss one unit of unwillingness is held to be worth. "
    "A high price withholds more.",
    "violation": "the unwillingness that a selection discloses, summed per person and averaged over people.",
    "reward": "what a person gets: minus their loss on the validation interactions, minus price times the "
    "unwillingness that is disclosed of them.",
}
_LIMITS = (
    "Quality was measured on held-out interactions of a log. How people would react to the "
    "recommendations, or to being asked, is not in it.",
    "What people marked as “never” was left out from the start: it is in no figure, not even in All’s.",
    "A value is an estimate of what one interaction does to a loss. It can be wrong for single interactions, "
    "and does not add up exactly over many.",
)
_SAMPLED = (
    "Ranking among sampled items is easier than among all, and may order methods differently; "
    "the protocol “full” ranks among all."
)


def background_section(data: ReportData) -> Html:
    """Settings and seeds, glossary, limits."""
    users, items = (data.selection[column].n_unique() for column in ("user", "item"))
    seeds = sorted({record["seed"] for record in (*data.records, *data.frontier)})
    ranked = f" ({_RANKED[data.protocol]})" if data.protocol in _RANKED else ""
    done = (
        f"{data.dataset}: {plural(data.selection.height, 'training interaction')} of {plural(users, 'user')} "
        f"with {plural(items, 'item')}. Protocol {data.protocol}{ranked}. "
        f"Models were trained with {plural(len(seeds), 'seed')}: {listed([str(seed) for seed in seeds])}."
    )
    return section(
        "What was done",
        tag("p", done),
        tag("div", *_setting_tables(data.settings), class_="settings"),
        tag("h3", "Six words"),
        tag("dl", *(join([tag("dt", word), tag("dd", text)]) for word, text in _GLOSSARY.items())),
        tag("h3", "What this cannot tell"),
        bullets([*_LIMITS, _SAMPLED] if "paper-tables" in data.protocol else _LIMITS),
    )


def _setting_tables(settings: Mapping[str, object]) -> Iterator[Html]:
    """A small table for the single settings, then one for each group of them."""
    single = {key: value for key, value in settings.items() if not isinstance(value, Mapping)}
    groups = {key: value for key, value in settings.items() if isinstance(value, Mapping)}
    for caption, group in (("run", single), *groups.items()):
        rows = (
            tag("tr", header(_spaced(key), scope="row"), tag("td", _shown(value)))
            for key, value in _flat(group)
        )
        if group:
            yield tag("table", tag("caption", _spaced(caption)), tag("tbody", *rows))


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


def build_report(data: ReportData) -> str:
    """The whole report as one HTML file; the same data give the same bytes."""
    check(data)
    facts = certificate_facts(data.certificate)
    trust = section("How far to trust the decision", bullets(facts)) if facts else ""
    return page(
        f"assent report: {data.dataset}",
        _opening(data),
        frontier_section(data),
        methods_section(data),
        withheld_section(data.selection),
        examples_section(data),
        trust,
        background_section(data),
    )


def page(title: str, *sections: str) -> str:
    """A whole page that loads nothing and runs nothing."""
    style = resources.files("assent.report").joinpath("style.css").read_text(encoding="utf-8")
    # The policy makes browsers enforce that nothing is loaded or run, whatever a title or an id contains.
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    head = tag(
        "head",
        void("meta", charset="utf-8"),
        void("meta", http_equiv="Content-Security-Policy", content=policy),
        void("meta", name="viewport", content="width=device-width, initial-scale=1"),
        void("meta", name="color-scheme", content="light dark"),
        void("link", rel="icon", href="data:,"),
        tag("title", title),
        tag("style", Html(style)),
    )
    body = tag("body", tag("main", *sections))
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"


def _opening(data: ReportData) -> Html:
    """The headline, the figures behind it and three large ones."""
    (paid, everything), people = data.minded, data.selection["user"].n_unique()
    disclosed, rows = int(data.selection["disclosed"].sum()), data.selection.height
    decimals = decimals_for([everything / people])
    of = " of ".join(fixed(each / people, decimals) for each in (paid, everything))
    cards = [
        _large(share(data.violation_share), "of what people mind is disclosed", f"{of} per person"),
        _large(share(disclosed / rows), "of the interactions are disclosed", f"{disclosed:,} of {rows:,}"),
        _quality(data),
    ]
    kind = "live run" if data.is_live else "experiment"
    return tag(
        "header",
        tag("p", f"assent report · {data.dataset} · {name(data.way)} · {kind}", class_="kicker"),
        tag("h1", f"{headline(data)}."),
        tag("p", " ".join(in_figures(data)), class_="lede"),
        tag("div", *cards, class_="cards"),
    )


def _quality(data: ReportData) -> Html:
    """The quality as the headline speaks of it: as a share of All's, or else against Nothing's."""
    if data.kept is not None:
        return _large(relative(data.kept.mean), "of the quality with everything", between(data.kept))
    decimals = decimals_for([100 * data.reached.mean])
    nothing = data.reached.mean - data.above_nothing.mean
    if data.way == NOTHING or nothing <= 0:
        return _large(percent(data.reached.mean, decimals), "is the quality", data.metric)
    times = number(data.reached.mean / nothing, 2)
    reached = f"{data.metric} of {percent(data.reached.mean, decimals)}"
    return _large(
        f"{times} ×", "the quality with nothing", f"{reached}, against {percent(nothing, decimals)}"
    )


def _large(figure: str, what: str, detail: str) -> Html:
    parts = {"figure": figure, "what": what, "detail": detail}
    return tag("div", *(tag("span", text, class_=name) for name, text in parts.items()), class_="card")
