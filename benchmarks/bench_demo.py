"""The demo's time, and how far influence-guided selection stands above Random and Threshold."""

import tempfile
from pathlib import Path

from assent.support.files import read_json
from assent.support.statistics import paired_difference
from common import measure, verdict

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        cost = measure(["demo", "--out", f"{folder}/demo"], threads=2)
        records = read_json(Path(folder) / "demo" / "frontier.json")
    verdict("wall clock", cost.wall, 90, "s")

    def scores(method: str, objective: str, point: float) -> list[float]:
        chosen = [
            r for r in records if (r["method"], r["objective"], r["point"]) == (method, objective, point)
        ]
        return [100 * record["ndcg"] for record in sorted(chosen, key=lambda record: record["seed"])]

    for point in sorted({record["point"] for record in records} - {0.0, 1.0}, reverse=True):
        ours = scores("ifrqe++", "nash", point)
        for rival in ("random", "threshold"):
            gain = paired_difference(ours, scores(rival, "", point))
            print(f"at {point:.0%}: NDCG@5 {sum(ours) / len(ours):.1f} %, standard error {gain.error:.2f}")
            verdict(
                f"at {point:.0%}, above {rival}", gain.mean, 2 * (gain.error or 0), "points", at_most=False
            )
