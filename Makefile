# `make run` and `make test` set up what they need and may be run again at any time, as root or with sudo.

# Experiments of the campaign that `make run` shows.
BUDGET ?= 1500

# Where `make install` puts Kelpie; DESTDIR is for packages.
PREFIX ?= /usr/local
# What is installed can drive real devices; `make install FEATURES=` leaves that out.
FEATURES ?= verbs

SHELL := /bin/bash
CARGO := . xtask/scripts/cargo-env.sh && cargo


root := $(DESTDIR)$(PREFIX)
.PHONY: run test test-long lab install uninstall deb setup setup-lab setup-test

# A campaign on the simulated subsystem F of the Collie paper.
run: setup
	$(CARGO) build --release
	$(CARGO) run --quiet --release -- campaign run --subsystem sim:F --budget $(BUDGET)

# All tests, and a short lab; says at its end what took how long. `cargo xtask ci` is the rest of what CI runs.
test: setup-test
	$(CARGO) xtask test

# What is too long for every change: long tests, both labs, Chromium, the installation, dependencies.
test-long: setup-test
	$(CARGO) xtask test-long

# Two guests with Soft-RoCE that stay up; `cargo xtask lab down` ends them.
lab: setup-lab
	$(CARGO) xtask lab up

# kelpie with its manual pages, completions and the agent's unit; `make uninstall` takes them away.
install: setup
	$(CARGO) build --profile dist --package kelpie --package kelpie-preload --features "$(FEATURES)"
	target=$$($(CARGO) metadata --format-version 1 --no-deps | sed 's/.*"target_directory":"\([^"]*\)".*/\1/') && \
	install -D -m 755 "$$target/dist/kelpie" "$(root)/bin/kelpie" && \
	install -D -m 644 "$$target/dist/libkelpie_preload.so" "$(root)/lib/kelpie/libkelpie_preload.so"
	"$(root)/bin/kelpie" generate --out "$(root)"
	install -d "$(root)/lib/systemd/system"
	for unit in kelpie-agent kelpie-host-watch; do \
		sed 's|@BINDIR@|$(PREFIX)/bin|' "packaging/$$unit.service" > "$(root)/lib/systemd/system/$$unit.service" || exit; \
	done
	install -D -m 644 packaging/kelpie.sysusers "$(root)/lib/sysusers.d/kelpie.conf"
	install -D -m 644 packaging/agent.env "$(root)/share/kelpie/agent.env"
	install -D -m 644 packaging/host-watch.env "$(root)/share/kelpie/host-watch.env"
	install -D -m 755 -t "$(root)/share/kelpie/slurm" packaging/slurm/*
	install -D -m 644 -t "$(root)/share/kelpie/kubernetes" packaging/kubernetes/*

uninstall:
	rm -f "$(root)/bin/kelpie" "$(root)"/share/man/man1/kelpie{,-*}.1 \
		"$(root)/share/bash-completion/completions/kelpie" "$(root)/share/zsh/site-functions/_kelpie" \
		"$(root)/share/fish/vendor_completions.d/kelpie.fish" "$(root)"/lib/systemd/system/kelpie-{agent,host-watch}.service \
		"$(root)/lib/sysusers.d/kelpie.conf" "$(root)"/share/kelpie/{agent,host-watch}.env
	rm -rf "$(root)/lib/kelpie" "$(root)"/share/kelpie/{slurm,kubernetes}

# A Debian package in target/debian.
deb:
	rm -rf target/stage
	$(MAKE) install DESTDIR="$(CURDIR)/target/stage" PREFIX=/usr
	$(CARGO) deb --version > /dev/null 2>&1 || { $(CARGO) install --quiet --locked cargo-deb; }
	$(CARGO) deb --no-build --output target/debian/

setup:
	xtask/scripts/setup.sh build

setup-lab:
	xtask/scripts/setup.sh build lab

setup-test:
	xtask/scripts/setup.sh build lab server
