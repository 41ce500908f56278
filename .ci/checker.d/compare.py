"""Compares what the checkers found with the list of accepted findings.

compare.py CEPHEUS-VERSION FOUND CONTROL-REPORT ACCEPTED

A finding is "checker: what". Lines that a checker prints for a thing that it did
not find are left out by what they say; a line that nothing here knows is a finding.
"""
import json
import os
import re
import sys

# What no container without capabilities may do: amicontained lists what is refused.
REFUSED = """ADD_KEY BPF CHROOT DELETE_MODULE FANOTIFY_INIT FINIT_MODULE INIT_MODULE KCMP KEXEC_LOAD KEYCTL MOUNT
NAME_TO_HANDLE_AT OPEN_BY_HANDLE_AT PERF_EVENT_OPEN PIVOT_ROOT PROCESS_VM_READV PROCESS_VM_WRITEV PTRACE REBOOT
REQUEST_KEY SETNS SWAPON SYSLOG UMOUNT2 UNSHARE USERFAULTFD""".split()

MOUNTS = """/ /proc /dev /dev/pts /sys /dev/mqueue /dev/shm /workspace /scratch /tmp /etc/resolv.conf /etc/hostname /etc/hosts
/proc/bus /proc/fs /proc/irq /proc/sys /proc/sysrq-trigger /proc/acpi /proc/asound /proc/kcore /proc/keys /proc/latency_stats
/proc/timer_list /proc/timer_stats /proc/sched_debug /proc/scsi /sys/firmware /proc/interrupts /proc/cmdline /proc/config.gz
/proc/key-users /sys/devices/virtual/powercap""".split()


def cepheus(found):
    report = json.load(open(found + "/cepheus-report.json"))
    yield from ("technique " + step["technique"]["id"] for chain in report["chains"] for step in chain["steps"])
    seen = json.load(open(found + "/cepheus.json"))
    for kind in seen["capabilities"]:
        yield from ("capability " + name for name in seen["capabilities"][kind])
    yield from ("shared namespace " + name for name, own in seen["namespaces"].items() if not own)
    yield from ("no " + name for name in ("apparmor", "selinux") if seen["security"][name] in (None, "unconfined"))
    if seen["security"]["seccomp"] != "filtering":
        yield "seccomp " + str(seen["security"]["seccomp"])
    yield from (name.replace("_", " ") for name, can in seen["network"].items() if name.startswith("can_") and can)
    yield from ("interface " + name for name in seen["network"]["interfaces"] if name != "lo")
    yield from ("environment " + name for name in seen["credentials"]["environment_secrets"])
    yield from (name.replace("_", " ") for name in ("service_account_token", "cloud_metadata_available") if seen["credentials"][name])
    if seen["runtime"]["privileged"]:
        yield "privileged"
    yield from ("writable " + path for path in seen["writable_paths"])
    yield from ("tool " + name for name in seen["available_tools"] if name in ("mount", "umount", "nsenter", "perl", "apt", "dpkg", "python3"))


def amicontained(found):
    text = open(found + "/amicontained.txt").read()
    if "user: false" in text:
        yield "shared namespace user"
    if "pid: true" not in text:
        yield "shared namespace pid"
    if re.search(r"AppArmor Profile: unconfined", text):
        yield "no apparmor"
    if "Seccomp: filtering" not in text:
        yield "no seccomp"
    for line in re.findall(r"^\t(?:BOUNDING|EFFECTIVE|AMBIENT|PERMITTED|INHERITED).*", text, re.M):
        yield "capabilities " + line.strip()
    refused = set(re.search(r"Blocked Syscalls[^\n]*\n([^\n]*)", text).group(1).split())
    yield from ("call " + name for name in REFUSED if name not in refused)
    after = text.partition("Looking for Docker.sock")[2].strip()
    if after:
        yield "socket " + after.splitlines()[0]


def cdk(found):
    text = re.sub(r"\x1b\[[0-9;]*m", "", open(found + "/cdk.txt", errors="replace").read())
    yield from ("suggests " + cve for cve in re.findall(r"^\[\+\] \[([^]]+)\]", text, re.M))
    yield from ("command " + name for names in re.findall(r"available commands:\n\t(.*)", text) for name in names.split(","))
    yield from ("capability " + names for names in re.findall(r"Cap decode: \S+ = (\S.*)", text))
    yield from ("sensitive file " + path for path in re.findall(r"^\t\S+ - (/\S+)$", text, re.M))
    yield from ("warning " + line for line in re.findall(r"^\s*(?:\S+ \S+ )?\[?!\]? ?(.*)", text, re.M) if line.strip())
    for line in re.findall(r"^\d+:\d+ \S+ (\S+ \S+)", text, re.M):
        point, options = line.split()
        if point not in MOUNTS and not (point.startswith("/sys/fs/cgroup") and (options.split(",")[0] == "ro" or point == "/sys/fs/cgroup")):
            yield "mount " + point
    if "container net namespace isolated" not in text:
        yield "shared namespace net"
    if "api-server forbids anonymous request" not in text:
        yield "kubernetes api"
    if "ASLR is enabled" not in text:
        yield "no address randomisation"
    for line in text.splitlines():
        if " API" in line and ("available" in line or "success" in line.lower()):
            yield "metadata " + line.strip()


HARMLESS = {"No", "None", "Not Found", "Not readable", "Unknown", "sudo not found", ""}
PLATFORM = ("Inside Container", "Container Platform", "User", "Groups", "Operating System", "Kernel", "Arch", "CPU", "Docker Version",
            "Container ID", "Container Full ID", "Container Name", "Container IP", "Host IP", "SSHD Service", "Privileged Mode")


def deepce(found):
    text = open(found + "/deepce.txt", errors="replace").read()
    for name, value in re.findall(r"^\[\+\] (.*?) \.{2,}(.*)$", text, re.M):
        if name in PLATFORM and not (name == "Privileged Mode" and "Yes" in value) or value.strip() in HARMLESS:
            continue
        if name == "Dangerous Capabilities":
            if re.search(r"^Cap(Eff|Prm|Bnd):\s*0*[1-9a-f]", text, re.M):
                yield "capabilities"
            continue
        yield name + (" " + value.strip() if name == "DNS Server(s)" else "")


def accepted(path):
    """The rows of the table: | checker | finding | ... |"""
    rows = set()
    for line in open(path):
        cells = [cell.strip().strip("`") for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and len(cells) >= 3 and cells[0] in ("cepheus", "amicontained", "cdk", "deepce"):
            rows.add((cells[0], cells[1]))
    return rows


def main(version, found, control, path):
    failed = 0
    if not json.load(open(control))["chains"]:
        sys.exit("the control failed: the checker finds nothing in an open container either")
    known, seen = accepted(path), set()
    for name, read, output in (("cepheus", cepheus, "cepheus.json"), ("amicontained", amicontained, "amicontained.txt"),
                               ("cdk", cdk, "cdk.txt"), ("deepce", deepce, "deepce.txt")):
        if not os.path.exists(found + "/" + output):
            print("%s: not run" % name)
            continue
        if os.path.getsize(found + "/" + output) == 0:
            sys.exit("%s printed nothing" % name)
        findings = sorted(set(read(found)))
        seen.update((name, finding) for finding in findings)
        new = [finding for finding in findings if (name, finding) not in known]
        print("%s: %d findings, %d of them accepted" % (name, len(findings), len(findings) - len(new)))
        for finding in new:
            print("  NOT ACCEPTED: %s | %s" % (name, finding))
        failed += len(new)
    report = json.load(open(found + "/cepheus-report.json"))
    print("cepheus %s: %d of %d techniques match a session, %d the open control" % (
        version, report["techniques_matched"], report["total_techniques_checked"], json.load(open(control))["techniques_matched"]))
    sys.exit(1 if failed else 0)


main(*sys.argv[1:])
