#!/bin/busybox sh
# The first process of the guest. The kernel's command line sets `dax_step` (dax_guest's first word) and `dax_seed`. The
# process mounts ext4 on the NVDIMM with DAX and runs the step; in steps `make` and `make_all` it first makes the fsdax
# namespace and ext4.
export PATH=/bin:/sbin
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev

fail() {
    echo "hf error guest: $*"
    poweroff -f
}

wait_for() {
    tries=0
    until [ -e "$1" ]; do
        tries=$((tries + 1))
        [ $tries -lt 500 ] || fail "no $1"
        usleep 20000
    done
}

for module in libnvdimm nd_btt nd_pmem nfit; do
    insmod /modules/$module.ko || fail "insmod $module"
done
nd=/sys/bus/nd
wait_for /dev/pmem0

# A namespace without labels comes up raw. These are the steps by which ndctl makes it fsdax; they leave a block at its
# start by which it comes up as fsdax from the next boot on.
if [ "${dax_step%_all}" = make ]; then
    pfn=$(cat $nd/devices/region0/pfn_seed)
    echo namespace0.0 >$nd/drivers/nd_pmem/unbind
    cat /proc/sys/kernel/random/uuid >$nd/devices/$pfn/uuid
    echo pmem >$nd/devices/$pfn/mode # page structures on the NVDIMM, too
    echo namespace0.0 >$nd/devices/$pfn/namespace
    echo $pfn >$nd/drivers/nd_pmem/bind || fail "no fsdax namespace"
    wait_for /dev/pmem0
    /sbin/mke2fs -q -t ext4 -b 4096 /dev/pmem0 || fail "mke2fs"
fi
mkdir -p /mnt
mount -t ext4 -o dax=always /dev/pmem0 /mnt || fail "mount with DAX"
echo "hf mounted $(grep ' /mnt ' /proc/mounts)"

if [ "${dax_step%_all}" != "$dax_step" ]; then
    mkdir -p /mnt/all
    dax_guest "$dax_step" /mnt/all "$dax_seed" || fail "dax_guest $dax_step"
    umount /mnt || fail "umount"
    echo "hf end"
    poweroff -f
fi
if [ "$dax_step" != make ]; then
    holdfast info /mnt/heap | sed 's/^/hf info /'
fi
dax_guest "$dax_step" /mnt/heap "$dax_seed" || fail "dax_guest $dax_step"
holdfast check /mnt/heap
echo "hf check $?"
holdfast info /mnt/heap | sed 's/^/hf info /'
umount /mnt || fail "umount"
echo "hf end"
poweroff -f
