"""A whole IFRQE++ run on the authors' simulation file, one core. Theirs: 36-40 min and 3.5 GB."""

import tempfile

from common import data_folder, measure, verdict

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        run = ["fit", str(data_folder() / "simulation_authors"), "--model", "mf", "--method", "ifrqe++"]
        cost = measure([*run, "--anchors", "3", "--price", "0.1", "--out", f"{folder}/run"], threads=1)
    verdict("CPU of the whole run", cost.cpu, 60, "s")
    verdict("peak memory", cost.peak, 1, "GB")
    print(f"wall clock: {cost.wall:.1f} s")
