#!/bin/sh
# The first process of a guest: loads the modules, runs the jobs, powers off.
/bin/busybox mkdir -p /usr/bin /usr/sbin /sbin
/bin/busybox --install -s /bin
export PATH=/bin HOME=/root
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev 2>/dev/null
# The first file system is memory already; files that were brought along may be anywhere in it.
mkdir -p /run/netns /run/lock
mount -t cgroup2 cgroup /sys/fs/cgroup 2>/dev/null
while read -r module; do
    insmod "/modules/$module" || echo "no $module"
done </modules/order
ip link set lo up
printf '\n@@ READY %s %s\n' "$(uname -r)" "$(cut -d' ' -f1 /proc/uptime)"
while read -r name limit command; do
    printf '\n@@ BEGIN %s\n' "$name"
    timeout "$limit" sh -c "$command" </dev/null 2>&1
    printf '\n@@ END %s %s %s\n' "$name" "$?" "$(cut -d' ' -f1 /proc/uptime)"
done </jobs
printf '\n@@ DONE\n'
poweroff -f
