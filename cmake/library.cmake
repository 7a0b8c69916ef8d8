# libpergpu_share: src/share for programs in C, C++ and what can call C (include/pergpu_share.h).  All
# of it but the functions of that header is hidden, and the C++ library is in it: whoever loads it
# needs none.  The component "share" is all that such programs need:
#
#     cmake --build build/release --target pergpu_share_library
#     cmake --install build/release --component share --prefix ~/.local
#
# A wheel has no use for it.
file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/share/c/*.cc)
add_library(pergpu_share_c OBJECT EXCLUDE_FROM_ALL ${sources})
target_include_directories(pergpu_share_c PUBLIC ${PROJECT_SOURCE_DIR}/include)
target_link_libraries(pergpu_share_c PUBLIC pergpu_share)

# A sanitizer's run-time library has to come first in a process; tests/share is linked with the above.
if(SKBUILD OR PERGPU_SANITIZE)
  return()
endif()

add_library(pergpu_share_library SHARED)
set_target_properties(pergpu_share_library PROPERTIES
  OUTPUT_NAME pergpu_share EXPORT_NAME pergpu_share VERSION ${PROJECT_VERSION} SOVERSION 1
  LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/share LINKER_LANGUAGE CXX
  LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/library.map)
target_include_directories(pergpu_share_library INTERFACE $<INSTALL_INTERFACE:include>)
target_link_libraries(pergpu_share_library PRIVATE $<BUILD_INTERFACE:pergpu_share_c>)
target_link_options(pergpu_share_library PRIVATE -static-libgcc -static-libstdc++ -Wl,--gc-sections
  -Wl,-z,relro,-z,now,-z,defs -Wl,--version-script=${PROJECT_SOURCE_DIR}/cmake/library.map)

include(CMakePackageConfigHelpers)
set(package lib/cmake/pergpu_share)
configure_file(${PROJECT_SOURCE_DIR}/cmake/pergpu_share.pc.in ${CMAKE_BINARY_DIR}/share/pergpu_share.pc @ONLY)
file(WRITE ${CMAKE_BINARY_DIR}/share/pergpu_share-config.cmake
  "include(\${CMAKE_CURRENT_LIST_DIR}/pergpu_share-targets.cmake)\n")
write_basic_package_version_file(${CMAKE_BINARY_DIR}/share/pergpu_share-config-version.cmake
  VERSION ${PROJECT_VERSION} COMPATIBILITY SameMajorVersion)

install(TARGETS pergpu_share_library EXPORT pergpu_share
  LIBRARY DESTINATION lib COMPONENT share NAMELINK_COMPONENT share)
install(FILES ${PROJECT_SOURCE_DIR}/include/pergpu_share.h ${PROJECT_SOURCE_DIR}/include/pergpu_share.hpp
  DESTINATION include COMPONENT share)
install(FILES ${CMAKE_BINARY_DIR}/share/pergpu_share.pc DESTINATION lib/pkgconfig COMPONENT share)
install(FILES ${CMAKE_BINARY_DIR}/share/pergpu_share-config.cmake
  ${CMAKE_BINARY_DIR}/share/pergpu_share-config-version.cmake DESTINATION ${package} COMPONENT share)
install(EXPORT pergpu_share FILE pergpu_share-targets.cmake NAMESPACE pergpu::
  DESTINATION ${package} COMPONENT share)
