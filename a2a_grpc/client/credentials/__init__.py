"""Credentials: kept by providers, chosen by the security schemes of a card, presented with each call."""
