# install.sh <cmake> <build folder> <prefix>: installs the build under another prefix, then moves it to <prefix>.
set -eu
rm -rf "$3" "$3.first"
"$1" --install "$2" --prefix "$3.first"
mv "$3.first" "$3"
