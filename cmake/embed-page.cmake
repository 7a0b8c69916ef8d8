# cmake -P embed-page.cmake WEB OUT PAGE: builds web/ with npm and writes OUT, the C++ source that holds
# the page.  Fails if that isn't possible.  If PAGE is false OUT holds no page, and npm is not needed.
# A source distribution has the page in WEB/page, built already (tools/release): npm is not needed either.
cmake_minimum_required(VERSION 3.25)
file(REAL_PATH "${CMAKE_ARGV3}" web)
file(REAL_PATH "${CMAKE_ARGV4}" out)
set(begin "// Made by cmake/embed-page.cmake.\n#include \"serve/page.h\"\n\nnamespace pergpu::serve {\n")

if(NOT CMAKE_ARGV5)
  file(WRITE "${out}" "${begin}
const std::vector<PageFile>& page_files() {
  static const std::vector<PageFile> none;
  return none;
}\n\n}  // namespace pergpu::serve\n")
  return()
endif()

function(fail why)
  message(FATAL_ERROR "can't build the page of `pergpu serve`: ${why}\n"
    "To build pergpu without the page, configure with -DPERGPU_PAGE=OFF.")
endfunction()

function(build_page dist)
  find_program(NPM npm)
  if(NOT NPM)
    fail("npm is not installed")
  endif()

  # npm ci takes seconds and asks the registry: only when what is installed is not what is locked.
  set(installed "${web}/node_modules/.package-lock.json")
  if(NOT EXISTS "${installed}" OR "${web}/package-lock.json" IS_NEWER_THAN "${installed}")
    execute_process(COMMAND "${NPM}" ci --ignore-scripts --no-audit --no-fund
      WORKING_DIRECTORY "${web}" RESULT_VARIABLE failed OUTPUT_VARIABLE said ERROR_VARIABLE said)
    if(failed)
      fail("npm ci in web/ failed:\n${said}")
    endif()
    file(TOUCH "${installed}")
  endif()
  execute_process(COMMAND node build.mjs "${dist}" WORKING_DIRECTORY "${web}"
    RESULT_VARIABLE failed OUTPUT_VARIABLE said ERROR_VARIABLE said)
  if(failed)
    fail("node build.mjs in web/ failed:\n${said}")
  endif()
endfunction()

set(dist "${web}/page")
if(NOT EXISTS "${dist}")
  get_filename_component(folder "${out}" DIRECTORY)
  set(dist "${folder}/dist")
  build_page("${dist}")
endif()

set(arrays "")
set(rows "")
set(number 0)
foreach(file index.html app.js app.css icon.svg)
  # Compressed by build.mjs.
  file(READ "${dist}/${file}.gz" hex HEX)
  file(SHA256 "${dist}/${file}.gz" hash)
  string(SUBSTRING "${hash}" 0 16 hash)
  string(LENGTH "${hex}" size)
  math(EXPR size "${size} / 2")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(REGEX REPLACE "((0x..,){16})" "\\1\n" bytes "${bytes}")
  string(APPEND arrays "const unsigned char kFile${number}[] = {\n${bytes}};\n")
  if(file STREQUAL "index.html")
    set(path "/")
    set(type "text/html; charset=utf-8")
  elseif(file MATCHES "js$")
    set(path "/${file}")
    set(type "text/javascript; charset=utf-8")
  elseif(file MATCHES "css$")
    set(path "/${file}")
    set(type "text/css; charset=utf-8")
  else()
    set(path "/${file}")
    set(type "image/svg+xml")
  endif()
  string(APPEND rows "      {.path = \"${path}\", .type = \"${type}\", .etag = \"\\\"${hash}\\\"\",\n"
    "       .gzip = {reinterpret_cast<const char*>(kFile${number}), sizeof kFile${number}}},\n")
  math(EXPR number "${number} + 1")
endforeach()
file(WRITE "${out}" "${begin}namespace {\n\n${arrays}\n}  // namespace

const std::vector<PageFile>& page_files() {
  static const std::vector<PageFile> files = {
${rows}  };
  return files;
}\n\n}  // namespace pergpu::serve\n")
