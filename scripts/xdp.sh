#!/bin/sh
# What a build with the switch at the XDP hook needs: clang, libelf and zlib. Where all is there it prints the `--features`
# for cargo, of the packages that are named; where not it says on stderr what is missing, and prints nothing.
#   cargo build -p wayside-daemon $(scripts/xdp.sh wayside-daemon)
set -eu
missing=
[ -n "${CLANG:-}" ] || command -v clang-19 >/dev/null || command -v clang >/dev/null || missing="$missing clang,"
# As the compiler finds them, wherever they are.
for header in libelf.h zlib.h; do
	echo "#include <$header>" | "${CC:-cc}" -E - >/dev/null 2>&1 || missing="$missing $header,"
done
if [ -n "$missing" ]; then
	echo "built without XDP, for lack of${missing%,} (make setup installs what is missing)" >&2
	exit 0
fi
features=
for package; do
	features="$features${features:+,}$package/xdp"
done
echo "--features $features"
