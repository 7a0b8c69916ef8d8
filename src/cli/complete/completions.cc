// `pergpu completions bash | zsh | fish`: a script that teaches a shell to complete pergpu.
//
// The scripts know nothing of commands and options: they hand the words up to the cursor to
// `pergpu complete` (cli/complete/complete.h) and show what it answers.  So a script that was
// installed long ago completes what the installed program has.
#include <CLI/CLI.hpp>
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "cli/command/command.h"
#include "cli/term/exit_code.h"

namespace pergpu::cli {
namespace {

// readline splits words at COMP_WORDBREAKS (= : @ and more) and replaces only what stands behind
// the last of them: the words are joined again for the question, and that much is cut off the
// answers.
constexpr std::string_view kBash =
    R"sh(# bash completion for pergpu: source <(pergpu completions bash)
_pergpu() {
  COMPREPLY=()
  local rest=${COMP_LINE:0:COMP_POINT} words=() space piece='' i
  for ((i = 0; i <= COMP_CWORD; ++i)); do
    space=${rest%%[![:space:]]*}
    rest=${rest#"$space"}
    piece=${COMP_WORDS[i]}
    ((i == COMP_CWORD)) && piece=$rest
    rest=${rest#"$piece"}
    if ((i == 0)) || [[ -n $space ]]; then words+=("$piece"); else words[-1]+=$piece; fi
  done

  # The words without their quotes, and how much of the last one readline keeps by itself.
  local text value quote before given=() cur head
  for text in "${words[@]}"; do
    _pergpu_unquote "$text"
    given+=("$value")
  done
  cur=$value head=$before
  if [[ -z $quote ]]; then
    text=${words[-1]}
    if [[ -z $piece || $COMP_WORDBREAKS != *"$piece"* ]]; then text=${text%"$piece"}; fi
    _pergpu_unquote "$text"
    head=$value quote=''
  fi

  local answers=() answer
  mapfile -t answers < <("${given[0]/#~\//$HOME/}" complete -- "${given[@]:1}" 2>/dev/null)
  if [[ ${answers[0]-} == $'\t'* ]]; then
    local kind=${answers[0]#$'\t'} found=() endings
    value=$cur
    [[ $cur == --*=* ]] && value=${cur#*=}
    case $kind in
      commands) mapfile -t found < <(compgen -c -- "$value") ;;
      folders) mapfile -t found < <(compgen -d -- "$value") ;;
      *) mapfile -t found < <(compgen -f -- "$value") ;;
    esac
    endings=" ${kind#* } "
    for answer in "${found[@]}"; do
      if [[ $kind != 'files '* || -d $answer || $endings == *" ${answer##*.} "* ]]; then
        answer=${cur%"$value"}$answer
        COMPREPLY+=("${answer#"$head"}")
      fi
    done
    compopt -o filenames 2>/dev/null
    return
  fi

  for answer in "${answers[@]}"; do
    answer=${answer%%$'\t'*}
    answer=${answer#"$head"}
    _pergpu_quote
    COMPREPLY+=("$answer")
  done
  if ((${#COMPREPLY[@]} == 1)) && [[ ${COMPREPLY[0]} == */ ]]; then compopt -o nospace 2>/dev/null; fi
}

# What the text $1 means to the shell: value.  The quote that is open at its end, and what is before that: quote, before.
_pergpu_unquote() {
  local text=$1 sign i
  value='' quote='' before=''
  for ((i = 0; i < ${#text}; ++i)); do
    sign=${text:i:1}
    case $quote$sign in
      \\) value+=${text:$((++i)):1} ;;
      \' | \") quote=$sign before=$value ;;
      \'\' | \"\") quote='' ;;
      \"\\)
        if [[ ${text:i+1:1} == [\\\"\$\`] ]]; then sign=${text:$((++i)):1}; fi
        value+=$sign
        ;;
      *) value+=$sign ;;
    esac
  done
}

# Makes the shell read $answer as it is, behind the quote that is open: names are other people's text.
_pergpu_quote() {
  local sign replaced
  case $quote in
    \') replaced="'\\''" answer=${answer//\'/"$replaced"} ;;
    \")
      for sign in \\ \" \$ \`; do
        replaced=\\$sign
        answer=${answer//"$sign"/"$replaced"}
      done
      replaced="\"'!'\"" answer=${answer//!/"$replaced"}
      ;;
    *) if [[ $answer == *[!A-Za-z0-9_./,=:@%+-]* ]]; then printf -v answer %q "$answer"; fi ;;
  esac
}
complete -F _pergpu pergpu
)sh";

constexpr std::string_view kZsh = R"sh(#compdef pergpu
# zsh completion for pergpu: source <(pergpu completions zsh), behind compinit; or as the file _pergpu in fpath
_pergpu() {
  local -a answers closed open
  local answer word shown
  answers=("${(@f)$("${words[1]/#\~\//$HOME/}" complete -- "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}")
  if [[ $answers[1] == $'\t'* ]]; then
    local -a kind=(${=answers[1]})
    [[ $PREFIX == --*=* ]] && compset -P '*='
    case $kind[1] in
      commands) _command_names -e ;;
      folders) _files -/ ;;
      *) if (( $#kind > 1 )); then _files -g "*.(${(j:|:)kind[2,-1]})"; else _files; fi ;;
    esac
    return
  fi
  for answer in $answers; do
    word=${answer%%$'\t'*}
    [[ -n $word ]] || continue
    shown=${${word//\\/\\\\}//:/\\:}
    [[ $answer == *$'\t'* ]] && shown+=:${answer#*$'\t'}
    if [[ $word == */ ]]; then open+=("$shown"); else closed+=("$shown"); fi
  done
  (( $#closed )) && _describe pergpu closed
  (( $#open )) && _describe pergpu open -S ''
}
if [[ $funcstack[1] == _pergpu ]]; then _pergpu "$@"; else compdef _pergpu pergpu; fi
)sh";

constexpr std::string_view kFish =
    R"sh(# fish completion for pergpu: pergpu completions fish | source
function __pergpu_complete
    set -l words (commandline -opc)
    set -l program (string replace -r '^~/' "$HOME/" -- $words[1])
    set -e words[1]
    set -l current (commandline -ct | string unescape)
    set -l answers ($program complete -- $words "$current" 2>/dev/null)
    if not string match -q \t'*' -- "$answers[1]"
        printf '%s\n' $answers
        return
    end
    set -l kind (string split ' ' -- (string trim -- $answers[1]))
    set -l value (string replace -r '^--[^=]*=' '' -- "$current")
    set -l head (string sub -l (math (string length -- "$current") - (string length -- "$value")) -- "$current")
    switch $kind[1]
        case commands
            __fish_complete_command
        case folders
            printf '%s\n' $head(__fish_complete_directories $value '')
        case '*'
            for path in (__fish_complete_path $value)
                set -l ending (string replace -r '.*\.' '' -- (string split \t -- $path)[1])
                if test (count $kind) -eq 1; or string match -q '*/' -- (string split \t -- $path)[1]; or contains -- $ending $kind[2..-1]
                    printf '%s\n' $head$path
                end
            end
    end
end
complete -c pergpu -f -a '(__pergpu_complete)'
)sh";

constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kScripts = {{
    {"bash", kBash},
    {"zsh", kZsh},
    {"fish", kFish},
}};

}  // namespace

void add_completions(CLI::App& program, Invocation& invocation) {
  std::vector<std::string> shells;
  for (const auto& [shell, script] : kScripts) shells.emplace_back(shell);
  auto chosen = std::make_shared<std::string>();
  CLI::App* command =
      program.add_subcommand("completions", "print a completion script for your shell");
  command->add_option("SHELL", *chosen, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember(shells));
  command->footer("Example, in ~/.bashrc:\n  source <(pergpu completions bash)");
  command->callback([chosen, &invocation] {
    invocation.action = [chosen] {
      for (const auto& [shell, script] : kScripts) {
        if (shell == *chosen) print(script);
      }
      return static_cast<int>(kOk);
    };
  });
}

}  // namespace pergpu::cli
