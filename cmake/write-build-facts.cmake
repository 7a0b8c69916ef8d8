# cmake -DSOURCES=… -DOUT=… -DTARGET=… -DCOMMIT=… -P write-build-facts.cmake: writes OUT, the C++ source of
# cli/build_facts.h, unless it says that already.  If COMMIT is empty, it's that of SOURCES.
#
# A source distribution has its commit in the file COMMIT (tools/release).  Another archive of the
# sources has none, unless whoever builds it names it.
cmake_minimum_required(VERSION 3.25)
set(commit "${COMMIT}")

function(ask_git result)
  execute_process(COMMAND git --no-optional-locks -C "${SOURCES}" ${ARGN}
    OUTPUT_VARIABLE answer OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(failed)
    set(answer "")
  endif()
  set(${result} "${answer}" PARENT_SCOPE)
endfunction()

if(NOT commit AND EXISTS "${SOURCES}/COMMIT")
  file(STRINGS "${SOURCES}/COMMIT" commit LIMIT_COUNT 1)
endif()
# A folder of sources may lie in a repository that isn't theirs.
if(NOT commit AND EXISTS "${SOURCES}/.git")
  ask_git(commit rev-parse --verify --short=12 HEAD)
  ask_git(changed status --porcelain --untracked-files=no)
  if(commit AND changed)
    string(APPEND commit "-dirty")
  endif()
endif()
if(NOT commit)
  set(commit unknown)
endif()

set(text "// Made by cmake/write-build-facts.cmake.\n#include \"cli/build_facts.h\"\n
const char* const pergpu::cli::kBuildCommit = \"${commit}\";
const char* const pergpu::cli::kBuildTarget = \"${TARGET}\";\n")
set(before "")
if(EXISTS "${OUT}")
  file(READ "${OUT}" before)
endif()
if(NOT text STREQUAL before)
  file(WRITE "${OUT}" "${text}")
endif()
