"""The machine that code is made for, and code made for it. Needs no compiler: llvmlite brings LLVM."""

from __future__ import annotations

import functools
import itertools
import platform
import threading
from dataclasses import dataclass
from typing import Any, Final

import llvmlite
import llvmlite.binding as llvm

OFF: Final = "-prefer-256-bit"  # registers of 512 bits, where there are any
_lock = threading.Lock()
_numbers = itertools.count()


@dataclass(frozen=True)
class Host:
    """`vector`: bytes of the widest registers; `registers`: how many."""

    name: str
    features: str
    vector: int
    registers: int

    @property
    def key(self) -> str:
        return f"{self.name} {self.features} llvmlite {llvmlite.__version__} LLVM {'.'.join(map(str, llvm.llvm_version_info))}"


@functools.lru_cache(1)
def host() -> Host:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features()
    x86 = platform.machine().lower() in ("x86_64", "amd64")
    flat = ",".join([*([features.flatten()] if features else []), *([OFF] if x86 else [])])
    wide = 64 if features.get("avx512f") and features.get("avx512vl") else 32 if features.get("avx2") else 16
    return Host(llvm.get_host_cpu_name(), flat, wide, 32 if wide == 64 or not x86 else 16)


@functools.lru_cache(1)
def _machine() -> Any:
    return _new_machine()


def _new_machine() -> Any:
    known = host()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(cpu=known.name, features=known.features, opt=3, reloc="pic", codemodel="default", jit=True)


@functools.lru_cache(1)
def _linker() -> Any:
    """By JITLink, which puts all of a piece of code into one block of memory. RuntimeDyld, LLVM's older linker, maps code and constants one
    by one, and ends the process where memory is so fragmented that they lie further apart than 32 bits reach (llvm-project#71963)."""
    return llvm.create_lljit_compiler(_new_machine(), use_jit_link=True)


def linked(code: bytes, name: str, *wanted: str) -> tuple[Any, dict[str, int]]:
    """Machine code where it can be called: what keeps it there, and addresses of what is wanted."""
    with _lock:
        builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
        for one in wanted:
            builder.export_symbol(one)
        library = builder.link(_linker(), f"{name} {next(_numbers)}")
    return library, {one: library[one] for one in wanted}


def object_code(text: str, *, vectors: bool = False) -> bytes:
    """LLVM's text to machine code. `vectors`: let LLVM look for vectors, too."""
    with _lock:
        module = llvm.parse_assembly(text)
        machine = _machine()
        options = llvm.create_pipeline_tuning_options(speed_level=3)
        options.loop_vectorization = vectors
        options.slp_vectorization = vectors
        builder = llvm.create_pass_builder(machine, options)
        builder.getModulePassManager().run(module, builder)
        made: bytes = machine.emit_object(module)
    return made


def assembly(text: str) -> str:
    """For people: what the processor gets."""
    with _lock:
        module = llvm.parse_assembly(text)
        machine = _machine()
        builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=3))
        builder.getModulePassManager().run(module, builder)
        return str(machine.emit_assembly(module))
