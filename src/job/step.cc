// Names that a sweep file and the store use: never renamed.
#include "job/step.h"

#include "job/names.h"

namespace pergpu {

std::string_view to_string(Outsiders outsiders) {
  switch (outsiders) {
    case Outsiders::Avoid:
      return "avoid";
    case Outsiders::Fit:
      return "fit";
    case Outsiders::Ignore:
      return "ignore";
  }
  return "?";
}

std::optional<Outsiders> outsiders_of(std::string_view name) {
  constexpr Outsiders kAll[] = {Outsiders::Avoid, Outsiders::Fit, Outsiders::Ignore};
  return enumerator_of(name, kAll);
}

std::string_view to_string(Sharing sharing) {
  switch (sharing) {
    case Sharing::Time:
      return "time";
    case Sharing::Mps:
      return "mps";
    case Sharing::Mig:
      return "mig";
  }
  return "?";
}

std::optional<Sharing> sharing_of(std::string_view name) {
  constexpr Sharing kAll[] = {Sharing::Time, Sharing::Mps, Sharing::Mig};
  return enumerator_of(name, kAll);
}

}  // namespace pergpu
