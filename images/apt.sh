# Installs the Debian packages named as arguments and leaves no lists behind.
# A repository that cannot be read is an error here, not a warning.
set -eu

options="-o APT::Update::Error-Mode=any -o Acquire::Retries=3"
if [ -n "${APT_MIRROR:-}" ]; then
    . /etc/os-release
    echo "deb ${APT_MIRROR} ${VERSION_CODENAME} main" > /tmp/brig-apt.list
    options="${options} -o Dir::Etc::SourceList=/tmp/brig-apt.list -o Dir::Etc::SourceParts=/dev/null"
fi

export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086  # options is a list of words
apt-get ${options} update
# shellcheck disable=SC2086
apt-get ${options} install --yes --no-install-recommends "$@"
rm -rf /tmp/brig-apt.list /var/lib/apt/lists/* /var/cache/apt/*.bin /var/cache/apt/archives/*.deb /var/cache/debconf/*-old
