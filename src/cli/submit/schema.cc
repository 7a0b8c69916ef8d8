// `pergpu schema`: the sweep file's JSON Schema, for editors.  It needs no coordinator and starts
// none.
#include <CLI/CLI.hpp>

#include "cli/command/command.h"
#include "cli/term/exit_code.h"
#include "spec/schema/file_schema.h"

namespace pergpu::cli {

void add_schema(CLI::App& program, Invocation& invocation) {
  CLI::App* command =
      program.add_subcommand("schema", "print the JSON Schema of sweep files, for editors");
  command->footer("Example:\n  pergpu schema > sweep.schema.json");
  command->callback([&invocation] {
    invocation.action = [] {
      print(sweep_file_schema());
      return static_cast<int>(kOk);
    };
  });
}

}  // namespace pergpu::cli
