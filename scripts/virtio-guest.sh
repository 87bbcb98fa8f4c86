#!/bin/busybox sh
# The first process of the guest of scripts/virtio.sh: loads the card's driver, looks at it, and is a switch, or a
# client. CLIENT, MODE and COUNT are of the kernel's command line.
set -eu
busybox=/bin/busybox
$busybox mount -t proc proc /proc
$busybox mount -t sysfs sysfs /sys
$busybox mount -t devtmpfs devtmpfs /dev
while read -r module; do
	$busybox insmod "/modules/$module"
done </modules/order
$busybox ip link set lo up
$busybox ip addr add 10.97.0.2/24 dev eth0
$busybox ip link set eth0 up
echo "guest: Linux $($busybox uname -r), eth0 is $($busybox basename "$($busybox readlink /sys/class/net/eth0/device/driver)")"

as_switch() {
	/bin/wayside doctor --endpoint 10.97.0.2:7600 2>&1 | $busybox sed 's/^/guest: /' || :
	# Signed packets are no matter of the card.
	/bin/wayside switch --listen 10.97.0.2:7600 --mode "$MODE" --authentication off --state-dir /state \
		--control-socket /tmp/control.sock || :
	echo "guest: the switch has ended"
}

as_client() {
	export WAYSIDE_ENDPOINTS=10.97.0.1:7600 WAYSIDE_TRANSPORT=afxdp:eth0
	status=0
	/bin/acquires "$COUNT" >/tmp/said 2>&1 || status=$?
	$busybox sed 's/^/guest: /' /tmp/said
	echo "guest: the client ended with $status"
	$busybox sleep 2
}

case $CLIENT in
guest) as_client ;;
*) as_switch ;;
esac
$busybox poweroff -f
