"""Where Tenfour runs and which token speaks: arguments, environment, file."""

from pathlib import Path

import pytest
from tenfour import NotConfigured
from tenfour.settings import read, tidy_url

ENV = {"TENFOUR_URL": "http://env:1", "TENFOUR_TOKEN": "tenfour_agt_env"}


def test_arguments_win_over_the_environment() -> None:
    read_settings = read("http://arg:1", "tenfour_agt_arg", environ=ENV)
    assert (read_settings.url, read_settings.token) == ("http://arg:1", "tenfour_agt_arg")


def test_the_environment_is_read() -> None:
    assert read(environ=ENV).token == "tenfour_agt_env"


def test_a_token_file_is_read_where_no_token_is_set(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("tenfour_agt_file\n")
    env = {"TENFOUR_URL": "http://env:1", "TENFOUR_TOKEN_FILE": str(file)}
    assert read(environ=env).token == "tenfour_agt_file"
    assert read(environ=ENV | env).token == "tenfour_agt_env"


def test_a_token_is_never_shown() -> None:
    assert "tenfour_agt_env" not in repr(read(environ=ENV))


@pytest.mark.parametrize(
    "url",
    ["http://host:8000", "http://host:8000/", "http://host:8000/v1", " http://host:8000/v1/ "],
)
def test_slashes_and_the_version_are_trimmed(url: str) -> None:
    assert tidy_url(url) == "http://host:8000"


@pytest.mark.parametrize(
    "url", ["", " ", "host:8000", "ftp://host", "http://", "http://h:99999", "http://[x"]
)
def test_what_is_no_address_is_refused_with_an_example(url: str) -> None:
    with pytest.raises(NotConfigured) as error:
        tidy_url(url)
    assert "TENFOUR_URL" in error.value.detail
    assert "http://127.0.0.1:8000" in error.value.hint


@pytest.mark.parametrize("token", ["", "two words", "tenfour_agt_\nx: y", "hëed"])
def test_what_is_no_token_is_refused(token: str) -> None:
    with pytest.raises(NotConfigured, match="TENFOUR_TOKEN"):
        read("http://host", environ={"TENFOUR_TOKEN": token})


def test_a_missing_token_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotConfigured, match="No such file"):
        read("http://host", environ={"TENFOUR_TOKEN_FILE": str(tmp_path / "none")})


@pytest.mark.parametrize(
    ("url", "local"),
    [
        ("http://127.0.0.1:8000", True),
        ("http://[::1]:8000", True),
        ("https://tenfour.example.org", False),
    ],
)
def test_this_machine_is_known(url: str, local: bool) -> None:
    assert read(url, "tenfour_x").is_local is local
