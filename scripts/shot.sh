#!/bin/sh
# A page as headless Chromium shows it, from its head on, as a picture: to look at what `wayside bench report` makes.
#   scripts/shot.sh PAGE PNG [HEIGHT [WIDTH]]    so many pixels of it; 2,400 and 1,400 without them
set -eu
if [ $# -lt 2 ]; then
	echo "usage: scripts/shot.sh PAGE PNG [HEIGHT [WIDTH]]" >&2
	exit 64
fi
page=$(realpath "$1") png=$(realpath "$2") height=${3:-2400} width=${4:-1400}
for browser in chromium chromium-browser google-chrome; do
	! command -v "$browser" >/dev/null || break
	browser=
done
[ -n "$browser" ] || { echo "no Chromium is installed (Debian: chromium)" >&2; exit 69; }
[ -r "$page" ] || { echo "can't read $page" >&2; exit 64; }
# Its sandbox refuses root. A profile of its own: whoever has a browser open is not disturbed.
profile=$(mktemp -d)
rm -f "$png"
trap 'rm -rf "$profile"' EXIT
"$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$profile" \
	--window-size="$width,$height" --screenshot="$png" "file://$page" >"$profile/said" 2>&1 || true
[ -s "$png" ] || { cat "$profile/said" >&2; exit 69; }
