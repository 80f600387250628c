"""Searching and downloading, against a web server on loopback."""

from __future__ import annotations

import hashlib
import io
import socket
import tarfile
from pathlib import Path

import pytest

from fedkin.core.errors import ChecksumError, DataError, StorageError
from fedkin.data import image_files
from fedkin.data.download import Source, cache_folder, fetch, locate
from tests.data.conftest import Web


def md5(content: bytes) -> str:
    return hashlib.md5(content).hexdigest()


A = b"first file" * 1000
B = b"second file" * 500
TOY = Source(
    "toy", {"a.bin": md5(A), "b.bin": md5(B)}, folders=("TOY", "toy"), url="http://127.0.0.1:9/"
)


def everything_below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_downloads_into_the_cache_once(web: Web) -> None:
    web.files |= {"a.bin": A, "b.bin": B}
    folder = fetch(TOY, base_url=web.url)
    assert folder == cache_folder() / "TOY" and everything_below(cache_folder()) == [
        "TOY/a.bin",
        "TOY/b.bin",
    ]
    assert (folder / "a.bin").read_bytes() == A
    assert fetch(TOY, base_url=web.url) == folder and web.asked == ["a.bin", "b.bin"]


def test_half_a_set_is_completed(web: Web) -> None:
    web.files |= {"a.bin": A, "b.bin": B}
    (cache_folder() / "TOY").mkdir(parents=True)
    (cache_folder() / "TOY" / "a.bin").write_bytes(A)
    fetch(TOY, base_url=web.url)
    assert web.asked == ["b.bin"]


def test_wrong_checksum_leaves_nothing(web: Web) -> None:
    web.files |= {"a.bin": A[:-1] + b"!", "b.bin": B}
    with pytest.raises(ChecksumError, match=rf"a\.bin.*{md5(A)}"):
        fetch(TOY, base_url=web.url)
    assert everything_below(cache_folder()) == []


def test_missing_on_the_server(web: Web) -> None:
    web.files["a.bin"] = A
    with pytest.raises(DataError, match=r"b\.bin: could not be downloaded.*404.*by hand"):
        fetch(TOY, base_url=web.url)
    assert everything_below(cache_folder()) == ["TOY/a.bin"]


def test_broken_off_leaves_nothing(web: Web) -> None:
    web.files |= {"a.bin": A, "b.bin": B}
    web.missing_bytes["a.bin"] = 7
    with pytest.raises(DataError, match=r"a\.bin"):
        fetch(TOY, base_url=web.url)
    assert everything_below(cache_folder()) == []


def test_no_network(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with socket.socket() as closed:  # a port without a listener
        closed.bind(("127.0.0.1", 0))
        with pytest.raises(DataError, match=r"Check the network.*FEDKIN_DATA"):
            fetch(TOY, base_url=f"http://127.0.0.1:{closed.getsockname()[1]}/")
    assert everything_below(cache_folder()) == []


def test_damaged_cache_is_downloaded_again(web: Web) -> None:
    web.files |= {"a.bin": A, "b.bin": B}
    folder = fetch(TOY, base_url=web.url)
    (folder / "a.bin").write_bytes(b"bit rot")
    assert (fetch(TOY, base_url=web.url) / "a.bin").read_bytes() == A
    assert web.asked == ["a.bin", "b.bin", "a.bin"]


@pytest.mark.parametrize("sub", ["TOY", "toy", "TOY/raw"])
def test_own_folder_comes_first(web: Web, places: Path, sub: str) -> None:
    web.files |= {"a.bin": A, "b.bin": B}
    fetch(TOY, base_url=web.url)
    own = places / sub
    own.mkdir(parents=True)
    (own / "a.bin").write_bytes(A)
    assert fetch(TOY) == cache_folder() / "TOY"  # the own folder is not complete
    (own / "b.bin").write_bytes(B)
    assert locate(TOY) == fetch(TOY) == own


def test_damaged_own_file_is_refused_and_kept(web: Web, places: Path) -> None:
    web.files |= {"a.bin": A, "b.bin": B}
    (places / "TOY").mkdir()
    (places / "TOY" / "a.bin").write_bytes(b"wrong")
    (places / "TOY" / "b.bin").write_bytes(B)
    with pytest.raises(ChecksumError, match=rf"a\.bin.*{md5(A)}.*{md5(b'wrong')}"):
        fetch(TOY, base_url=web.url)
    assert (places / "TOY" / "a.bin").read_bytes() == b"wrong" and web.asked == []


def test_own_folder_must_exist(places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDKIN_DATA", str(places / "nowhere"))
    with pytest.raises(DataError, match=r"FEDKIN_DATA.*nowhere"):
        fetch(TOY)


def test_set_without_address_says_where_to_look(places: Path) -> None:
    with pytest.raises(
        DataError, match=r"thing\.npz not found in .*data/X, .*cache/data/X\. Ask Ann"
    ):
        fetch(Source("thing", {"thing.npz": None}, folders=("X",), help="Ask Ann."))


def test_unwritable_cache(web: Web, places: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    web.files |= {"a.bin": A, "b.bin": B}
    (places / "file").write_text("in the way")
    monkeypatch.setenv("FEDKIN_CACHE", str(places / "file"))
    with pytest.raises(StorageError, match="FEDKIN_CACHE"):
        fetch(TOY, base_url=web.url)


def tar(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return out.getvalue()


def packed(content: bytes) -> Source:
    return Source(
        "packed", {"a.bin": None, "b.bin": None}, folders=("P",), archive=("p.tar.gz", md5(content))
    )


def test_archive_is_unpacked_and_removed(web: Web) -> None:
    web.files["p.tar.gz"] = tar({"deep/a.bin": A, "deep/b.bin": B, "../escape": b"no"})
    source = packed(web.files["p.tar.gz"])
    assert (fetch(source, base_url=web.url) / "b.bin").read_bytes() == B
    assert everything_below(cache_folder()) == ["P/a.bin", "P/b.bin"]
    assert fetch(source, base_url=web.url) == cache_folder() / "P" and web.asked == ["p.tar.gz"]


@pytest.mark.parametrize(
    "content", [tar({"a.bin": A}), b"no tar at all", tar({"a.bin": A, "b.bin": B})[:-40]]
)
def test_bad_archive_leaves_no_folder(web: Web, content: bytes) -> None:
    web.files["p.tar.gz"] = content
    with pytest.raises(DataError, match=r"p\.tar\.gz"):
        fetch(packed(content), base_url=web.url)
    assert not (cache_folder() / "P").exists()


def test_real_mnist_over_the_wire(web: Web, shared_data: Path) -> None:
    for name in image_files.MNIST.files:
        web.files[name] = (shared_data / "MNIST" / name).read_bytes()
    folder = fetch(image_files.MNIST, base_url=web.url)
    assert everything_below(folder) == sorted(image_files.MNIST.files)
    assert len(image_files.mnist_images().y) == 70_000


# What `git hash-object` prints of these five letters and a line feed; their plain SHA-1 begins with
# f572d396.
HELLO = b"hello\n"
HELLO_ID = "ce013625030ba8dba906f756967f9e9ca394464a"
IN_GIT = Source("git", {"part/h.txt": HELLO_ID}, folders=("GIT",), url="http://127.0.0.1:9/")


def test_a_file_is_known_by_its_id_in_git(web: Web) -> None:
    web.files["h.txt"] = HELLO
    folder = fetch(IN_GIT, base_url=web.url)
    assert (folder / "part" / "h.txt").read_bytes() == HELLO
    assert fetch(IN_GIT) == folder and web.asked == ["h.txt"]
    # A damaged file in the cache is downloaded again.
    (folder / "part" / "h.txt").write_bytes(b"bit rot")
    assert (fetch(IN_GIT, base_url=web.url) / "part" / "h.txt").read_bytes() == HELLO
    assert web.asked == ["h.txt", "h.txt"]


def test_a_file_with_another_id_is_refused_and_deleted(web: Web, places: Path) -> None:
    web.files["h.txt"] = b"Hello\n"
    with pytest.raises(ChecksumError, match=rf"h\.txt: expected git id {HELLO_ID}"):
        fetch(IN_GIT, base_url=web.url)
    assert everything_below(cache_folder()) == []
    (places / "GIT" / "part").mkdir(parents=True)
    (places / "GIT" / "part" / "h.txt").write_bytes(b"Hello\n")
    with pytest.raises(ChecksumError, match=rf"expected git id {HELLO_ID}, got e965047a"):
        fetch(IN_GIT, base_url=web.url)
