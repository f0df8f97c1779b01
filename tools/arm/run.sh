#!/usr/bin/env bash
# Runs Python with samebits on an emulated ARM64 processor, from an x86-64 Debian, without docker:
#
#   tools/arm/run.sh -m samebits doctor
#
# Arguments go to Python. The first run fetches 160 MB and fills 650 MB of .arm; later ones start at once.
# PYTHON=… names the Python of this machine that fetches the wheels (3.11 or newer, with pip). Begin anew: rm -r .arm
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=$(cd "$here/../.." && pwd)
arm=$top/.arm
root=$arm/root
site=$arm/site
cpu=cortex-a76  # write_cpuinfo describes the same one

unset PYTHONHOME PYTHONPATH  # started by the emulated Python, this machine's would inherit its library

say() { echo "tools/arm/run.sh: $*" >&2; }
die() { say "$@"; exit 2; }

# 1. The emulator: the one thing installed outside .arm. Its recommendations would register it with the kernel.
install_qemu() {
    command -v qemu-aarch64-static >/dev/null && return
    command -v apt-get >/dev/null ||
        die "qemu-aarch64-static is missing and this is no Debian; install your system's static QEMU user emulation"
    [[ $(id -u) == 0 ]] ||
        die "qemu-aarch64-static is missing; run: sudo apt-get update && sudo apt-get install qemu-user-static"
    say "installing qemu-user-static"
    apt-get update --quiet --quiet >&2 || say "apt-get update had errors; trying all the same"
    DEBIAN_FRONTEND=noninteractive apt-get install --quiet --quiet --yes --no-install-recommends qemu-user-static >&2
}

# 2. Debian's Python for ARM64 and all it depends on. apt gets a state of its own, in which nothing is installed yet and
# arm64 is the only architecture: it works out the list of packages, and the machine's own state is never touched.
# Mirrors, keys and proxies are the machine's.
private_apt() {
    apt-get --config-file "$arm/apt/apt.conf" --quiet --quiet "$@" >&2
}

# LLVM learns the processor from /proc/cpuinfo, where QEMU 7 shows the x86 one of this machine: kernels would be built
# for the plainest ARM64. QEMU looks for files below the root first, and so finds this one. A newer QEMU writes its own.
write_cpuinfo() {
    local core
    mkdir -p "$root/proc"
    for core in $(seq 0 $(($(nproc) - 1))); do
        cat <<INFO
processor	: $core
BogoMIPS	: 50.00
Features	: fp asimd aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop asimddp
CPU implementer	: 0x41
CPU architecture: 8
CPU variant	: 0x4
CPU part	: 0xd0b
CPU revision	: 1

INFO
    done >"$root/proc/cpuinfo"
}

unpack_root() {
    [[ -e $root/.done ]] && return
    command -v apt-get >/dev/null || die "this needs apt-get and Debian's archive, for an ARM64 Python"
    say "unpacking Debian's ARM64 Python into .arm/root"
    rm -rf "$root" "$arm/apt"
    mkdir -p "$arm/apt/lists/partial" "$arm/apt/cache/archives/partial"
    touch "$arm/apt/status"
    # Hooks of the machine would clean the machine's folders. The sandbox's user may not be able to enter a home folder.
    cat >"$arm/apt/apt.conf" <<CONF
#clear APT::Architectures;
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear DPkg::Pre-Invoke;
#clear DPkg::Pre-Install-Pkgs;
#clear DPkg::Post-Invoke;
APT::Architecture "arm64";
APT::Architectures "arm64";
APT::Sandbox::User "root";
Dir::State "$arm/apt";
Dir::State::status "$arm/apt/status";
Dir::Cache "$arm/apt/cache";
Dir::Log "$arm/apt";
CONF
    # Somebody else's repository may have nothing for ARM64; the next command fails if Debian's is missing.
    private_apt update || say "apt-get update had errors; trying all the same"
    private_apt install --download-only --yes --no-install-recommends python3 libstdc++6
    # Debian's folders have been merged since 12, but its packages still hold files under both names.
    mkdir -p "$root/usr/lib" "$root/usr/bin" "$root/usr/sbin"
    ln -s usr/lib usr/bin usr/sbin "$root"
    local package
    for package in "$arm"/apt/cache/archives/*.deb; do
        dpkg-deb --fsys-tarfile "$package" | tar -x -C "$root" --keep-directory-symlink --no-same-owner
    done
    rm -rf "$arm/apt"
    write_cpuinfo
    touch "$root/.done"
}

# 3. The wheels of the project's dependencies, as pyproject.toml lists them today.
unpack_wheels() {
    local host=${PYTHON:-python3} version=$1 wanted dependencies tags=() glibc
    wanted=$("$host" -c 'import sys, tomllib
print(*tomllib.load(open(sys.argv[1], "rb"))["project"]["dependencies"], sep="\n")' "$top/pyproject.toml") ||
        die "$host cannot read pyproject.toml; set PYTHON to a Python 3.11 or newer that has pip"
    # The stamp is the list itself: a changed one unpacks again.
    [[ -e $site/.done && $(<"$site/.done") == "$wanted" ]] && return
    say "unpacking ARM64 wheels into .arm/site"
    rm -rf "$site"
    mapfile -t dependencies <<<"$wanted"
    # Given a platform, pip forgets that a newer glibc runs what was built for an older one: each is named.
    for glibc in 2014 _2_17 _2_24 _2_26 _2_27 _2_28 _2_31 _2_34; do tags+=(--platform "manylinux${glibc}_aarch64"); done
    # Installing into a folder is downloading and unpacking in one.
    "$host" -m pip install --quiet --disable-pip-version-check --no-cache-dir --no-compile --target "$site" \
        --only-binary=:all: "${tags[@]}" --python-version "$version" --implementation cp \
        --abi "cp${version/./}" --abi abi3 --abi none "${dependencies[@]}" >&2
    # Bytecode is the same on every machine; emulated, it takes 15 seconds of every start. Of no use, and no harm, where
    # this machine's Python is of another version. Some packages hold files that are not meant to compile.
    "$host" -m compileall -qq "$root/usr/lib/python$version" "$site" || true
    echo "$wanted" >"$site/.done"
}

mkdir -p "$arm"
install_qemu
unpack_root
python=$(compgen -G "$root/usr/bin/python3.*[0-9]")
unpack_wheels "${python##*/python}"

# 4. Python. -0 makes this script sys.executable, so that a Python started by Python is emulated too; it then has to be
# told where its home is. It must see no packages of this machine, and leave no bytecode in src.
exec env -u NUMBA_CPU_NAME -u NUMBA_CPU_FEATURES \
    PYTHONHOME="$root/usr" PYTHONPATH="$site:$top/src" PYTHONNOUSERSITE=1 PYTHONDONTWRITEBYTECODE=1 \
    SAMEBITS_CACHE_DIR="$arm/cache" MPLCONFIGDIR="$arm/matplotlib" \
    qemu-aarch64-static -cpu "$cpu" -L "$root" -0 "$here/run.sh" "$python" "$@"
