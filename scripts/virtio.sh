#!/bin/sh
# The switch at the XDP hook of virtio-net, the card of most virtual machines: a guest under QEMU runs it, this host has
# the clients. `scripts/virtio.sh [COUNT]` locks that often. Needs root, qemu-system-x86_64, and Debian's packages for the
# guest's kernel, which it downloads and installs nowhere. Without KVM the guest is emulated: it says nothing about speed.
#   CLIENT=guest    the other way round: the guest is the client, by AF_XDP, and this host has a switch in userspace
#   KERNEL_PACKAGE  another kernel            SUITE          of another Debian, such as trixie-backports
#   CARD, MODULES   another card or its options, and its drivers
#   MODE            the switch's mode         QUEUES         of the tap
#   ACCELERATION    kvm, where KVM works
set -eu
cd "$(dirname "$0")/.."
root=$PWD
target=${CARGO_TARGET_DIR:-$root/target}
work=$target/virtio
client=${CLIENT:-host} mode=${MODE:-native} queues=${QUEUES:-4}

fail() {
	echo "virtio: $*" >&2
	exit 1
}
[ "$(id -u)" = 0 ] || fail "network namespaces and taps need root"
for tool in qemu-system-x86_64 apt-get dpkg-deb ip unshare jq; do
	command -v $tool >/dev/null || fail "$tool is missing"
done

# The guest's kernel and userland: a busybox, the programs, their libraries, and modules on the way to the card.
prepare() {
	mkdir -p "$work/packages"
	cd "$work/packages"
	[ -z "${SUITE:-}" ] || update
	wanted=linux-image-cloud-amd64
	kernel=${KERNEL_PACKAGE:-$(apt apt-cache depends $wanted | sed -n 's/^ *Depends: \(linux-image-[0-9]\)/\1/p' | head -n 1)}
	[ -n "$kernel" ] || fail "$wanted depends on no kernel"
	(SUITE='' && unpack busybox-static busybox-static)
	# Of later kernels there is more than one package.
	version=${kernel#linux-image-}
	unpack "$kernel" $(for part in image binary modules; do echo "linux-$part-$version"; done)
	# Where /usr and / are one, modules are below usr.
	modules=$(find "$kernel/lib/modules" "$kernel/usr/lib/modules" -mindepth 1 -maxdepth 1 2>/dev/null || :)
	[ -d "$modules" ] || fail "$kernel has no modules"
	guest=$work/guest
	rm -rf "$guest"
	mkdir -p "$guest/bin" "$guest/lib" "$guest/modules" "$guest/proc" "$guest/sys" "$guest/dev" "$guest/tmp" "$guest/state"
	cp busybox-static/bin/busybox "$guest/bin/"
	busybox=$guest/bin/busybox
	cp "$target/debug/wayside" "$target/debug/examples/acquires" "$guest/bin/"
	# `ldd` names each library, or the loader, by its path.
	ldd "$guest/bin/wayside" "$guest/bin/acquires" | grep -o '/[^ ]*\.so[^ ]*' | sort -u | while read -r library; do
		mkdir -p "$guest$(dirname "$library")"
		cp "$library" "$guest$library"
	done
	: >"$guest/modules/order"
	for module in ${MODULES:-virtio_pci virtio_net}; do
		take "$module"
	done
	cp "$root/scripts/virtio-guest.sh" "$guest/init"
	(cd "$guest" && "$busybox" find . | "$busybox" cpio -o -H newc 2>/dev/null | gzip -1) >"$work/initramfs"
}

# Unpacks packages into a folder, unless it is there; those that there are.
#   unpack FOLDER PACKAGE...
unpack() {
	folder=$1
	shift
	[ ! -d "$folder" ] || return 0
	rm -rf "$folder.new"
	for package; do
		apt apt-cache show "$package" >/dev/null 2>&1 || continue
		apt apt-get -q download "$package" >/dev/null 2>&1 || fail "can't download $package: apt-get update first"
		dpkg-deb -x "$package"_*.deb "$folder.new"
		rm "$package"_*.deb
	done
	[ -d "$folder.new" ] || fail "there is no $folder: apt-get update first"
	mv "$folder.new" "$folder"
}

# apt's tools, with lists of their own where another Debian is wanted: the machine's stay as they are.
apt() {
	tool=$1
	shift
	if [ -z "${SUITE:-}" ]; then
		"$tool" "$@"
	else
		"$tool" -o "Dir::Etc::SourceList=$work/apt/sources.list" -o Dir::Etc::SourceParts=/dev/null \
			-o "Dir::State=$work/apt" -o "Dir::Cache=$work/apt/cache" "$@"
	fi
}

# The lists of that Debian, from the mirror that the machine has for its own.
update() {
	mkdir -p "$work/apt/lists/partial" "$work/apt/cache/archives/partial"
	mirror=$(apt-get indextargets --format '$(REPO_URI) $(SUITE)' | awk '$2 ~ /^(old)*stable$/ { print $1; exit }')
	[ -n "$mirror" ] || fail "this machine has no mirror of Debian in its apt"
	key=/usr/share/keyrings/debian-archive-keyring.gpg
	echo "deb [signed-by=$key] $mirror $SUITE main" >"$work/apt/sources.list"
	apt apt-get -q update >"$work/apt/log" 2>&1 || fail "no lists of $SUITE: $(tail -n 1 "$work/apt/log")"
}

# Puts a module into the guest, after those that it depends on, unless it is built in.
take() {
	found=$(find "$modules" -name "$1.ko" -o -name "$1.ko.xz" -o -name "$1.ko.zst")
	[ -n "$found" ] || grep -q "/$1.ko$" "$modules/modules.builtin" || fail "$kernel has no driver $1"
	for found in $found; do
		[ ! -e "$guest/modules/$1.ko" ] || continue
		case $found in
		*.xz) xz -dc "$found" >"$guest/modules/$1.ko" ;;
		*.zst) zstd -qdc "$found" >"$guest/modules/$1.ko" ;;
		*) cp "$found" "$guest/modules/" ;;
		esac
		for needed in $(tr '\0' '\n' <"$guest/modules/$1.ko" | sed -n 's/^depends=//p' | tr , ' '); do
			take "$needed"
		done
		echo "$1.ko" >>"$guest/modules/order"
	done
}

run() {
	# Queues for the guest's two processors, and as many for what XDP sends.
	# shellcheck disable=SC2046 # a word or none
	ip tuntap add dev tap0 mode tap $([ "$queues" = 1 ] || echo multi_queue)
	ip addr add 10.97.0.1/24 dev tap0
	ip link set tap0 up
	ip link set lo up
	wayside=$target/debug/wayside log=$work/guest.log
	: >"$log"
	qemu='' switch=''
	trap 'kill $qemu $switch 2>/dev/null || :' EXIT
	if [ "$client" = guest ]; then
		"$wayside" switch --listen 10.97.0.1:7600 --mode userspace --authentication off --state-dir "$work/state" \
			--control-socket "$work/control.sock" >"$work/switch.log" 2>&1 &
		switch=$!
	fi
	qemu-system-x86_64 -accel "${ACCELERATION:-tcg}" -cpu max -smp 2 -m 1024 -nodefaults -no-reboot -display none \
		-kernel "$(find "$kernel" -name "vmlinuz*" | head -n 1)" -initrd "$work/initramfs" \
		-append "console=ttyS0 quiet panic=-1 mitigations=off CLIENT=$client MODE=$mode COUNT=$count" \
		-serial "file:$log" -netdev tap,id=net,ifname=tap0,script=no,downscript=no,queues="$queues" \
		-device "${CARD:-virtio-net-pci,mq=on,vectors=10},netdev=net,mac=52:54:00:97:00:02" </dev/null 2>>"$log" &
	qemu=$!
	"with_client_on_$client"
	echo "virtio: all of it was right"
}

# Waits for a line of the guest's.
#   await LINE SECONDS
await() {
	begun=$(date +%s)
	until grep -q "^$1" "$log"; do
		if ! kill -0 $qemu 2>/dev/null || [ $(($(date +%s) - begun)) -gt "$2" ]; then
			cat "$log" >&2
			fail "the guest does not say $1"
		fi
		sleep 0.5
	done
	tr -d '\r' <"$log" | grep -E '^(guest|switch): '
}

with_client_on_host() {
	await 'switch: ' 180
	export WAYSIDE_ENDPOINTS=10.97.0.2:7600
	token=$(timeout 60 "$wayside" lock virtio --wait 30s -- sh -c 'echo $WAYSIDE_LOCK_TOKEN') || fail "no lock"
	echo "wayside lock: token $token"
	timeout 300 "$target/debug/examples/acquires" "$count" || fail "the locks went wrong"
	status=$(timeout 30 "$wayside" status -o json)
	echo "$status" | jq -r '"mode " + .mode,
		(.packets | "granted \(.granted), joined \(.joined), \(.handed_up) handed up to the daemon")'
	[ "$(echo "$status" | jq -r .mode)" = "$mode XDP" ] || fail "it does not run in $mode XDP"
}

with_client_on_guest() {
	await 'guest: the client ended with' 400
	grep -q '^guest: the client ended with 0' "$log" || fail "the locks went wrong"
	grep -q 'by AF_XDP on eth0.*: queue' "$log" || fail "nothing went by AF_XDP"
}

case ${1:-} in
in-namespace)
	kernel=$2 count=$3
	run
	;;
*)
	features=$(scripts/xdp.sh wayside-daemon 2>&1)
	case $features in --*) ;; *) fail "$features" ;; esac
	# shellcheck disable=SC2086 # flags
	cargo build --quiet -p wayside-daemon $features
	cargo build --quiet -p wayside-client --features afxdp --example acquires
	prepare
	# The kernel removes the namespace, with the tap, when the last process in it ends.
	exec unshare --net "$root/scripts/virtio.sh" in-namespace "$work/packages/$kernel" "${1:-2000}"
	;;
esac
