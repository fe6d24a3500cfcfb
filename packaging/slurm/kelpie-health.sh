#!/bin/sh
# Slurm's HealthCheckProgram: drains this node if a check of `kelpie doctor` fails. In slurm.conf:
#   HealthCheckProgram=/usr/share/kelpie/slurm/kelpie-health.sh
#   HealthCheckInterval=300
#   HealthCheckNodeState=ANY,CYCLE
# slurmd gives SLURMD_NODENAME and neither PATH nor SLURM_CONF. Slurm ignores the exit status, and ends the program after
# 60 s.
PATH=${PATH:-/usr/bin:/usr/local/bin:/bin:/opt/slurm/bin}
SLURM_CONF=${SLURM_CONF:-/etc/slurm/slurm.conf}
export PATH SLURM_CONF
exec timeout 50 kelpie qualify slurm health --act
