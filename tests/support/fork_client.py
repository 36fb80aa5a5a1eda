"""Fork client — stands for a program that the fork server starts: `python -IS fork_client.py SOCKET [--terminal] MODULE …`.

Input, outputs, folder and environment are this process's; signals go on to the program, SIGUSR1 as SIGKILL, and it ends as
the program ended. The program's process id is in the file `SOCKET.<id of this process>`.
"""

import os
import signal
import socket
import sys

HEAD_BYTES = 4


def main() -> None:
    path, *arguments = sys.argv[1:]
    terminal = arguments[0] == "--terminal"
    arguments = arguments[terminal:]
    env = [f"{name}={value}" for name, value in os.environ.items()]
    data = os.fsencode("\0".join([os.getcwd(), str(int(terminal)), str(len(arguments)), *arguments, *env]))
    server = socket.socket(socket.AF_UNIX)
    server.connect(path)
    signals = {signal.SIGINT: signal.SIGINT, signal.SIGTERM: signal.SIGTERM, signal.SIGUSR1: signal.SIGKILL}
    # Blocked until there is somebody to send them to.
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    socket.send_fds(server, [len(data).to_bytes(HEAD_BYTES, "big")], [0, 1, 2])
    server.sendall(data)
    pid = int.from_bytes(server.recv(HEAD_BYTES), "big")
    for number, sent in signals.items():
        signal.signal(number, lambda *_, sent=sent: os.kill(pid, sent))
    with open(f"{path}.{os.getpid()}", "w") as file:
        file.write(str(pid))
    os.closerange(0, 3)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
    status = int.from_bytes(server.recv(HEAD_BYTES), "big")
    os.unlink(f"{path}.{os.getpid()}")
    if os.WIFSIGNALED(status):
        if (ended_by := os.WTERMSIG(status)) != signal.SIGKILL:
            signal.signal(ended_by, signal.SIG_DFL)
        os.kill(os.getpid(), ended_by)
        signal.pause()
    os._exit(os.waitstatus_to_exitcode(status))


main()
