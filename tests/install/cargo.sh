# cargo.sh <cargo> <prefix> <source> <folder> <arguments> <output>: in <folder>, lays a copy of the crate examples/rust, and
# beside it in user/ a crate that uses it with the program of README (../readme.rs); then runs cargo offline, and looks for
# the line <output>.
set -eu
cargo=$1 prefix=$2 source=$3 folder=$4 arguments=$5 output=$6
rm -rf "$folder"
mkdir -p "$folder/user/src"
cp -r "$source/examples/rust/." "$folder"
rm -rf "$folder/target"
cp "$folder/../readme.rs" "$folder/user/src/main.rs"
cat > "$folder/user/Cargo.toml" <<END
[package]
name = "user"
version = "0.1.0"
edition = "2024"
[workspace]
[dependencies]
skim = { path = ".." }
END
# As examples/rust/README.md says.
cat > "$folder/user/build.rs" <<'END'
fn main() {
    println!("cargo::rustc-link-arg-bins=-Wl,-rpath,{}", std::env::var("DEP_SKIM_LIB").unwrap());
}
END
SKIM_LIB_DIR=$(dirname "$(find "$prefix" -name libskim.so)")
export SKIM_LIB_DIR RUSTFLAGS=-Dwarnings CARGO_TARGET_DIR="$folder/target"
cd "$folder"
# shellcheck disable=SC2086
"$cargo" ${arguments%% *} --offline --quiet ${arguments#* } | tee printed
grep -qxF "$output" printed
