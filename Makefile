# `make run` and `make test` set up what they need and may be run again at any time, as root or with sudo.

# Experiments of the campaign that `make run` shows.
BUDGET ?= 1500

SHELL := /bin/bash
CARGO := . scripts/cargo-env.sh && cargo

.PHONY: run test lab setup setup-lab setup-browser setup-deny

# A campaign on the simulated subsystem F of the Collie paper.
run: setup
	$(CARGO) build --release
	$(CARGO) run --quiet --release -- campaign run --subsystem sim:F --budget $(BUDGET)

# Everything that CI checks, and the lab; says at its end what took how long.
test: setup setup-lab setup-browser setup-deny
	export KELPIE_BROWSER=1; $(CARGO) xtask test

# Two guests with Soft-RoCE that stay up; `cargo xtask lab down` ends them.
lab: setup setup-lab
	$(CARGO) xtask lab install
	$(CARGO) xtask lab up

setup:
	scripts/setup.sh build

setup-lab:
	scripts/setup.sh lab

setup-browser:
	scripts/setup.sh browser

setup-deny:
	scripts/setup.sh deny
