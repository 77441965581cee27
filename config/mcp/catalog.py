"""The contents of `/mcp`: the tools in their order, and the text of the agent's loop."""

from typing import Any

from config.mcp import attempt_tools, instruction_tools, task_tools
from config.mcp.tools import Tool
from ledger.authorization.principal import Principal

TOOLS: tuple[Tool, ...] = (
    *attempt_tools.TOOLS,
    instruction_tools.PULL,
    instruction_tools.ACK,
    *task_tools.READS,
    task_tools.IMPORT,
    task_tools.CREATE,
    instruction_tools.SEND,
)
BY_NAME = {tool.name: tool for tool in TOOLS}

LOOP = """\
Tenfour hands you tasks and instructions and keeps track of them.

1. Call get_instructions. Follow each instruction, then call ack_instruction with its id.
2. Call claim_task. It returns the task that your session has already, if it has one. If there is \
no task, stop.
3. Do the task as its prompt says. A retry context in the prompt tells what went wrong before: fix \
that cause first. Call heartbeat while you work, and stop if it says so.
4. Run the task's verify command if it has one, and call report_result with its exit code and \
output. Never report a success that you have not verified.
5. Do what the reply says: fix and report again, claim the next task, or stop. If you need a \
decision, call ask_human and read the answer with get_escalation. Only people answer."""

PROMPT = {
    "name": "work",
    "title": "Work on Tenfour tasks",
    "description": "Follow your instructions, then do your tasks one after another.",
}


def list_tools(principal: Principal) -> list[dict[str, Any]]:
    # The tools are always in the same order.
    return [tool.describe() for tool in TOOLS if tool.is_usable_by(principal)]
