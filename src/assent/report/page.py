"""The page of a run: the headline, then a section per question, in one file that loads nothing."""

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping
from hashlib import sha256
from importlib import resources

from assent.report.data import ReportData, check
from assent.report.facts import between, certificate_facts, headline, in_figures, relative, trust_facts
from assent.report.glossary import Glossary
from assent.report.sections import (
    Section,
    examples_section,
    frontier_section,
    methods_section,
    withheld_section,
)
from assent.results.records import NOTHING, k_of, name
from assent.results.words import NONE, decimals_for, fixed, listed, number, percent, plural, share
from assent.results.writers import Html, bullets, header, join, section, tag, void

_RANKED = {
    "paper-tables": "each person’s last interaction was ranked among sampled other items",
    "paper-text": "the last fifth of each person’s interactions was ranked among all items",
    "full": "each person’s last interaction was ranked among all items",
}
_HELD_OUT = {
    "paper-tables": "each person’s two latest interactions",
    "paper-text": "the latest three tenths of each person’s interactions",
    "full": "each person’s two latest interactions",
}
_BY_THE_LOG = "the interactions that the log’s own split sets apart"
_NEVER = (
    "What people marked “never” was turned away before anything was read. It is in no model and in no "
    "figure, not even in All’s. What it would have added is unknown by design: nobody looks at it, so "
    "nobody can know."
)
_PROMISES = {
    "Never is never.": "An interaction of unwillingness 1 is turned away at the door: adding, changing or "
    "removing it changes no byte of any model, decision, figure or recommendation of anybody. Its owner "
    "still sees it listed as “never used”.",
    "Withheld stays out of the model.": "Given the decisions, a withheld interaction changes no byte of the "
    "model that is served.",
    "Closed above a limit.": "With closed={limit} interactions of unwillingness above {limit} are not looked "
    "at to decide either: they are withheld unread, and promise 1 holds for them end to end.",
}
"""The promises, in their own words; the last where there is a limit."""
_LIMITS = (
    "Quality was measured on past interactions of a log. How people would react to the recommendations, "
    "or to being asked, is not in it.",
    _NEVER,
    "A value is an estimate of what one interaction does to a loss. It can be wrong for single interactions, "
    "and does not add up exactly over many.",
)
_SAMPLED = (
    "Ranking among sampled items is easier than among all, and may order methods differently; "
    "the protocol “full” ranks among all."
)


def background_section(data: ReportData) -> Section:
    """What was done with which interactions, settings and seeds, limits."""
    content = [
        *(tag("p", paragraph) for paragraph in _done(data)),
        tag("h3", "What is promised"),
        tag("ol", *_promises(data)),
        tag("h3", "What this cannot tell"),
        bullets([*_LIMITS, _SAMPLED] if "paper-tables" in data.protocol else _LIMITS),
        tag("h3", "Settings"),
        tag("div", *_setting_tables(data.settings), class_="settings"),
    ]
    return Section("What was done", join(content))


def _promises(data: ReportData) -> list[Html]:
    limit = data.settings.get("closed")
    said = [*_PROMISES.items()][: 2 if limit is None else 3]
    return [tag("li", tag("b", name), f" {text.format(limit=limit)}") for name, text in said]


def _done(data: ReportData) -> list[str]:
    """Which interactions were decided on, trained on and measured with."""
    users, items = (data.selection[column].n_unique() for column in ("user", "item"))
    disclosed, rows = int(data.selection["disclosed"].sum()), plural(data.selection.height, "interaction")
    log = f"{data.dataset}: {rows} of {plural(users, 'person', 'people')} with {plural(items, 'item')}"
    held_out = _HELD_OUT.get(data.protocol, _BY_THE_LOG)
    ranked = f": {_RANKED[data.protocol]}" if data.protocol in _RANKED else ""
    seeds = sorted({record["seed"] for record in (*data.records, *data.frontier)})
    drawn = f"Models were trained with {plural(len(seeds), 'seed')}: {listed([str(seed) for seed in seeds])}."
    if not data.is_live:
        return [
            f"{log} were decided on. This is an experiment: {held_out} measured the quality, in aggregate. "
            "Nobody decided on them, and the model has not learnt from them.",
            f"Protocol {data.protocol}{ranked}. {drawn}",
        ]
    split = f"on a split, with models that are not kept. So {held_out} have also measured the quality"
    if data.measured_in is not None:
        split = f"in {data.measurement}; its settings and weights are kept: by {held_out} then"
    measured = f"The quality was measured {split}, in aggregate. Protocol {data.protocol}{ranked}. {drawn}"
    if data.settings.get("grade") == "prompt" and data.settings.get("vectors") == "trained":
        return [
            f"{log} were decided on: every one that may be looked at, the latest too. The model that is "
            f"published is trained on all {disclosed:,} that are disclosed now, and on nothing else. What "
            "interactions are worth, the model’s settings and the length of its training were found before, "
            "also with interactions that went since, or are withheld since. They stay until the next exact "
            "update.",
            measured,
        ]
    if data.settings.get("grade") == "prompt":
        return [
            f"{log} were decided on: every one that may be looked at, the latest too. People’s own vectors "
            f"come from all {disclosed:,} that are disclosed now. What interactions are worth and the items’ "
            "vectors were measured before: interactions that went since, or are withheld since, still have "
            "a part in these, until the next exact update.",
            measured,
        ]
    return [
        f"{log} were decided on: every one that may be looked at, the latest too. The model that is "
        f"published is trained on all {disclosed:,} that are disclosed. Its settings and the length of its "
        "training were found on disclosed interactions alone.",
        measured,
    ]


def trust_section(data: ReportData) -> Section:
    """How far to trust the run, in plain words and in figures."""
    return Section("How far to trust this", bullets(trust_facts(data)), certificate_facts(data.certificate))


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
    glossary = Glossary(k_of(data.records))
    opening = _opening(data)
    sections = [
        frontier_section(data),
        withheld_section(data.selection),
        examples_section(data),
        trust_section(data),
        methods_section(data),
        background_section(data),
    ]
    return page(
        f"assent report: {data.dataset}",
        tag("header", *opening, glossary.of(*opening)),
        *(_section(each, glossary) for each in sections),
    )


def _section(each: Section, glossary: Glossary) -> Html:
    """A section with the words that it uses first, and with what is folded away."""
    words, folded = glossary.of(each.title, each.content), ""
    if each.researchers:
        more = bullets(each.researchers)
        folded = tag("details", tag("summary", "For researchers"), glossary.of(more), more)
    return section(each.title, words, each.content, folded)


def page(title: str, *sections: str, script: str = "") -> str:
    """A whole page that loads nothing and runs nothing but `script`, which is assent's own."""
    style = resources.files("assent.report").joinpath("style.css").read_text(encoding="utf-8")
    # The policy makes browsers enforce that nothing else is loaded or run, whatever a title or id contains.
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    if script:
        known = b64encode(sha256(script.encode()).digest()).decode()
        policy += f"; script-src 'sha256-{known}'"
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
    body = tag("body", tag("main", *sections), tag("script", Html(script)) if script else "")
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"


def _opening(data: ReportData) -> list[Html]:
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
    return [
        tag("p", f"assent report · {data.dataset} · {name(data.way)} · {kind}", class_="kicker"),
        tag("h1", f"{headline(data)}."),
        tag("p", " ".join(in_figures(data)), class_="lede"),
        tag("div", *cards, class_="cards"),
    ]


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
