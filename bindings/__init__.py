"""How the protocol looks on the wire: gRPC, JSON-RPC and HTTP+JSON, each a thin adapter onto the same servicer."""
