#!/usr/bin/env bash
# Attaches an EBS volume to this machine and mounts it, so that a new head finds the state of the one before.
#   state_volume.sh vol-0123456789abcdef0 /var/lib/coadapt
# The volume stands in the zone of the head. It is formatted only if nothing at all is on it.
set -euo pipefail

volume=${1:?which volume} folder=${2:?where to mount it}
devices=${COADAPT_DEVICES:-/dev/disk/by-id}
device=$devices/nvme-Amazon_Elastic_Block_Store_${volume/-/}

if mountpoint -q "$folder"; then
    exit 0
fi
if [ ! -e "$device" ]; then
    token=$(curl -sf -X PUT -H "X-aws-ec2-metadata-token-ttl-seconds: 60" http://169.254.169.254/latest/api/token)
    told() { curl -sf -H "X-aws-ec2-metadata-token: $token" "http://169.254.169.254/latest/meta-data/$1"; }
    instance=$(told instance-id)
    AWS_DEFAULT_REGION=$(told placement/region)
    export AWS_DEFAULT_REGION
    echo "waiting until $volume is free, as when the last head goes down"
    aws ec2 wait volume-available --volume-ids "$volume"
    aws ec2 attach-volume --volume-id "$volume" --instance-id "$instance" --device /dev/sdf
    for _ in $(seq 60); do
        [ -e "$device" ] && break
        sleep 2
    done
fi
# `blkid -p` says 2 for a device on which nothing is found; any other failure formats nothing.
status=0
found=$(sudo blkid -p "$device") || status=$?
if [ $status -eq 2 ] && [ -z "$found" ]; then
    sudo mkfs.ext4 -q "$device"
elif [ $status -ne 0 ]; then
    echo "state_volume.sh: blkid cannot read $device (status $status); nothing was changed" >&2
    exit 1
fi
sudo mkdir -p "$folder"
sudo mount "$device" "$folder"
sudo chown "$(id -u):$(id -g)" "$folder"
