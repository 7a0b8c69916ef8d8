// `pergpu doctor`: what this machine offers and what is wrong with it.
#include "view/commands/doctor.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command/command.h"
#include "cli/doctor/doctor_checks.h"
#include "cli/doctor/doctor_gather.h"
#include "cli/term/exit_code.h"
#include "cli/term/terminal.h"
#include "version.h"

namespace pergpu::cli {
namespace {

int doctor(const Output& output) {
  const DoctorFacts facts = gather_facts();
  const Findings findings = examine(facts);
  print(output.json ? output_line(view::doctor_json(findings, facts.segments, PERGPU_VERSION))
                    : view::doctor_text(findings, style_of(STDOUT_FILENO, output.colour)));
  const bool is_fine = std::none_of(findings.begin(), findings.end(), [](const auto& finding) {
    return view::is_to_mend(finding.state);
  });
  return is_fine ? kOk : kSomeFailed;
}

}  // namespace

void add_doctor(CLI::App& program, Invocation& invocation) {
  auto output = std::make_shared<Output>();
  CLI::App* command = program.add_subcommand(
      "doctor", "check this machine and this shell; exit code 1 if something needs fixing");
  add_output(*command, *output);
  command->footer("Example:\n  pergpu doctor");
  command->callback(
      [output, &invocation] { invocation.action = [output] { return doctor(*output); }; });
}

}  // namespace pergpu::cli
