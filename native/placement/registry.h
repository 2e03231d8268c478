// Every placement. To add one: its header here, its type in the list.
#pragma once

#include <string_view>
#include <variant>
#include <vector>

#include "placement/eft.h"
#include "placement/eftx.h"
#include "placement/eftxp.h"
#include "placement/external.h"
#include "placement/freeness.h"
#include "placement/global_queue.h"
#include "placement/least_loaded.h"
#include "placement/least_work_left.h"
#include "placement/lmetric.h"
#include "placement/normalised.h"
#include "placement/power_of_two.h"
#include "placement/round_robin.h"
#include "placement/workload_balanced.h"
#include "placement/workload_balanced_reference.h"

namespace laxity {

using Placement =
    std::variant<RoundRobin, LeastWorkLeft, WorkloadBalanced, WorkloadBalancedReference, Eftxp, GlobalQueue,
                 LeastLoaded, PowerOfTwo, Normalised, Lmetric, Freeness, Eft, Eftx, ExternalPlacement>;

/// False where no placement has this name. ExternalPlacement has none: it is made from its function.
bool makePlacement(std::string_view name, Placement* out);
std::vector<std::string_view> placementNames();

}  // namespace laxity
