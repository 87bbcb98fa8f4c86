#!/bin/sh
# What a build with the other lock services in `wayside bench report` needs: protoc and the definitions that come with it.
# Where they are it prints the `--features` for cargo, of the packages that are named; where not it says so on stderr,
# and prints nothing.
#   cargo build -p wayside-daemon $(scripts/peers.sh wayside-daemon)
set -eu
protoc=${PROTOC:-protoc}
if ! command -v "$protoc" >/dev/null || ! { [ -e /usr/include/google/protobuf/descriptor.proto ] || [ -n "${PROTOC_INCLUDE:-}" ]; }; then
	echo "built without other lock services, for lack of protoc (make setup installs it)" >&2
	exit 0
fi
features=
for package; do
	features="$features${features:+,}$package/peers"
done
echo "--features $features"
