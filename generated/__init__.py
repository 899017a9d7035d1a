"""What protoc wrote: messages, stubs and servicers. Never edited; `make generate` writes it anew."""
