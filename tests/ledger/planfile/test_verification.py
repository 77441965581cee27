"""Commands in texts that say how to verify a task."""

import pytest

from ledger.planfile.verification import describe_verification


@pytest.mark.parametrize(
    "command",
    [
        "pytest -q",
        "npm test",
        "npm run test:all",
        "make check",
        "./scripts/check.sh --all",
        "python -m pytest tests/ -k 'works and is fast'",
        "CI=1 npm test -- --run",
        'test -f out.txt && grep -q "all is well" out.txt',
        "go test ./...",
        "git diff --exit-code .",
        "uv run --no-dev pytest",
    ],
)
def test_a_command_in_plain_words_is_proposed(command: str) -> None:
    expected = {"text": command, "proposed_command": command, "source": "proposed"}
    assert describe_verification(f"\n    {command}\n") == expected


@pytest.mark.parametrize(
    "text",
    [
        "All tests pass",
        "make sure that it works",
        "npm test passes",
        "npm test passes; npx tsc is clean",
        "Run the tests.",
        "go through the pages",
        "test that ids are refused",
        "pytest.",
        "curl returns 200",
        "npm test\nnpm run lint",
        "Check ids",
        "`npm test` and `npm run lint`",
        "x" * 5000,
    ],
)
def test_a_sentence_proposes_nothing(text: str) -> None:
    assert describe_verification(text) == {"text": text}


def test_an_empty_text_says_nothing() -> None:
    assert describe_verification(" \n") == {}


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("Run `grep -c Id README.md`", "grep -c Id README.md"),
        ("```bash\nnpm test\n```", "npm test"),
        ("````md\nnpm test\n```\n````", "npm test\n```"),
        ("~~~\nnpm test\n~~~", "npm test"),
    ],
)
def test_marked_code_is_proposed(text: str, command: str) -> None:
    assert describe_verification(text)["proposed_command"] == command
