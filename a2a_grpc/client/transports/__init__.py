"""How calls travel: gRPC, and JSON-RPC and HTTP+JSON over HTTP."""
