#!/bin/bash
# Run by systemd in a guest of install-trial.sh: docs/guides/two-hosts.md's steps for an agent, on a Soft-RoCE device.
fail() {
    journalctl -u kelpie-agent --no-pager -n 20
    echo "trial: $*"
    exit 1
}

modprobe rdma_rxe || fail "no Soft-RoCE in this kernel"
network=$(ls /sys/class/net | grep -v '^lo$' | head -n 1)
ip link set "$network" up && ip addr add 10.9.0.1/24 dev "$network"
rdma link add rxe0 type rxe netdev "$network" || fail "no rxe0"

mkdir -p /etc/kelpie && cd /etc/kelpie || fail "no /etc/kelpie"
[ -e agent.env ] || cp /usr/share/kelpie/agent.env .
kelpie agent cert --out certs --agent 10.9.0.1 --controller || fail "no certificates"
cp certs/ca.pem . && cp certs/10.9.0.1.pem agent.pem
chown kelpie: ca.pem agent.pem && chmod 600 agent.pem
sed -i 's/--listen [^ ]*/--listen 10.9.0.1:7471/' agent.env
# A second one, by hand, makes a pair.
kelpie agent --listen 10.9.0.1:7472 --ca ca.pem --identity agent.pem &

systemctl enable --now kelpie-agent || fail "systemctl enable --now"
for second in $(seq 60); do
    ss -Hltn | grep -q '10.9.0.1:7471' && break
    sleep 1
done
[ "$(systemctl is-active kelpie-agent)" = active ] || fail "the unit is $(systemctl is-active kelpie-agent)"
main() { systemctl show -p MainPID --value kelpie-agent; }
grep -q '^Max locked memory *unlimited' "/proc/$(main)/limits" || fail "its memory cannot be locked"
[ "$(stat -c %U "/proc/$(main)")" = kelpie ] || fail "it runs as $(stat -c %U "/proc/$(main)")"

# Through TLS, to the device: the agent answers what the doctor asks.
cat >pair.yaml <<PAIR
kelpie: pair/1
name: trial
hosts: {a: {agent: "10.9.0.1:7471", device: rxe0}, b: {agent: "10.9.0.1:7472", device: rxe0}}
tls: {ca: certs/ca.pem, identity: certs/controller.pem}
PAIR
kelpie subsystem check pair.yaml || fail "the pair does not answer"
kelpie space sample lab --seed 1 | kelpie measure - --subsystem pair.yaml --json >measured.json
# Rates of an emulated guest may be too unsteady for a verdict; that both agents drove traffic is what counts here.
grep -q '"goodput_bps": [1-9]' measured.json || fail "no traffic: $(cat measured.json)"

old=$(main)
kill -9 "$old"
for second in $(seq 30); do
    sleep 1
    [ "$(main)" != 0 ] && [ "$(main)" != "$old" ] && break
done
[ "$(systemctl is-active kelpie-agent)" = active ] || fail "it did not come back after it was killed"
systemctl stop kelpie-agent || fail "it does not stop"
echo "trial: passed"
