"""A million interactions, end to end on two cores."""

import tempfile

from common import data_folder, measure, verdict

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        run = [
            "fit",
            str(data_folder() / "gowalla"),
            "--model",
            "mf",
            "--method",
            "ifrqe++",
            "--anchors",
            "2",
        ]
        cost = measure([*run, "--price", "0.1", "--out", f"{folder}/run"], threads=2)
    verdict("wall clock", cost.wall / 60, 20, "min")
    verdict("peak memory", cost.peak, 8, "GB")
    print(f"CPU: {cost.cpu / 60:.1f} min")
