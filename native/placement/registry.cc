#include "placement/registry.h"

#include "base/registry.h"

namespace laxity {

bool makePlacement(std::string_view name, Placement* out) { return !name.empty() && makeByName(name, out); }

std::vector<std::string_view> placementNames() {
  std::vector<std::string_view> names = namesOf<Placement>();
  std::erase(names, std::string_view());
  return names;
}

}  // namespace laxity
