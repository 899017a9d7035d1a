"""The card of an agent: fetched, kept by the rules of HTTP, and the interface of it to use."""
