"""Recommendations from what is disclosed now, by the model in service.

A person's vector is folded in from the items that they disclose at the moment of the request, which is exact
given the items' vectors. An interaction counts as disclosed if the model in service used it and its owner has
not said never, closed or deleted it since. Where its owner minds it more than when that was decided, it
counts only if its worth still pays for it. What is newly allowed waits for the next decision.

Every request asks the database for the person's version and the model in service, so that changes made by
other processes hold from the next request on.
"""

import json
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from threading import Lock
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import TypeAdapter
from sqlalchemy import and_, bindparam, select
from sqlalchemy.orm import Session

from assent.models import IALS
from assent.runs.folder import open_run
from assent.runs.recommend import GENERAL, OWN, popularity
from assent.service.database import ConflictError, Query, given_rows, query, together
from assent.service.effective import Effective
from assent.service.entries import WHO, brought_by
from assent.service.settings import ServiceSettings
from assent.service.tables import Decision, Interaction, Item, Model, Person, Publication
from assent.service.wishes import Said, Standing, check, standing
from assent.support.errors import AssentError

NO_MODEL: Final = "none"
_LISTS: Final = 5_000
"""Lists that a process keeps for people of whom nothing changes."""
_REASONS: Final = 3
"""Items that are named for a recommendation."""
MOST: Final = 1000
"""Longest list."""
_LATER: Final = 2**62
"""The number of a wish that is only supposed: later than all that were said."""
_PRESENT: Final = Query(
    select(
        select(Publication.model_id).order_by(Publication.id.desc()).limit(1).scalar_subquery(),
        # Not the id: SQLite gives that of the last person out again once they are erased.
        select(Person.pseudonym).where(Person.user == bindparam("user")).scalar_subquery(),
        select(Person.version).where(Person.user == bindparam("user")).scalar_subquery(),
    )
)
_Present = tuple[str | int | None, ...]
Vector = npt.NDArray[np.float64]
_log = logging.getLogger("assent.service")


class UnreadableModelError(AssentError):
    """The model in service cannot be read: nobody can be recommended anything until it can."""

    def __init__(self) -> None:
        super().__init__("the model in service cannot be read: accepted: the same request later")


@dataclass(frozen=True)
class Because:
    """An item that its owner discloses and that speaks for a recommendation."""

    item: str
    title: str | None
    share: float
    """Of all that speaks for it, from 0 to 1."""


@dataclass(frozen=True)
class Recommendation:
    """One item of a list."""

    rank: int
    item: str
    title: str | None
    score: float
    because: tuple[Because, ...]


@dataclass(frozen=True)
class Recommendations:
    """A person's list."""

    basis: str
    """`own`: what they disclose; `general`: what most people do; `none`: no model is in service."""
    model: int | None
    items: tuple[Recommendation, ...]


_KEPT: Final = TypeAdapter(Recommendations)
"""Lists as bytes."""


@dataclass(frozen=True)
class Preview:
    """A person's list now, and as it would be."""

    now: Recommendations
    then: Recommendations
    gone: tuple[Recommendation, ...]
    new: tuple[Recommendation, ...]
    untold: int
    """Entries that could be used then, of which this model knows nothing: it was trained without them."""


class _Had(NamedTuple):
    """An interaction of the person who asks."""

    item: str
    unwillingness: float
    state: str | None
    decided: float | None
    value: float | None


class _Ranked(NamedTuple):
    item: str
    score: float
    because: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class _Loaded:
    """The model in service, in memory."""

    id: int
    price: float | None
    closed: float | None
    items: list[str]
    vectors: npt.NDArray[np.float32]
    """[items, d]"""
    alpha: float
    l2: float
    calibration: tuple[float, float]
    popular: list[tuple[str, float]]
    """Items with the share of people who disclose them, most first."""

    @cached_property
    def places(self) -> dict[str, int]:
        return {item: place for place, item in enumerate(self.items)}

    @cached_property
    def gram(self) -> Vector:
        wide = self.vectors.astype(np.float64)
        return self.alpha * (wide.T @ wide)

    def ranked(self, disclosed: Sequence[str], had: Sequence[str], k: int) -> tuple[str, list[_Ranked]]:
        """Return the basis and the k best items for somebody, without those that they have had."""
        hidden = {self.places[item] for item in had if item in self.places}
        known = sorted({self.places[item] for item in disclosed if item in self.places})
        if not known:
            best = [(item, share) for item, share in self.popular if item not in set(had)][:k]
            return GENERAL, [_Ranked(item, share, ()) for item, share in best]
        own = self.vectors[known].astype(np.float64)
        ridge = self.l2 * (len(known) + self.alpha * len(self.items))
        system = self.gram + own.T @ own + ridge * np.eye(own.shape[1])
        each = np.linalg.solve(system, own.T)  # the part of the person's vector that each item gives: [d, n]
        scores = self.vectors @ each.sum(axis=1).astype(np.float32)
        scores[list(hidden)] = -np.inf
        number = min(k, len(scores) - len(hidden))
        if not number:
            return OWN, []
        best_places = np.argpartition(scores, len(scores) - number)[len(scores) - number :]
        order = best_places[np.lexsort((best_places, -scores[best_places]))]
        a, b = self.calibration
        speaking = self._speaking(self.vectors[order].astype(np.float64) @ each, known)
        return OWN, [
            _Ranked(self.items[place], a * score + b, why)
            for place, score, why in zip(order.tolist(), scores[order].tolist(), speaking, strict=True)
        ]

    def _speaking(self, parts: Vector, known: Sequence[int]) -> list[tuple[tuple[str, float], ...]]:
        """Return the items that speak most for each recommendation, by their `parts[k, n]` in its score."""
        parts = np.maximum(parts, 0)
        shares = parts / np.maximum(parts.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
        largest = np.argsort(-shares, axis=1, kind="stable")[:, :_REASONS]
        found = np.take_along_axis(shares, largest, axis=1)
        return [
            tuple(
                (self.items[known[at]], share) for at, share in zip(places, those, strict=True) if share > 0
            )
            for places, those in zip(largest.tolist(), found.tolist(), strict=True)
        ]


class Server:
    """What a web process serves from: the model, and lists of people while nothing of theirs changes."""

    def __init__(self, settings: ServiceSettings) -> None:
        self._settings = settings
        self._loading = Lock()
        self._loaded: _Loaded | None = None
        self._keeping = Lock()
        # As bytes: the garbage collector would search objects, and delay all requests meanwhile.
        self._lists: OrderedDict[tuple[str, int], tuple[int, _Present, bytes]] = OrderedDict()

    def warm(self, session: Session) -> None:
        """Load the model in service, so that the first request need not wait for it."""
        model, _ = self._present(session, "")
        if model is not None:
            _ = self._model(session, model).gram

    def recommend(self, session: Session, user: str, k: int = 10) -> Recommendations:
        """Return the k best items for a person, with why. What they have had is not shown."""
        if not 1 <= k <= MOST:
            raise AssentError(f"k {k}: accepted: a number from 1 to {MOST}")
        kept = self._lists.get((user, k))
        # The model in service is mostly the one that is loaded: its decisions are asked for at once.
        likely = None if kept is not None or self._loaded is None else self._loaded.id
        with together(session):
            asked = _PRESENT.ask(session, user=user)
            had = None if likely is None else _ask_rows(session, self._settings, user, likely)
        [(model, *present)] = asked()
        version = tuple(present)
        if model is None:
            return Recommendations(NO_MODEL, None, ())
        if kept is not None and kept[:2] == (model, version):
            with self._keeping:
                if (user, k) in self._lists:
                    self._lists.move_to_end((user, k))
            return _KEPT.validate_json(kept[2])
        loaded = self._model(session, model)
        if had is None or model != likely:
            had = _ask_rows(session, self._settings, user, model)
        found = self._list(session, loaded, had(), k)
        with self._keeping:
            self._lists[user, k] = (model, version, _KEPT.dump_json(found))
            while len(self._lists) > _LISTS:
                self._lists.popitem(last=False)
        return found

    def preview(self, session: Session, user: str, said: Sequence[Said], k: int = 10) -> Preview:
        """Return what the person's list would become if they said this; nothing is stored."""
        for each in said:
            check(each)
        model, _ = self._present(session, user)
        if model is None:
            raise ConflictError("preview: no model is in service")
        loaded = self._model(session, model)
        rows = _ask_rows(session, self._settings, user, model)()
        supposed: Sequence[Standing] = standing(session, user)
        for each in said:
            supposed = _supposing(supposed, each)
        brought = brought_by(session, user)
        unsaid = self._settings.unsaid
        then = [
            _minding(row, brought[row.item].unwillingness_under(supposed, row.item, unsaid), loaded)
            for row in rows
        ]
        before, after = (self._list(session, loaded, some, k) for some in (rows, then))
        were, are = ({each.item for each in one.items} for one in (before, after))
        return Preview(
            before,
            after,
            gone=tuple(each for each in before.items if each.item not in are),
            new=tuple(each for each in after.items if each.item not in were),
            untold=sum(
                row.value is None and not _is_away(row, loaded) and row.unwillingness < earlier.unwillingness
                for earlier, row in zip(rows, then, strict=True)
            ),
        )

    def _present(self, session: Session, user: str) -> tuple[int | None, _Present]:
        """Return the model in service, and which person of which version this is, if any is known."""
        [(model, *present)] = _PRESENT.rows(session, user=user)
        return model, tuple(present)

    def _model(self, session: Session, id: int) -> _Loaded:
        with self._loading:
            if self._loaded is None or self._loaded.id != id:
                self._loaded = _load(session, self._settings, id)
            return self._loaded

    def _list(self, session: Session, loaded: _Loaded, rows: Sequence[_Had], k: int) -> Recommendations:
        disclosed = [row.item for row in rows if _is_disclosed(row, loaded)]
        basis, ranked = loaded.ranked(disclosed, [row.item for row in rows], k)
        named = {each.item for each in ranked} | {item for each in ranked for item, _ in each.because}
        titles = _titles(session, named)
        return Recommendations(
            basis,
            loaded.id,
            tuple(
                Recommendation(
                    rank,
                    each.item,
                    titles.get(each.item),
                    each.score,
                    tuple(Because(item, titles.get(item), share) for item, share in each.because),
                )
                for rank, each in enumerate(ranked, 1)
            ),
        )


def _pays(row: _Had, loaded: _Loaded) -> bool:
    """Whether what an interaction is worth pays for what its owner minds now."""
    return None not in (row.value, loaded.price) and row.value > loaded.price * row.unwillingness  # type: ignore[operator]


def _is_disclosed(row: _Had, loaded: _Loaded) -> bool:
    if row.state != "used" or _is_away(row, loaded):
        return False
    return row.unwillingness <= (row.decided or 0.0) or _pays(row, loaded)


def _is_away(row: _Had, loaded: _Loaded) -> bool:
    return row.unwillingness == 1 or (loaded.closed is not None and row.unwillingness > loaded.closed)


def _minding(row: _Had, unwillingness: float, loaded: _Loaded) -> _Had:
    """Return an interaction as it would be decided if its owner minded it so much."""
    if unwillingness == row.unwillingness:
        return row
    changed = row._replace(unwillingness=unwillingness)
    if _is_away(changed, loaded) or row.value is None:
        return changed
    return changed._replace(state="used" if _pays(changed, loaded) else "withheld", decided=unwillingness)


def _supposing(now: Sequence[Standing], said: Said) -> list[Standing]:
    """Return the wishes that would be in force."""
    kept = (
        []
        if said.withdrawal
        else [each for each in now if (each.scope, each.target) != (said.scope, said.target)]
    )
    if said.unwillingness is None:
        return kept
    number = 1 + max([_LATER, *(each.wish for each in now)])
    return [*kept, Standing(number, said.scope, said.target, None, said.unwillingness, 0.0, said.withdrawal)]


@lru_cache(maxsize=8)
def _asked(settings: ServiceSettings) -> Query:
    """Return the query of the interactions of the person `user`, with what `model` decided on them."""
    effective = Effective(settings)
    decided = and_(
        Decision.model_id == bindparam("model"),
        Decision.person_id == Interaction.person_id,
        Decision.item_id == Interaction.item_id,
    )
    asked = (
        select(
            Item.item,
            effective.unwillingness,
            Decision.state,
            Decision.unwillingness,
            Decision.value,
        )
        .select_from(Interaction)
        .join(Item, Item.id == Interaction.item_id)
        .outerjoin(Decision, decided)
        .where(Interaction.person_id == WHO)
        .order_by(Item.item)
    )
    return Query(effective.joined(asked))


def _ask_rows(session: Session, settings: ServiceSettings, user: str, model: int) -> Callable[[], list[_Had]]:
    rows = _asked(settings).ask(session, user=user, model=model)
    return lambda: [_Had(*row) for row in rows()]


def _titles(session: Session, items: set[str]) -> Mapping[str, str | None]:
    given = given_rows(session, {"item": "text"})
    asked = query(f"SELECT item.item, item.title FROM {given} JOIN item ON item.item = given.item")
    rows = json.dumps([{"item": item} for item in sorted(items)])
    return dict(asked.rows(session, rows=rows))


def _load(session: Session, settings: ServiceSettings, id: int) -> _Loaded:
    """Read a model from its run folder, which is checked against its manifest."""
    row = session.get_one(Model, id)
    try:
        run = open_run(settings.runs / row.folder)
        model, most = run.trained.model, popularity(run).sort("share", "item", descending=[True, False])
    except (AssentError, OSError) as error:  # which names the file: for the log, and not for whoever asks
        _log.error("model %d cannot be read: %s", id, error)
        raise UnreadableModelError from None
    assert isinstance(model, IALS)
    a, b = model.calibration.tolist()
    facts: dict[str, Any] = row.facts
    return _Loaded(
        id=id,
        price=facts["price"],
        closed=settings.closed,
        items=run.trained.item_ids.tolist(),
        vectors=model.item_table[:-1].detach().numpy().copy(),
        alpha=model.alpha,
        l2=model.l2,
        calibration=(a, b),
        popular=list(zip(most["item"].to_list(), most["share"].to_list(), strict=True)),
    )
