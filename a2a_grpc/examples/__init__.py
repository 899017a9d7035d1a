"""Agents to read, run and call. Each is run by a test."""
