"""The page: the headline, then a section per question, in one file that loads nothing from anywhere."""

from importlib import resources

from assent.report.background import background_section
from assent.report.data import ALL, ReportData, checked, kept, mean, spread
from assent.report.html import Html, tag, void
from assent.report.numbers import NONE, THIN, decimals_for, fixed, percent, plural, share
from assent.report.sections import examples_section, frontier_section, methods_section, withheld_section
from assent.report.trust import trust_section
from assent.report.words import headline, in_figures, name, relative


def build_report(data: ReportData) -> str:
    """The whole report as one HTML file; the same data give the same bytes."""
    data = checked(data)
    main = tag(
        "main",
        _opening(data),
        frontier_section(data),
        methods_section(data),
        withheld_section(data.selection),
        examples_section(data),
        trust_section(data),
        background_section(data),
    )
    page = tag("html", head(f"assent report: {data.dataset}"), tag("body", main), lang="en")
    return f"<!DOCTYPE html>\n{page}\n"


def head(title: str) -> Html:
    """The head of a page that loads nothing and runs nothing."""
    style = resources.files("assent.report").joinpath("style.css").read_text(encoding="utf-8")
    # The policy makes browsers enforce that nothing is loaded or run, whatever a title or an id contains.
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    return tag(
        "head",
        void("meta", charset="utf-8"),
        void("meta", http_equiv="Content-Security-Policy", content=policy),
        void("meta", name="viewport", content="width=device-width, initial-scale=1"),
        void("meta", name="color-scheme", content="light dark"),
        void("link", rel="icon", href="data:,"),
        tag("title", title),
        tag("style", Html(style)),
    )


def _opening(data: ReportData) -> Html:
    """The headline, the figures behind it and three large ones."""
    kicker = tag("p", f"assent report · {data.dataset} · {name(data.way)}", class_="kicker")
    lede = tag("p", " ".join(in_figures(data)), class_="lede")
    return tag("header", kicker, tag("h1", f"{headline(data)}."), lede, _large_figures(data))


def _large_figures(data: ReportData) -> Html:
    run = data.of(data.way)
    violation, everything = mean(run, "violation"), mean(data.of(ALL), "violation")
    disclosed, rows = int(data.selection["disclosed"].sum()), data.selection.height
    decimals = decimals_for([everything])
    return tag(
        "div",
        _large(
            share(mean(run, "violation_share")),
            "of the unwillingness is disclosed",
            f"{fixed(violation, decimals)} of {fixed(everything, decimals)} per person",
        ),
        _large(share(disclosed / rows), "of the interactions are disclosed", f"{disclosed:,} of {rows:,}"),
        _quality(data),
        class_="cards",
    )


def _quality(data: ReportData) -> Html:
    quality = kept(data.of(data.way), data.of(ALL))
    if quality is None:
        return _large(NONE, "of the quality with everything", "which finds no test item")
    return _large(relative(quality.ratio), "of the quality with everything", _certainty(data, quality.error))


def _certainty(data: ReportData, error: float | None) -> str:
    """How far to trust the ratio: its standard error or, for one seed, how much All varies between seeds."""
    if error is not None:
        runs = plural(len(data.of(data.way)), "seed")
        return f"±{THIN}{percent(error, 1)}, standard error over {runs}"
    chance = spread(data)
    varies = "" if chance is None else f"; All varies by ±{THIN}{percent(chance, 1)} between seeds"
    return f"measured with one seed{varies}"


def _large(figure: str, what: str, detail: str) -> Html:
    return tag(
        "div",
        tag("span", figure, class_="figure"),
        tag("span", what, class_="what"),
        tag("span", detail, class_="detail"),
        class_="card",
    )
