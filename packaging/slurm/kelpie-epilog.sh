#!/bin/sh
# Slurm's Epilog: a node whose host broke during a job is drained before the next one. The exit status is 0, because Slurm
# would write "Epilog error" as the reason.
PATH=${PATH:-/usr/bin:/usr/local/bin:/bin:/opt/slurm/bin}
SLURM_CONF=${SLURM_CONF:-/etc/slurm/slurm.conf}
export PATH SLURM_CONF
timeout 20 kelpie qualify slurm health --act
exit 0
