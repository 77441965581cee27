"""Completions, tried in the shells themselves; zsh and fish where they are installed."""

import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from tenfour import cli
from tenfour.commands.completion import read_tree

from tests.client.conftest import Run
from tests.serving import environment
from tests.waiting import PATIENCE_S

TRIED = (
    (["ta"], {"target", "targets", "task", "tasks"}),
    (["es"], {"esc", "escalation", "escalations"}),
    (["task", "a"], {"abort", "assign"}),
    (["help", "plan", "i"], {"import"}),
    (["tasks", "--s"], {"--state", "--search"}),
    (["plan", "import", "--mo"], {"--mode"}),
    (["esc", "resolve", "x", "--dependents", "b"], {"block"}),
    (["send", "--e"], {"--expect"}),
    (["completion", "z"], {"zsh"}),
)


@pytest.fixture
def scripts(run: Run, tmp_path: Path) -> Path:
    for shell in ("bash", "zsh", "fish"):
        made = run("completion", shell)
        assert (made.status, made.err) == (0, "")
        (tmp_path / f"tenfour.{shell}").write_text(made.out)
    return tmp_path


def complete_in_bash(script: Path, words: Sequence[str]) -> set[str]:
    code = """
    source "$1"; shift
    COMP_WORDS=(tenfour "$@"); COMP_CWORD=$#
    _tenfour
    printf '%s\\n' "${COMPREPLY[@]}"
    """
    argv = ["bash", "-c", code, "bash", str(script), *words]
    return read_words(argv)


def complete_in_fish(script: Path, words: Sequence[str]) -> set[str]:
    code = f"source {shlex.quote(str(script))}; complete -C 'tenfour {' '.join(words)}'"
    lines = read_words(["fish", "--no-config", "-c", code])
    return {line.split("\t")[0] for line in lines}


def read_words(argv: Sequence[str]) -> set[str]:
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=PATIENCE_S)
    assert done.stderr == ""
    return set(done.stdout.splitlines())


def test_bash_completes_commands_nouns_verbs_options_and_their_values(scripts: Path) -> None:
    script = scripts / "tenfour.bash"
    for words, wanted in TRIED:
        assert complete_in_bash(script, words) == wanted, words
    first = complete_in_bash(script, [""])
    assert first >= {*cli.COMMANDS, *cli.NOUNS, *cli.ALIASES, "help"}
    for node in read_tree():
        if node.verbs:
            verbs = complete_in_bash(script, [node.name, ""])
            assert verbs == {verb.name for verb in node.verbs}
    files = {f"{scripts}/plan.yaml", f"{scripts}/plan of tests.yaml"}
    for file in files:
        Path(file).touch()
    assert complete_in_bash(script, ["plan", "import", f"{scripts}/pl"]) == files
    assert complete_in_bash(script, ["report", "x", "--result", f"{scripts}/pl"]) == files


@pytest.mark.skipif(not shutil.which("fish"), reason="NO FISH: its completions were not tried.")
def test_fish_completes_the_same(scripts: Path) -> None:
    for words, wanted in TRIED:
        assert complete_in_fish(scripts / "tenfour.fish", words) == wanted, words


@pytest.mark.skipif(not shutil.which("zsh"), reason="NO ZSH: its completions were not tried.")
def test_zsh_reads_its_completions(scripts: Path) -> None:
    argv = ["zsh", "-f", "-n", str(scripts / "tenfour.zsh")]
    assert read_words(argv) == set()


def test_the_three_scripts_have_the_same_words(scripts: Path) -> None:
    texts = [(scripts / f"tenfour.{shell}").read_text() for shell in ("bash", "zsh", "fish")]
    for node in read_tree():
        for each in (node, *node.verbs):
            for option in each.options:
                for name in option.names:
                    assert all(name.lstrip("-") in text for text in texts), name
            assert all(each.name in text for text in texts)


def test_a_noun_imports_its_own_module_and_not_the_others() -> None:
    code = """
import sys
from tenfour import cli
cli.main(["task"])
print("--")
print(*(name for name in sys.modules if name.startswith("tenfour.nouns.")))
print(*({"httpx2", "rich", "asyncio", "shutil"} & sys.modules.keys()), "end")
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=environment({}),
        check=True,
    )
    modules, slow = done.stdout.rpartition("--\n")[2].splitlines()
    loaded = {name.rpartition(".")[2] for name in modules.split()}
    assert "task" in loaded and not loaded & {"plan", "agent", "event", "pattern", "following"}
    assert slow == "end"
