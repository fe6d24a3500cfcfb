#!/usr/bin/env bash
# Installs what building Kelpie (`build`), its lab (`lab`, and `lab-emulated` for guests of QEMU), the tests of its reports (`browser`) or the check of its
# dependencies (`deny`) needs; does nothing if all of it is there.
set -euo pipefail

# The Rust that Kelpie asks for; rust-version in Cargo.toml.
cd "$(dirname "$0")/.."
rust_needed=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)

build_packages=(build-essential pkg-config cmake python3-minimal libclang-dev libibverbs-dev librdmacm-dev)
lab_packages=(flex bison bc busybox-static xz-utils binutils util-linux iproute2 libibverbs1 ibverbs-providers rdma-core
    tshark perftest ibverbs-utils)
emulated_packages=(qemu-system-x86 kmod)
browser_packages=(chromium)
# Of cargo-deny; built from the registry once, unless some version of it is there.
deny_version=0.20.2

case "${1:-}" in
build) packages=("${build_packages[@]}") ;;
lab) packages=("${lab_packages[@]}" linux-source) ;;
lab-emulated) packages=("${lab_packages[@]}" "${emulated_packages[@]}") ;;
browser) packages=("${browser_packages[@]}") ;;
deny) packages=() ;;
*) echo "usage: scripts/setup.sh build|lab|lab-emulated|browser|deny" >&2; exit 2 ;;
esac

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

# --- Debian packages
# A source that the lab can build its kernel from, the newest that Debian has: `linux-source` above.
has_source() { [ -e /usr/src/linux-source-6.12.tar.xz ] || [ -e /usr/src/linux-source-6.1.tar.xz ]; }
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
        as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq ||
            fail "apt-get update failed; check the network and /etc/apt/sources.list"
        missing=("${missing[@]/%linux-source/$(newest_source)}")
        as_root env DEBIAN_FRONTEND=noninteractive \
            apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null ||
            fail "apt-get could not install: ${missing[*]}"
    fi
else
    # Elsewhere: the simulated subsystem needs a C compiler only; the rest is up to the user.
    install="install what your system calls ${packages[*]}"
    if [ "$1" = build ]; then
        command -v cc >/dev/null || fail "no C compiler (cc), and no apt-get to install one; $install"
        pkg-config --exists libibverbs librdmacm 2>/dev/null ||
            echo "note: no libibverbs and librdmacm headers, so real devices are left out; $install"
    elif [ "$1" = deny ]; then
        : # needs Rust alone
    elif [ "$1" = browser ]; then
        command -v chromium >/dev/null || command -v chromium-browser >/dev/null ||
            command -v google-chrome >/dev/null ||
            fail "the tests of reports need Chromium; $install"
    else
        fail "the lab needs Debian with apt-get; elsewhere $install"
    fi
fi

# --- Rust
. scripts/cargo-env.sh
how="install it from https://rustup.rs: curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs |
    sh -s -- -y --profile default"
command -v cargo >/dev/null ||
    fail "cargo is missing; Kelpie needs Rust $rust_needed or newer (Debian 12's 1.63 is too old): $how"
rust_found=$(rustc --version | cut -d' ' -f2)
oldest=$(printf '%s\n%s\n' "$rust_needed" "$rust_found" | sort -V | head -n 1)
[ "$oldest" = "$rust_needed" ] || fail "rustc $rust_found is too old; Kelpie needs $rust_needed or newer: $how"

# --- cargo-deny
if [ "$1" = deny ] && ! cargo deny --version >/dev/null 2>&1; then
    echo "building cargo-deny $deny_version, which takes minutes, once"
    cargo install --quiet --locked cargo-deny --version "$deny_version" ||
        fail "cargo-deny could not be built; without it, licences and advisories are not checked"
fi
