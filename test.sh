#!/bin/sh
# Sets up what is missing and runs everything: format, lints, the three builds, all tests, doc tests.
# The last line counts what did not run and why. With --soak a thousand turns are killed, too.
set -eu
cd "$(dirname "$0")"

soak=
for argument in "$@"; do
    case $argument in
    --soak) soak=1000 ;;
    *)
        echo "usage: ./test.sh [--soak]" >&2
        exit 2
        ;;
    esac
done

need() {
    command -v "$1" >/dev/null 2>&1 && return
    echo "test.sh: $1 is missing: $2" >&2
    exit 1
}
step() {
    echo
    echo "== $1"
}

need cargo "install Rust 1.95 or newer with rustup"
need git "install it with your package manager"
need cc "install a C compiler, such as gcc"
for component in rustfmt clippy; do
    case $component in clippy) tool=cargo-clippy ;; *) tool=$component ;; esac
    if ! $tool --version >/dev/null 2>&1; then
        need rustup "$component comes with it"
        rustup component add "$component"
    fi
done

rm -rf target/not-run
mkdir -p target/not-run

step "crates"
cargo fetch --locked --quiet

step "format"
cargo fmt --check

step "lints"
cargo clippy --offline --locked --all-targets --quiet -- -D warnings
cargo clippy --offline --locked --no-default-features --quiet -- -D warnings
cargo clippy --offline --locked --no-default-features --features run --quiet -- -D warnings

step "builds: pure, run, cli"
cargo build --offline --locked --no-default-features --quiet
cargo build --offline --locked --no-default-features --features run --quiet
cargo build --offline --locked --quiet

step "tests"
cargo test --offline --locked --all-targets

if [ -n "$soak" ]; then
    step "soak: $soak kills"
    AGENTD_SOAK=$soak cargo test --offline --locked --test it kill_loop -- --nocapture
fi

step "documentation"
cargo test --offline --locked --doc
RUSTDOCFLAGS="-D warnings" cargo doc --offline --locked --no-deps --quiet

echo
cat target/not-run/* 2>/dev/null || true
count=$(find target/not-run -type f | wc -l | tr -d ' ')
echo "did not run: $count"
if [ "${AGENTD_CI:-}" = 1 ] && [ "$count" -ne 0 ]; then
    # In CI only a registry that cannot be reached or a kernel facility that is not granted excuses a test.
    if cat target/not-run/* | grep -v -E 'registry cannot be reached|namespaces are not granted' >/dev/null; then
        exit 1
    fi
fi
