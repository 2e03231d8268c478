#include "placement/registry.h"

#include "base/registry.h"

namespace laxity {

bool makePlacement(std::string_view name, Placement* out) { return makeByName(name, out); }
std::vector<std::string_view> placementNames() { return namesOf<Placement>(); }

}  // namespace laxity
