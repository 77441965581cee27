"""The worker of `make up` reads its setting; `tests/config/local/test_up.py` runs it."""

import pytest

from config.celery_processes import count_threads


@pytest.mark.parametrize("text", ["four", "0", "-1", "2.5"])
def test_a_number_of_threads_that_is_none_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(SystemExit, match=f"TENFOUR_WORKER_THREADS must be .*{text}"):
        count_threads(text)
    assert count_threads("3") == 3
