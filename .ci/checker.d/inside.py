"""Runs in the session: every checker that was put into its workspace."""
import os
import subprocess

CHECKERS = (
    ("cepheus-enum.sh", ["sh", "./cepheus-enum.sh"], "cepheus.json"),
    ("amicontained", ["./amicontained"], "amicontained.txt"),
    ("cdk", ["./cdk", "evaluate", "--full"], "cdk.txt"),
    ("deepce.sh", ["bash", "./deepce.sh", "--no-colors"], "deepce.txt"),
)

for name, command, output in CHECKERS:
    if os.path.exists(name):
        os.chmod(name, 0o755)
        with open(output, "wb") as out:
            ended = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT if output.endswith(".txt") else None)
        print(name, "ended with", ended.returncode)
