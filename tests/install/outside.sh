# outside.sh <prefix> <package> <program> <command> [<output>]: runs a command that compiles a program against the tree
# installed at <prefix>, with pkg-config aware of it, and then the program, which must print <output> if it is given.
set -eu
file=$(find "$1" -name "$2.pc")
PKG_CONFIG_PATH=$(dirname "$file")
export PKG_CONFIG_PATH
LD_LIBRARY_PATH=$(pkg-config --variable=libdir "$2")
export LD_LIBRARY_PATH
sh -c "$4"
printed=$("$3")
echo "$printed"
test "$#" -lt 5 || test "$printed" = "$5"
