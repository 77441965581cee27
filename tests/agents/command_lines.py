"""The real command lines of two coding agents, each at home in an empty folder."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tenfour.setup.agent_files import with_mcp_toml

from tests.agents.network import Network, end_session
from tests.agents.scripted_model import ProviderError, Request, ScriptedModel, Tool
from tests.waiting import PATIENCE_S


@dataclass(frozen=True)
class Ended:
    """One run of an agent: its exit code and what it printed."""

    code: int
    out: str
    err: str


@dataclass
class Agent:
    """An agent's program with an empty home, a work folder, and the scripted model."""

    binary: str
    network: Network
    model: ScriptedModel
    home: Path
    work: Path
    # beside those that the program itself needs
    env: dict[str, str] = field(default_factory=dict)

    name = ""

    def __post_init__(self) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        self.work.mkdir(parents=True, exist_ok=True)
        self.prepare()

    def prepare(self) -> None:
        """Write what the program must find at home."""

    @property
    def hooks_file(self) -> Path:
        """Return the file that holds this agent's own hooks."""
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        # with the command `tenfour` of this environment
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        return {"PATH": path, "HOME": str(self.home), "LANG": "C.UTF-8", **self.env}

    def command(self, prompt: str, *, resume: bool) -> list[str]:
        raise NotImplementedError

    def run(self, prompt: str, *, resume: bool = False) -> Ended:
        """Give the agent a prompt, in a new session or in the last one, and wait for its end."""
        process = self.network.start(
            self.command(prompt, resume=resume),
            cwd=self.work,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            out, err = process.communicate(timeout=PATIENCE_S)
        finally:
            end_session(process, signal.SIGKILL)
        return Ended(process.returncode, out.decode(), err.decode())

    def remove_mcp(self) -> None:
        """Remove the entry of the MCP server `tenfour`."""
        raise NotImplementedError

    def shell(self, command: str) -> Tool:
        """Return the step that runs a command."""
        raise NotImplementedError

    def start(self, command: str) -> Tool:
        """Return the step that starts a command and does not wait for its end."""
        raise NotImplementedError

    def delegate(self, prompt: str) -> Tool:
        """Return the step that starts a subagent and does not wait for its end."""
        raise NotImplementedError

    def limit(self, text: str, *, resets_at: int = 0) -> ProviderError:
        """Return the step at which the agent's account is at its limit of 5 hours."""
        raise NotImplementedError

    def write_file(self, path: str, text: str) -> Tool:
        """Return the step that writes a new file in the work folder."""
        raise NotImplementedError

    def call_mcp(self, tool: str, **given: Any) -> Tool:
        """Return the step that calls a tool of the MCP server `tenfour`."""
        raise NotImplementedError


class ClaudeCode(Agent):
    name = "claude"
    # It asks about the calls of others.
    allowed_tools = "Bash,Write,Edit,mcp__tenfour"

    def prepare(self) -> None:
        self.env = {
            "ANTHROPIC_BASE_URL": self.model.url,
            "ANTHROPIC_API_KEY": "no-key",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            # The newest models get the tools that write a to-do list only on request.
            "CLAUDE_CODE_ENABLE_TODO_TOOLS": "1",
            # Otherwise, it tries again for minutes where its account is at a limit.
            "CLAUDE_CODE_MAX_RETRIES": "0",
            # Otherwise, it begins before its MCP servers have started.
            "MCP_CONNECTION_NONBLOCKING": "0",
            "MCP_TIMEOUT": str(1000 * PATIENCE_S),
            **self.env,
        }

    @property
    def hooks_file(self) -> Path:
        return self.work / ".claude" / "settings.json"

    def command(self, prompt: str, *, resume: bool) -> list[str]:
        more = ["--continue"] if resume else []
        print_ = ["-p", prompt, "--output-format", "json"]
        return [self.binary, *print_, "--allowedTools", self.allowed_tools, *more]

    def remove_mcp(self) -> None:
        (self.work / ".mcp.json").unlink()

    def shell(self, command: str) -> Tool:
        return Tool("Bash", {"command": command, "description": "as scripted"})

    def start(self, command: str) -> Tool:
        given = {"command": command, "description": "as scripted", "run_in_background": True}
        return Tool("Bash", given)

    def delegate(self, prompt: str) -> Tool:
        given = {"description": "as scripted", "prompt": prompt, "run_in_background": True}
        return Tool("Agent", given | {"subagent_type": "general-purpose"})

    def limit(self, text: str, *, resets_at: int = 0) -> ProviderError:
        named = {
            "anthropic-ratelimit-unified-status": "rejected",
            "anthropic-ratelimit-unified-representative-claim": "five_hour",
            "anthropic-ratelimit-unified-reset": str(resets_at),
            "anthropic-ratelimit-unified-5h-utilization": "1.0",
            "anthropic-ratelimit-unified-5h-reset": str(resets_at),
        }
        error = {"type": "rate_limit_error", "message": text}
        return ProviderError(429, error, named if resets_at else {})

    def write_file(self, path: str, text: str) -> Tool:
        return Tool("Write", {"file_path": str(self.work / path), "content": text})

    def call_mcp(self, tool: str, **given: Any) -> Tool:
        return Tool(f"mcp__tenfour__{tool}", given)


# Codex's name for its tools of subagents.
SUBAGENTS = "multi_agent_v1"


class Codex(Agent):
    name = "codex"

    def prepare(self) -> None:
        config = self.home / ".codex" / "config.toml"
        config.parent.mkdir(exist_ok=True)
        provider = {
            "name": "Scripted",
            "base_url": f"{self.model.url}/v1",
            "wire_api": "responses",
            "env_key": "SCRIPTED_KEY",
        }
        fields = "".join(f"{name} = {json.dumps(value)}\n" for name, value in provider.items())
        config.write_text(
            'model = "gpt-5.5"\nmodel_provider = "scripted"\n'
            # Otherwise, it waits 5 s at its end for an address that is not here.
            f'\n[otel]\nmetrics_exporter = "none"\n\n[analytics]\nenabled = false\n'
            f"\n[model_providers.scripted]\n{fields}"
        )
        self.env = {"CODEX_HOME": str(config.parent), "SCRIPTED_KEY": "no-key", **self.env}

    @property
    def hooks_file(self) -> Path:
        return self.home / ".codex" / "hooks.json"

    def command(self, prompt: str, *, resume: bool) -> list[str]:
        may = [
            "--json",
            "--skip-git-repo-check",
            "--dangerously-bypass-hook-trust",
            "--dangerously-bypass-approvals-and-sandbox",
        ]
        return [self.binary, "exec", *may, *(["resume", "--last"] if resume else []), prompt]

    def remove_mcp(self) -> None:
        config = self.home / ".codex" / "config.toml"
        config.write_text(with_mcp_toml(config.read_text(), None))

    def shell(self, command: str) -> Tool:
        return Tool("exec_command", {"cmd": command})

    def start(self, command: str) -> Tool:
        return Tool("exec_command", {"cmd": command, "yield_time_ms": 250})

    def delegate(self, prompt: str) -> Tool:
        given = {"message": prompt, "agent_type": "default"}
        return Tool("spawn_agent", given, namespace=SUBAGENTS)

    def wait_for(self, started: Request) -> Tool:
        """Return the step that waits for the subagent that was started."""
        (id,) = re.findall(r'"agent_id":\s*"([^"]+)"', started.newest)
        given = {"targets": [id], "timeout_ms": 1000 * PATIENCE_S}
        return Tool("wait_agent", given, namespace=SUBAGENTS)

    def limit(self, text: str, *, resets_at: int = 0) -> ProviderError:
        named = {
            "x-codex-primary-used-percent": "100",
            "x-codex-primary-window-minutes": "300",
            "x-codex-primary-reset-at": str(resets_at),
        }
        error = {"type": "usage_limit_reached", "message": text}
        return ProviderError(429, error, named if resets_at else {})

    def write_file(self, path: str, text: str) -> Tool:
        lines = "".join(f"+{line}\n" for line in text.splitlines())
        patch = f"*** Begin Patch\n*** Add File: {path}\n{lines}*** End Patch"
        return Tool("apply_patch", patch)

    def call_mcp(self, tool: str, **given: Any) -> Tool:
        return Tool(tool, given, namespace="mcp__tenfour")


AGENTS: dict[str, type[Agent]] = {each.name: each for each in (ClaudeCode, Codex)}
OLDER = "-older"
# The file `versions` has them all: what depends on the version is tested with the older one, too.
VERSIONS = [*AGENTS, *(name + OLDER for name in AGENTS)]


def find_binary(name: str) -> str | None:
    """Return the program that a variable such as TENFOUR_CLAUDE_OLDER names, or one on PATH."""
    variable = f"TENFOUR_{name.upper().replace('-', '_')}"
    return shutil.which(os.environ.get(variable) or name)
