#include "placement/pair_registry.h"

#include "base/registry.h"

namespace laxity {

bool makePairPlacement(std::string_view name, PairPlacement* out) { return makeByName(name, out); }

std::vector<std::string_view> pairPlacementNames() { return namesOf<PairPlacement>(); }

}  // namespace laxity
