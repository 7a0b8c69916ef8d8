# What `pergpu --version` says of a build: the commit that was configured, and what it was built for.
# A source distribution has its commit in the file COMMIT (tools/release).  Another archive of the
# sources has none, unless whoever builds it names it.
set(PERGPU_COMMIT "" CACHE STRING "the commit of these sources; empty: asked of git")
set(PERGPU_TARGET "" CACHE STRING "what is built for; empty: asked of the compiler")

set(commit "${PERGPU_COMMIT}")
if(NOT commit AND EXISTS ${PROJECT_SOURCE_DIR}/COMMIT)
  file(STRINGS ${PROJECT_SOURCE_DIR}/COMMIT commit LIMIT_COUNT 1)
endif()
# A folder of sources may lie in a repository that isn't theirs.
if(NOT commit AND EXISTS ${PROJECT_SOURCE_DIR}/.git)
  execute_process(COMMAND git -C ${PROJECT_SOURCE_DIR} describe --always --dirty --abbrev=12 --exclude=*
    OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(failed)
    set(commit "")
  endif()
endif()
if(NOT commit)
  set(commit unknown)
endif()

set(target "${PERGPU_TARGET}")
if(NOT target)
  set(target "${CMAKE_LIBRARY_ARCHITECTURE}")
endif()
if(NOT target)
  set(target "${CMAKE_SYSTEM_PROCESSOR}-linux")
endif()

set_source_files_properties(${PROJECT_SOURCE_DIR}/src/cli/main.cc PROPERTIES
  COMPILE_DEFINITIONS "PERGPU_COMMIT=\"${commit}\";PERGPU_TARGET=\"${target}\"")
