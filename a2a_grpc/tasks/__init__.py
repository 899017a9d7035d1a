"""The task engine: optional, behind AgentServicer. You write one turn of an agent and get the whole protocol."""
