# SPDX-License-Identifier: MIT OR Apache-2.0
.DEFAULT_GOAL := help
.PHONY: help build demo test fuzz bench guests boots layout-trials lint prove deb test-deb install clean

PREFIX ?= /usr/local
SYSCONFDIR ?= /etc
UNITS ?= $(PREFIX)/lib/systemd/system
MANUALS ?= $(PREFIX)/share/man/man1
BASH_COMPLETIONS ?= $(PREFIX)/share/bash-completion/completions
ZSH_COMPLETIONS ?= $(PREFIX)/share/zsh/site-functions
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
# Sources of the kernel module, which `foreread kernel install` builds.
MODULE ?= $(PREFIX)/src/foreread-$(VERSION)
FISH_COMPLETIONS ?= $(PREFIX)/share/fish/vendor_completions.d
# The line tables stay behind, in target/release.
# Marks the pages of the program that a start reads; `true` leaves that out.
START_PAGES ?= scripts/start-pages.sh
INSTALL_PROGRAM ?= install -D -s -m 755
TARGET := $(or $(CARGO_TARGET_DIR),target)
FOREREAD := $(TARGET)/release/foreread
# Arguments for the bench, such as one device or one program, go into BENCH_ARGS.
BENCH ?= $(TARGET)/release/foreread-bench
BENCH_ARGS ?=
# Some of the trials of `make layout-trials`; none stands for all.
TRIALS ?=
# Arguments for the guests, such as one kernel or one case, go into GUESTS_ARGS.
GUESTS_ARGS ?=
BOOT_CASES := boot,boot-usual,boot-beside,boot-file-systems,first-boot,small-memory,bad-boots

# A modelled disk needs root. Without it and without sudo the demo says what it would have shown.
AS_ROOT := $(shell [ "$$(id -u)" -eq 0 ] || command -v sudo)

# Where rustup puts cargo; a fresh login has it in no PATH yet.
export PATH := $(PATH):$(or $(CARGO_HOME),$(HOME)/.cargo)/bin

help: ## this list
	@echo "Foreread makes cold reads fast. Targets:"
	@sed -n 's/^\([a-z-]*\):.* ## /  \1\t/p' $(MAKEFILE_LIST) | expand -t 16

build: ## the program, as target/release/foreread
	@scripts/setup.sh build
	cargo build --release --locked --package foreread

demo: ## what it is worth, on a modelled disk (asks for root)
	@scripts/setup.sh demo
	cargo build --release --locked --package foreread
	$(AS_ROOT) $(FOREREAD) demo

test: ## lints and every test; lists what was skipped and why
	@scripts/setup.sh test
	@scripts/lint.sh
	@scripts/test.sh

fuzz: ## each fuzz target for FUZZ_SECONDS (60), with a line for each
	@scripts/setup.sh fuzz
	@scripts/fuzz.sh

bench: ## the result table of the README (asks for root)
	@scripts/setup.sh bench
	cargo build --release --locked --package foreread --package foreread-bench
	$(AS_ROOT) $(BENCH) $(BENCH_ARGS)

guests: ## every kernel of the list in virtual machines; writes docs/kernels.md
	@scripts/setup.sh guests
	cargo build --release --locked --package foreread --package foreread-guest
	cargo test --release --locked --no-run --package foreread-linux-stat --test stat
	[ -n "$(GUESTS_ARGS)" ] || $(MAKE) deb
	$(TARGET)/release/foreread-guests matrix --write $(GUESTS_ARGS)
	[ -n "$(GUESTS_ARGS)" ] || $(AS_ROOT) tests/guest/empty-root.sh

boots: ## what replays of boots are worth, in virtual machines: takes most of a day
	@scripts/setup.sh guests
	cargo build --release --locked --package foreread --package foreread-guest
	$(TARGET)/release/foreread-guests matrix --case $(BOOT_CASES) $(GUESTS_ARGS)

layout-trials: ## hours of power cuts, races and kills against moving files (asks for root)
	@scripts/setup.sh guests
	$(AS_ROOT) scripts/layout-trials.sh $(TRIALS)

lint: ## rustfmt, clippy, clang-format, shell
	@scripts/setup.sh test
	@scripts/lint.sh

prove: ## proof that the policy core has no run-time error (Frama-C; installs it)
	@scripts/prove.sh

deb: ## a Debian package, and one of its debug symbols, into target/deb
	@scripts/setup.sh deb
	@scripts/deb.sh

test-deb: ## installs, upgrades and purges that package in fresh Debian roots (asks for root)
	@scripts/setup.sh deb
	$(AS_ROOT) tests/deb/install.sh

install: ## into PREFIX (/usr/local), under DESTDIR; starts nothing
	$(INSTALL_PROGRAM) $(FOREREAD) $(DESTDIR)$(PREFIX)/bin/foreread
	$(START_PAGES) $(DESTDIR)$(PREFIX)/bin/foreread
	install -D -m 644 packaging/systemd/foreread-watch.service $(DESTDIR)$(UNITS)/foreread-watch.service
	sed -i 's|/usr/local/bin/|$(PREFIX)/bin/|' $(DESTDIR)$(UNITS)/foreread-watch.service
	[ -e $(DESTDIR)$(SYSCONFDIR)/foreread/watch.toml ] || \
		install -D -m 644 packaging/watch.toml $(DESTDIR)$(SYSCONFDIR)/foreread/watch.toml
	install -d $(DESTDIR)$(MODULE)/core/foreread
	install -m 644 module/Kbuild module/Makefile module/dkms.conf module/*.c module/*.h $(DESTDIR)$(MODULE)
	install -m 644 core/foreread/*.h $(DESTDIR)$(MODULE)/core/foreread
	$(FOREREAD) package man $(DESTDIR)$(MANUALS)
	$(FOREREAD) package completions $(TARGET)/completions
	install -D -m 644 $(TARGET)/completions/foreread.bash $(DESTDIR)$(BASH_COMPLETIONS)/foreread
	install -D -m 644 $(TARGET)/completions/_foreread $(DESTDIR)$(ZSH_COMPLETIONS)/_foreread
	install -D -m 644 $(TARGET)/completions/foreread.fish $(DESTDIR)$(FISH_COMPLETIONS)/foreread.fish
	@[ -n "$(DESTDIR)" ] || echo "To begin, type: sudo foreread try -- COMMAND"

clean: ## removes what was built
	cargo clean
