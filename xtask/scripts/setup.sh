#!/usr/bin/env bash
# Installs what building Kelpie (`build`), its lab (`lab`), the tests of its store on servers (`server`), the tests with a
# real Slurm (`slurm`), its lab in QEMU (`emulated`), the tests of its reports (`browser`), the trial of its installation
# (`trial`) or the check of its dependencies (`deny`) needs: one or more of them. Does nothing if all of it is there.
set -euo pipefail

# The Rust that Kelpie asks for; rust-version in Cargo.toml.
cd "$(dirname "$0")/../.."
rust_needed=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)

build_packages=(build-essential pkg-config cmake python3-minimal libclang-dev libibverbs-dev librdmacm-dev)
lab_packages=(flex bison bc busybox-static xz-utils binutils util-linux iproute2 libibverbs1 ibverbs-providers rdma-core
    tshark perftest ibverbs-utils)
emulated_packages=("${lab_packages[@]}" qemu-system-x86 kmod)
server_packages=(postgresql)
browser_packages=(chromium)
trial_packages=(debootstrap qemu-system-x86 e2fsprogs binutils)
# Of cargo-deny; built from the registry once, unless some version of it is there.
deny_version=0.20.2

usage() { echo "usage: xtask/scripts/setup.sh build|lab|server|slurm|emulated|browser|trial|deny ..." >&2; exit 2; }
[ $# -gt 0 ] || usage
packages=()
for part in "$@"; do
    case $part in
        build) packages+=("${build_packages[@]}") ;;
        lab) packages+=("${lab_packages[@]}" linux-source) ;;
        server) packages+=("${server_packages[@]}") ;;
        emulated) packages+=("${emulated_packages[@]}") ;;
        browser) packages+=("${browser_packages[@]}") ;;
        trial) packages+=("${trial_packages[@]}") ;;
        slurm | deny) ;;
        *) usage ;;
    esac
done

fail() { echo "error: $*" >&2; exit 2; }

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        fail "these packages are missing, and there is neither root nor sudo to install them: ${missing[*]}"
    fi
}

# A source that the lab can build its kernel from, the newest that Debian has: `linux-source` above.
has_source() { [ -e /usr/src/linux-source-6.12.tar.xz ] || [ -e /usr/src/linux-source-6.1.tar.xz ]; }

# What each part needs at least, where packages have other names and are up to the user.
without_apt() {
    local install="install what your system calls ${packages[*]}"
    case $1 in
        build)
            command -v cc >/dev/null || fail "no C compiler (cc), and no apt-get to install one; $install"
            pkg-config --exists libibverbs librdmacm 2>/dev/null ||
                echo "note: no libibverbs and librdmacm headers, so real devices are left out; $install"
            ;;
        lab) has_source || fail "the lab needs Debian with apt-get; elsewhere $install" ;;
        server) command -v initdb >/dev/null || echo "note: the tests of the store need the server of PostgreSQL; $install" ;;
        emulated) command -v qemu-system-x86_64 >/dev/null || fail "emulated guests need Debian with apt-get" ;;
        browser)
            command -v chromium >/dev/null || command -v chromium-browser >/dev/null ||
                command -v google-chrome >/dev/null ||
                fail "the tests of reports need Chromium; $install"
            ;;
        trial) command -v debootstrap >/dev/null || fail "the trial of the installation needs debootstrap; $install" ;;
        slurm) echo "note: no apt-get, so nothing is tried with a real Slurm" ;;
        deny) ;; # needs Rust alone
    esac
}

# --- Debian packages
# Tests run servers of their own: the package is to make none, and to start none.
no_cluster=/etc/postgresql-common/createcluster.conf

newest_source() {
    if apt-cache show linux-source-6.12 >/dev/null 2>&1; then echo linux-source-6.12; else echo linux-source-6.1; fi
}

if command -v dpkg-query >/dev/null && command -v apt-get >/dev/null; then
    missing=()
    for package in "${packages[@]}"; do
        if [ "$package" = linux-source ] && has_source; then continue; fi
        # shellcheck disable=SC2016 # the format is dpkg's
        state=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
        [ "$state" = installed ] || missing+=("$package")
    done
    if [ ${#missing[@]} -gt 0 ]; then
        echo "installing ${missing[*]}"
        if [[ " ${missing[*]} " = *" postgresql "* ]] && [ ! -e "$no_cluster" ]; then
            as_root mkdir -p "${no_cluster%/*}"
            echo "create_main_cluster = false" | as_root tee "$no_cluster" >/dev/null
        fi
        as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq ||
            fail "apt-get update failed; check the network and /etc/apt/sources.list"
        missing=("${missing[@]/%linux-source/$(newest_source)}")
        as_root env DEBIAN_FRONTEND=noninteractive \
            apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null ||
            fail "apt-get could not install: ${missing[*]}"
    fi
else
    for part in "$@"; do without_apt "$part"; done
fi

# --- Slurm: unpacked and not installed, so that no daemon starts, no user is made and nobody needs to be root.
slurm_packages=(slurmctld slurmd slurm-client slurm-wlm-basic-plugins)
unpack_slurm() {
    local place=target/slurm packages
    mkdir -p "$place/debs"
    # Those and the libraries that are missing here.
    packages=$(apt-get install --simulate --no-install-recommends "${slurm_packages[@]}" 2>/dev/null |
        sed -n 's/^Inst \(lib[^ ]*\) .*/\1/p')
    # shellcheck disable=SC2086 # several words
    (cd "$place/debs" && apt-get download -qq -o APT::Sandbox::User=root "${slurm_packages[@]}" $packages) || return 1
    for package in "$place"/debs/*.deb; do dpkg -x "$package" "$place/new"; done
    rm -rf "$place/debs" "$place/root"
    mv "$place/new" "$place/root"
}
if [[ " $* " = *" slurm "* ]] && command -v apt-get >/dev/null && [ ! -x target/slurm/root/usr/sbin/slurmctld-wlm ]; then
    echo "unpacking Slurm"
    if ! unpack_slurm 2>/dev/null; then
        missing=("${slurm_packages[@]}")
        as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq || fail "apt-get update failed; check the network"
        unpack_slurm || fail "apt-get could not download: ${slurm_packages[*]}"
    fi
fi

# --- Rust
. xtask/scripts/cargo-env.sh
how="install it from https://rustup.rs: curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs |
    sh -s -- -y --profile default"
command -v cargo >/dev/null ||
    fail "cargo is missing; Kelpie needs Rust $rust_needed or newer (Debian 12's 1.63 is too old): $how"
rust_found=$(rustc --version | cut -d' ' -f2)
oldest=$(printf '%s\n%s\n' "$rust_needed" "$rust_found" | sort -V | head -n 1)
[ "$oldest" = "$rust_needed" ] || fail "rustc $rust_found is too old; Kelpie needs $rust_needed or newer: $how"

# --- cargo-deny
if [[ " $* " = *" deny "* ]] && ! cargo deny --version >/dev/null 2>&1; then
    echo "building cargo-deny $deny_version, which takes minutes, once"
    cargo install --quiet --locked cargo-deny --version "$deny_version" ||
        fail "cargo-deny could not be built; without it, licences and advisories are not checked"
fi
