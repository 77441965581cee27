"""Names of attributes from OpenTelemetry's conventions for generative AI.

They are all in development there and may still change, so nothing else spells them out.
"""

AGENT_ID = "gen_ai.agent.id"
AGENT_NAME = "gen_ai.agent.name"
CONVERSATION_ID = "gen_ai.conversation.id"
