#!/bin/sh
# Installs what is missing and runs everything: format, lints of the three builds, all tests, documentation.
# The last line counts the tests that did not run, with the reason for each.
#   --soak         kills a thousand turns instead of fifty
#   --real-agents  installs claude, gemini and codex outside the repository and drives them against a scripted server
set -eu
cd "$(dirname "$0")"

soak=
real=
for argument in "$@"; do
    case $argument in
    --soak) soak=1000 ;;
    --real-agents) real=1 ;;
    *)
        echo "usage: ./test.sh [--soak] [--real-agents]" >&2
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

# Records why the tests with real agents did not run.
real_agents_did_not_run() {
    echo "real_agents: $1" >target/not-run/real_agents
}
# Installs the real agents into the folder $agents unless they are there; fails if the registry cannot be reached.
install_real_agents() {
    agents=${XDG_CACHE_HOME:-$HOME/.cache}/agentd/real-agents/$(git hash-object tests/real/package-lock.json)
    [ ! -e "$agents/installed" ] || return 0
    rm -rf "$agents"
    mkdir -p "$agents"
    cp tests/real/package.json tests/real/package-lock.json "$agents"
    if ! (cd "$agents" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >npm.log 2>&1); then
        cat "$agents/npm.log" >&2
        # Any other failure, such as a package that does not match the lock file, fails the tests.
        grep -q -E 'code (ENOTFOUND|EAI_AGAIN|ECONN|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|E50)' "$agents/npm.log" || exit 1
        real_agents_did_not_run "the registry cannot be reached"
        return 1
    fi
    # claude's install script, which is not run, would make this link.
    for program in "$agents"/node_modules/@anthropic-ai/claude-code-*/claude; do
        ln -sf "$program" "$agents/node_modules/.bin/claude"
    done
    touch "$agents/installed"
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

step "lints: cli, pure and run, with and without the tokenizer"
cargo clippy --offline --locked --all-targets --quiet -- -D warnings
for features in "" tokenizer run run,tokenizer; do
    cargo clippy --offline --locked --no-default-features --features "$features" --lib --examples --quiet -- -D warnings
done

# Many tests wait for processes, so more of them run at a time than there are cores.
export RUST_TEST_THREADS="${RUST_TEST_THREADS:-$((2 * $(getconf _NPROCESSORS_ONLN) + 1))}"

step "tests"
# Builds the programs that tests start, and runs the tests of the documentation, too.
export AGENTD_TEST_PROGRAMS=built
cargo test --offline --locked
# Without the tokenizer, counts are estimates.
cargo test --offline --locked --no-default-features --lib

if [ -n "$soak" ]; then
    step "soak: $soak kills"
    AGENTD_SOAK=$soak cargo test --offline --locked --test it kill_loop -- --nocapture
    AGENTD_SOAK=$soak cargo test --offline --locked --test it change::crash
fi

if [ -n "$real" ]; then
    step "real agents"
    need node "install Node.js 20 or newer"
    need npm "it comes with Node.js"
    rm -f target/not-run/real_agents
    alone="unshare --user --map-root-user --net"
    if ! $alone ip link set lo up; then
        real_agents_did_not_run "namespaces are not granted"
    elif install_real_agents; then
        # In a network namespace whose only interface is the loopback device, where the scripted server listens.
        RUST_TEST_THREADS=2 AGENTD_REAL_AGENTS="$agents/node_modules/.bin" $alone sh -c \
            'ip link set lo up && exec cargo test --offline --locked --test it real_agents'
    fi
fi

step "documentation"
RUSTDOCFLAGS="-D warnings" cargo doc --offline --locked --no-deps --quiet

echo
cat target/not-run/* 2>/dev/null || true
count=$(find target/not-run -type f | wc -l | tr -d ' ')
echo "did not run: $count"
if [ "${AGENTD_CI:-}" = 1 ] && [ "$count" -ne 0 ]; then
    # In CI only an unreachable registry or a kernel facility that is not granted excuses a test.
    if cat target/not-run/* | grep -v -E 'registry cannot be reached|namespaces are not granted' >/dev/null; then
        exit 1
    fi
fi
