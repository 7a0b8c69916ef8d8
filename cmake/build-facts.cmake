# What `pergpu --version` prints of a build: the commit, and what it was built for.  The commit is looked
# up in each build; a new one compiles one small file and links pergpu again, nothing else.
set(PERGPU_COMMIT "" CACHE STRING "the commit of these sources; empty: asked of git")
set(PERGPU_TARGET "" CACHE STRING "what is built for; empty: asked of the compiler")

set(target "${PERGPU_TARGET}")
if(NOT target)
  set(target "${CMAKE_LIBRARY_ARCHITECTURE}")
endif()
if(NOT target)
  set(target "${CMAKE_SYSTEM_PROCESSOR}-linux")
endif()

set(facts ${CMAKE_BINARY_DIR}/build_facts.cc)
add_custom_target(pergpu_build_facts BYPRODUCTS ${facts}
  COMMAND ${CMAKE_COMMAND} -DSOURCES=${PROJECT_SOURCE_DIR} -DOUT=${facts} -DTARGET=${target}
    -DCOMMIT=${PERGPU_COMMIT} -P ${CMAKE_CURRENT_LIST_DIR}/write-build-facts.cmake
  COMMENT "the commit that pergpu --version prints" VERBATIM)
target_sources(pergpu PRIVATE ${facts})
add_dependencies(pergpu pergpu_build_facts)
