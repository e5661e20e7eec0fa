"""Starts servers for the benchmarks and reads what they cost; used by the scripts beside it."""

import http.client
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.parse

TICKS = os.sysconf("SC_CLK_TCK")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def peak_mib(pid):
    with open(f"/proc/{pid}/status") as status:
        for line in status:
            if line.startswith("VmHWM"):
                return int(line.split()[1]) / 1024
    return 0.0


def directory_bytes(path):
    total = 0
    for folder, _, files in os.walk(path):
        for name in files:
            try:
                total += os.lstat(os.path.join(folder, name)).st_size
            except OSError:
                pass  # deleted meanwhile
    return total


def start(command, ready_url, log):
    process = subprocess.Popen(command, stdout=log, stderr=log)
    host = urllib.parse.urlparse(ready_url)
    deadline = time.time() + 60
    while time.time() < deadline:
        try:
            connection = http.client.HTTPConnection(host.hostname, host.port, timeout=5)
            connection.request("GET", host.path)
            if connection.getresponse().status == 200:
                return process
        except OSError:
            pass
        time.sleep(0.05)
    sys.exit(f"{command[0]} did not become ready; see {log.name}")


def stop(process):
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(120)
    except subprocess.TimeoutExpired:
        process.kill()


def request(port, method, path, body=None, headers=None, timeout=600):
    """The status and the body of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    connection.request(method, path, body, headers or {})
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, content
