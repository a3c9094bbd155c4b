# Clears up behind a test: sh home.sh watch|release DIRECTORY. A file `container` in the directory may name a container.

# Postgres guards its data with a segment of System V memory, which outlives a server that is killed. The lock file names both
# (https://www.postgresql.org/docs/15/storage-file-layout.html): its creator on line 1, the segment last on line 7.
release() {
    segment=$(awk 'FILENAME != "/proc/sysvipc/shm" { if (FNR == 1) creator = $1; if (FNR == 7) id = $2; next }
        $2 == id && $5 == creator { print id }' "$1/data/postmaster.pid" /proc/sysvipc/shm)
    [ -z "$segment" ] || ipcrm -m "$segment"
}

# Bounded: a process that sleeps in the kernel dies when it wakes.
end_processes() {
    tries=0
    while [ $tries -lt 100 ]; do
        found=$(find /proc -maxdepth 2 -path '/proc/[0-9]*/cwd' -lname "$1/*" 2>/dev/null)
        [ -n "$found" ] || break
        for cwd in $found; do pid=${cwd#/proc/}; kill -9 "${pid%/cwd}"; done
        tries=$((tries + 1))
        sleep 0.02
    done
}

case $1 in
release) release "$2" ;;
watch)
    trap '' HUP INT QUIT TERM
    read -r _
    end_processes "$2"
    [ ! -s "$2/container" ] || docker rm -f "$(cat "$2/container")"
    release "$2"
    rm -rf "$2"
    ;;
esac
