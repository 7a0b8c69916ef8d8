#!/bin/sh
# Installs pergpu below a folder: programs, man page, completions.  Needs neither root nor Python.
#
#   ./install.sh [FOLDER]               into FOLDER, ~/.local if none is given; again to upgrade
#   ./install.sh --uninstall [FOLDER]   removes what it installed there, nothing else
#
# What it installed is listed in FOLDER/share/pergpu/installed, and this script lies beside that list.
set -eu
umask 022

fail() {
  echo "install.sh: $*" >&2
  exit 1
}

usage() {
  sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p;}' "$0"
  exit "$1"
}

uninstall=
case ${1-} in
  --uninstall) uninstall=yes && shift ;;
  -h | --help) usage 0 ;;
  -*) usage 2 >&2 ;;
esac
[ $# -le 1 ] || usage 2 >&2

here=$(cd "$(dirname "$0")" && pwd -P)
if [ $# = 1 ]; then
  prefix=$1
elif [ -e "$here/installed" ]; then
  prefix=$here/../..
else
  prefix=${HOME:?names no folder: give one}/.local
fi

list=share/pergpu/installed  # lines "file PATH" and "folder PATH", those of folders outermost first

remove_empty_folders() {
  # The innermost first.  One with other files in it stays.
  sed -n 's/^folder //p' "$1" | sort -r | while IFS= read -r path; do
    rmdir "$prefix/$path" 2>/dev/null || :
  done
}

if [ "$uninstall" ]; then
  [ -e "$prefix/$list" ] || fail "nothing is installed in $prefix: there is no $prefix/$list"
  prefix=$(cd "$prefix" && pwd -P)
  data=${PERGPU_HOME:-${XDG_STATE_HOME:-${HOME-}/.local/state}/pergpu}
  if [ -d "$data" ] && "$prefix/bin/pergpu" coordinator status >/dev/null 2>&1; then
    fail "a coordinator is running. Stop it first: $prefix/bin/pergpu coordinator stop" \
      "(running jobs go on; with --kill they end)"
  fi
  copy=$(mktemp)
  trap 'rm -f "$copy"' EXIT
  cp "$prefix/$list" "$copy"
  sed -n 's/^file //p' "$copy" | while IFS= read -r path; do
    rm -f "$prefix/$path"
  done
  rm -f "$prefix/$list"
  remove_empty_folders "$copy"
  echo "pergpu is removed from $prefix."
  echo "Your data is still there: queue and history in $data, results in the folders of your sweeps."
  unit=${XDG_CONFIG_HOME:-${HOME-}/.config}/systemd/user/pergpu.service
  if [ -e "$unit" ]; then
    echo "The unit of \`pergpu coordinator enable\` is still there, too:" \
      "systemctl --user disable pergpu; rm $unit"
  fi
  exit 0
fi

[ -x "$here/bin/pergpu" ] || fail "$here has no bin/pergpu: run install.sh where the archive was unpacked"
"$here/bin/pergpu" --version >/dev/null 2>&1 ||
  fail "bin/pergpu doesn't run here: this machine is a $(uname -m), and needs glibc 2.17 or later"
mkdir -p "$prefix"
prefix=$(cd "$prefix" && pwd -P)
[ "$here" != "$prefix" ] || fail "$prefix is where the archive was unpacked: give another folder"

# Names in the archive have no spaces.
files=$(cd "$here" && find bin libexec share -type f | sort)
folders=$(cd "$here" && find bin libexec share -type d | sort)
if [ -e "$prefix/$list" ]; then
  before=$(cat "$prefix/$list")
else
  before=
fi
was_installed() { printf '%s\n' "$before" | grep -qxF "$1"; }

for path in $files share/pergpu/install.sh; do
  if [ -e "$prefix/$path" ] && ! was_installed "file $path"; then
    fail "$prefix/$path exists, and isn't of this script (of pip?): remove it, or give another folder"
  fi
done

# The list comes first: whatever happens while files are copied, all of them can be removed.
for path in $folders; do
  [ -d "$prefix/$path" ] || was_installed "folder $path" || before="$before
folder $path"
  mkdir -p "$prefix/$path"
done
kept=$(printf '%s\n' "$before" | grep '^folder ' || :)
{
  printf '%s\n' "$before"
  for path in $files share/pergpu/install.sh; do echo "file $path"; done
} | sed '/^$/d' | sort -u >"$prefix/$list.new"
mv -f "$prefix/$list.new" "$prefix/$list"

# By a new file each: what runs keeps the one that it was started from.
copy() {
  cp "$1" "$prefix/$2.new"
  mv -f "$prefix/$2.new" "$prefix/$2"
}
for path in $files; do copy "$here/$path" "$path"; done
copy "$here/install.sh" share/pergpu/install.sh

# What an earlier version had, and this one hasn't.
printf '%s\n' "$before" | sed -n 's/^file //p' | while IFS= read -r path; do
  case "
$files
share/pergpu/install.sh
" in
    *"
$path
"*) ;;
    *) rm -f "$prefix/$path" ;;
  esac
done
{
  [ -z "$kept" ] || printf '%s\n' "$kept"
  for path in $files share/pergpu/install.sh; do echo "file $path"; done
} >"$prefix/$list.new"
mv -f "$prefix/$list.new" "$prefix/$list"

"$prefix/bin/pergpu" --version
echo "is installed in $prefix. To remove it: $prefix/share/pergpu/install.sh --uninstall"
case :${PATH-}: in
  *":$prefix/bin:"*) ;;
  *) echo "$prefix/bin isn't in PATH. Add it: export PATH=\"$prefix/bin:\$PATH\"" ;;
esac
