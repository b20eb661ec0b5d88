"""Verifying a run: whether its files are what it wrote, and what they say follows from each other.

Three steps, each dearer than the one before. From the folder alone: the hashes of the manifest, and all
figures that can be computed again from other files. With the log: its problem, every row, and the metrics of
the model. By training again: the bytes of the final model.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isclose
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
import polars as pl
import torch
from pydantic import ValidationError

from assent.data.interactions import Interactions
from assent.data.live import disclosed_whole
from assent.data.problem import Problem
from assent.data.shards import dealt
from assent.evaluation.evaluate import evaluate, validation_losses
from assent.evaluation.metrics import RewardForm
from assent.game.budget import Budget
from assent.game.certificate import with_truth
from assent.game.players import players_of
from assent.game.prices import break_even_prices
from assent.lab.executor import SERIAL, Executor
from assent.lab.lab import Lab, Training, everything
from assent.lab.store import Store
from assent.models import IALS, MODELS
from assent.models.losses import Loss
from assent.report.page import build_report
from assent.results.records import REFERENCES
from assent.runs.calibration import MEASURED_IN
from assent.runs.claim import MOVING
from assent.runs.folder import (
    FILES,
    FRONTIER,
    MARKER,
    OPTIONAL,
    QUALITY,
    REPLACED,
    REPORT,
    SHARDS,
    SHARDS_FILE,
    TUNING,
    WORK,
    read_description,
    read_held_out,
    read_mapping,
    read_records,
    read_sealed,
    read_selection,
    read_shards,
)
from assent.runs.history import Grade
from assent.runs.manifest import MANIFEST, Manifest, hash_of_decisions, read_manifest
from assent.runs.prompt import Vectors
from assent.runs.run import report_data, stopped_after
from assent.runs.shards import hash_of_entry
from assent.runs.tables import described, held_out_table, selection_of
from assent.support.arrays import positions, string_keys
from assent.support.errors import AssentError
from assent.support.progress import SILENT, Progress
from assent.support.runtime import made_with, one_thread
from assent.training import Settings, Trained
from assent.training.stored import as_files, from_files

T = TypeVar("T")
_CLOSE = 1e-6
"""Relative difference up to which metrics of another machine are the same."""
_EXACT = 1e-9
"""The same for sums of figures that are in the files."""
_SELECTION, _HELD_OUT, _SEALED, _METRICS, _CERTIFICATE = (
    "selection.parquet", "held_out.parquet", "sealed.parquet", "metrics.json", "certificate.json"
)  # fmt: skip
_SAID_OF_ROWS = ("given", "source", "said", "title", "category")
"""Columns that say something of a row, and do not tell which it is."""


@dataclass(frozen=True)
class Finding:
    """Something that is not as the run wrote it, or does not follow from the rest."""

    file: str
    what: str

    def __str__(self) -> str:
        return f"{self.file}: {self.what}"


def verify(
    run: str | Path,
    log: Interactions | None = None,
    problem: Problem | None = None,
    *,
    live: Problem | None = None,
    again: bool = False,
    model: str | None = None,
    executor: Executor = SERIAL,
    progress: Progress = SILENT,
) -> list[Finding]:
    """Return what is wrong with the run in a folder; an empty list if nothing is.

    With `log` and `problem`, and `live` for a live run, made as for the fit, rows and metrics are compared
    with them. With `again`, the final model is trained again on the disclosed rows, to compare its bytes. The
    metrics of a live run are those of models on the split, which are not kept: they are not computed
    again. A model of your own is
    named by `model`, as `package.module:Class`: its code is run. A folder that holds no run is refused.
    """
    folder = Path(run)
    if (log is None) != (problem is None):
        raise AssentError("verify: accepted: log and problem, or neither")
    if again and problem is None:
        raise AssentError("again=True: needs the log; accepted: log and problem too")
    if not folder.is_dir():
        raise AssentError(f"{folder}: no such run folder; a fit with out={folder} makes one")
    if not any((folder / name).exists() for name in (MARKER, MANIFEST)):
        raise AssentError(f"{folder}: no run folder, nor one that a fit began")
    checked = _Verification(folder, model)
    with progress.task("checking the files", 1):
        checked.folder_alone()
    live = live if checked.is_live else None
    if again and checked.keeps_items:
        raise AssentError(
            "again=True: a prompt update that keeps items is not trained; accepted: the exact run it keeps"
        )
    if log is not None and problem is not None and checked.fits(log, problem, live):
        if live is None:
            checked.metrics_again(problem, progress)
        if again:
            checked.model_again(live or problem, executor, progress)
    return checked.findings


def not_checked(*, data: bool, again: bool) -> list[str]:
    """Return sentences that say what `verify` could not check without the log, or without training."""
    sentences = []
    if not data:
        sentences.append(
            "Not checked without the log: that these are its rows and, of an experiment, the metrics."
        )
    if not again:
        sentences.append("Not checked without training again: that the disclosed rows give this model.")
    sentences.append(
        "Values, prices and the figures of All and Nothing rest on models that are not kept: only another "
        "fit shows them."
    )
    return sentences


@dataclass
class _Verification:
    """What is found on the way, and what was read."""

    folder: Path
    model: str | None
    findings: list[Finding] = field(default_factory=list)
    description: dict[str, Any] | None = None
    manifest: Manifest | None = None
    selection: pl.DataFrame | None = None
    held_out: pl.DataFrame | None = None
    sealed: pl.DataFrame | None = None
    records: list[dict[str, Any]] | None = None
    certificate: dict[str, Any] | None = None
    quality: dict[str, Any] | None = None
    trained: Trained | None = None

    def note(self, file: str, what: str) -> None:
        if all((each.file, each.what) != (file, what) for each in self.findings):
            self.findings.append(Finding(file, what))

    def tried(self, file: str, read: Callable[[], T]) -> T | None:
        """Return what `read` reads; what is wrong with it is noted."""
        try:
            return read()
        except AssentError as error:
            self.note(file, str(error).removeprefix(f"{self.folder / file}: "))
            return None

    @property
    def is_live(self) -> bool:
        """Whether the run is live."""
        return self.description is not None and self.description.get("live") is not None

    @property
    def is_prompt(self) -> bool:
        """Whether the run is a prompt update: values and figures are those of an exact run."""
        return self.description is not None and self.description.get("grade") == Grade.PROMPT.value

    @property
    def keeps_items(self) -> bool:
        """Whether the items' vectors are those of an exact run."""
        return self.is_prompt and (self.description or {}).get("vectors", Vectors.KEPT) == Vectors.KEPT

    def folder_alone(self) -> None:
        """Check what can be checked without the log."""
        self.description = self.tried(MARKER, lambda: read_description(self.folder))
        for left in (WORK, REPLACED, MOVING):
            if (self.folder / left).exists():
                self.note(left, "still there; it knows withheld interactions and goes when a fit is done")
        self.manifest = manifest = self.tried(MANIFEST, lambda: read_manifest(self.folder))
        if manifest is None:
            return
        self._check_files(manifest)
        self.selection = self.tried(_SELECTION, lambda: read_selection(manifest))
        self.held_out = self.tried(_HELD_OUT, lambda: read_held_out(manifest))
        self.sealed = self.tried(_SEALED, lambda: read_sealed(manifest))
        self.records = self.tried(_METRICS, lambda: read_records(manifest, _METRICS))
        self.certificate = self.tried(_CERTIFICATE, lambda: read_mapping(manifest, _CERTIFICATE))
        self.quality = self.tried(QUALITY, lambda: read_mapping(manifest, QUALITY))
        self._check_settings(manifest)
        self._check_selection(manifest)
        self._check_shards(manifest)
        self._check_sealed()
        self._check_metrics()
        self._check_certificate()
        self._check_model(manifest)
        self._check_report(manifest)

    def _check_files(self, manifest: Manifest) -> None:
        for name in FILES:
            if name in manifest.files:
                self.tried(name, lambda name=name: manifest.read(name))  # type: ignore[misc]
            elif name != MANIFEST and (name not in OPTIONAL or (self.folder / name).exists()):
                self.note(name, f"not in {MANIFEST}")
        for name in sorted(manifest.files.keys() - set(FILES)):
            self.note(MANIFEST, f"names {name!r}, which is no file of a run")

    def _check_settings(self, manifest: Manifest) -> None:
        settings = self.description
        if settings is None:
            return
        for key, value in (("fingerprint", manifest.problem), ("assent", manifest.assent)):
            if settings.get(key) != value:
                self.note(MARKER, f"{key} is {settings.get(key)!r}; {MANIFEST} has {value!r}")

    def _check_selection(self, manifest: Manifest) -> None:
        """Check the decisions, and that values and unwillingness give the break-even prices."""
        table, held_out = self.selection, self.held_out
        if table is None:
            return
        if hash_of_decisions(table) != manifest.decisions:
            self.note(_SELECTION, f"other decisions than those of {MANIFEST}")
        pairs = table.select("user", "item")
        if pairs.is_duplicated().any():
            self.note(_SELECTION, "somebody's interaction is there twice")
        if held_out is not None:
            both = pairs.join(held_out, on=["user", "item"], how="semi").height
            if both and not self.is_live:
                self.note(_SELECTION, "has interactions that are held out")
            if both < held_out.height and self.is_live:
                self.note(_SELECTION, "lacks interactions that measured quality")
        valued = table.filter(pl.col("value").is_not_null())
        prices = break_even_prices(valued["value"].to_numpy(), valued["unwillingness"].to_numpy())
        if not np.array_equal(valued["price"].to_numpy(), prices):
            self.note(_SELECTION, "break-even prices do not follow from values and unwillingness")

    def _check_shards(self, manifest: Manifest) -> None:
        """Check that what is kept of each shard is what the run wrote, and has the run's decisions."""
        number = None if self.description is None else self.description.get("shards")
        if number is None or self.description is None:
            return
        shards = self.tried(SHARDS_FILE, lambda: read_shards(manifest))
        if shards is None or self.selection is None:
            return
        dealt_to = [each for told in shards for each in told["numbers"]]
        if sorted(map(str, dealt_to)) != sorted(map(str, range(number))):
            self.note(SHARDS_FILE, f"has not the shards 0 to {number - 1} of {MARKER}, each once")
            return
        users, disclosed = self.selection["user"], self.selection["disclosed"].to_numpy()
        of = dealt(string_keys(users), number, self.description["seed"])
        for place, told in enumerate(shards, 1):
            entry = Store(self.folder / SHARDS).at(str(told["entry"]))
            if entry is None or hash_of_entry(entry) != told["hash"]:
                self.note(f"{SHARDS}/{told['entry']}.json", "missing, or not what the run wrote")
                continue
            arrays = self.tried(f"{SHARDS}/{told['entry']}.safetensors", lambda entry=entry: entry.arrays)  # type: ignore[misc]
            if arrays is not None and not np.array_equal(
                arrays["selection"], disclosed[np.isin(of, told["numbers"])]
            ):
                self.note(_SELECTION, f"other decisions than shard {place} of {len(shards)} made")

    def _check_sealed(self) -> None:
        """Check that what was turned away at the door is nowhere else."""
        for file, table in ((_SELECTION, self.selection), (_HELD_OUT, self.held_out)):
            if table is None or self.sealed is None:
                continue
            if table.join(self.sealed, on=["user", "item"], how="semi").height:
                self.note(file, f"has interactions that {_SEALED} says were turned away")

    def _check_metrics(self) -> None:
        """Check the methods, the violation and its share, of the run and of All and Nothing.

        What a live run's method disclosed of the split is not kept: of its violation only the share is known.
        """
        table, held_out, records, settings = self.selection, self.held_out, self.records, self.description
        if table is None or held_out is None or records is None or settings is None:
            return
        method = settings.get("method")
        seeds = sorted({each["seed"] for each in records})
        found = [(each["method"], each["seed"]) for each in records]
        names = [method, *(name for name in REFERENCES if name != method)]
        needed = [name for name in names if name != "all" or not self.is_live or ("all", seeds[0]) in found]
        if found != [(name, seed) for name in needed for seed in seeds] or seeds[0] != settings.get("seed"):
            self.note(
                _METRICS, f"has not the methods {', '.join(map(str, needed))}, each with the same seeds"
            )
            return
        people = len({*table["user"], *held_out["user"]})
        trained_on = table.join(held_out, on=["user", "item"], how="anti")
        disclosed = float(trained_on.filter("disclosed")["unwillingness"].sum()) / max(people, 1)
        everything = float(trained_on["unwillingness"].sum()) / max(people, 1)
        is_own = (self.quality or {}).get(MEASURED_IN) is None  # else the rows were others
        for record in records:
            own = {"all": everything, "nothing": 0.0}.get(record["method"], disclosed)
            if self.is_live and record["method"] not in REFERENCES:
                own = record["violation"]
            share = own / everything if everything else 0.0
            if is_own:
                self._compare(_METRICS, record, {"violation": own, "violation_share": share}, _EXACT)
            self._equal(_METRICS, record, settings, ("dataset", "model", "price"))
        self._equal(_METRICS, records[0], settings, ("objective",))
        self._check_quality(records, seeds)
        asked = (self.quality or {}).get("operating_point")
        budget = asked.get("budget") if isinstance(asked, dict) else settings.get("budget")
        if isinstance(budget, int | float) and method not in REFERENCES:
            owners = table["user"].rank("dense").cast(pl.Int64).to_numpy() - 1
            allowed = Budget(budget, owners, table["unwillingness"].to_numpy(), people)
            if not allowed.allows(table["disclosed"].to_numpy()):
                self.note(_SELECTION, f"discloses more than {budget:.0%} of the violation, the budget")

    def _check_quality(self, records: Sequence[Mapping[str, Any]], seeds: Sequence[int]) -> None:
        """Check the qualities whose intervals the run shows."""
        quality = self.quality
        if quality is None:
            return
        if quality.get("seeds") != seeds:
            self.note(QUALITY, f"has not the seeds {', '.join(map(str, seeds))}")
        ndcgs = {each["method"]: list[float]() for each in records}
        for each in records:
            ndcgs[each["method"]].append(each["ndcg"])
        means = {name: float(np.mean(values)) for name, values in ndcgs.items()}
        own, base = means[records[0]["method"]], means.get("all")
        expected = {
            "reached": own,
            "kept": own / base if base else None,
            "above_nothing": own - means["nothing"],
        }
        for name, value in expected.items():
            match quality.get(name), value:
                case {"mean": int() | float() as mean}, float() if isclose(
                    mean, value, rel_tol=_CLOSE, abs_tol=_CLOSE
                ):
                    pass
                case None, None:
                    pass
                case _:
                    self.note(QUALITY, f"{name} is not what {_METRICS} has")

    def _check_certificate(self) -> None:
        """Check the figure of the certificate that follows from others."""
        certificate = self.certificate
        if certificate is None:
            return
        true, predicted = certificate.get("true_reward"), certificate.get("predicted_reward")
        if isinstance(true, float) and isinstance(predicted, float) and true:
            off = abs(predicted - true) / abs(true)
            self._compare(_CERTIFICATE, certificate, {"prediction_error": off}, _EXACT)

    def _check_model(self, manifest: Manifest) -> None:
        """Check that the model is of the run's settings, and knows what is disclosed alone."""
        settings = self.description
        if settings is None or not {"model.json", "model.safetensors"} <= manifest.files.keys():
            return
        if settings.get("model") not in MODELS and self.model is None:
            raise AssentError(
                f"{self.folder}: the run's model is none of assent's; accepted: model=package.module:Class "
                "for the code that made it, if you trust that"
            )
        self.trained = trained = self.tried(
            "model.json",
            lambda: from_files(
                self.folder / "model",
                manifest.read("model.json"),
                manifest.read("model.safetensors"),
                self.model,
            ),
        )
        if trained is None:
            return
        if not all(bool(value.isfinite().all()) for value in trained.model.parameters()):
            self.note("model.safetensors", "has parameters that are not finite")
        if trained.seed != settings.get("seed"):
            self.note("model.json", f"seed is {trained.seed}; {MARKER} has {settings.get('seed')!r}")
        found = self._found(manifest)
        if found is not None and trained.model.settings.model_dump(mode="json") != found:
            self.note("model.json", f"has other settings than {TUNING} found")
        if self.selection is not None:
            self._check_knowledge(trained, self.selection.filter("disclosed"))

    def _found(self, manifest: Manifest) -> Any:
        """Return the settings of the final model that were found on what is disclosed."""
        tuning = self.tried(TUNING, lambda: read_mapping(manifest, TUNING))
        disclosed = None if tuning is None else tuning.get("disclosed")
        if isinstance(disclosed, dict) and isinstance(disclosed.get("found"), dict):
            return disclosed["found"]
        self.note(TUNING, "has no settings of the final model")
        return None

    def _check_knowledge(self, trained: Trained, disclosed: pl.DataFrame) -> None:
        if self.keeps_items:  # people are folded in from the items that the exact run knows
            disclosed = disclosed.filter(pl.col("item").is_in(trained.item_ids.tolist()))
            if trained.user_ids.tolist() != disclosed["user"].unique().sort().to_list():
                self.note("model.json", "knows other users than those of the disclosed interactions")
            elif not self._is_folded_in(trained, disclosed):
                self.note("model.safetensors", "has other vectors than what people disclose gives them")
            return
        known = (("user", trained.user_ids), ("item", trained.item_ids))
        for column, ids in known:
            if ids.tolist() != disclosed[column].unique().sort().to_list():
                self.note("model.json", f"knows other {column}s than those of the disclosed interactions")
        if trained.model.sizes.rows != disclosed.height:
            self.note("model.json", "was trained on another number of interactions than are disclosed")
        rows = trained.rows
        if rows is not None:
            pairs = {*zip(trained.user_ids[rows.users], trained.item_ids[rows.items], strict=True)}
            if pairs != {*zip(disclosed["user"], disclosed["item"], strict=True)}:
                self.note("model.safetensors", "reads other interactions than the disclosed ones")

    def _is_folded_in(self, trained: Trained, disclosed: pl.DataFrame) -> bool:
        """Whether everybody has the vector that what they disclose gives them, given the items."""
        if not isinstance(trained.model, IALS):
            return False
        rows = disclosed.sort("user")
        items = positions(trained.item_ids, rows["item"].to_numpy().astype(np.str_))
        counts = rows.group_by("user", maintain_order=True).len()["len"].to_list()
        with one_thread():  # sums depend on the number of threads
            found = trained.model.fold_in(list(torch.split(torch.from_numpy(items), counts)))
        return torch.allclose(found, trained.model.user_table[:-1], rtol=_CLOSE, atol=_CLOSE)

    def _check_report(self, manifest: Manifest) -> None:
        """Draw the report again from the other files; only the same assent draws the same bytes."""
        table, records, settings = self.selection, self.records, self.description
        certificate, quality = self.certificate, self.quality
        compared: list[dict[str, Any]] | None = []
        if FRONTIER in manifest.files:
            compared = self.tried(FRONTIER, lambda: read_records(manifest, FRONTIER))
        if table is None or records is None or settings is None:
            return
        if certificate is None or quality is None or compared is None:
            return
        if not manifest.is_made_here or self.findings:
            return
        tuning = read_mapping(manifest, TUNING)
        try:
            page = build_report(report_data(settings, tuning, records, compared, table, certificate, quality))
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            self.note(f"{_CERTIFICATE} or {TUNING}", "damaged: no report can be drawn from them")
            return
        if self.tried(REPORT, lambda: manifest.read(REPORT)) not in (None, page.encode()):
            self.note(REPORT, "does not show what the other files say")

    def fits(self, log: Interactions, problem: Problem, live: Problem | None) -> bool:
        """Whether the run is of these problems: their fingerprints, and every row."""
        settings, table, held_out, sealed = self.description, self.selection, self.held_out, self.sealed
        if settings is None or table is None or held_out is None or sealed is None:
            return False
        if self.is_live and live is None:
            raise AssentError(f"{self.folder}: a live run; accepted: live too, the log's live_problem")
        given = problem.fingerprint(), None if live is None else live.fingerprint()
        if not self.is_prompt and given != (settings.get("fingerprint"), settings.get("live")):
            keys = ("dataset", "protocol", "split_seed", "negatives", "unwillingness", "rest")
            said = ", ".join(f"{key} {settings.get(key)}" for key in keys if settings.get(key) is not None)
            self.note(MARKER, f"of another problem than this log gives; the fit had {said}")
            return False
        decided = live or problem
        rows = pl.DataFrame(
            {
                "user": decided.user_ids[decided.train.users],
                "item": decided.item_ids[decided.train.items],
                "unwillingness": decided.unwillingness,
            }
        )
        pair, expected = ["user", "item"], described(rows, log)
        if self.is_prompt:  # rows that came since stand last
            table, expected = table.sort(pair), expected.sort(pair)
        are_same = [self._is_of_log(_SELECTION, table, expected, "interactions")]
        if not self.is_prompt:  # what measured quality is the exact run's
            measured = held_out_table(log, problem)
            measured = measured if settings.get("calibration") is None else measured.clear()
            are_same.append(self._is_of_log(_HELD_OUT, held_out, measured, "held-out interactions"))
        turned_away = sealed.sort(pair), log.sealed.sort(pair)
        are_same.append(self._is_of_log(_SEALED, *turned_away, "never and closed ones"))
        return all(are_same)

    def _is_of_log(self, file: str, found: pl.DataFrame, expected: pl.DataFrame, which: str) -> bool:
        """Whether the rows of a table are those of the log; what else differs is noted too."""
        about = [name for name in expected.columns if name in _SAID_OF_ROWS]
        rows = expected.drop(about)
        if not found.select(rows.columns).equals(rows):
            self.note(file, f"has other rows than the log's {which}")
            return False
        for name in about:
            if not found[name].equals(expected[name]):
                hint = "; without a time of its own it is when the file was last changed"
                self.note(file, f"column {name} is not what the log says{hint if name == 'said' else ''}")
        return True

    def metrics_again(self, problem: Problem, progress: Progress) -> None:
        """Evaluate the model again."""
        trained, records, settings = self.trained, self.records, self.description
        if trained is None or records is None or settings is None or self.selection is None:
            return
        match settings:
            case {"price": int() | float() as price, "k": [int(), *_] as cutoffs}:
                selection = self.selection["disclosed"].to_numpy()
                found = evaluate(problem, trained, selection, price=price, k=cutoffs, progress=progress)
                self._compare(_METRICS, records[0], found, _CLOSE)
                self._check_reward(problem, trained, records[0])
            case _:
                self.note(MARKER, "has no price or no k")

    def _check_reward(self, problem: Problem, trained: Trained, record: Mapping[str, Any]) -> None:
        """Compute the true reward of the certificate again, where the price of the decision is known."""
        certificate, price = self.certificate, record["decision_price"]
        if certificate is None or price is None or self.selection is None:
            return
        try:
            loss, form = Loss(certificate["reward_loss"]), RewardForm(certificate["reward_form"])
        except (KeyError, ValueError):
            self.note(_CERTIFICATE, "does not say which loss the reward counts")
            return
        players = players_of(problem)
        costs = problem.wishes.cost(players.paid(self.selection["disclosed"].to_numpy()))
        losses = validation_losses(problem, trained, loss) * form.weights(problem.valid_samples())
        true = with_truth({}, losses, costs, price)["true_reward"]
        self._compare(_CERTIFICATE, certificate, {"true_reward": cast(float, true)}, _CLOSE)

    def model_again(self, problem: Problem, executor: Executor, progress: Progress) -> None:
        """Train the final model again on the disclosed rows of the problem, and compare its files."""
        manifest, settings, trained = self.manifest, self.description, self.trained
        if manifest is None or settings is None or trained is None or self.selection is None:
            return
        try:
            chosen = Settings.model_validate(
                {
                    "model": self.model or settings["model"],
                    "model_settings": trained.model.settings.model_dump(mode="json"),
                    "training": settings.get("training"),
                    "tune": "none",
                }
            )
        except ValidationError as error:
            self.note(MARKER, f"has no settings of a training ({error.errors()[0]['msg']})")
            return
        selection = selection_of(problem, self.selection)
        lab = Lab(problem, chosen, trained.seed, executor=executor, progress=progress)
        if problem.judges is not None:
            lab = replace(lab, problem=disclosed_whole(problem, selection))
            chosen, selection = stopped_after(chosen, trained.epochs), everything(lab.problem)
        [once_more] = lab.train([Training(selection, label="final model", settings=chosen)])
        for name, content in as_files(once_more, "model").items():
            if self.tried(name, lambda name=name: manifest.read(name)) not in (None, content):  # type: ignore[misc]
                here = made_with()
                apart = [f"{key} {manifest.made_with.get(key)}" for key in here
                         if manifest.made_with.get(key) != here[key]]  # fmt: skip
                because = f"; it was made with {', '.join(apart)}" if apart else ""
                self.note(name, f"training again gives other bytes{because}")

    def _compare(
        self, file: str, found: Mapping[str, Any], expected: Mapping[str, float], tolerance: float
    ) -> None:
        """Note figures that are not as expected."""
        for key, value in expected.items():
            given = found.get(key)
            near = isinstance(given, int | float) and isclose(
                given, value, rel_tol=tolerance, abs_tol=tolerance
            )
            if not near:
                whose = f" of {found['method']}" if "method" in found else ""
                self.note(file, f"{key}{whose} is {given!r}; it comes to {value!r}")

    def _equal(
        self, file: str, found: Mapping[str, Any], settings: Mapping[str, Any], keys: tuple[str, ...]
    ) -> None:
        for key in keys:
            if found.get(key) != settings.get(key):
                self.note(file, f"{key} is {found.get(key)!r}; {MARKER} has {settings.get(key)!r}")
