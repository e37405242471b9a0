#!/usr/bin/env bash
# Measures a cold build of Tidegate and of tokio: `cargo build` in the dev profile with an empty
# target folder, user and system time together. Downloads are not counted.
#
#   bench/cold-build.sh [ROUNDS]
#
# The builds take turns, ROUNDS times each (3 by default); the table has the medians. The script
# fails if a limit of the table is exceeded. It leaves its folders in target/cold-build.
#
# Tidegate is compiled as a program compiles a dependency from a registry or from git, and as it
# compiles tokio: without the state for incremental builds and without warnings. Cargo does both for a
# path, which is how the packages here refer to it. AS_PATH=1 leaves it so.
set -euo pipefail

rounds=${1:-3}
root=$(cd "$(dirname "$0")/.." && pwd)
work=$root/target/cold-build
# What changes the compiler's work, or where it is done.
unset CARGO_TARGET_DIR RUSTFLAGS CARGO_BUILD_RUSTFLAGS CARGO_INCREMENTAL RUSTC_WRAPPER
for name in $(compgen -e CARGO_PROFILE_ || true); do unset "$name"; done
if [ -z "${AS_PATH:-}" ]; then export CARGO_INCREMENTAL=0 RUSTFLAGS='--cap-lints=allow'; fi

tokio=$(sed -n 's/^tokio = { version = "=\([^"]*\)".*/\1/p' "$root/bench/Cargo.toml")
ours() { printf 'tidegate = { path = "%s/crates/tidegate", %s }' "$root" "$1"; }

# name | dependency | lock file to start from | the most, as a multiple of tokio
builds=(
    "tokio, full|tokio = { version = \"=$tokio\", features = [\"full\"] }|examples/tokio/Cargo.lock|"
    "net + isolate + tracing|$(ours 'default-features = false, features = ["net", "isolate", "tracing"]')|Cargo.lock|1.5"
    "isolate|$(ours 'default-features = false, features = ["isolate"]')|Cargo.lock|1.2"
    "default features, with TLS|$(ours 'features = []')|Cargo.lock|"
)

# Writes the package number $1 and fetches what it depends on.
prepare() {
    local dependency lock folder=$work/$1
    IFS='|' read -r _ dependency lock _ <<<"${builds[$1]}"
    rm -rf "$folder" && mkdir -p "$folder/src"
    printf '[package]\nname = "cold"\nversion = "0.0.0"\nedition = "2024"\n\n[workspace]\n\n[dependencies]\n%s\n' \
        "$dependency" >"$folder/Cargo.toml"
    echo 'fn main() {}' >"$folder/src/main.rs"
    cp "$root/$lock" "$folder/Cargo.lock"
    (cd "$folder" && cargo fetch --quiet 2>/dev/null || cargo fetch --quiet --offline)
}

# Builds the package number $1 from nothing and prints the seconds of user and system time.
measure() (
    cd "$work/$1"
    rm -rf target
    TIMEFORMAT='%3U %3S'
    { time cargo build --quiet --offline >build.log 2>&1; } 2>times || { cat build.log >&2; exit 1; }
    awk '{ printf "%.2f\n", $1 + $2 }' times
)

for at in "${!builds[@]}"; do
    prepare "$at"
    : >"$work/$at/all"
done
for _ in $(seq "$rounds"); do
    for at in "${!builds[@]}"; do measure "$at" >>"$work/$at/all"; done
done

median() { sort -n "$work/$1/all" | awk '{ a[NR] = $1 } END { print a[int((NR + 1) / 2)] }'; }
base=$(median 0)
failed=0
echo "| build | packages | seconds | of tokio | at most |"
echo "|---|---|---|---|---|"
for at in "${!builds[@]}"; do
    IFS='|' read -r name _ _ most <<<"${builds[$at]}"
    seconds=$(median "$at")
    packages=$(cd "$work/$at" && cargo tree --offline --edges normal,build --prefix none 2>/dev/null | sed 's/ (\*)$//' | sort -u | wc -l)
    ratio=$(awk "BEGIN { printf \"%.2f\", $seconds / $base }")
    echo "| $name | $((packages - 1)) | $seconds | $ratio | $most |"
    if [ -n "$most" ] && awk "BEGIN { exit !($ratio > $most) }"; then failed=1; fi
done
exit "$failed"
