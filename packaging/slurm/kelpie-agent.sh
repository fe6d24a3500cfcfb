#!/bin/sh
# One agent, on the address by which Slurm knows this node. `srun` runs it on each node; it ends with its step.
address=${KELPIE_ADDRESS:-$(scontrol --oneliner show node "$SLURMD_NODENAME" | sed -n 's/.* NodeAddr=\([^ ]*\).*/\1/p')}
address=$(getent ahosts "$address" | awk 'NR == 1 { print $1 }')
case $address in *:*) address="[$address]" ;; esac
# Certificates, such as --ca /etc/kelpie/ca.pem --identity /etc/kelpie/agent.pem, or --plain in a network that is trusted.
# shellcheck disable=SC2086 # several options
exec kelpie agent --listen "$address:${KELPIE_AGENT_PORT:-7471}" ${KELPIE_AGENT_OPTIONS:---plain}
