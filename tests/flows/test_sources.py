from __future__ import annotations

import glob
import os
import socket
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from flows.sources import Listing, SourceError, list_source


def write(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"text of {name}", "utf-8")


def uris(listing: Listing) -> list[str]:
    return [entry.uri for entry in listing.entries]


def reasons(listing: Listing) -> dict[str, str]:
    return {row.document: row.reason for row in listing.skipped}


@pytest.fixture
def refuse_folder(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes one folder unreadable. Modes would not do: they do not bind an administrator."""

    def refuse(folder: Path) -> None:
        scandir = os.scandir

        def refusing(path: Any) -> Any:
            if Path(path) == folder:
                raise PermissionError(13, "Permission denied", str(path))
            return scandir(path)

        monkeypatch.setattr(os, "scandir", refusing)

    return refuse


def test_a_folder_is_listed_with_all_folders_below_it(tmp_path: Path) -> None:
    write(tmp_path, "b.md", "a.txt", "sub/deep/c.markdown", "sub/a.mkd", "x.MDOWN", "y.text")
    listing = list_source(tmp_path)
    assert uris(listing) == ["a.txt", "b.md", "sub/a.mkd", "sub/deep/c.markdown", "x.MDOWN", "y.text"]
    assert (listing.root, listing.complete, listing.partial, listing.skipped) == (tmp_path, True, False, [])


def test_an_entry_has_its_absolute_path_and_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "docs/a.md")
    monkeypatch.chdir(tmp_path)
    (entry,) = list_source("docs").entries
    assert (entry.path, entry.size) == (tmp_path / "docs/a.md", len("text of docs/a.md"))


def test_an_empty_folder_is_an_empty_complete_listing(tmp_path: Path) -> None:
    listing = list_source(tmp_path)
    assert (listing.entries, listing.complete, listing.partial) == ([], True, False)


def test_a_file_is_a_partial_listing_below_its_folder(tmp_path: Path) -> None:
    write(tmp_path, "docs/a.md", "docs/b.md")
    listing = list_source(tmp_path / "docs/a.md")
    assert (listing.root, uris(listing), listing.complete, listing.partial) == (tmp_path / "docs", ["a.md"], True, True)


def test_any_character_may_stand_in_a_name(tmp_path: Path) -> None:
    names = ["a/b c#1.md", "a/ü?%20&.md", "line\nbreak.md", "'\".md"]
    write(tmp_path, *names)
    assert uris(list_source(tmp_path)) == sorted(names)


def test_other_types_are_skipped_with_a_reason(tmp_path: Path) -> None:
    write(tmp_path, "a.md", "b.pdf", "c.rst", "Makefile", "d.xyz")
    listing = list_source(tmp_path)
    assert uris(listing) == ["a.md"]
    told = reasons(listing)
    assert list(told) == ["Makefile", "b.pdf", "c.rst", "d.xyz"]
    assert "convert" in told["b.pdf"]
    assert "reStructuredText" in told["c.rst"]
    assert ".xyz" in told["d.xyz"]
    assert ".md" in told["Makefile"]


def test_hidden_files_and_folders_are_left_out_without_a_word(tmp_path: Path) -> None:
    write(tmp_path, "a.md", ".b.md", ".git/c.md", ".quarry/d.md")
    listing = list_source(tmp_path)
    assert (uris(listing), listing.skipped) == (["a.md"], [])


def test_a_hidden_source_is_listed(tmp_path: Path) -> None:
    write(tmp_path, ".notes/a.md")
    assert uris(list_source(tmp_path / ".notes")) == ["a.md"]


def test_the_store_below_the_root_is_left_out_without_a_word(tmp_path: Path) -> None:
    write(tmp_path, "a.md", "sub/store/b.md", "sub/c.md")
    listing = list_source(tmp_path, home=tmp_path / "sub/store")
    assert (uris(listing), listing.skipped) == (["a.md", "sub/c.md"], [])


def test_a_source_that_is_the_store_s_folder_is_listed(tmp_path: Path) -> None:
    write(tmp_path, "a.md")
    assert uris(list_source(tmp_path, home=tmp_path)) == ["a.md"]


# Names


def test_uris_are_nfc_whatever_the_file_system_holds(tmp_path: Path) -> None:
    write(tmp_path, unicodedata.normalize("NFD", "Größe/Über.md"))
    (entry,) = list_source(tmp_path).entries
    assert entry.uri == unicodedata.normalize("NFC", "Größe/Über.md")
    assert entry.path.read_text("utf-8")


def test_of_two_names_that_normalise_alike_the_second_is_skipped(tmp_path: Path) -> None:
    write(tmp_path, unicodedata.normalize("NFC", "ü.md"), unicodedata.normalize("NFD", "ü.md"))
    if len(os.listdir(tmp_path)) < 2:
        pytest.skip("this file system normalises names itself")
    listing = list_source(tmp_path)
    assert uris(listing) == [unicodedata.normalize("NFC", "ü.md")]
    assert [("same name" in row.reason) for row in listing.skipped] == [True]


def test_undecodable_names_are_skipped_with_a_printable_name(tmp_path: Path) -> None:
    write(tmp_path, "a.md")
    try:
        (tmp_path / os.fsdecode(b"b\xff.md")).write_text("b")
        (tmp_path / os.fsdecode(b"c\xff")).mkdir()
    except OSError:
        pytest.skip("this file system takes only names that are text")
    listing = list_source(tmp_path)
    assert uris(listing) == ["a.md"]
    assert list(reasons(listing)) == ["b\\xff.md", "c\\xff"]
    assert listing.complete


# What cannot be read


def test_an_unreadable_folder_makes_the_listing_incomplete(tmp_path: Path, refuse_folder: Any) -> None:
    write(tmp_path, "a.md", "sub/b.md", "z/c.md")
    refuse_folder(tmp_path / "sub")
    listing = list_source(tmp_path)
    assert (uris(listing), listing.complete) == (["a.md", "z/c.md"], False)
    assert "Permission denied" in reasons(listing)["sub"]


def test_an_unreadable_root_is_an_error(tmp_path: Path, refuse_folder: Any) -> None:
    refuse_folder(tmp_path)
    with pytest.raises(SourceError, match="cannot be read"):
        list_source(tmp_path)


def test_pipes_and_sockets_are_skipped_unopened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.md")
    with socket.socket(socket.AF_UNIX) as unix:
        unix.bind(str(tmp_path / "b.md"))
        listing = list_source(tmp_path)
    assert listing.entries == []
    assert set(reasons(listing).values()) == {"a pipe, socket or device"}


def test_a_pipe_as_source_is_an_error(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.md")
    with pytest.raises(SourceError, match="pipe"):
        list_source(tmp_path / "a.md")


@pytest.mark.parametrize("name", ["missing", "missing.md", "missing/deep.md", "", "  "])
def test_a_missing_source_is_one_clear_line(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SourceError) as error:
        list_source(name)
    assert name.strip() in str(error.value)
    assert "\n" not in str(error.value)


def test_a_path_through_a_file_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, "a.md")
    with pytest.raises(SourceError, match="Not a directory"):
        list_source(tmp_path / "a.md/b.md")


def test_one_file_of_another_type_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, "a.pdf")
    with pytest.raises(SourceError, match="convert"):
        list_source(tmp_path / "a.pdf")


# Links


def test_links_to_files_are_followed(tmp_path: Path) -> None:
    write(tmp_path, "docs/a.md", "elsewhere/b.md")
    (tmp_path / "docs/link.md").symlink_to(tmp_path / "elsewhere/b.md")
    assert uris(list_source(tmp_path / "docs")) == ["a.md", "link.md"]


def test_a_link_to_a_folder_elsewhere_is_followed(tmp_path: Path) -> None:
    write(tmp_path, "docs/a.md", "elsewhere/b.md")
    (tmp_path / "docs/link").symlink_to(tmp_path / "elsewhere")
    assert uris(list_source(tmp_path / "docs")) == ["a.md", "link/b.md"]


def test_a_link_does_not_rename_the_documents_of_a_real_folder(tmp_path: Path) -> None:
    write(tmp_path, "z/a.md")
    (tmp_path / "b").symlink_to(tmp_path / "z")
    listing = list_source(tmp_path)
    assert uris(listing) == ["z/a.md"]
    assert "already" in reasons(listing)["b"]


def test_loops_of_links_end(tmp_path: Path) -> None:
    write(tmp_path, "docs/sub/a.md", "other/b.md")
    (tmp_path / "docs/link").symlink_to(tmp_path / "other")
    (tmp_path / "other/back").symlink_to(tmp_path / "docs/sub")
    (tmp_path / "other/again").symlink_to(tmp_path / "other")
    listing = list_source(tmp_path / "docs")
    assert uris(listing) == ["link/b.md", "sub/a.md"]
    assert list(reasons(listing)) == ["link/again", "link/back"]
    assert listing.complete


def test_real_folders_below_a_link_are_listed_once_too(tmp_path: Path) -> None:
    write(tmp_path, "docs/a.md", "other/sub/b.md")
    (tmp_path / "docs/one").symlink_to(tmp_path / "other/sub")
    (tmp_path / "docs/two").symlink_to(tmp_path / "other")
    listing = list_source(tmp_path / "docs")
    assert uris(listing) == ["a.md", "one/b.md"]
    assert list(reasons(listing)) == ["two/sub"]


@pytest.mark.parametrize("target", [".", "..", "/"])
def test_a_link_to_what_holds_the_source_is_not_followed(tmp_path: Path, target: str) -> None:
    write(tmp_path, "docs/a.md", "other/b.md")
    (tmp_path / "docs/up").symlink_to(target)
    listing = list_source(tmp_path / "docs")
    assert (uris(listing), list(reasons(listing)), listing.complete) == (["a.md"], ["up"], True)


def test_a_link_to_itself_makes_the_listing_incomplete(tmp_path: Path) -> None:
    (tmp_path / "self").symlink_to("self")
    listing = list_source(tmp_path)
    assert not listing.complete
    assert "cannot be looked at" in reasons(listing)["self"]


def test_a_broken_link_makes_the_listing_incomplete(tmp_path: Path) -> None:
    write(tmp_path, "a.md")
    (tmp_path / "mount").symlink_to(tmp_path / "not mounted")
    listing = list_source(tmp_path)
    assert (uris(listing), listing.complete, reasons(listing)) == (["a.md"], False, {"mount": "a broken link"})


def test_a_broken_link_as_source_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a*.md").symlink_to(tmp_path / "missing")
    with pytest.raises(SourceError, match="broken link"):
        list_source(tmp_path / "a*.md")


# Globs

TREE = [
    "a.md",
    "b.txt",
    "sub/c.md",
    "sub/deep/d.md",
    "sub/deep/e.txt",
    ".hid/f.md",
    "sub/.g.md",
    "s2/c.md",
    "x.md/y.md",
]


PATTERNS = (
    "*.md **/*.md sub/**/*.md ** sub/** */c.md s?/* **/deep/* [ab].* [!a].txt **/**/d.md sub/**/deep/**/*.md "
    ".hid/*.md sub/.* */*/*.txt x*/*"
)


@pytest.mark.parametrize("pattern", PATTERNS.split())
def test_a_glob_names_the_files_that_python_s_glob_names(tmp_path: Path, pattern: str) -> None:
    write(tmp_path, *TREE)
    listing = list_source(f"{tmp_path}/{pattern}")
    expected = {path for path in glob.glob(f"{tmp_path}/{pattern}", recursive=True) if os.path.isfile(path)}
    assert {str(entry.path) for entry in listing.entries} == expected
    assert listing.partial


def test_the_root_of_a_glob_is_its_longest_prefix_without_wildcard(tmp_path: Path) -> None:
    write(tmp_path, "docs/en/a/x.md")
    listing = list_source(f"{tmp_path}/docs/en/*/x.md")
    assert (listing.root, uris(listing)) == (tmp_path / "docs/en", ["a/x.md"])


def test_a_glob_may_be_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "docs/a.md")
    monkeypatch.chdir(tmp_path)
    listing = list_source("**/*.md")
    assert (listing.root, uris(listing)) == (tmp_path, ["docs/a.md"])


def test_a_tilde_is_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "docs/a.md")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert uris(list_source("~/docs/*.md")) == ["a.md"]
    assert uris(list_source("~/docs")) == ["a.md"]


def test_a_folder_with_brackets_is_taken_literally(tmp_path: Path) -> None:
    write(tmp_path, "docs[1]/a.md", "docs1/b.md")
    assert uris(list_source(tmp_path / "docs[1]")) == ["a.md"]
    listing = list_source(f"{tmp_path}/docs[1]/*.md")
    assert (listing.root, uris(listing)) == (tmp_path / "docs[1]", ["a.md"])


def test_brackets_are_a_wildcard_where_no_such_name_exists(tmp_path: Path) -> None:
    write(tmp_path, "docs1/b.md")
    assert uris(list_source(f"{tmp_path}/docs[1]/*.md")) == ["docs1/b.md"]


def test_a_glob_matches_names_in_either_normal_form(tmp_path: Path) -> None:
    write(tmp_path, unicodedata.normalize("NFD", "über.md"))
    assert uris(list_source(f"{tmp_path}/{unicodedata.normalize('NFC', 'ü')}*.md")) == [
        unicodedata.normalize("NFC", "über.md")
    ]


@pytest.mark.parametrize("pattern", ["*.mdx", "missing/*.md", "sub*"])
def test_a_glob_that_matches_no_file_is_an_error(tmp_path: Path, pattern: str) -> None:
    write(tmp_path, "a.md", "sub/b.md")
    with pytest.raises(SourceError, match="glob"):
        list_source(f"{tmp_path}/{pattern}")


def test_a_glob_that_matches_only_other_types_is_none(tmp_path: Path) -> None:
    write(tmp_path, "a.pdf")
    listing = list_source(f"{tmp_path}/*")
    assert (listing.entries, list(reasons(listing))) == ([], ["a.pdf"])


def test_a_glob_does_not_read_folders_in_which_nothing_can_match(tmp_path: Path, refuse_folder: Any) -> None:
    write(tmp_path, "a.md", "sub/b.md")
    refuse_folder(tmp_path / "sub")
    assert list_source(f"{tmp_path}/*.md").complete
