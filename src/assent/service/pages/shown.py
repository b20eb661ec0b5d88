"""How people's pages show an entry, a wish, a receipt and a recommendation, in words."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final
from urllib.parse import quote

from markupsafe import Markup, escape

from assent.service.entries import Row
from assent.service.pages.render import options, sent
from assent.service.serving import Recommendation
from assent.service.texts import Texts
from assent.service.wishes import Past

_BETWEEN: Final = "\0"


def entry_rows(texts: Texts, entry: str, rows: Sequence[Row], before: Mapping[str, str]) -> Markup:
    """Return the rows of the list as HTML; `before` has earlier states by item.

    This page is asked most and has most in it: drawn here, rows take a fifth of the time of a template. What
    comes from the platform is escaped, all at once; what many rows have alike is drawn once and kept.
    """
    if not rows:
        return Markup("")
    told = [text for row in rows for text in (row.item, row.title or row.item, about(texts, row))]
    safe = iter(str(escape(_BETWEEN.join(told))).split(_BETWEEN))  # nothing that is told has such a mark
    links = quote(_BETWEEN.join([row.item for row in rows]), safe=_BETWEEN).split(_BETWEEN)
    drawn = []
    for place, (row, link, item, name, what) in enumerate(zip(rows, links, safe, safe, safe, strict=True)):
        judged, was, offered = _judged(
            texts,
            row.state,
            row.unwillingness,
            row.source,
            row.source_target,
            row.decided_unwillingness,
            row.reason,
            before.get(row.item),
        )
        drawn.append(
            f'<tr><th scope="row"><a id="e{place}" href="{entry}{link}">'
            f"<bdi>{name}</bdi></a><small>{what}</small></th>{judged}"
            f'<td><input type="hidden" name="item" value="{item}">{was}'
            f'<select name="choice" aria-labelledby="choice e{place}">{offered}</select></td></tr>'
        )
    return Markup("\n".join(drawn))


@lru_cache(maxsize=10_000)
def _judged(
    texts: Texts,
    state: str,
    unwillingness: float,
    source: str,
    source_target: str | None,
    decided: float | None,
    reason: str | None,
    before: str | None,
) -> tuple[str, str, str]:
    """Return what became of an entry, which choice it has, and those that it is offered, as HTML."""
    row = Row(
        item="",
        title=None,
        categories=(),
        at=0.0,
        unwillingness=unwillingness,
        source=source,
        source_target=source_target,
        said=None,
        state=state,
        decided_unwillingness=decided,
        reason=reason,
        value=None,
        cost=None,
        break_even=None,
        worth_owner=None,
        worth_everybody=None,
        together=None,
    )
    word, why = escape(texts(f"state.{state}")), escape(texts.why(row))
    earlier = "" if before is None else f"<small>{escape(before_shown(texts, before))}</small>"
    own = unwillingness if source == "item" else None
    inherited = None if own is not None else unwillingness
    return (
        f'<td><span class="pill {state}">{word}</span>{earlier}<small>{why}</small></td>',
        f'<input type="hidden" name="was" value="{escape(sent(own))}">',
        str(options(texts, own, source, inherited, source_target)),
    )


def before_shown(texts: Texts, state: str) -> str:
    """Return what became of an entry in the model before."""
    return texts("entry.before", state=texts(f"state.{state}"))


def about(texts: Texts, row: Row) -> str:
    """Return when something was, and what it is."""
    return " · ".join([texts.day(row.at), *([", ".join(row.categories)] if row.categories else [])])


def what_of(texts: Texts, scope: str, target: str, withdrawal: bool) -> str:
    """Return what a wish is about."""
    if withdrawal:
        return texts("wish.withdrawal")
    return {"everything": texts("wish.everything"), "category": texts("wish.category", target=target)}.get(
        scope, target
    )


def choice_of(texts: Texts, unwillingness: float | None) -> str:
    """Return what a wish says."""
    return texts("wish.taken") if unwillingness is None else texts.choice(unwillingness)


def wish_shown(texts: Texts, wish: Past, receipts: str) -> dict[str, Any]:
    """Return a wish and how far it is; `receipts` is what the addresses of receipts begin with."""
    to = choice_of(texts, wish.unwillingness)
    before = None if wish.before is None else texts.choice(wish.before)
    if wish.withdrawal:
        change = texts("wish.withdrew")
    elif wish.unwillingness is None:
        change = texts("wish.back", before=before or texts("choice.none"))
    else:
        change = texts("wish.from", before=before, to=to) if before else texts("wish.first", to=to)
    return {
        "what": wish.title or what_of(texts, wish.scope, wish.target, wish.withdrawal),
        "to": to,
        "change": change,
        "requested": wish.requested,
        "ended": None if wish.ended is None else texts("wish.ended", when=texts.when(wish.ended)),
        "steps": [
            {
                "name": texts(f"step.{state}"),
                "at": getattr(wish, state),
                "receipt": f"{receipts}{wish.receipts[state]}" if state in wish.receipts else None,
            }
            for state in ("requested", "decided", "trained", "served")
        ],
    }


def how_trained(texts: Texts, receipt: Mapping[str, Any]) -> list[str]:
    """Return sentences that say what holds of the training that a receipt speaks of."""
    event = receipt["dpv:hasRecordOfActivity"]["events"][0]
    if event["state"] != "trained":
        return []
    values = event["outcome"].get("values_of_model")
    more = [] if values is None else [texts("receipt.trained.values", n=values)]
    return [texts("receipt.trained.how"), *more]


def recommendation_shown(texts: Texts, each: Recommendation) -> dict[str, Any]:
    """Return a recommendation, and why it is made."""
    names = [f"“{one.title or one.item}”" for one in each.because]
    why = texts("recommendations.popular")
    if names:
        joined = f" {texts('recommendations.and')} ".join(
            [", ".join(names[:-1]), names[-1]] if names[1:] else names
        )
        why = texts("recommendations.because", items=joined)
    return {"item": each.item, "name": each.title or each.item, "why": why}
