"""The folder of a run:

    settings.json      what the run depends on, written first
    selection.parquet  one row per interaction that was decided on: disclosed or withheld, what it is worth to
                       its owner and to everybody, price
    held_out.parquet   one row per interaction that measured quality (validation or test) in the split; in a
                       live run it is decided on too, in an experiment it is not
    sealed.parquet     one row per interaction that was not read, for its owner alone: never, or closed
    model.safetensors, model.json   the final model; it knows the disclosed interactions alone
    tuning.json        settings of the base model that were tried, and those found
    certificate.json   how far the decision can be trusted: gains by deviating, predicted and true reward
    metrics.json       flat records of the split: the method, All (where it was asked for) and Nothing
    quality.json       how good the recommendations are, with intervals; the operating point
    frontier.json      flat records of all methods within budgets, where that was asked for
    shards.json        of a sharded run: what each shard found, and the hash of its entry in `shards`
    words.json         what was said beside the log, in numbers, where a file said it (`words`)
    update.json, history.parquet   what changed since the run before, where it follows one (`history`)
    report.html        for people
    manifest.json      hashes of all these (`manifest`); written last, so a folder that has it is whole

A sharded run also has the store `shards`, one entry for each shard (`runs.shards`), for later runs.
Until the run is done, the store `.work` holds anchors, trials and the state of trainings. They know withheld
interactions and are deleted at the end. So is `.replaced`, a run that was in the folder before. Other files
in the folder are not touched, and nothing is read or written through a symbolic link in it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import polars as pl

from assent.data.interactions import CLOSED, NEVER, NO_ROWS
from assent.game.reasons import Reason
from assent.results.records import Record
from assent.runs.manifest import MANIFEST, Manifest, read_manifest
from assent.support.errors import AssentError
from assent.support.files import check_format, parse_json, read_own

if TYPE_CHECKING:  # torch, which the model needs, is loaded with it
    from assent.data.interactions import Interactions
    from assent.training import Trained

DISCLOSED: Final = "disclosed"
WITHHELD: Final = "withheld"
KINDS: Final = (DISCLOSED, WITHHELD, NEVER, CLOSED)
"""What a person has had, by what became of it."""
FORMAT = 6
"""Raised whenever a run written before could not be read any more."""
LARGE = "large.json"
"""Marks the folder of a large log (`runs.large`), which is no run."""
MARKER = "settings.json"
"""Says what the run depends on; written first."""
REPORT = "report.html"
WORK = ".work"
"""Anchors and the state of trainings, until the run is done."""
TUNING = "tuning.json"
"""Settings of the base model that were tried, on everything and on what is disclosed."""
FRONTIER = "frontier.json"
UPDATE = "update.json"
HISTORY = "history.parquet"
WORDS = "words.json"
QUALITY = "quality.json"
"""How good the recommendations are, with intervals, and at which operating point."""
SHARDS = "shards"
"""What each shard of a sharded run found, for later runs."""
SHARDS_FILE = "shards.json"
"""Which entries of that folder are the run's."""
REPLACED = ".replaced"
"""The run that was here before, until the one that replaces it is done."""
FILES = (
    MARKER,
    "selection.parquet",
    "held_out.parquet",
    "sealed.parquet",
    "model.safetensors",
    "model.json",
    "certificate.json",
    "metrics.json",
    QUALITY,
    FRONTIER,
    TUNING,
    SHARDS_FILE,
    WORDS,
    UPDATE,
    HISTORY,
    REPORT,
    MANIFEST,
)
OPTIONAL = (FRONTIER, SHARDS_FILE, WORDS, UPDATE, HISTORY)
"""Files that not every run has."""
Schema = Mapping[str, pl.DataType | type[pl.DataType]]
_SAID: Schema = {"source": pl.String, "said": pl.String}
_ITEMS: Schema = {"title": pl.String, "category": pl.List(pl.String)}
_SELECTION: Schema = {
    "user": pl.String, "item": pl.String, "unwillingness": pl.Float64, "disclosed": pl.Boolean,
    "given": pl.Boolean, "value": pl.Float64, "uncertainty": pl.Float64,
    "worth_owner": pl.Float64, "error_owner": pl.Float64, "worth_everybody": pl.Float64,
    "error_everybody": pl.Float64, "price": pl.Float64, "reason": pl.String, "cost": pl.Float64,
    "together": pl.Int64, **_SAID, **_ITEMS,
}  # fmt: skip
_HELD_OUT: Schema = {
    "user": pl.String, "item": pl.String, "held_out_for": pl.String, "unwillingness": pl.Float64,
    "given": pl.Boolean, **_SAID, **_ITEMS,
}  # fmt: skip
_NUMBER, _NOTHING = (int, float), type(None)
_SETTINGS = {
    **dict.fromkeys(("assent", "dataset", "protocol", "fingerprint", "method", "objective", "model"), (str,)),
    "live": (str, _NOTHING), "rest": (str, _NOTHING), "price": _NUMBER, "budget": (*_NUMBER, _NOTHING),
    "seed": (int,), "k": (list,), "training": (dict,),
}  # fmt: skip
"""Settings that are read again, with the types that they may have."""
_MAY_BE_NULL = (
    "value", "uncertainty", "worth_owner", "error_owner", "worth_everybody", "error_everybody", "price",
    "reason", "cost", "together", "title", "said",
)  # fmt: skip


class Recommending(Protocol):
    """What lists of recommendations are made from: a run, or the folder of a large log."""

    @property
    def folder(self) -> Path:
        """Where it is."""

    @property
    def trained(self) -> "Trained":
        """The model."""

    def had(self) -> pl.LazyFrame:
        """Return every pair of a person and an item that they have had, with its title and its kind."""


@dataclass(frozen=True)
class Run:
    """A finished run, read from its folder."""

    folder: Path
    settings: Mapping[str, Any]
    """All that the run depends on."""
    selection: pl.DataFrame
    """One row per interaction that was decided on."""
    held_out: pl.DataFrame
    """One row per interaction that measured quality in the split."""
    sealed: pl.DataFrame
    """One row per interaction that was turned away at the door; nobody but its owner is shown it."""
    records: Sequence[dict[str, Any]]
    """Figures of the method, of All and of Nothing."""
    certificate: Mapping[str, Any]
    """How far the decision can be trusted."""
    manifest: Manifest
    """Hashes of all files, and what they rest on."""
    model: str | None = None
    """The model as `package.module:Class`, where it is none of assent's and its code may be run."""

    @cached_property
    def trained(self) -> "Trained":
        """The model; read when it is first asked for."""
        from assent.training.stored import from_files

        about, parameters = (self.manifest.read(f"model.{kind}") for kind in ("json", "safetensors"))
        return from_files(self.folder / "model", about, parameters, self.model)

    @property
    def frontier(self) -> list[dict[str, Any]]:
        """Records of all methods within budgets; none where that was not asked for."""
        return read_records(self.manifest, FRONTIER) if FRONTIER in self.manifest.files else []

    @property
    def shards(self) -> list[dict[str, Any]]:
        """What each shard of a sharded run found; none for others."""
        return read_shards(self.manifest) if SHARDS_FILE in self.manifest.files else []

    @property
    def is_live(self) -> bool:
        """Whether every interaction was decided on; False for an experiment."""
        return self.settings["live"] is not None

    @property
    def quality(self) -> Mapping[str, Any]:
        """How good the recommendations are, with intervals (`runs.quality`)."""
        return read_mapping(self.manifest, QUALITY)

    @property
    def tuning(self) -> Mapping[str, Any]:
        """The settings of the base model that were tried, and those found."""
        return read_mapping(self.manifest, TUNING)

    def table(self, name: str, schema: Schema) -> pl.DataFrame:
        """Return a table of the run, which has at least the columns of `schema`."""
        return _read_columns(self.manifest, name, schema)

    def rows_of(self, user: str, *, needed: bool = True) -> pl.DataFrame:
        """Return the user's training interactions; raise if there are none and some are `needed`."""
        rows = self.selection.filter(pl.col("user") == user)
        if needed and rows.is_empty():
            raise AssentError(
                f"user {user}: not in this run, because no interaction of theirs was read; "
                "accepted: an id that the log has, letter by letter"
            )
        return rows

    def update(self, log: "Interactions", out: str | Path, **how: Any) -> "Run":
        """Make the run that follows this one, of the present log, into `out`: `assent.runs.update.update`."""
        from assent.runs.update import update

        return update(self, log, out, **how)

    def had(self) -> pl.LazyFrame:
        """Return every pair of a person and an item that they have had, with its title and its kind."""
        said = pl.when("disclosed").then(pl.lit(DISCLOSED)).otherwise(pl.lit(WITHHELD))
        decided = self.selection.lazy().select("user", "item", "title", kind=said)
        measured = self.held_out.lazy().join(decided, on=["user", "item"], how="anti")
        apart = [
            table.select("user", "item", title=pl.lit(None, pl.String), kind=kind)
            for table, kind in ((measured, pl.lit(WITHHELD)), (self.sealed.lazy(), pl.col("reason")))
        ]
        return pl.concat([decided, *apart])

    def recommend(
        self, users: str | Sequence[str] | None = None, k: int = 10, *, include: Sequence[str] = ()
    ) -> pl.DataFrame:
        """Return the k best items for each of `users`, None for everybody: `assent.runs.recommend`.

        The columns are user, item, title, rank, score, and basis: "own" if the list comes from what the
        person discloses, "general" if it is what anybody gets. What people have had is not shown to them,
        unless `include` names its kind: disclosed, withheld, never or closed.
        """
        from assent.runs.recommend import recommend

        return recommend(self, users, k, include=include)


def open_run(folder: str | Path, model: str | None = None) -> Run:
    """Read a finished run; an unfinished one, another version's or another program's folder is refused.

    So is one whose files are not what the run wrote. A model of your own is named by `model`, as
    `package.module:Class`: its code is run when the model is first asked for.
    """
    folder = Path(folder)
    description = read_description(folder)
    if not (folder / MANIFEST).exists():
        raise AssentError(f"{folder}: the run is not finished; repeat the command that began it")
    manifest = read_manifest(folder)
    manifest.read(MARKER)
    return Run(
        folder,
        description,
        read_selection(manifest),
        read_held_out(manifest),
        read_sealed(manifest),
        read_records(manifest, "metrics.json"),
        read_mapping(manifest, "certificate.json"),
        manifest,
        model,
    )


def read_description(folder: Path) -> dict[str, Any]:
    """Return the settings of the run in a folder; another version's or another program's are refused."""
    if not folder.is_dir():
        raise AssentError(f"{folder}: no such run folder; a fit with out={folder} makes one")
    if (folder / LARGE).exists():
        raise AssentError(
            f"{folder}: the model of a large log, which can be recommended from and exported; accepted here: "
            "a run, which a fit makes"
        )
    if not (folder / MARKER).exists():
        raise AssentError(f"{folder}: no run folder; a fit with out=FOLDER makes one")
    description: dict[str, Any] = parse_json(folder / MARKER, read_own(folder / MARKER))
    check_format(folder / MARKER, description, FORMAT)
    for key, kinds in _SETTINGS.items():
        if key not in description or type(description[key]) not in kinds:
            raise AssentError(f"{folder / MARKER}: damaged (setting {key}); run the fit again")
    return description


def read_mapping(manifest: Manifest, name: str) -> dict[str, Any]:
    """Return a JSON object of a run."""
    found = parse_json(manifest.folder / name, manifest.read(name))
    if not isinstance(found, dict):
        raise AssentError(f"{manifest.folder / name}: damaged (no JSON object); run the fit again")
    return found


def read_shards(manifest: Manifest) -> list[dict[str, Any]]:
    """Return what each shard of a run found."""
    file = manifest.folder / SHARDS_FILE
    found = parse_json(file, manifest.read(SHARDS_FILE))
    needed = {"entry", "hash", "numbers", "people", "interactions", "disclosed", "price", "certificate"}
    shards = [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
    is_whole = all(needed <= each.keys() and isinstance(each["numbers"], list) for each in shards)
    if not shards or len(shards) < len(found) or not is_whole:
        raise AssentError(f"{file}: damaged (no list of shards); run the fit again")
    return shards


def read_records(manifest: Manifest, name: str) -> list[dict[str, Any]]:
    """Return the flat records of a run: at least one, each with all fields of a `Record`."""
    file = manifest.folder / name
    found = parse_json(file, manifest.read(name))
    if not isinstance(found, list) or not found or not all(isinstance(each, dict) for each in found):
        raise AssentError(f"{file}: damaged (no list of records); run the fit again")
    for each in found:
        try:
            flat = Record.from_flat(each).flat()
        except (AssentError, TypeError) as error:
            raise AssentError(f"{file}: damaged ({error}); run the fit again") from None
        for key, value in flat.items():
            if not _is_figure(key, value):
                raise AssentError(f"{file}: damaged ({key} is {value!r}); run the fit again")
    return found


_FIELDS = {each.name: str(each.type) for each in fields(Record)}
_LARGEST = 1e300


def _is_figure(key: str, value: object) -> bool:
    """Whether a field of a record can have this value; metrics at further k are numbers."""
    kind = _FIELDS.get(key, "float")
    if "str" in kind:
        return isinstance(value, str)
    if value is None:
        return "None" in kind
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _LARGEST


def read_selection(manifest: Manifest) -> pl.DataFrame:
    """Return the decisions of a run, one row per training interaction."""
    table = _read_table(manifest, "selection.parquet", _SELECTION)
    decided = table.filter(pl.col("reason").is_not_null())
    known = decided["reason"].is_in([each.value for each in Reason]).all()
    if not known or decided.select("value", "cost", "together").null_count().sum_horizontal()[0]:
        raise AssentError(f"{manifest.folder / 'selection.parquet'}: damaged (reason); run the fit again")
    return table


def read_held_out(manifest: Manifest) -> pl.DataFrame:
    """Return the held-out interactions of a run."""
    return _read_table(manifest, "held_out.parquet", _HELD_OUT)


def read_sealed(manifest: Manifest) -> pl.DataFrame:
    """Return the interactions that were turned away at the door."""
    table = _read_table(manifest, "sealed.parquet", NO_ROWS.schema)
    never = table["unwillingness"] == 1
    if not (table["reason"].is_in([NEVER, CLOSED]) & ((table["reason"] == NEVER) == never)).all():
        raise AssentError(f"{manifest.folder / 'sealed.parquet'}: damaged (reason); run the fit again")
    return table


def _read_table(manifest: Manifest, name: str, schema: Schema) -> pl.DataFrame:
    """Return a table that has at least the columns of `schema`, with values wherever they are needed."""
    table, file = _read_columns(manifest, name, schema), manifest.folder / name
    for column in schema:
        if column not in _MAY_BE_NULL and table[column].null_count():
            raise AssentError(f"{file}: damaged (column {column} has gaps); run the fit again")
    if not table["unwillingness"].is_between(0, 1).all():
        raise AssentError(f"{file}: damaged (unwillingness is not from 0 to 1); run the fit again")
    return table


def _read_columns(manifest: Manifest, name: str, schema: Schema) -> pl.DataFrame:
    """Return a table that has at least the columns of `schema`."""
    file = manifest.folder / name
    content = manifest.read(name)
    try:
        table = pl.read_parquet(BytesIO(content))
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException):
        raise AssentError(f"{file}: no parquet table; run the fit again") from None
    for column, kind in schema.items():
        if table.schema.get(column) != kind:
            raise AssentError(f"{file}: damaged (column {column} is not {kind}); run the fit again")
    return table
