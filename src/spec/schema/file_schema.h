// The sweep file as a JSON Schema, for editors: what `pergpu schema` prints.
#pragma once

#include <string>

namespace pergpu {

/// Draft 2020-12, indented, made of the parser's own tables (spec/schema/known_key.h).  It accepts
/// every sweep file that pergpu accepts; what depends on several keys, on files or on the machine
/// it does not know.
std::string sweep_file_schema();

}  // namespace pergpu
