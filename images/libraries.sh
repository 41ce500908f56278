# Makes what a tier has beyond the interpreter: libraries under /usr/local/lib,
# locales under /usr/lib/locale, matplotlib's font list under /opt/brig/matplotlib.
set -eu

tier="$1"
case "${tier}" in
core) packages="locales" ;;
standard | full) packages="locales ca-certificates python3-pip" ;;
*)
    echo "brig: unknown tier '${tier}'; there are core, standard and full" >&2
    exit 2
    ;;
esac
# shellcheck disable=SC2086  # packages is a list of words
sh /usr/local/libexec/brig-apt ${packages}

# C.UTF-8 is always there; these are for dates, names and numbers.
for locale in de_DE en_GB en_US es_ES fr_FR it_IT ja_JP ko_KR nl_NL pl_PL pt_BR ru_RU sv_SE tr_TR uk_UA zh_CN; do
    localedef -i "${locale}" -f UTF-8 "${locale}.UTF-8"
done

mkdir -p /opt/brig /usr/local/lib
if [ "${tier}" = core ]; then
    exit 0
fi

if [ -s /build/mirror-ca.pem ]; then
    export PIP_CERT=/build/mirror-ca.pem
fi
# Wheels only, each with the hash that its line gives: no mirror can put anything
# else here, and nothing is compiled.
lists="-r /build/standard.txt"
if [ "${tier}" = full ]; then
    lists="${lists} -r /build/full.txt"
fi
target="$(python3 -I -c 'import sysconfig; print(sysconfig.get_path("purelib", "posix_local"))')"
# shellcheck disable=SC2086  # lists is a list of words
python3 -m pip install --no-cache-dir --no-input --disable-pip-version-check --root-user-action=ignore \
    --only-binary :all: --require-hashes --no-deps --target "${target}" ${lists}

# What only developers of these libraries use.
find "${target}" -depth -type d -name tests -exec rm -r {} +
rm -rf "${target}/bin" "${target}/pyarrow/include" "${target}/pyarrow/src" "${target}/numpy/_core/include"
find "${target}" -type f \( -name '*.pyx' -o -name '*.pxd' -o -name '*.pxi' -o -name '*.a' -o -name '*.h' \) -delete

# A first figure would spend its time on this list; the runner copies it to scratch.
mkdir -p /opt/brig/matplotlib
MPLCONFIGDIR=/opt/brig/matplotlib python3 -I -c '
import matplotlib
matplotlib.use("Agg")
import matplotlib.font_manager, numpy, openpyxl, pandas, pyarrow'

# Whatever was left out above, everything that the tier promises can be imported.
if [ "${tier}" = full ]; then
    python3 -I -c '
import bs4, docx, duckdb, formulaic, jinja2, lxml.html, networkx, patsy, polars, pypdf, scipy.optimize, scipy.stats, seaborn
import sklearn.ensemble, sklearn.linear_model, sqlalchemy, statsmodels.api, sympy, tabulate, tqdm, xlrd, xlsxwriter, yaml'
fi
