#!/bin/sh
# Slurm's Prolog: no job starts on a node of which a check fails. The job is queued again, and Slurm drains the node. If
# nobody can say (exit status 2), the job starts.
PATH=${PATH:-/usr/bin:/usr/local/bin:/bin:/opt/slurm/bin}
SLURM_CONF=${SLURM_CONF:-/etc/slurm/slurm.conf}
export PATH SLURM_CONF
timeout 20 kelpie qualify slurm health --act
[ $? -ne 1 ]
