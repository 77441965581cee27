"""An agent at a terminal, which tmux gives it inside the agents' network."""

import json
import shlex
import shutil
import subprocess
from pathlib import Path

from tests.agents.command_lines import Agent
from tests.waiting import wait_until

TMUX = shutil.which("tmux")
NO_TMUX = "NO TMUX: no agent was tried at a terminal, because there is no tmux on this machine."


class Terminal:
    """A session of an agent with its person; end it with `with`."""

    def __init__(self, agent: Agent, prompt: str, folder: Path) -> None:
        self.agent, self.socket = agent, str(folder / "tmux")
        prepare(agent)
        environment = agent.environment() | {"TERM": "xterm-256color"}
        pairs = (f"{name}={value}" for name, value in environment.items())
        command = shlex.join(["env", "-i", *pairs, *command_of(agent, prompt)])
        size = ["-x", "150", "-y", "50"]
        self.do("-f", "/dev/null", "new-session", "-d", *size, "-c", str(agent.work), command)

    def do(self, *words: str) -> str:
        argv = [TMUX or "tmux", "-S", self.socket, *words]
        done = self.agent.network.do(subprocess.run, argv, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return str(done.stdout)

    def screen(self) -> str:
        return self.do("capture-pane", "-p")

    def wait_for(self, text: str) -> None:
        wait_until(lambda: text in self.screen(), explain=self.screen)

    def press(self, *keys: str) -> None:
        self.do("send-keys", *keys)

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: object) -> None:
        self.do("kill-server")


def prepare(agent: Agent) -> None:
    """Write what a person has answered at the first start."""
    if agent.name == "codex":
        config = agent.home / ".codex" / "config.toml"
        own = 'approval_policy = "on-request"\nsandbox_mode = "workspace-write"\n'
        own += "check_for_update_on_startup = false\n"
        trust = f'\n[projects.{json.dumps(str(agent.work))}]\ntrust_level = "trusted"\n'
        # It asks about a newer model otherwise.
        trust += '\n[notice.model_migrations]\n"gpt-5.5" = "gpt-6-sol"\n'
        config.write_text(own + config.read_text() + trust)
        return
    known = {
        "hasCompletedOnboarding": True,
        "customApiKeyResponses": {"approved": [agent.env["ANTHROPIC_API_KEY"]]},
        "projects": {str(agent.work): {"hasTrustDialogAccepted": True}},
    }
    (agent.home / ".claude.json").write_text(json.dumps(known))


def command_of(agent: Agent, prompt: str) -> list[str]:
    if agent.name == "codex":
        return [agent.binary, "--dangerously-bypass-hook-trust", prompt]
    return [agent.binary, "--permission-mode", "default", prompt]
