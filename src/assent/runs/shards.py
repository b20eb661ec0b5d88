"""Sharded fits: people are dealt into shards by their ids, each shard is decided on by itself, and one model
is trained on all that the shards disclose.

A fit spends most of its time on deciding: on folds, trials and searches for settings. In a sharded fit
nothing of that looks beyond a shard, so that a change of one person's rows touches one shard:

    shard     tune → decide on the split → decide on all rows → settings for what is disclosed
    together  train on what all shards disclose, with the mean of their settings: to test, and to publish

What a shard found is one entry of the store `shards` in the run folder. Its key has the fingerprints of the
shard's problems, so a later run finds there what no change has touched. It holds decisions and values by the
places of rows, settings and figures, and no ids.

A budget holds in every shard, whoever is left out, and therefore in all of them together.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

import numpy as np
import polars as pl

from assent.data.live import disclosed_split
from assent.data.problem import Problem
from assent.data.shards import Shard, shards_of
from assent.evaluation.evaluate import ranked_metrics
from assent.game.certificate import wishes_broken
from assent.game.players import players_of
from assent.lab.lab import Lab, Training, everything
from assent.lab.store import Entry, Found, Key, Store, digest
from assent.lab.tuning import Tuned, tuned
from assent.methods import Choice, Method, make_method
from assent.runs.calibration import CHECKED, MEASURED_IN, Calibration
from assent.runs.folder import SHARDS, Run
from assent.runs.measure import certificate_of, quality_by_person, record
from assent.runs.plan import RunPlan, describe
from assent.runs.quality import Quality, quality_of
from assent.runs.run import Decided, asked_point, published
from assent.runs.tables import decisions_table
from assent.support.arrays import Bools
from assent.support.cost import NO_COST, Cost
from assent.support.errors import AssentError
from assent.support.files import read_own
from assent.support.progress import Phase
from assent.training import Settings, Trained, Tune

_ARRAYS = ("values", "worth_owner", "worth_everybody", "errors", "error_owner", "error_everybody")
"""What a choice says of every row, besides the selection."""
_OF_THE_WHOLE = ("dataset", "unwillingness", "rest", "closed", "negatives", "wishes")
"""What a description says of the whole log; what a shard finds depends on its own rows and wishes."""


@dataclass(frozen=True)
class Sharded:
    """What the shards of a fit decided, and the model of what they disclose."""

    decided: Decided
    calibration: Calibration
    table: pl.DataFrame
    """What was decided on each row, as `decisions_table` has it."""
    facts: list[dict[str, Any]]
    """What each shard found, as in `shards.json`."""
    spared: float
    """Seconds that shards took which were not decided on again."""


def fit_shards(
    lab: Lab, live: Problem, plan: RunPlan, kept: Store, before: Run | None, phase: Phase
) -> Sharded:
    """Decide shard by shard, then train and measure one model of what all of them disclose.

    Shards that `kept` or the run `before` has are not decided on again.
    """
    assert plan.shards is not None
    alone = replace(plan, shards=None)
    shards = shards_of(lab.problem, live, plan.shards, plan.seed, least=plan.method.least_rows)
    if len(shards) < plan.shards:
        few = f"of {plan.shards} shards, {plan.shards - len(shards)} have too few people to decide on"
        warnings.warn(f"{few}; these join the people of others", stacklevel=2)
    keys = _keys_of(shards, lab, live, alone)
    known = [kept.get(key) is not None or _take_over(key, kept, before) for key in keys]
    for shard, is_known in zip(shards, known, strict=True):
        for part in (shard.split, shard.live) if not is_known else ():
            alone.check(part.problem, lab.settings.model)
    entries, spared = [], 0.0
    for number, (shard, key, is_known) in enumerate(zip(shards, keys, known, strict=True), 1):
        with phase(f"shard {number} of {plan.shards}"):
            if not is_known:
                found = _decide(replace(lab, problem=shard.split.problem), shard.live.problem, alone)
                kept.put(key, found, seconds=0.0)  # what it rests on has all that it took
            entries.append(_read_back(key, kept))
            spared += entries[-1].cost.seconds * is_known
    with phase("quality"):
        quality, tried, tested = _measured(lab, plan, shards, entries)
        certificate = certificate_of(lab, plan.method, tried, tested, plan.reward_price)
    at_all, final = (
        pooled(lab.settings, [_tuned_in(entry.facts[name], lab.settings) for entry in entries])
        for name in ("all", "disclosed")
    )
    calibration = Calibration(
        settings=at_all.settings,
        method=plan.method,
        budget=plan.within,
        tuning=at_all.facts(),
        records=quality.records,
        quality=quality.facts()
        | {MEASURED_IN: None, "operating_point": asked_point(plan, plan.within, None)},
        certificate={name: certificate[name] for name in CHECKED if name in certificate},
    )
    choices = [_choice_in(entry) for entry in entries]
    selection = _together([shard.live.rows for shard in shards], [each.selection for each in choices])
    with phase("final model"):
        _, trained = published(lab, live, selection, final)
    decided = Decided(
        replace(tried, selection=selection),
        trained,
        {"all": calibration.tuning, "disclosed": final.facts() | {"epochs": trained.epochs}},
        {**calibration.certificate, **wishes_broken(players_of(live), selection)},
    )
    facts = [_told(shard, entry) for shard, entry in zip(shards, entries, strict=True)]
    return Sharded(decided, calibration, _table(shards, choices, plan.within), facts, spared)


def _keys_of(shards: Sequence[Shard], lab: Lab, live: Problem, plan: RunPlan) -> list[Key]:
    """All that what each shard finds depends on: not the log's name, nor how its unwillingness was given."""
    about = describe(lab.problem, plan, lab.settings, live)
    of_all = {"kind": "shard"} | {name: value for name, value in about.items() if name not in _OF_THE_WHOLE}
    return [
        of_all | {"fingerprint": shard.split.fingerprint, "live": shard.live.fingerprint} for shard in shards
    ]


def _take_over(key: Key, kept: Store, before: Run | None) -> bool:
    """Copy a shard of the run before, if it has it unchanged and it was made by what is at work here."""
    if before is None or not before.manifest.is_made_here:
        return False
    listed = {each["entry"]: each["hash"] for each in before.shards}
    theirs = Store(before.folder / SHARDS)
    entry = theirs.get(key)
    if entry is None or listed.get(digest(key)) != hash_of_entry(entry):
        return False
    return kept.take_over(key, theirs)


def _read_back(key: Key, kept: Store) -> Entry:
    """The entry of a shard that is there."""
    entry = kept.get(key)
    if entry is None:
        raise AssentError(f"{kept.folder}: a shard was decided on but cannot be read back")
    return entry


def hash_of_entry(entry: Entry) -> str:
    """Return the SHA-256 of an entry's JSON file, which has the hash of its arrays."""
    return sha256(read_own(entry.file)).hexdigest()


def _decide(lab: Lab, live: Problem, plan: RunPlan) -> Found:
    """Decide on a shard; settings are found for what it discloses, and nothing else is trained on that."""
    at_all, seeds = tuned(lab, everything(lab.problem)), range(plan.seed, plan.seed + (plan.seeds or 1))
    found = lab.with_settings(at_all.settings)
    on_split = [plan.decide(found.with_seed(seed), plan.within) for seed in seeds]
    tested = [tuned(lab, each.selection) for each in on_split]
    everybody = replace(lab, problem=live, settings=at_all.settings)
    choice = plan.decide(everybody, plan.within, plan.method.as_found(on_split[0]))
    final = settings_on_disclosed(lab, live, choice.selection)
    arrays = {f"split {number}": each.selection for number, each in enumerate(on_split)}
    arrays |= {"selection": choice.selection}
    arrays |= {name: each for name in _ARRAYS if (each := getattr(choice, name)) is not None}
    facts = {
        "all": at_all.facts(),
        "tested": [each.facts() for each in tested],
        "disclosed": final.facts(),
        "price": choice.price,
        "drawn": choice.drawn,
        "certificate": dict(choice.certificate),
    }
    costs = [each.cost for each in (at_all, *tested, final)] + [each.cost for each in (*on_split, choice)]
    return Found(arrays, facts, rests_on=sum(costs, NO_COST))


def settings_on_disclosed(lab: Lab, live: Problem, selection: Bools) -> Tuned:
    """Return the settings found on the disclosed rows of a shard, `selection[Z]`; nothing else is seen."""
    split = replace(lab, problem=disclosed_split(live, selection))
    return tuned(split, everything(split.problem))


def _choice_in(entry: Entry) -> Choice:
    """The decision on all rows of a shard."""
    said: dict[str, Any] = {name: entry.facts[name] for name in ("price", "drawn", "certificate")}
    said |= {name: entry.arrays[name] for name in _ARRAYS if name in entry.arrays}
    return Choice(selection=entry.arrays["selection"], **said)


def _cost_of(entries: Sequence[Entry]) -> Cost:
    """What all shards took; parts of different shards may have the same name."""
    each = (Cost.of(entry.file.stem, entry.cost.seconds, entry.cost.trainings) for entry in entries)
    return sum(each, NO_COST)


def _together(rows: Sequence[Bools], parts: Sequence[Bools]) -> Bools:
    """Put the selections of shards together; `rows[Z]` says for each which rows are its: [Z]."""
    selection = np.zeros(len(rows[0]), dtype=np.bool_)
    for here, part in zip(rows, parts, strict=True):
        selection[here] = part
    return selection


def _tuned_in(facts: Mapping[str, Any], asked: Settings) -> Tuned:
    """The settings that a shard found, as `Tuned.facts` told them."""
    model = type(asked.model_settings).model_validate(facts["found"])
    settings = asked.model_copy(update={"tune": Tune.NONE, "model_settings": model})
    return Tuned(settings, tuple(facts["attempts"]), Cost.of("tuning", facts["seconds"]))


def pooled(asked: Settings, found: Sequence[Tuned]) -> Tuned:
    """Return the geometric mean of the settings that shards found, with all that they tried.

    The settings that are searched are in units of the data, so that those of a part suit the whole.
    """
    each = [one.settings.model_settings for one in found]
    model = type(asked.model_settings).model_validate(
        {name: _mean([getattr(one, name) for one in each]) for name in type(each[0]).model_fields}
    )
    settings = found[0].settings.model_copy(update={"model_settings": model})
    attempts = tuple(attempt for one in found for attempt in one.attempts)
    return Tuned(settings, attempts, Cost.of("tuning", sum(one.cost.seconds for one in found)))


def _mean(values: Sequence[Any]) -> Any:
    """The geometric mean of numbers that differ; what is the same everywhere stays as it is."""
    if all(each == values[0] for each in values):
        return values[0]
    mean = float(np.sign(values[0]) * np.exp(np.mean(np.log(np.abs(values)))))
    return round(mean) if isinstance(values[0], int) else mean


def _measured(
    lab: Lab, plan: RunPlan, shards: Sequence[Shard], entries: Sequence[Entry]
) -> tuple[Quality, Choice, Trained]:
    """Test models of what all shards disclose on the split; return the first one and its choice too."""
    names = [name for name in ("all", "nothing") if name != plan.method.name]
    methods = [plan.method, *(make_method(name) for name in names if plan.reference or name != "all")]
    seeds = [lab.with_seed(plan.seed + number) for number in range(plan.seeds or 1)]
    chosen, models, records, ndcgs = [], [], [], []
    for method in methods:
        for number, at_seed in enumerate(seeds):
            choice, settings = _to_test(at_seed, plan, method, number, shards, entries)
            label = f"{method.name}, tested"
            [trained] = at_seed.train([Training(choice.selection, label=label, settings=settings)])
            ranked = ranked_metrics(lab.problem, trained, k=plan.k, progress=lab.progress)
            told: dict[str, Any] = {
                "price": plan.reward_price,
                "k": plan.k,
                "point": plan.within,
                "ranked": ranked,
            }
            chosen.append(choice)
            models.append(trained)
            records.append(record(at_seed, method, choice, trained, **told))
            ndcgs.append(quality_by_person(lab.problem, ranked["ndcg"]))
    of_method = [slice(len(seeds) * place, len(seeds) * (place + 1)) for place in range(len(methods))]
    quality = quality_of(
        plan.seed,
        [method.name for method in methods],
        [records[here] for here in of_method],
        [np.array(ndcgs[here]) for here in of_method],
    )
    return quality, chosen[0], models[0]


def _to_test(
    lab: Lab, plan: RunPlan, method: Method, number: int, shards: Sequence[Shard], entries: Sequence[Entry]
) -> tuple[Choice, Settings]:
    """What a method discloses of the split with the seed of this number, and the settings for that."""
    asked = lab.settings
    if method is plan.method:
        parts = [entry.arrays[f"split {number}"] for entry in entries]
        prices = {entry.facts["price"] for entry in entries}
        price = prices.pop() if len(prices) == 1 else None  # shards that keep within a budget find their own
        choice = Choice(_together([shard.split.rows for shard in shards], parts), price)
        searches = [entry.facts["tested"][number] for entry in entries]
        settings = pooled(asked, [_tuned_in(each, asked) for each in searches]).settings
        return replace(choice, cost=_cost_of(entries)), settings
    choice = plan.decide(lab, plan.within, method)
    if not choice.selection.any():
        return choice, asked.model_copy(update={"tune": Tune.NONE})
    searches = [entry.facts["all"] for entry in entries]
    return choice, pooled(asked, [_tuned_in(each, asked) for each in searches]).settings


def _table(shards: Sequence[Shard], choices: Sequence[Choice], budget: float | None) -> pl.DataFrame:
    """What was decided on every row, in the order of the whole."""
    pairs = zip(shards, choices, strict=True)
    table = pl.concat(decisions_table(shard.live.decided_on, choice, budget) for shard, choice in pairs)
    return table[np.argsort(np.concatenate([np.flatnonzero(shard.live.rows) for shard in shards]))]


def _told(shard: Shard, entry: Entry) -> dict[str, Any]:
    """What the run folder says of a shard: its entry, its size, and how far its decision can be trusted."""
    disclosed = entry.arrays["selection"]
    return {
        "entry": entry.file.stem,
        "hash": hash_of_entry(entry),
        "numbers": list(shard.numbers),
        "people": int(shard.live.people.sum()),
        "interactions": len(disclosed),
        "disclosed": int(disclosed.sum()),
        "price": entry.facts["price"],
        "certificate": entry.facts["certificate"],
    }
