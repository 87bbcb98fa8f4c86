#!/bin/busybox sh
# The first process of the guest of scripts/virtio.sh: loads the card's driver, looks at it, and is a switch.
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
/bin/wayside doctor --endpoint 10.97.0.2:7600 2>&1 | $busybox sed 's/^/guest: /' || :
# MODE is of the kernel's command line. Signed packets are no matter of the card.
/bin/wayside switch --listen 10.97.0.2:7600 --mode "$MODE" --authentication off --state-dir /state \
	--control-socket /tmp/control.sock || :
echo "guest: the switch has ended"
$busybox poweroff -f
