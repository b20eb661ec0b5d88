"""Memory grows with interactions, not with 2^history: a history of 5,000 is ordinary."""

import tempfile
from pathlib import Path

import numpy as np
import polars as pl

from common import measure, verdict


def write_log(path: Path, longest: int) -> None:
    """20,000 interactions: one user with `longest` of them, the rest in histories of about ten."""
    rng = np.random.default_rng(0)
    users = ["long"] * longest + [f"u{k // 10}" for k in range(20_000 - longest)]
    items = np.concatenate([rng.permutation(8_000)[:longest], rng.integers(8_000, size=20_000 - longest)])
    log = pl.DataFrame({"user": users, "item": items, "unwillingness": rng.random(20_000)})
    log.unique(["user", "item"], maintain_order=True).write_csv(path)


if __name__ == "__main__":
    peaks = []
    for longest in (10, 5_000):
        with tempfile.TemporaryDirectory() as folder:
            write_log(Path(folder) / "log.csv", longest)
            cost = measure(["fit", f"{folder}/log.csv", "--out", f"{folder}/run"], threads=2)
        # ru_maxrss of children only ever grows, so the larger case comes second.
        peaks.append(cost.peak)
        print(f"longest history {longest}: {cost.peak:.2f} GB, {cost.wall:.1f} s")
    verdict("peak with a history of 5,000 / with histories of 10", peaks[1] / peaks[0], 1.5, "")
