"""Writes the pins of a tier: python3 pin.py standard|full, in this directory.

Run it with the interpreter of the image (CPython 3.13) and pip, on x86-64: see
"Moving a pin" in docs/images.md. What the tier asks for stands in TIER.in. The
versions are what pip resolves now, except that a tier never moves what a smaller
one has pinned. Every pin gets the SHA-256 of the wheels for x86-64 and arm64.
"""
import json
import os
import subprocess
import sys
import tempfile

SMALLER = {"standard": None, "full": "standard"}
# glibc versions whose wheels the base image (Debian 13) can load
GLIBC = ["2_17", "2_24", "2_26", "2_27", "2_28", "2_31", "2_34"]


def report(*args):
    """What pip would install: {name: (version, hash)}."""
    with tempfile.TemporaryDirectory() as scratch:
        out = os.path.join(scratch, "report.json")
        subprocess.run(
            [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet", "--report", out,
             "--target", os.path.join(scratch, "none"), "--only-binary", ":all:", *args],
            check=True)
        with open(out) as f:
            install = json.load(f)["install"]
    found = {}
    for item in install:
        name = item["metadata"]["name"].lower().replace("_", "-").replace(".", "-")
        found[name] = (item["metadata"]["version"], item["download_info"]["archive_info"]["hashes"]["sha256"])
    return found


def pins(path):
    with open(path) as f:
        return [line.split()[0] for line in f if "==" in line]


def arm64(versions):
    platforms = ["--platform", "manylinux2014_aarch64"]
    for glibc in GLIBC:
        platforms += ["--platform", "manylinux_%s_aarch64" % glibc]
    return report("--no-deps", "--python-version", "3.13", "--implementation", "cp", *platforms, *versions)


def main():
    tier = sys.argv[1]
    smaller = SMALLER[tier]
    have = pins(smaller + ".txt") if smaller else []
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as constraints:
        constraints.write("\n".join(have) + "\n")
        constraints.flush()
        x86 = report("-c", constraints.name, "-r", tier + ".in")
    for pin in have:
        x86.pop(pin.split("==")[0], None)
    arm = arm64(["%s==%s" % (name, version) for name, (version, _) in x86.items()])
    with open(tier + ".txt", "w") as out:
        out.write("# Written by pin.py %s, for CPython 3.13 on x86-64 and arm64.\n" % tier)
        out.write("# Every wheel is pinned by its SHA-256; pip refuses anything else.\n\n")
        for name in sorted(x86):
            hashes = sorted({x86[name][1], arm[name][1]})
            out.write("%s==%s \\\n    %s\n" % (
                name, x86[name][0], " \\\n    ".join("--hash=sha256:" + digest for digest in hashes)))


main()
