#!/usr/bin/env python3
"""How often `kelpie mfs check` is right after a campaign: asks about fresh random workloads, and measures them.

usage: xtask/scripts/answers.py KELPIE SUBSYSTEM [--seed N] [--budget N] [--workloads N]
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile


def kelpie(*args, text=None, statuses=(0,)):
    """Standard output of a command; its status has to be one of these."""
    ran = subprocess.run([KELPIE, *args], input=text, capture_output=True, text=True, check=False)
    if ran.returncode not in statuses:
        sys.exit(f"{' '.join(args)}: status {ran.returncode}\n{ran.stderr}")
    return ran.stdout


def verdict(workload):
    """`anomalous`, `healthy`, or another word if there is no verdict."""
    said = kelpie("measure", "-", "--subsystem", asked.subsystem, "--json", text=workload, statuses=(0, 1, 2))
    return json.loads(said).get("verdict", "unsupported") if said else "unsupported"


def share(part, whole):
    return f"{part} of {whole}" + (f" ({100 * part / whole:.1f} %)" if whole else "")


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("kelpie", type=pathlib.Path, help="the binary")
parser.add_argument("subsystem", help="such as sim:F")
parser.add_argument("--seed", type=int, default=1, help="of the campaign; the workloads have the next one")
parser.add_argument("--budget", type=int, default=1000, help="experiments of the campaign")
parser.add_argument("--workloads", type=int, default=1000, help="how many are asked about")
asked = parser.parse_args()
KELPIE = str(asked.kelpie.resolve())

with tempfile.TemporaryDirectory() as folder:
    db = str(pathlib.Path(folder, "kelpie.db"))
    campaign = ["campaign", "run", "--subsystem", asked.subsystem, "--budget", str(asked.budget)]
    kelpie(*campaign, "--seed", str(asked.seed), "--quiet", "--db", db, statuses=(0, 1))
    sampled = kelpie("space", "sample", "full", "--number", str(asked.workloads), "--seed", str(asked.seed + 1))
    answers = {}
    ways = {"tried": 0, "helped": 0}
    for workload in filter(str.strip, sampled.split("---\n")):
        truth = verdict(workload)
        if truth not in ("anomalous", "healthy"):
            continue
        check = json.loads(kelpie("mfs", "check", "-", "--db", db, "--json", text=workload, statuses=(0, 1, 2)))
        counts = answers.setdefault(check["answer"], {"anomalous": 0, "healthy": 0})
        counts[truth] += 1
        likely = [way for way in check["ways_out"] if way.get("likely_to_help")]
        if truth == "anomalous" and likely:
            helped = verdict(json.dumps({"kelpie": "workload/1", **likely[0]["workload"]}))
            ways["tried"] += 1
            ways["helped"] += helped == "healthy"

asked_about = sum(sum(counts.values()) for counts in answers.values())
print(f"{asked.subsystem}, {asked.budget} experiments with seed {asked.seed}; {asked_about} workloads with a verdict")
for answer in ("anomalous", "likely", "safe", "unknown"):
    counts = answers.get(answer, {"anomalous": 0, "healthy": 0})
    total = sum(counts.values())
    print(f"{answer:9}: {share(total, asked_about)}; anomalous of them {share(counts['anomalous'], total)}")
print(f"ways out that are likely to help, the first of each: {share(ways['helped'], ways['tried'])} helped")
