"""The three promises from a file to a model: random edits of a log that may change no byte.

    bench_promises.py                          300 edits for every promise and model (about half an hour)
    bench_promises.py --edits 50 --models ials,mf

Every edit drops, changes, adds and reorders rows that a promise is about: never rows, rows above the limit,
or withheld rows. Then the whole way is gone again: reader, split, method, tuning, training, figures,
recommendations; for withheld rows with the decisions given. Differences are counted by file.
"""

import tempfile
import warnings
from pathlib import Path

from assent.models import MODELS
from assent.support.runtime import one_thread
from assent.testing.promises import Promise, Way, differences
from assent.training import Settings
from common import Option, read_options, verdict

if __name__ == "__main__":
    given = read_options(
        __doc__,
        edits=Option(300, "edits for every promise and model", quick=5),
        models=Option(tuple(MODELS), "which models"),
    )
    warnings.simplefilter("ignore")
    total = 0
    for model in given.models:
        short = {"model_settings": {"dimension": 4}, "training": {"epochs": 2, "evaluate_every": 1}}
        way = Way(Settings.model_validate({"model": model, **short}))
        for promise in Promise:
            with one_thread(), tempfile.TemporaryDirectory() as folder:
                found = differences(promise, way, Path(folder), edits=given.edits)
            total += len(found)
            verdict(f"{model}, {promise}: files that differ after {given.edits} edits", len(found), 0)
            for each in found[:5]:
                print(f"  {each}")
    verdict("files that differ, in all", total, 0)
