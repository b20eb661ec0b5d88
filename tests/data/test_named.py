import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from assent.data.interactions import NO_ITEMS, Interactions
from assent.data.named import NAMED, cut, read_named
from assent.support.errors import AssentError

PAIRS = [(f"u{user}", f"i{user}-{item % 6}", 10 * user + item) for user in range(3) for item in range(7)]
"""Three users with six items each, one of them twice."""


def as_atomic(folder: Path) -> None:
    lines = [f"{user}\t{item}\t{time}" for user, item, time in PAIRS]
    (folder / f"{folder.name}.inter").write_text(
        "\n".join(["session_id:token\titem_id:token\ttimestamp:float", *lines])
    )


def as_views(folder: Path) -> None:
    lines = [f"{user};NA;{item};{time};2016-05-09" for user, item, time in PAIRS]
    (folder / "train-item-views.csv").write_text(
        "\n".join(["sessionId;userId;itemId;timeframe;eventdate", *lines])
    )


def as_copied_views(folder: Path) -> None:
    as_views(folder)
    file = folder / "train-item-views.csv"
    header = "session_id;user_id;item_id;timeframe;eventdate"
    file.write_text("\n".join([header, *file.read_text().split("\n")[1:]]))


def as_ratings(folder: Path) -> None:
    (folder / "ratings_Video_Games.csv").write_text(
        "\n".join(f"{user},{item},5.0,{time}" for user, item, time in PAIRS)
    )


def as_reviews(folder: Path) -> None:
    rows = [
        json.dumps({"reviewerID": user, "asin": item, "unixReviewTime": time}) for user, item, time in PAIRS
    ]
    (folder / "reviews_Video_Games_5.json.gz").write_bytes(gzip.compress("\n".join(rows).encode()))


def as_games(folder: Path) -> None:
    rows = [
        repr({"username": user, "product_id": item, "date": f"2017-12-{time + 1:02}"})
        for user, item, time in PAIRS
    ]
    (folder / "steam_reviews.json.gz").write_bytes(gzip.compress("\n".join(rows).encode()))


@pytest.mark.parametrize(
    ("name", "folder", "write"),
    [
        ("diginetica", "diginetica", as_atomic),
        ("diginetica", "Diginetica", as_views),
        ("diginetica", ".", as_views),
        ("diginetica", "diginetica", as_copied_views),
        ("steam", "steam", as_atomic),
        ("steam", "steam", as_games),
        ("steam", "steam-merged", as_atomic),
        ("diginetica", "diginetica-not-merged", as_atomic),
        ("amazon-video-games", "Amazon_Video_Games", as_atomic),
        ("amazon-video-games", "amazon-video-games", as_ratings),
        ("amazon-video-games", "amazon_video_games", as_reviews),
    ],
)
def test_each_format_gives_the_same_log(
    name: str, folder: str, write: Callable[[Path], None], tmp_path: Path
) -> None:
    place = tmp_path / folder
    place.mkdir(exist_ok=True)
    write(place)
    log = read_named(name, tmp_path)
    assert log.name == name
    assert log.table.height == 18
    first = log.table.filter(pl.col("user") == "u1").sort("time")
    assert first["item"].to_list() == [f"i1-{item}" for item in range(6)]


def test_the_cut_goes_on_until_both_ends_hold() -> None:
    # Without the popular item, "short" has four interactions left; without that user, "rare" items vanish.
    rows = [("long", f"a{n}") for n in range(25)]
    rows += [("short", "popular")] + [("short", f"b{n}") for n in range(4)]
    rows += [(f"fan{n}", item) for n in range(3) for item in ("popular", *(f"c{n}-{k}" for k in range(5)))]
    table = pl.DataFrame(rows, schema=["user", "item"], orient="row").with_columns(time=pl.lit(0.0))
    found = cut(Interactions("log", table, NO_ITEMS), 3).table
    assert set(found["user"]) == {"fan0", "fan1", "fan2"}
    assert found.height == 15


def test_a_missing_data_set_says_where_to_get_it_and_how_to_lay_it_out(tmp_path: Path) -> None:
    for name, wanted in NAMED.items():
        for folder in (None, tmp_path, tmp_path / "nowhere"):
            with pytest.raises(AssentError) as error:
                read_named(name, folder)
            for part in (name, wanted.home, *wanted.originals, "folder=FOLDER"):
                assert part in str(error.value)


def test_another_data_sets_folder_is_not_taken_for_it(tmp_path: Path) -> None:
    place = tmp_path / "diginetica"
    place.mkdir()
    as_atomic(place)
    with pytest.raises(AssentError, match="steam: not in"):
        read_named("steam", place)


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    (tmp_path / "steam_reviews.json.gz").write_bytes(gzip.compress(b"{'username': 'a'\n"))
    with pytest.raises(AssentError, match="line 1 is no record"):
        read_named("steam", tmp_path)


def test_a_damaged_file_of_recboles_says_what_is_accepted_and_where_to_get_it(tmp_path: Path) -> None:
    (tmp_path / "steam.inter").write_text("user_id:token\titem_id:token\ttimestamp:float\n")
    with pytest.raises(AssentError, match=r"steam\.inter.*no rows.*RecSysDatasets.*FOLDER/steam"):
        read_named("steam", tmp_path)


def test_too_little_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ratings_Video_Games.csv").write_text("a,b,5.0,1\n")
    with pytest.raises(AssentError, match="nobody has 5 to 20"):
        read_named("amazon-video-games", tmp_path)


def test_of_two_logs_in_one_folder_the_one_of_that_name_is_read(tmp_path: Path) -> None:
    place = tmp_path / "steam"
    place.mkdir()
    as_atomic(place)
    (place / "steam.inter").rename(tmp_path / "steam.inter")
    (tmp_path / "diginetica.inter").write_text("user_id:token\titem_id:token\ttimestamp:float\nx\ty\t1")
    assert read_named("steam", tmp_path).table.height == 18


def truncated(folder: Path) -> None:
    as_games(folder)
    file = folder / "steam_reviews.json.gz"
    file.write_bytes(file.read_bytes()[:-20])


def garbled(folder: Path) -> None:
    (folder / "steam_reviews.json.gz").write_bytes(b"no gzip")


def not_text(folder: Path) -> None:
    (folder / "steam_reviews.json.gz").write_bytes(gzip.compress(b"\xff\xfe\n"))


def no_record(folder: Path) -> None:
    (folder / "steam_reviews.json.gz").write_bytes(gzip.compress(b"[1, 2]\n"))


def other_headers(folder: Path) -> None:
    (folder / "train-item-views.csv").write_text("session;item;time\n1;2;3\n")


def no_times(folder: Path) -> None:
    (folder / "train-item-views.csv").write_text("sessionId;itemId;timeframe\n1;2;noon\n")


def with_header(folder: Path) -> None:
    (folder / "ratings_Video_Games.csv").write_text("user,item,rating,time\na,b,5.0,1\n")


def three_columns(folder: Path) -> None:
    (folder / "ratings_Video_Games.csv").write_text("a,b,1\n")


def empty(folder: Path) -> None:
    (folder / "ratings_Video_Games.csv").write_text("")


def bad_json(folder: Path) -> None:
    (folder / "reviews_Video_Games.json.gz").write_bytes(gzip.compress(b'{"asin": \n'))


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("steam", truncated), ("steam", garbled), ("steam", not_text), ("steam", no_record),
        ("diginetica", other_headers), ("diginetica", no_times),
        ("amazon-video-games", with_header), ("amazon-video-games", three_columns),
        ("amazon-video-games", empty), ("amazon-video-games", bad_json),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_read_is_named_with_what_is_accepted(
    name: str, write: Callable[[Path], None], tmp_path: Path
) -> None:
    write(tmp_path)
    (file,) = tmp_path.iterdir()
    with pytest.raises(AssentError) as error:
        read_named(name, tmp_path)
    assert str(error.value).startswith(f"{file}: ")
    assert "accepted: " in str(error.value)


def test_of_repeated_pairs_the_first_is_kept(tmp_path: Path) -> None:
    as_views(tmp_path)
    log = read_named("diginetica", tmp_path)
    assert log.table.filter(pl.col("item") == "i1-0")["time"].to_list() == [10]


def test_what_was_read_of_an_original_file_is_found_again_until_it_changes(tmp_path: Path) -> None:
    data, kept = tmp_path / "data", tmp_path / "kept"
    data.mkdir()
    as_games(data)
    first = read_named("steam", data, kept)
    (file,) = kept.iterdir()
    original = data / "steam_reviews.json.gz"
    whole, now = original.read_bytes(), original.stat()
    original.write_bytes(bytes(len(whole)))  # unreadable, yet of the same size and time: it is not read
    os.utime(original, ns=(now.st_atime_ns, now.st_mtime_ns))
    assert read_named("steam", str(data), str(kept)).table.equals(first.table)
    original.write_bytes(whole)
    os.utime(original, ns=(now.st_atime_ns, now.st_mtime_ns))
    file.write_bytes(b"damaged")
    assert read_named("steam", data, kept).table.equals(first.table)
    os.utime(original, (1, 1))
    assert read_named("steam", data, kept).table.equals(first.table)
    assert len(list(kept.iterdir())) == 2


def test_large_files_are_read_whole(tmp_path: Path) -> None:
    people, each = 800, 15
    rows = [
        repr({"username": f"u{n // each}", "product_id": f"i{n}", "date": f"2017-12-{n % each + 1:02}"})
        for n in range(people * each)
    ]
    (tmp_path / "steam_reviews.json.gz").write_bytes(gzip.compress("\n".join(rows).encode(), 1))
    table = read_named("steam", tmp_path).table
    assert table.height == people * each
    assert set(table["item"]) == {f"i{n}" for n in range(people * each)}
    assert table["time"][0] == 1512086400.0


def test_an_unknown_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AssentError, match="netflix: unknown data set; accepted: diginetica, steam, amazon"):
        read_named("netflix", tmp_path)
