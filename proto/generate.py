"""Writes generated/ from the .proto files: `python proto/generate.py [--check]`, with grpcio-tools 1.71.2.

The descriptors must be byte-equal to the ones that other packages of the protocol register, because protobuf's default
pool refuses two different files that define the same names. Two things make them so: `json_name` is kept on every field
(the plugins read a descriptor set, not the source), and `field_behavior` is encoded unpacked (the source is compiled
against a copy of the installed definition that says so).
"""

import argparse
import filecmp
import hashlib
import re
import shutil
import sys
import tempfile
from importlib.resources import files
from pathlib import Path

from google.api import annotations_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet, MethodDescriptorProto
from grpc_tools import protoc

PROTO = Path(__file__).resolve().parent
GENERATED = PROTO.parent / "generated"
DESCRIPTORS = {
    "a2a.proto": "2e6ebfecf20eb1004cb76f3029e3cd93761447cf80aebf99fc1b76794f1b1cfb",
    "a2a_v0_3.proto": "b98d9d2041614df28a7d015abffcc3573a9ab45ca077fc079f060935b6a8eb84",
}
PACKAGE = "a2a_grpc.generated"  # whose messages can be pickled
INIT = '"""What protoc wrote: messages, stubs and servicers. Never edited; `make generate` writes it anew."""\n'


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if generated/ is not what would be")
    check = parser.parse_args().check
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch, "generated")
        generate(Path(scratch), out)
        if check:
            return report(drift(out))
        shutil.rmtree(GENERATED, ignore_errors=True)
        shutil.copytree(out, GENERATED)
    return 0


def generate(scratch: Path, out: Path) -> None:
    out.mkdir()
    compiled = scratch / "descriptors.bin"
    run(f"-I{unpacked_field_behavior(scratch)}", f"-I{common_protos()}", f"-I{PROTO}", "--include_imports",
        f"--descriptor_set_out={compiled}", *DESCRIPTORS)  # fmt: skip
    run(f"--descriptor_set_in={compiled}", f"--python_out={out}", f"--pyi_out={out}", f"--grpc_python_out={out}",
        *DESCRIPTORS)  # fmt: skip
    (out / "__init__.py").write_text(INIT)
    for file in FileDescriptorSet.FromString(compiled.read_bytes()).file:
        if file.name in DESCRIPTORS:
            finish(out, file)


def run(*arguments: str) -> None:
    well_known = files("grpc_tools") / "_proto"
    if protoc.main(["protoc", f"-I{well_known}", *arguments]):
        sys.exit(f"protoc failed: {' '.join(arguments)}")


def common_protos() -> Path:
    return Path(annotations_pb2.__file__).parents[2]


def unpacked_field_behavior(scratch: Path) -> Path:
    source = (common_protos() / "google/api/field_behavior.proto").read_text()
    target = scratch / "include/google/api/field_behavior.proto"
    target.parent.mkdir(parents=True)
    target.write_text(re.sub(r"(field_behavior = 1052)( \[packed = false\])?;", r"\1 [packed = false];", source))
    return scratch / "include"


def finish(out: Path, file: FileDescriptorProto) -> None:
    """Makes imports relative, names the module in full, types the servicer, and holds the descriptor to its hash."""
    module = file.name.removesuffix(".proto")
    messages = out / f"{module}_pb2.py"
    messages.write_text(
        messages.read_text().replace(f"'{module}_pb2', _globals", f"'{PACKAGE}.{module}_pb2', _globals")
    )
    grpc_module = out / f"{module}_pb2_grpc.py"
    grpc_module.write_text(
        re.sub(rf"^import ({module}_pb2) as", r"from . import \1 as", grpc_module.read_text(), flags=re.M)
    )
    (out / f"{module}_pb2_grpc.pyi").write_text(typed_grpc(module, file))
    embedded = re.search(r"AddSerializedFile\((b'.*')\)", messages.read_text())
    found = hashlib.sha256(eval(embedded[1])).hexdigest() if embedded else "no descriptor"
    if found != DESCRIPTORS[file.name]:
        sys.exit(f"{file.name}: the compiled descriptor is {found}, not {DESCRIPTORS[file.name]}")


def typed_grpc(module: str, file: FileDescriptorProto) -> str:
    lines = [
        "from collections.abc import AsyncIterator, Awaitable, Iterator",
        "from typing import Any",
        "",
        "import grpc",
        "import grpc.aio",
        "from google.protobuf import empty_pb2",
        "",
        f"from . import {module}_pb2",
    ]
    for service in file.service:
        lines += ["", f"class {service.name}Stub:", "    def __init__(self, channel: grpc.aio.Channel) -> None: ..."]
        lines += [stub_attribute(module, file.package, method) for method in service.method]
        lines += ["", f"class {service.name}Servicer:"]
        lines += [servicer_method(module, file.package, method) for method in service.method]
        lines += ["", f"def add_{service.name}Servicer_to_server("]
        lines += [f"    servicer: {service.name}Servicer, server: grpc.Server | grpc.aio.Server", ") -> None: ..."]
    return "\n".join(lines) + "\n"


def stub_attribute(module: str, package: str, method: MethodDescriptorProto) -> str:
    shape = "UnaryStream" if method.server_streaming else "UnaryUnary"
    request, response = (python_name(module, package, t) for t in (method.input_type, method.output_type))
    return f"    {method.name}: grpc.aio.{shape}MultiCallable[{request}, {response}]"


def servicer_method(module: str, package: str, method: MethodDescriptorProto) -> str:
    request, response = (python_name(module, package, t) for t in (method.input_type, method.output_type))
    stream = f"AsyncIterator[{response}] | Iterator[{response}] | Awaitable[None]"
    result = stream if method.server_streaming else f"Awaitable[{response}] | {response}"
    return (
        f"    def {method.name}(\n        self, request: {request}, context: grpc.aio.ServicerContext[Any, Any]\n"
        f"    ) -> {result}: ..."
    )


def python_name(module: str, package: str, type_name: str) -> str:
    if type_name == ".google.protobuf.Empty":
        return "empty_pb2.Empty"
    return f"{module}_pb2.{type_name.removeprefix(f'.{package}.')}"


def drift(out: Path) -> list[str]:
    names = {p.name for p in (*out.iterdir(), *GENERATED.glob("*.py*"))} - {"__pycache__"}
    _, different, missing = filecmp.cmpfiles(out, GENERATED, sorted(names), shallow=False)
    return [*different, *missing]


def report(names: list[str]) -> int:
    for name in names:
        print(f"generated/{name} is not what the .proto files give; run `make generate`", file=sys.stderr)
    return 1 if names else 0


if __name__ == "__main__":
    sys.exit(main())
