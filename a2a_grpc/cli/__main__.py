"""`python -m a2a_grpc.cli`, the same as `a2a-grpc`."""

from . import main

if __name__ == "__main__":
    main()
