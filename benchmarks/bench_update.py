"""What an update costs, and how far a prompt one is from an exact one.

    bench_update.py --cases prompt                           on Gowalla; fits are kept in --keep
    bench_update.py --cases prompt --datasets diginetica,steam,simulation

prompt   seconds of CPU of one person's change and of a thousand people's, beside those of a fresh fit. Then
         a share of the rows changes: a third of these goes, a third is minded otherwise (a tenth of them is
         never used from then on), a third is new. The prompt update is compared with an exact one of the
         changed log, a fresh fit with a calibration of its own (fresh) or with that of the run before (kept):
         on how many rows decisions differ, how well both rank each person's last interaction, which neither
         has seen, and how far scores are apart. `of values expected` is what would be apart if the rows that
         the prompt update has measured values of had those of the exact one. Beside that stands how far the
         fresh fit is from one of the same log with another seed (seed): what measuring values twice changes.
         And how near the price the rows are that are decided otherwise, in stated errors of their values.

Fits that are in the folder --keep are not repeated: a killed benchmark goes on. The seconds of a fit that was
killed in between are those since then.
"""

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from assent.data.door import assign
from assent.data.interactions import Interactions
from assent.data.live import live_problem
from assent.data.problem import Problem, Protocol, make_problem
from assent.evaluation.evaluate import candidate_scores, ranked_metrics
from assent.game.budget import Budget
from assent.game.prices import PricePath, break_even_prices
from assent.runs.calibration import Calibration
from assent.runs.changes import Changes
from assent.runs.folder import Run, open_run
from assent.runs.manifest import MANIFEST
from assent.runs.plan import RunPlan
from assent.runs.run import fit
from assent.runs.served import Served
from assent.support.arrays import Floats, mix, string_keys, uniform
from assent.support.statistics import mean_and_error
from assent.training import Trained
from common import Option, load_log, read_options, seconds, settings_of, verdict

BUDGET = 0.5
PEOPLE = 1000
MOST = 0.2
"""Largest share of rows that changes."""
NEVER = 0.1
"""Share of the changed minds that say never."""
ERRORS = 0.5
"""Distance from the price, in errors of a value, within which rows are counted."""


@dataclass(frozen=True)
class Story:
    """A log as it was, what may come of it, and what came last."""

    whole: Interactions
    lots: Floats
    """A number from 0 to 1 for each row of the whole log."""
    most: float
    """The largest share of rows that changes."""

    @classmethod
    def of(cls, name: str, most: float) -> "Story":
        """Read a data set; unwillingness is random."""
        log = assign(load_log(name, quick=given.quick), "random", 0)
        ordered = log.table.sort("user", "time", maintain_order=True)
        pairs = (string_keys(ordered[column]) for column in ("user", "item"))
        return cls(replace(log, table=ordered), uniform(mix(0, *pairs)), most)

    @property
    def after(self) -> Problem:
        """The split whose test rows are everybody's last ones."""
        return make_problem(self.whole, Protocol.PAPER_TABLES)

    def at(self, share: float) -> Interactions:
        """The log after this share of its rows changed; at 0, as it was. The last rows are in none."""
        third, table = self.most / 3, self.whole.table
        count, place = pl.len().over("user"), pl.int_range(pl.len()).over("user")
        is_last = table.select(((count > 1) & (place == count - 1)).alias("last"))["last"].to_numpy()
        # Lots below a third of `most` are rows that come, those of the second third go, the third change.
        part, within = np.floor(self.lots / third), np.mod(self.lots, third) < share / 3
        is_there = ~is_last & np.where(part == 0, within, ~((part == 1) & within))
        another = uniform(mix(1, (self.lots * 2**52).astype(np.uint64)))
        minded = np.where(another < NEVER, 1.0, (another - NEVER) / (1 - NEVER))
        values = np.where((part == 2) & within, minded, table["unwillingness"].to_numpy())
        changed = table.with_columns(unwillingness=values).filter(pl.Series(is_there))
        return Interactions(self.whole.name, changed, self.whole.items, self.whole.sealed)


@contextmanager
def kept(name: str) -> Iterator[Path]:
    """The folder for the fits of a data set."""
    if given.keep:
        yield Path(given.keep) / name
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def fitted(log: Interactions, folder: Path, like: Run | None = None, seed: int = 0) -> tuple[Run, float]:
    """Fit a live run, unless it is there, perhaps calibrated `like` another; the run, and its CPU seconds."""
    clock = folder.with_name(f"{folder.name}.json")
    if not clock.exists():
        split, live = make_problem(log, Protocol.PAPER_TABLES), live_problem(log)
        plan, settings = RunPlan(budget=BUDGET, seed=seed, seeds=1), settings_of("ials", quick=given.quick)
        untimed = (folder / MANIFEST).exists()
        calibration = None if like is None else Calibration.of(like)
        how = partial(fit, live=live, calibration=calibration, replace=untimed)
        spent = seconds(lambda: how(log, split, folder, plan, settings))
        clock.write_text(json.dumps(spent))
    return open_run(folder), json.loads(clock.read_text())


def prompt(name: str) -> None:
    """Print what a prompt update costs and how far it is from an exact one."""
    story = Story.of(name, MOST)
    after = story.after
    with kept(name) as folder:
        folder.mkdir(parents=True, exist_ok=True)
        base, fresh = fitted(story.at(0), folder / "base")
        print(f"{name}: {base.selection.height:,} rows; a fresh fit takes {fresh:.1f} s of CPU", flush=True)
        costs(name, base, fresh)
        print(
            "rows changed %  compared with  decisions apart %  of values expected  NDCG@5: one  other"
            "  one ahead %  scores apart"
        )
        for share in given.shares:
            log, found = story.at(share / 100), dict[str, Decided]()
            for kind in given.against:
                like, seed = (base if kind == "kept" else None), int(kind == "seed")
                exact, _ = fitted(log, folder / f"{kind}-{share:g}", like, seed)
                price = exact.quality["operating_point"]["price"]
                found[kind] = Decided(exact.selection, exact.trained, price)
            served = Served.of(base)
            served.apply(Changes.between(base, log))
            assert served.price is not None
            for kind, other in found.items():
                prompt = Decided(served.table(), served.trained, served.price)
                compare(name, share, kind, after, found["fresh"] if kind == "seed" else prompt, other)


class Decided(NamedTuple):
    """Decisions, the model of what they disclose, and the price that decided."""

    table: pl.DataFrame
    trained: Trained
    price: float


def compare(name: str, share: float, kind: str, after: Problem, one: Decided, other: Decided) -> None:
    """Print how far decisions and models are apart."""
    both = one.table.join(other.table, on=["user", "item"], suffix="_other")
    apart = 100 * float((both["disclosed"] != both["disclosed_other"]).mean())  # type: ignore[arg-type]
    mine, theirs = (100 * ranked_metrics(after, each.trained)["ndcg"] for each in (one, other))
    ahead, error = mean_and_error(100 * (mine - theirs) / theirs.mean())
    few = 100 * by_expected(both) if "expected" in both.columns else float("nan")
    told = f"{share:14g}  {kind:>13}  {apart:17.2f}  {few:18.2f}  {mine.mean():11.2f}  {theirs.mean():5.2f}"
    print(
        f"{told}  {ahead:+5.2f} ± {error or 0:4.2f}  {distance(after, one.trained, other.trained):12.3f}",
        flush=True,
    )
    print(f"  {at_the_cut(both, one.price)}", flush=True)
    if share == 1 and kind != "seed":
        verdict(f"{name}: decisions apart from a {kind} exact after 1 %", apart, 1, "%")
        verdict(f"{name}: NDCG@5 apart from a {kind} exact after 1 %", abs(ahead), 1, "%")


def at_the_cut(both: pl.DataFrame, price: float) -> str:
    """Say how near the price the rows are that were decided otherwise, and how far all values moved.

    Both in units of each value's stated error; of rows that have a measured value in both and are minded as
    before. Values of the other are first scaled to the same mean, since a price found anew takes that up.
    """
    is_same = pl.col("unwillingness") == pl.col("unwillingness_other")
    is_measured = ~pl.col("expected") if "expected" in both.columns else pl.lit(value=True)
    same = both.filter(is_same & is_measured & (pl.col("uncertainty") > 0))
    scale = pl.col("value").mean() / pl.col("value_other").mean()
    moved, away = (
        same.select((each / pl.col("uncertainty")).abs()).to_series().to_numpy()
        for each in (
            pl.col("value_other") * scale - pl.col("value"),
            pl.col("value") - price * pl.col("unwillingness"),
        )
    )
    is_apart = (same["disclosed"] != same["disclosed_other"]).to_numpy()
    if not is_apart.any():
        return "no decision is apart"
    near = [100 * float(np.mean(away[rows] < ERRORS)) for rows in (is_apart, slice(None))]
    return (
        f"in errors of values: decisions apart are {np.median(away[is_apart]):.2f} from the price (median), "
        f"{near[0]:.0f} % of them within {ERRORS:g}, as {near[1]:.0f} % of all rows are; "
        f"values moved by {np.median(moved):.3f} (median), {np.quantile(moved, 0.95):.2f} (95 %)"
    )


def by_expected(both: pl.DataFrame) -> float:
    """The share of rows that decisions differ on if only values that were expected differ."""
    minded, owners = both["unwillingness"].to_numpy(), both["user"].rank("dense").to_numpy().astype(int) - 1
    values = both.select(pl.when("expected").then("value").otherwise("value_other")).to_series().to_numpy()
    path = PricePath.of(break_even_prices(values, minded), minded)
    chosen = path.within(Budget(BUDGET, owners, minded, both["user"].n_unique()))
    return float(np.mean(chosen != both["disclosed_other"].to_numpy()))


def costs(name: str, base: Run, fresh: float) -> None:
    """Print the seconds of CPU of changes: of one person, and of a thousand people at once."""
    people = base.selection["user"].unique().sort().sample(fraction=1, shuffle=True, seed=0)
    served = Served.of(base)
    apply(served, base, people[:1])  # compiled code is loaded
    ones = [apply(served, base, people[at : at + 1]) for at in range(1, 6)]
    many = apply(served, base, people[6 : 6 + PEOPLE])
    served.recommend(people[7])
    lists = [seconds(lambda user=user: served.recommend(user)) for user in people[8:18]]  # type: ignore[misc]
    verdict(f"{name}: one person's change", ones, 1, "s")
    verdict(f"{name}: a thousand people's", many, 20, "s")
    verdict(f"{name}: a fresh fit, in such changes", fresh / float(np.mean(ones)), 100, at_most=False)
    print(f"{name}: one person's list takes {1000 * float(np.mean(lists)):.0f} ms of CPU", flush=True)


def apply(served: Served, base: Run, people: pl.Series) -> float:
    """Let people say never to one row, mind the next one otherwise, and have a new one; seconds of CPU."""
    rows = base.selection.filter(pl.col("user").is_in(people.implode()))
    first = rows.group_by("user", maintain_order=True).agg(pl.all().head(2))
    items = base.selection["item"].unique().sort()
    minds, added = [], []
    for row in first.iter_rows(named=True):
        said = zip(row["item"], row["unwillingness"], (1.0, 0.3), strict=False)
        minds += [(row["user"], item, before, after) for item, before, after in said]
        had = set(rows.filter(pl.col("user") == row["user"])["item"])
        added.append((row["user"], next(item for item in items if item not in had), 0.1))
    changes = Changes.of(minds=minds, added=added)
    return seconds(lambda: served.apply(changes))


def distance(problem: Problem, one: Trained, other: Trained) -> float:
    """Root mean square difference of scores of test candidates, in units of the other's deviation."""
    assert problem.test_candidates is not None
    users, candidates = problem.test.users, problem.test_candidates
    first, second = (candidate_scores(problem, each, users, candidates) for each in (one, other))
    return float(np.sqrt(np.mean((first - second) ** 2)) / np.std(second))


CASES = {"prompt": prompt}

if __name__ == "__main__":
    given = read_options(
        __doc__,
        cases=Option(tuple(CASES), "which of them"),
        datasets=Option(("gowalla",), "data sets", quick=("diginetica", "steam", "simulation")),
        shares=Option((0.1, 1.0, 2.0, 5.0, 10.0, 20.0), "shares of the rows that change, in percent"),
        against=Option(("fresh", "kept", "seed"), "what is compared; seed needs fresh"),
        keep=Option("", "folder for fits, so that they are not repeated"),
    )
    for case in given.cases:
        for dataset in given.datasets:
            CASES[case](dataset)
