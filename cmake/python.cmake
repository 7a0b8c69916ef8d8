# pergpu._share, beside the programs: one binary for every CPython from 3.9 on (src/python).  All of
# it but PyInit__share is hidden, and the C++ library is in it, as two of them may meet in a process.
#
# Its files have the same names inside, one for each part of a type's definition: no unity build.
#
# A sanitizer's run-time library has to come first in a process: Python would not load such a build.
if(PERGPU_SANITIZE)
  return()
endif()
find_package(Python 3.9 QUIET COMPONENTS Interpreter Development.Module)
if(NOT Python_Development.Module_FOUND)
  message(STATUS "no headers of Python 3.9 or later (python3-dev): pergpu._share is left out")
  return()
endif()

file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/python/*.cc)
add_library(pergpu_python MODULE ${sources})
set_target_properties(pergpu_python PROPERTIES
  PREFIX "" OUTPUT_NAME _share SUFFIX .abi3.so LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}
  CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON UNITY_BUILD OFF
  LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/python.map)
target_include_directories(pergpu_python SYSTEM PRIVATE ${Python_INCLUDE_DIRS})
target_link_libraries(pergpu_python PRIVATE pergpu_share)
target_link_options(pergpu_python PRIVATE -static-libgcc -static-libstdc++ -Wl,--gc-sections
  -Wl,-z,relro,-z,now -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/python.map)
