#include "order/registry.h"

#include "base/registry.h"

namespace laxity {

bool makeOrder(std::string_view name, Order* out) { return makeByName(name, out); }
std::vector<std::string_view> orderNames() { return namesOf<Order>(); }

}  // namespace laxity
