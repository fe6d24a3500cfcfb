#!/usr/bin/env bash
# Tries the installation in clean Debian systems: `make install` and the .deb, the manual, completions, the agent's unit
# as systemd checks it and, in a guest, as systemd starts it. Needs root, debootstrap and QEMU; takes some minutes.
#
#   xtask/scripts/install-trial.sh                     Debian 12 and 13
#   xtask/scripts/install-trial.sh trixie              one of them
#   xtask/scripts/install-trial.sh --containerfile     what the Containerfile makes, without its download of images
#
# KELPIE_DEB and KELPIE_STAGE name a package and a staged `make install DESTDIR=` that are there already;
# KELPIE_TRIAL_DIR is kept, so that a second trial need not download Debian again.
set -euo pipefail
cd "$(dirname "$0")/../.."

fail() { echo "error: $*" >&2; exit 2; }
say() { printf '%-9s %s\n' "$release" "$*"; }

[ "$(id -u)" = 0 ] || fail "run it as root: debootstrap and chroot need that"
for tool in debootstrap qemu-system-x86_64 mke2fs objdump; do
    command -v $tool >/dev/null ||
        fail "$tool is missing: apt-get install debootstrap qemu-system-x86 e2fsprogs binutils"
done
# As docs/guides/two-hosts.md says.
glibc=2.34
mirror=${KELPIE_TRIAL_MIRROR:-http://deb.debian.org/debian}
work=${KELPIE_TRIAL_DIR:-$(mktemp -d)}
mkdir -p "$work"
[ -n "${KELPIE_TRIAL_DIR:-}" ] || trap 'rm -rf "$work"' EXIT

# A clean system of a release, in a directory that is made anew.
fresh() {
    local root=$1 base=$work/base-$release
    if [ ! -e "$base.done" ]; then
        rm -rf "$base"
        debootstrap --variant=minbase --include=systemd,systemd-sysv,udev,ca-certificates "$release" "$base" "$mirror" \
            >"$base.log" || fail "debootstrap $release: see $base.log"
        printf '#!/bin/sh\nexit 101\n' >"$base/usr/sbin/policy-rc.d"
        chmod 755 "$base/usr/sbin/policy-rc.d"
        touch "$base.done"
    fi
    rm -rf "$root"
    cp -a "$base" "$root"
    cp /etc/resolv.conf "$root/etc/resolv.conf"
}

inside() {
    local root=$1
    shift
    chroot "$root" /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
        LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive "$@"
}

packages() {
    local root=$1
    shift
    inside "$root" sh -c "apt-get update -qq && apt-get install -y -qq --no-install-recommends $*" \
        >"$root.apt.log" 2>&1 || fail "apt-get install $*: see $root.apt.log"
}

# What a user does first, in a system with Kelpie.
works() {
    local root=$1
    inside "$root" kelpie --version >/dev/null || fail "kelpie does not start"
    inside "$root" kelpie campaign run --subsystem sim:F --budget 20 --db /tmp/k.db -q >/dev/null ||
        fail "no campaign runs"
    inside "$root" man -P cat kelpie | grep -q '^NAME' || fail "man kelpie shows nothing"
    inside "$root" man -P cat kelpie-campaign-run | grep -q -- '--subsystem' || fail "man kelpie-campaign-run"
    # As a shell does when TAB is pressed after `kelpie camp`.
    local complete='. /usr/share/bash-completion/bash_completion; _completion_loader kelpie || [ $? = 124 ]
        COMP_WORDS=(kelpie camp); COMP_CWORD=1; COMP_LINE="kelpie camp"; COMP_POINT=11
        $(complete -p kelpie | sed "s/.*-F \([^ ]*\).*/\1/") kelpie camp kelpie; echo "${COMPREPLY[@]}"'
    [ "$(inside "$root" bash -c "$complete")" = campaign ] || fail "bash does not complete kelpie camp"
    inside "$root" systemd-analyze verify kelpie-agent.service 2>"$root.verify.log" ||
        fail "systemd-analyze verify: $(cat "$root.verify.log")"
    ! grep -q kelpie "$root.verify.log" || fail "systemd-analyze verify: $(cat "$root.verify.log")"
}

# A copy of the system boots, and its systemd starts the agent, on a Soft-RoCE device.
boots() {
    local root=$1 image=$1.ext4 log=$1.boot.log
    packages "$root" linux-image-amd64 initramfs-tools iproute2 libibverbs1 ibverbs-providers
    install -m 755 xtask/scripts/install-trial-guest.sh "$root/usr/local/sbin/trial"
    cat >"$root/etc/systemd/system/trial.service" <<'UNIT'
[Unit]
After=multi-user.target
[Service]
Type=oneshot
ExecStart=/bin/sh -c '/usr/local/sbin/trial >/dev/ttyS0 2>&1; systemctl poweroff'
[Install]
WantedBy=default.target
UNIT
    ln -sf ../trial.service "$root/etc/systemd/system/multi-user.target.wants/trial.service"
    ln -sf /lib/systemd/system/multi-user.target "$root/etc/systemd/system/default.target"
    # It would take the port that the trial writes to.
    ln -sf /dev/null "$root/etc/systemd/system/serial-getty@ttyS0.service"
    rm -f "$root/usr/sbin/policy-rc.d" "$image"
    truncate -s 3G "$image"
    mke2fs -q -t ext4 -d "$root" "$image"
    # As in the lab (xtask/src/lab/guest.rs): emulated, since not every machine lends its processor to guests.
    timeout 900 qemu-system-x86_64 -accel tcg,thread=multi -cpu max,cx16=off -smp 1,maxcpus=2 -m 1024 -nographic \
        -no-reboot \
        -kernel "$(ls "$root"/boot/vmlinuz-*)" -initrd "$(ls "$root"/boot/initrd.img-*)" \
        -append "root=/dev/vda rw console=ttyS0 quiet no_timer_check" -drive "file=$image,format=raw,if=virtio" \
        -nic user,model=virtio-net-pci </dev/null >"$log" 2>&1 || fail "the guest did not end: see $log"
    rm -f "$image"
    grep -q 'trial: passed' "$log" || fail "the agent's unit: $(grep 'trial: ' "$log" || tail -n 5 "$log")"
}

# One binary for every host: it needs no newer C library than the page says, and links no libibverbs, which it opens when
# it starts.
portable() {
    local binary=$1 newest
    newest=$(objdump -T "$binary" | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -n 1)
    [ "$(printf '%s\n' "$newest" "GLIBC_$glibc" | sort -V | tail -n 1)" = "GLIBC_$glibc" ] ||
        fail "$binary needs $newest; docs/guides/two-hosts.md says $glibc"
    ! objdump -p "$binary" | grep -q 'NEEDED.*libibverbs' || fail "$binary links libibverbs"
}

staged() {
    if [ -z "${KELPIE_STAGE:-}" ]; then
        KELPIE_STAGE=$work/stage
        rm -rf "$KELPIE_STAGE"
        make install DESTDIR="$KELPIE_STAGE" PREFIX=/usr/local >"$work/install.log" 2>&1 ||
            fail "make install: see $work/install.log"
    fi
    portable "$KELPIE_STAGE/usr/local/bin/kelpie"
}

packaged() {
    if [ -z "${KELPIE_DEB:-}" ]; then
        make deb >"$work/deb.log" 2>&1 || fail "make deb: see $work/deb.log"
        KELPIE_DEB=$(ls -t target/debian/kelpie_*.deb | head -n 1)
    fi
}

try() {
    release=$1
    staged
    fresh "$work/$release-install"
    packages "$work/$release-install" man-db bash-completion
    cp -a "$KELPIE_STAGE/." "$work/$release-install/"
    works "$work/$release-install"
    say "make install: kelpie, man kelpie, completions, the unit checked"

    packaged
    fresh "$work/$release-deb"
    cp "$KELPIE_DEB" "$work/$release-deb/tmp/kelpie.deb"
    packages "$work/$release-deb" man-db bash-completion /tmp/kelpie.deb
    works "$work/$release-deb"
    inside "$work/$release-deb" id kelpie >/dev/null || fail "the package makes no user kelpie"
    say "apt-get install ./kelpie.deb: the same, and the user kelpie"
    boots "$work/$release-deb"
    say "systemd starts the agent, and again after it was killed"
    inside "$work/$release-deb" sh -c 'apt-get purge -y -qq kelpie >/dev/null 2>&1 && ! ls /usr/bin/kelpie 2>/dev/null' ||
        fail "the package cannot be purged"
    say "apt-get purge leaves no kelpie"
}

# The second stage of the Containerfile, step by step, over what its first stage runs (`make install`), as built here;
# `podman build -t kelpie .` does all of it where images can be downloaded.
containerfile() {
    release=bookworm
    staged
    local root=$work/container
    fresh "$root"
    packages "$root" libibverbs1 ibverbs-providers iproute2
    cp -a "$KELPIE_STAGE/." "$root/"
    inside "$root" kelpie --help >/dev/null || fail "the image's command does not start"
    inside "$root" timeout 5 kelpie agent >"$root.agent.log" 2>&1 && fail "the agent ended: see $root.agent.log"
    [ $? = 124 ] || grep -q 127.0.0.1:7471 "$root.agent.log" || fail "the agent does not serve: see $root.agent.log"
    say "Containerfile: kelpie and an agent, with the packages of its second stage"
}

[ $# -gt 0 ] || set -- bookworm trixie
for one in "$@"; do
    case $one in
    --containerfile) containerfile ;;
    bookworm | trixie) try "$one" ;;
    *) fail "no trial of $one; write bookworm, trixie or --containerfile" ;;
    esac
done
