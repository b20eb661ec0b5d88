"""`assent recommend` and `assent explain`: what a run means for one person."""

from pathlib import Path
from typing import Annotated, Any

import polars as pl
import typer

from assent.cli import options as o
from assent.cli.console import check_json, out, show_table, write_records
from assent.experiments.run import open_run
from assent.report import in_words
from assent.serving import recommendations, rows_of_user

RunFolder = Annotated[Path, typer.Argument(help="A folder that assent fit made.", show_default=False)]
User = Annotated[str, typer.Option(help="The user's id.", show_default=False)]


def recommend(
    run: RunFolder,
    *,
    user: User,
    k: Annotated[int, typer.Option("--k", min=1, help="How many items.")] = 10,
    json: o.Json = None,
    replace: o.Replace = False,
) -> None:
    """Print the items that the model recommends to a user.

    The model knows disclosed interactions alone: it may recommend an item whose interaction was withheld.

    Examples:

    ```
    assent recommend runs/steam --user 76561198
    ```
    """
    check_json(json, replace=replace)
    opened = open_run(run)
    found = recommendations(opened.trained, opened.selection, user, k)
    rows = [
        [str(place), row["item"], row["title"] or "–", f"{row['score']:.4f}"]
        for place, row in enumerate(found, 1)
    ]
    show_table(f"recommended to {user}", ["place", "item", "title", "score"], rows)
    write_records(json, found)


def explain(
    run: RunFolder,
    *,
    user: User,
    json: o.Json = None,
    replace: o.Replace = False,
) -> None:
    """Print what was used of a user's interactions, what was not, and why.

    Examples:

    ```
    assent explain runs/steam --user 76561198
    ```
    """
    check_json(json, replace=replace)
    opened = open_run(run)
    table = rows_of_user(opened.selection, user)
    own = opened.records[0]
    price = float(own["price"] if own["decision_price"] is None else own["decision_price"])
    objective = own["objective"]
    words = in_words(table, price, objective)
    rows = [_explained(row, text) for row, text in zip(table.iter_rows(named=True), words, strict=True)]
    columns = ["item", "unwillingness", "influence", "break-even price", "", "in words"]
    show_table(f"interactions of {user}, price {price:g}", columns, rows)
    disclosed = table.filter(pl.col("disclosed"))
    paid, total = (float(each["unwillingness"].sum()) for each in (disclosed, table))
    used = f"{disclosed.height} of {table.height} interactions are used"
    out.print(f"{used}; they carry {paid:.2f} of {total:.2f} unwillingness.", highlight=False)
    records = table.with_columns(pl.Series("words", words, dtype=pl.String)).to_dicts()
    write_records(json, [_finite(record) for record in records])


def _explained(row: dict[str, Any], words: str) -> list[str]:
    return [
        row["title"] or row["item"],
        f"{row['unwillingness']:.2f}",
        "–" if row["influence"] is None else f"{row['influence']:+.3f}",
        "–" if row["price"] is None else f"{row['price']:.3f}",
        "disclosed" if row["disclosed"] else "withheld",
        words,
    ]


def _finite(record: dict[str, Any]) -> dict[str, Any]:
    """JSON has no infinity: the break-even price of what costs nothing is written as null."""
    return {key: None if value == float("inf") else value for key, value in record.items()}
