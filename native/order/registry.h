// Every queue order. To add one: its header here, its type in the list.
#pragma once

#include <string_view>
#include <variant>
#include <vector>

#include "order/fcfs.h"
#include "order/ratio.h"
#include "order/urgency.h"
#include "order/workflow_fcfs.h"

namespace laxity {

using Order = std::variant<Fcfs, WorkflowFcfs, Urgency, Ratio>;

/// False where no order has this name.
bool makeOrder(std::string_view name, Order* out);
std::vector<std::string_view> orderNames();

}  // namespace laxity
