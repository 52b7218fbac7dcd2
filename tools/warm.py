"""Kernels that need not read PyTorch again: each is forked from one process,
which has imported what most notebooks import.

    python tools/warm.py serve SOCKET           import, then fork a kernel for each that asks, until
                                                stdin ends
    python tools/warm.py ask NAME -f FILE …     what Jupyter starts in a kernel's place: it lives
                                                and dies with the kernel

What the environment names in IMPORT_FIRST is imported before the kernel is forked, and stays for
those that come after. A kernel is still a process of its own; only what importing leaves in memory
is shared. Linux alone: elsewhere the system's libraries do not bear a fork, and kernels begin cold.
"""

import json
import os
import signal
import socket
import sys

IMPORTED = (
    "ipykernel.kernelapp",
    "ipykernel.ipkernel",
    "ipykernel.debugger",
    "IPython.core.completerlib",
    "torch",
    "torch._dynamo",
    "altair",
    "fastcore.all",
)


def serve(number: str) -> None:
    "Import, and fork a kernel for each that asks at the listening socket with this number."
    import select

    import_all(*IMPORTED)
    # who asked hears when a kernel ends; nobody waits for it here
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(fileno=int(number)) as door:
        while sys.stdin not in select.select([door, sys.stdin], [], [])[0]:
            with door.accept()[0] as link:
                if line := link.makefile().readline():  # else who asked is gone
                    fork(json.loads(line), link, door)
    os._exit(0)  # at once


def fork(wanted: dict, link: socket.socket, door: socket.socket) -> None:
    "Fork the kernel that was asked for, with what it is to have in memory."
    from contextlib import suppress

    with suppress(ImportError):  # a cell will say it better
        import_all(*wanted["env"].pop("IMPORT_FIRST", "").split())
    if not os.fork():
        door.close()
        become(wanted, link)


def import_all(*modules: str) -> None:
    "What is imported here, kernels that are forked from now on have in memory."
    from importlib import import_module
    from warnings import catch_warnings, simplefilter

    with catch_warnings():
        simplefilter("ignore")  # they are for whoever imports it in a cell
        for module in modules:
            import_module(module)


def become(wanted: dict, link: socket.socket) -> None:
    "Be the kernel that was asked for, as long as the other end is there."
    from threading import Thread

    from ipykernel.kernelapp import launch_new_instance

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.environ.clear()
    os.environ.update(wanted["env"], JPY_PARENT_PID=str(os.getppid()))
    os.chdir(wanted["cwd"])
    # not the folder of this script
    sys.path[:1] = ["", *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    Thread(target=lambda: (link.recv(1), os._exit(1)), daemon=True).start()
    sys.argv[1:] = wanted["argv"]
    launch_new_instance()
    os._exit(0)


def ask(name: str, *argv: str) -> None:
    "Ask for a kernel, and stay until it ends."
    # Jupyter's first word at the end; its last is that this is killed
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as link:
        link.connect(f"\0{name}")
        wanted = {"argv": argv, "env": dict(os.environ), "cwd": os.getcwd()}
        link.sendall(json.dumps(wanted).encode() + b"\n")
        link.recv(1)


if __name__ == "__main__":
    {"serve": serve, "ask": ask}[sys.argv[1]](*sys.argv[2:])
