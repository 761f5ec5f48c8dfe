# Commands for working on agentd. `just` lists them.

_default:
    @just --list --unsorted

# Run everything that CI runs: format, lints, all tests, documentation
test *FLAGS:
    ./test.sh {{FLAGS}}

# Run the tests whose name contains NAME, such as a case file: just case reply/shapes/17
case NAME:
    cargo test --locked {{NAME}}

# Run the integration tests whose name contains NAME
it NAME:
    cargo test --locked --test it {{NAME}}

# Check the format, and lint each of the three builds
lint:
    cargo fmt --check
    cargo clippy --locked --all-targets -- -D warnings
    cargo clippy --locked --no-default-features -- -D warnings
    cargo clippy --locked --no-default-features --features run -- -D warnings
    cargo clippy --locked --no-default-features --features run,tokenizer -- -D warnings

# Build the documentation; a warning is an error
docs:
    RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps

# Show a whole change with a scripted agent
demo:
    cargo run --locked --quiet -- demo

# Print the prompt for a request, and where each part of it comes from
prompt MODE REQUEST:
    cargo run --locked --quiet -- prompt {{MODE}} "{{REQUEST}}" --explain

# Measure; docs/internals/speed.md explains the figures
bench *ARGS:
    cargo bench --locked {{ARGS}}

# Fuzz a target for SECONDS: parse, readers, pack, diff or spec_merge (fuzz/README.md)
fuzz TARGET SECONDS="60":
    RUSTC_BOOTSTRAP=1 cargo fuzz run --sanitizer none {{TARGET}} -- -max_total_time={{SECONDS}}

# Check licenses, duplicate crates and sources of crates
deny:
    cargo deny check bans licenses sources

# Build the program as a release does
release-build:
    cargo build --locked --profile dist

# Write the man pages to target/man
man:
    cargo run --locked --quiet -- man --out target/man

# List the files of the published crate
package:
    cargo package --locked --allow-dirty --list
