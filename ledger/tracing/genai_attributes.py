"""Names of attributes from OpenTelemetry's conventions for generative AI.

They are all in development there and may still change, so nothing else spells them out.
"""

AGENT_ID = "gen_ai.agent.id"
AGENT_NAME = "gen_ai.agent.name"
CONVERSATION_ID = "gen_ai.conversation.id"
OPERATION = "gen_ai.operation.name"
# Spans of these hold calls of models, which have their own spans: their sums would count twice.
WHOLES = frozenset({"create_agent", "invoke_agent", "invoke_workflow", "execute_tool"})

# The names by field of `usage`, the current ones first; the last are those of OpenInference.
MODEL = ("gen_ai.response.model", "gen_ai.request.model", "llm.model_name")
COST = ("gen_ai.usage.cost", "gen_ai.usage.cost_usd", "llm.cost.total")
TOKENS = {
    "input_tokens": (
        "gen_ai.usage.input_tokens",
        "gen_ai.usage.prompt_tokens",
        "llm.token_count.prompt",
    ),
    "output_tokens": (
        "gen_ai.usage.output_tokens",
        "gen_ai.usage.completion_tokens",
        "llm.token_count.completion",
    ),
    "cached_tokens": (
        "gen_ai.usage.cache_read.input_tokens",
        "llm.token_count.prompt_details.cache_read",
    ),
    "cache_write_tokens": (
        "gen_ai.usage.cache_creation.input_tokens",
        "llm.token_count.prompt_details.cache_write",
    ),
}
